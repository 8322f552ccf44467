//! What the controller does: ask all nodes, fence who is silent, and have every shard led.

use std::collections::BTreeMap;

use crate::settings::HELD_UP_MS;
use crate::{
    Action, Answer, Ask, Change, Epoch, Incarnation, Millis, Released, Settings, Shard, View, place,
};

/// So long after the store answers this node again it may not have answered the others yet.
const ANSWERED_MS: Millis = 1_500;

/// What is known of one node.
#[derive(Debug, Default)]
struct Peer {
    asked: Option<(u64, Millis)>,
    ask_at: Millis,
    misses: u32,
    /// It has missed as many asks as make a node silent, since then.
    silent_since: Option<Millis>,
    /// The port is closed, or another process has it, or the node cannot reach the store.
    is_lost: bool,
    answer: Option<Answer>,
    fencing: Fencing,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Fencing {
    #[default]
    No,
    Waits(Millis),
    UnderWay,
    Done(u64),
}

#[derive(Debug)]
pub(crate) struct Controller {
    term: u64,
    own: Incarnation,
    number: u64,
    peers: BTreeMap<Incarnation, Peer>,
    ticked_at: Millis,
    /// This node itself was cut off from the store until then.
    cut_off_at: Option<Millis>,
}

impl Controller {
    pub fn new(term: u64, own: Incarnation, now: Millis) -> Self {
        let peers = BTreeMap::new();
        Controller { term, own, number: 0, peers, ticked_at: now, cut_off_at: None }
    }

    pub fn term(&self) -> u64 {
        self.term
    }

    /// Ask whom it is time to ask, and fence who is silent. `answer` is this node's own.
    pub fn tick(
        &mut self,
        now: Millis,
        view: &View,
        answer: Answer,
        settings: &Settings,
        actions: &mut Vec<Action>,
    ) {
        let late = now.saturating_sub(self.ticked_at) > HELD_UP_MS;
        self.ticked_at = now;
        self.peers.retain(|incarnation, _| view.members().contains_key(incarnation));
        for &incarnation in view.members().keys() {
            self.peers.entry(incarnation).or_default();
        }
        if let Some(own) = self.peers.get_mut(&self.own) {
            own.answer = Some(answer);
        }
        for peer in self.peers.values_mut() {
            peer.count(now, late, settings);
        }
        let patience = if self.hears_few() { settings.alone_ms } else { 0 };
        let releases = self.releases(view, settings);
        for (&to, peer) in &mut self.peers {
            if to == self.own {
                continue;
            }
            let floor = view.floor(to);
            if let Some(from) = peer.fence(now, floor, patience) {
                actions.push(Action::Fence { incarnation: to, from });
            }
            if peer.asked.is_none() && peer.ask_at <= now && peer.fencing == Fencing::No {
                self.number += 1;
                peer.asked = Some((self.number, now));
                peer.ask_at = now + settings.ask_interval_ms;
                let release = releases.get(&to).cloned().unwrap_or_default();
                let next_index = view.next_index();
                let ask = Ask { term: self.term, number: self.number, next_index, release };
                actions.push(Action::Ask { to, ask });
            }
        }
    }

    /// Whether less than half of the nodes answer, this one included. Of a node whose port is closed
    /// the network has told something: it does not count.
    fn hears_few(&self) -> bool {
        let counts = |peer: &&Peer| !peer.is_lost && peer.fencing == Fencing::No;
        let asked: Vec<_> = self.peers.values().filter(counts).collect();
        2 * asked.iter().filter(|peer| peer.misses == 0).count() < asked.len()
    }

    /// What this node itself is to give up.
    pub fn own_releases(&self, view: &View, settings: &Settings) -> Vec<(Shard, Epoch)> {
        self.releases(view, settings).remove(&self.own).unwrap_or_default()
    }

    /// This node is cut off from the store, and perhaps the others are: it does nothing now.
    pub fn is_cut_off(&mut self, now: Millis) {
        self.cut_off_at = Some(now);
    }

    /// A node has answered. Whoever has another process at its port is gone.
    pub fn answered(&mut self, from: Incarnation, answer: Answer) {
        let Some(peer) = self.peers.get_mut(&from) else { return };
        let is_excused = self.cut_off_at.is_some_and(|at| self.ticked_at < at + ANSWERED_MS);
        if answer.incarnation != from || !answer.is_healthy && !is_excused {
            peer.is_lost = true;
            return;
        }
        if peer.asked.is_some_and(|(number, _)| number == answer.number) {
            peer.asked = None;
            peer.misses = 0;
            peer.silent_since = None;
            peer.answer = Some(answer);
        }
    }

    /// Nobody listens at its port.
    pub fn refused(&mut self, to: Incarnation) {
        if let Some(peer) = self.peers.get_mut(&to) {
            peer.is_lost = true;
        }
    }

    /// Its journal has a fence at `end`.
    pub fn fenced(&mut self, incarnation: Incarnation, end: u64) {
        if let Some(peer) = self.peers.get_mut(&incarnation) {
            peer.fencing = Fencing::Done(end);
        }
    }

    /// The store did not take the fence.
    pub fn fence_failed(&mut self, incarnation: Incarnation, again_at: Millis) {
        if let Some(peer) = self.peers.get_mut(&incarnation)
            && peer.fencing == Fencing::UnderWay
        {
            peer.fencing = Fencing::Waits(again_at);
        }
    }

    /// Something has changed: ask all at once, so that they read it.
    pub fn ask_soon(&mut self, now: Millis) {
        for peer in self.peers.values_mut() {
            peer.ask_at = now;
        }
    }

    /// What is to be put in the cluster log, if anything.
    pub fn changes(&self, view: &View, settings: &Settings) -> Vec<Change> {
        let mut changes = Vec::new();
        let mut led = view.led();
        for (&incarnation, peer) in &self.peers {
            if let Fencing::Done(end) = peer.fencing
                && end >= view.floor(incarnation)
            {
                changes.push(Change::Gone { incarnation, end });
                led.retain(|_, leader| *leader != incarnation);
            }
        }
        let placed = self.placed(view, &led, settings);
        for shard in 0..view.shards() {
            let Some(&to) = placed.get(&shard) else { continue };
            let end = match led.get(&shard) {
                None => None,
                Some(&leader) => match self.given_up(view, shard, leader) {
                    None => continue,
                    Some(released) => Some(released.end),
                },
            };
            let from = self.peers[&to].answer.as_ref().map_or(0, |answer| answer.journal_next);
            let epoch = view.epoch(shard) + 1;
            changes.push(Change::Lead { shard, incarnation: to, epoch, from, end });
        }
        changes
    }

    fn given_up(&self, view: &View, shard: Shard, leader: Incarnation) -> Option<Released> {
        let answer = self.peers.get(&leader)?.answer.as_ref()?;
        let is_it =
            |one: &&Released| one.shard == shard && view.leader(shard) == Some((leader, one.epoch));
        answer.released.iter().find(is_it).copied()
    }

    /// Where each shard is to be. Nodes that leave, are silent or are to lead nothing get none.
    fn placed(
        &self,
        view: &View,
        led: &BTreeMap<Shard, Incarnation>,
        settings: &Settings,
    ) -> BTreeMap<Shard, Incarnation> {
        let by_id = view.by_id();
        let those = |which: fn(&Peer) -> bool| -> Vec<Incarnation> {
            let all = by_id.iter().map(|&(_, incarnation)| incarnation);
            all.filter(|one| self.peers.get(one).is_some_and(which)).collect()
        };
        let known = those(Peer::is_known);
        let stay = those(Peer::is_fit);
        let wanted: Vec<_> = stay.iter().copied().filter(|&one| !view.is_drained(one)).collect();
        // Somebody must lead: where all are to lead nothing, who stays does. Where all leave, what
        // has been given up goes to one of them until another node comes.
        let fit = [wanted, stay, known.clone()].into_iter().find(|some| !some.is_empty());
        let fit = fit.unwrap_or_default();
        // Who did not answer yet may lead much: nothing moves for balance before that is known.
        let is_balanced = known.len() == by_id.len() && fit.iter().any(|one| self.is_fit(*one));
        let moves = if is_balanced { settings.moves_at_once } else { 0 };
        let pins = view.pins().iter().filter_map(|(&shard, node_id)| {
            let of_node = fit.iter().find(|one| view.members()[one].node_id == *node_id);
            of_node.map(|&one| (shard, one))
        });
        place(view.shards(), &fit, led, &pins.collect(), moves)
    }

    fn is_fit(&self, incarnation: Incarnation) -> bool {
        self.peers.get(&incarnation).is_some_and(Peer::is_fit)
    }

    /// What each node is to give up: shards that are to be elsewhere, and whose node lives.
    fn releases(
        &self,
        view: &View,
        settings: &Settings,
    ) -> BTreeMap<Incarnation, Vec<(Shard, Epoch)>> {
        let mut releases: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (shard, to) in self.placed(view, &view.led(), settings) {
            let Some((leader, epoch)) = view.leader(shard) else { continue };
            if leader != to && self.peers.get(&leader).is_some_and(Peer::is_known) {
                releases.entry(leader).or_default().push((shard, epoch));
            }
        }
        releases
    }
}

impl Peer {
    fn is_known(&self) -> bool {
        self.answer.is_some() && !self.is_lost && self.fencing == Fencing::No
    }

    fn leaves(&self) -> bool {
        self.answer.as_ref().is_some_and(|answer| answer.leaves)
    }

    fn is_fit(&self) -> bool {
        self.is_known() && !self.leaves()
    }

    /// Count an ask that was not answered in time.
    fn count(&mut self, now: Millis, late: bool, settings: &Settings) {
        if late && self.silent_since.is_some() {
            self.silent_since = Some(now);
        }
        let Some((number, at)) = self.asked else { return };
        if late {
            self.asked = Some((number, now));
        } else if now >= at + settings.ask_timeout_ms {
            self.asked = None;
            self.misses += 1;
            self.ask_at = now;
            if self.misses >= settings.misses {
                self.silent_since.get_or_insert(now);
            }
        }
    }

    /// Where to look for the place of a fence, if it is to be put now. One below the floor stands
    /// in the gap of what was deleted, and stops nobody. Who is silent has `patience` left.
    fn fence(&mut self, now: Millis, floor: u64, patience: Millis) -> Option<u64> {
        let is_due = match self.fencing {
            Fencing::No => {
                self.is_lost || self.silent_since.is_some_and(|since| now >= since + patience)
            }
            Fencing::Waits(at) => at <= now,
            Fencing::UnderWay => false,
            Fencing::Done(end) => end < floor,
        };
        is_due.then(|| {
            self.fencing = Fencing::UnderWay;
            self.answer.as_ref().map_or(floor, |answer| answer.journal_next.max(floor))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Entry, NodeId, Seat};

    const OWN: Incarnation = 1;

    fn seat(node_id: NodeId) -> Seat {
        let host = "h".to_owned();
        Seat { node_id, host: host.clone(), port: 1, control_host: host, control_port: 1 }
    }

    /// A cluster of so many nodes, of which the first is the controller.
    struct Asking {
        view: View,
        controller: Controller,
        nodes: u64,
    }

    impl Asking {
        fn of(nodes: u64) -> Self {
            let joins =
                (1..=nodes).map(|one| Change::Join { incarnation: one, seat: seat(one as NodeId) });
            let led = Change::Controller { term: 1, incarnation: OWN };
            let changes = [Change::Shards(4)].into_iter().chain(joins).chain([led]).collect();
            let mut view = View::default();
            view.apply(&Entry { writer: OWN, changes }).expect("an entry that can stand");
            Asking { view, controller: Controller::new(1, OWN, 0), nodes }
        }

        fn answer(incarnation: Incarnation, number: u64, journal_next: u64) -> Answer {
            Answer {
                incarnation,
                number,
                term: 1,
                journal_next,
                is_healthy: true,
                leaves: false,
                released: Vec::new(),
            }
        }

        /// When each node is fenced, in ms from 0, and where the search begins. Those of `silent`
        /// answer no more from 1,000 on.
        fn run(&mut self, silent: &[Incarnation]) -> BTreeMap<Incarnation, (Millis, u64)> {
            let settings = Settings::default();
            let mut fenced = BTreeMap::new();
            for now in (0..10_000).step_by(25) {
                let mut actions = Vec::new();
                let own = Self::answer(OWN, 0, 0);
                self.controller.tick(now, &self.view, own, &settings, &mut actions);
                for action in actions {
                    match action {
                        Action::Ask { to, ask } if now < 1_000 || !silent.contains(&to) => {
                            let journal_next = now / 100;
                            let answer = Self::answer(to, ask.number, journal_next);
                            self.controller.answered(to, answer);
                        }
                        Action::Fence { incarnation, from } => {
                            fenced.entry(incarnation).or_insert((now, from));
                        }
                        _ => {}
                    }
                }
            }
            assert!(fenced.len() as u64 <= self.nodes);
            fenced
        }
    }

    #[test]
    fn who_is_silent_is_fenced_behind_all_that_it_has_told_of() {
        let fenced = Asking::of(3).run(&[2]);
        let &(at, from) = fenced.get(&2).expect("it is silent");
        assert!((1_600..2_000).contains(&at), "{at}");
        assert!(from >= 8, "a round that the store has lost is missed: {from}");
        assert_eq!(fenced.len(), 1);
    }

    #[test]
    fn who_hears_less_than_half_of_the_nodes_gives_the_others_time_to_have_another_controller() {
        for (nodes, silent) in [(3, vec![2, 3]), (5, vec![2, 3, 4]), (4, vec![2, 3, 4])] {
            let fenced = Asking::of(nodes).run(&silent);
            assert_eq!(fenced.keys().copied().collect::<Vec<_>>(), silent);
            assert!(fenced.values().all(|&(at, _)| at >= 1_600 + 2_000), "{fenced:?}");
        }
        for (nodes, silent) in [(2, vec![2]), (4, vec![2, 3]), (5, vec![2, 3])] {
            let fenced = Asking::of(nodes).run(&silent);
            assert!(fenced.values().all(|&(at, _)| at < 2_000), "{fenced:?}");
            assert_eq!(fenced.len(), silent.len());
        }
    }

    #[test]
    fn who_was_cut_off_from_the_store_gives_the_others_time_to_hear_of_it_again() {
        let settings = Settings::default();
        let fenced_at = |was_cut_off: bool, well_at: Millis| {
            let mut asking = Asking::of(2);
            if was_cut_off {
                asking.controller.is_cut_off(1_000);
            }
            (1_000..10_000).step_by(25).find(|&now| {
                let (mut actions, own) = (Vec::new(), Asking::answer(OWN, 0, 0));
                asking.controller.tick(now, &asking.view, own, &settings, &mut actions);
                actions.into_iter().any(|action| match action {
                    Action::Ask { to, ask } => {
                        let is_healthy = now >= well_at;
                        let answer = Asking::answer(to, ask.number, 0);
                        asking.controller.answered(to, Answer { is_healthy, ..answer });
                        false
                    }
                    Action::Fence { .. } => true,
                    _ => false,
                })
            })
        };
        assert_eq!(fenced_at(false, 2_000), Some(1_025));
        assert_eq!(fenced_at(true, 2_000), None);
        let at = fenced_at(true, Millis::MAX).expect("it is cut off");
        assert!((2_500..2_800).contains(&at), "{at}");
    }
}
