//! One node: all that it decides.

mod answering;
mod joining;
mod keeping;
mod waking;

use crate::controller::Controller;
use crate::election::Election;
use crate::leading::Leading;
use crate::lease::Unproved;
use crate::proposal::Proposal;
use crate::pruning::Pruning;
use crate::trimming::Trimming;
use crate::{
    Action, Answer, Ask, Change, Entry, Epoch, Incarnation, Lease, Millis, Outcome, Seat, Settings,
    Shard, View, ViewError,
};

/// Why a node has ended. Its process may begin anew, as another incarnation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Another node has fenced it: it did not answer for long.
    Fenced,
    /// It wanted to, and leads nothing any more.
    Left,
    /// The cluster has so many shards, and not those that were asked for.
    OtherShards(u32),
    /// The cluster log cannot be.
    Invalid(ViewError),
    /// It did not read the cluster log for so long that it may have missed entries that are gone.
    Behind,
}

/// One node. Each input has the time `now`, which never goes back; then take the `actions`.
#[derive(Debug)]
pub struct Node {
    own: Incarnation,
    seat: Seat,
    shards: u32,
    settings: Settings,
    view: View,
    lease: Lease,
    leading: Leading,
    proposal: Proposal,
    controller: Option<Controller>,
    pruning: Pruning,
    trimming: Trimming,
    /// The end of the cluster log was read then, or later.
    current_at: Option<Millis>,
    /// A read of the cluster log is under way since then.
    following: Option<Millis>,
    follow_at: Millis,
    has_followed: bool,
    /// A proof is under way since then.
    proving: Option<Millis>,
    prove_at: Millis,
    /// Somebody asked whether the node may answer.
    wanted_at: Option<Millis>,
    unproved: Unproved,
    journal_next: u64,
    store_heard_at: Millis,
    /// No round could be put from then on; the one that is being put is tried again.
    unput_since: Option<Millis>,
    ticked_at: Millis,
    election: Election,
    obeyed_term: u64,
    /// A process before this one, at the same address: it is being fenced.
    displaced: Option<Incarnation>,
    displaced_end: Option<u64>,
    leaves: bool,
    join_at: Millis,
    lost_rounds: Option<(u64, u64)>,
    stop: Option<Stop>,
    actions: Vec<Action>,
}

impl Node {
    /// A node that begins now. `own` is a random number that no other node ever had. `shards` is
    /// the number of shards that the cluster is to have.
    pub fn new(own: Incarnation, seat: Seat, shards: u32, settings: Settings, now: Millis) -> Self {
        Node {
            own,
            seat,
            shards,
            settings,
            view: View::default(),
            lease: Lease::new(settings.lease_ms),
            leading: Leading::default(),
            proposal: Proposal::default(),
            controller: None,
            pruning: Pruning::default(),
            trimming: Trimming::default(),
            current_at: None,
            following: None,
            follow_at: now,
            has_followed: false,
            proving: None,
            prove_at: now,
            wanted_at: None,
            unproved: Unproved::new(now),
            journal_next: 0,
            store_heard_at: now,
            unput_since: None,
            ticked_at: now,
            election: Election::new(now),
            obeyed_term: 0,
            displaced: None,
            displaced_end: None,
            leaves: false,
            join_at: now + settings.join_wait_ms,
            lost_rounds: None,
            stop: None,
            actions: Vec::new(),
        }
    }

    /// Its own.
    pub fn incarnation(&self) -> Incarnation {
        self.own
    }

    /// The cluster, as far as its log was read.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Whether this node has ended; then it does nothing any more.
    pub fn stop(&self) -> Option<&Stop> {
        self.stop.as_ref()
    }

    /// The rounds of the own journal, from and below, that stood there and that the store has lost:
    /// the journal was ended in front of them. What was acknowledged by them nobody has.
    pub fn lost_rounds(&self) -> Option<(u64, u64)> {
        self.lost_rounds
    }

    /// The shards that are answered here.
    pub fn serving(&self) -> Vec<Shard> {
        self.leading.serving().collect()
    }

    /// When the node was proved last, until when it may answer.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// What is to be done now, in this order.
    pub fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// Time passes. To be called every 50 ms, or more often.
    pub fn tick(&mut self, now: Millis) {
        if self.stop.is_some() {
            return;
        }
        self.wake(now);
        if self.following.is_none() && self.follow_at <= now {
            self.follow(now);
        }
        self.keep_lease(now);
        self.leading.tick(&self.view, now, &mut self.actions);
        if self.is_healthy(now) {
            self.control(now);
            self.prune(now);
            self.trim(now);
        } else if let Some(controller) = &mut self.controller {
            controller.is_cut_off(now);
        }
        self.propose(now);
        self.end_if_left();
    }

    /// The entries from the number that was asked for on; none: there is no news. `None`: the store
    /// did not answer.
    pub fn followed(&mut self, now: Millis, from: u64, entries: Option<&[Entry]>) {
        let started = self.following.take().unwrap_or(now);
        self.follow_at = now + self.settings.poll_ms;
        let Some(entries) = entries else { return };
        if self.is_behind(now) {
            return self.end(Stop::Behind);
        }
        self.current_at = Some(started);
        self.store_heard_at = now;
        self.has_followed |= entries.is_empty() || from == self.view.next_index();
        for (index, entry) in (from..).zip(entries) {
            if index == self.view.next_index() {
                self.apply(now, entry);
            }
        }
        self.proposal.read_up_to(self.view.next_index());
        self.tick(now);
    }

    /// What came of putting an entry.
    pub fn entry_put(&mut self, now: Millis, index: u64, outcome: Outcome) {
        if outcome == Outcome::Created && self.is_behind(now) {
            return self.end(Stop::Behind);
        }
        if outcome != Outcome::Unknown {
            self.store_heard_at = now;
        }
        let entry = self.proposal.answered(index, outcome, now + self.settings.retry_ms);
        if let Some(entry) = entry
            && index == self.view.next_index()
        {
            self.apply(now, &entry);
        } else {
            self.follow_at = now;
        }
        self.tick(now);
    }

    /// There is a fence in the own journal.
    pub fn own_journal_fenced(&mut self) {
        self.end(Stop::Fenced);
    }

    /// A controller asks.
    pub fn asked(&mut self, now: Millis, ask: &Ask) -> Answer {
        let known = self.obeyed_term.max(self.view.term());
        if ask.term >= known && self.stop.is_none() {
            self.obeyed_term = ask.term;
            self.election.heard(now);
            if ask.next_index > self.view.next_index() {
                self.follow_at = now;
            }
            for &(shard, epoch) in &ask.release {
                self.leading.give_up(shard, epoch, &mut self.actions);
            }
            self.tick(now);
        }
        Answer { number: ask.number, ..self.answer(now) }
    }

    /// A node has answered an ask of this one.
    pub fn answered(&mut self, now: Millis, from: Incarnation, answer: Answer) {
        if answer.term > self.view.term() {
            self.follow_at = now;
        }
        if let Some(controller) = &mut self.controller {
            controller.answered(from, answer);
            self.election.heard(now);
        }
        self.tick(now);
    }

    /// Nobody listens where this node is to be asked.
    pub fn refused(&mut self, now: Millis, to: Incarnation) {
        if let Some(controller) = &mut self.controller {
            controller.refused(to);
        }
        self.tick(now);
    }

    /// The journal of this node has a fence at `end`.
    pub fn fenced(&mut self, now: Millis, incarnation: Incarnation, end: u64) {
        self.store_heard_at = now;
        if self.displaced == Some(incarnation) {
            self.displaced_end = Some(end);
        }
        if let Some(controller) = &mut self.controller {
            controller.fenced(incarnation, end);
        }
        self.tick(now);
    }

    /// The store did not take the fence.
    pub fn fence_failed(&mut self, now: Millis, incarnation: Incarnation) {
        if self.displaced == Some(incarnation) {
            self.displaced = None;
        }
        if let Some(controller) = &mut self.controller {
            controller.fence_failed(incarnation, now + self.settings.retry_ms);
        }
    }

    /// All records of the shard were read.
    pub fn taken(&mut self, now: Millis, shard: Shard, epoch: Epoch) {
        self.leading.taken(shard, epoch);
        self.tick(now);
    }

    /// The shard could not be read, or a round of it failed: it is not served now.
    pub fn lost(&mut self, now: Millis, shard: Shard, epoch: Epoch) {
        self.leading.lost(shard, epoch, now + self.settings.retry_ms);
    }

    /// No round with records of the shard is under way any more; all that stand are below `end`.
    pub fn released(&mut self, now: Millis, shard: Shard, epoch: Epoch, end: u64) {
        self.leading.released(shard, epoch, end);
        self.tick(now);
    }

    /// Give everything up, and stop with `Left` once other nodes have it. Where there is no other
    /// node this does not come to an end.
    pub fn leave(&mut self, now: Millis) {
        self.leaves = true;
        self.tick(now);
    }

    fn is_member(&self) -> bool {
        self.view.members().contains_key(&self.own)
    }

    fn answer(&self, now: Millis) -> Answer {
        Answer {
            incarnation: self.own,
            number: 0,
            term: self.obeyed_term.max(self.view.term()),
            journal_next: self.journal_next,
            is_healthy: self.is_healthy(now),
            leaves: self.leaves,
            released: self.leading.all_released(),
        }
    }

    fn follow(&mut self, now: Millis) {
        self.following = Some(now);
        self.actions.push(Action::Follow { from: self.view.next_index() });
    }

    fn apply(&mut self, now: Millis, entry: &Entry) {
        for change in &entry.changes {
            self.election.follow(now, change, self.own);
            if let &Change::Gone { incarnation, end } = change {
                let clear_at = now + self.settings.lease_ms + self.settings.lease_margin_ms;
                let led = self.view.led();
                let its = led.iter().filter(|(_, leader)| **leader == incarnation);
                self.leading.clear_from(its.map(|(&shard, _)| shard), clear_at);
                if incarnation == self.own && end < self.journal_next {
                    self.lost_rounds = Some((end, self.journal_next));
                }
            }
        }
        if let Err(error) = self.view.apply(entry) {
            self.end(Stop::Invalid(error));
            return;
        }
        if !self.check() {
            return;
        }
        let controls = self.view.controller() == Some(self.own);
        if !controls {
            self.controller = None;
        } else if self.controller.as_ref().is_none_or(|one| one.term() != self.view.term()) {
            self.controller = Some(Controller::new(self.view.term(), self.own, now));
            self.pruning.sweep_gone(&self.view);
            self.trimming = Trimming::default();
        }
        if let Some(controller) = &mut self.controller {
            controller.ask_soon(now);
        }
        self.follow_pruned(entry);
        self.leading.follow(&self.view, self.own, &mut self.actions);
    }

    /// Whether the view is one of a cluster in which this node can be.
    fn check(&mut self) -> bool {
        if self.view.shards() != self.shards {
            self.end(Stop::OtherShards(self.view.shards()));
        } else if self.view.is_gone(self.own) {
            self.end(if self.leaves { Stop::Left } else { Stop::Fenced });
        }
        self.stop.is_none()
    }

    /// As the controller: ask the others, and have this node itself do what it is to do.
    fn control(&mut self, now: Millis) {
        let answer = self.answer(now);
        let Some(controller) = &mut self.controller else { return };
        self.election.is_won(now);
        controller.tick(now, &self.view, answer, &self.settings, &mut self.actions);
        for (shard, epoch) in controller.own_releases(&self.view, &self.settings) {
            self.leading.give_up(shard, epoch, &mut self.actions);
        }
    }

    fn propose(&mut self, now: Millis) {
        if let Some((index, entry)) = self.proposal.due(now) {
            self.actions.push(Action::PutEntry { index, entry });
        }
        if self.proposal.is_open() || !self.has_followed || !self.is_healthy(now) {
            return;
        }
        if now < self.join_at {
            return;
        }
        let mut changes = self.join();
        if changes.is_empty() && self.stands(now) {
            let term = self.view.term() + 1;
            changes.push(Change::Controller { term, incarnation: self.own });
        }
        if changes.is_empty()
            && let Some(controller) = &self.controller
        {
            changes = controller.changes(&self.view, &self.settings);
        }
        if changes.is_empty() {
            changes = self.prunable();
        }
        if changes.is_empty() && self.controller.is_some() {
            changes = Trimming::changes(&self.view, &self.settings);
        }
        if !changes.is_empty() {
            let (index, entry) = self.proposal.begin(self.view.next_index(), self.own, changes);
            self.actions.push(Action::PutEntry { index, entry });
        }
    }

    fn end_if_left(&mut self) {
        let leads = self.view.led().values().any(|&leader| leader == self.own);
        if self.leaves && self.has_followed && !leads && self.leading.is_empty() {
            self.end(Stop::Left);
        }
    }

    fn end(&mut self, stop: Stop) {
        if self.stop.is_none() {
            self.stop = Some(stop);
            self.controller = None;
        }
    }
}
