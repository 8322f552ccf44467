//! What the entries of the cluster log amount to.

mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::{Change, Entry, Epoch, Incarnation, Kept, NodeId, Seat, Shard};

/// A part of a journal that one leadership of a shard wrote: all its records of the shard are in
/// the rounds from `from` on, below `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Whose journal.
    pub incarnation: Incarnation,
    /// The epoch that its records have.
    pub epoch: Epoch,
    /// See above.
    pub from: u64,
    /// See above; `None` while it leads.
    pub end: Option<u64>,
    /// Rounds of the journal below this number are deleted.
    pub floor: u64,
    /// Records of it were in deleted rounds below this number: a snapshot must have them. 0: none.
    pub needed: u64,
}

impl Stretch {
    /// Where to begin to read.
    pub fn start(&self) -> u64 {
        self.from.max(self.floor)
    }

    /// Whether it has ended, and no round of it stands.
    pub(crate) fn is_empty(&self) -> bool {
        self.end.is_some_and(|end| end <= self.start())
    }
}

/// An entry that cannot stand where it stands: the cluster log was changed by something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewError {
    /// The number of the entry.
    pub index: u64,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl fmt::Display for ViewError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "entry {}: {}", self.index, self.reason)
    }
}

/// The cluster, as far as its log was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    next_index: u64,
    shards: u32,
    term: u64,
    controller: Option<Incarnation>,
    members: BTreeMap<Incarnation, Seat>,
    gone: BTreeMap<Incarnation, u64>,
    floors: BTreeMap<Incarnation, u64>,
    lineages: BTreeMap<Shard, Vec<Stretch>>,
    pins: BTreeMap<Shard, NodeId>,
    drained: BTreeSet<NodeId>,
    trims: Option<u64>,
}

impl View {
    /// The number of the first entry that was not read.
    pub fn next_index(&self) -> u64 {
        self.next_index
    }

    /// The number of shards; 0 before the first entry.
    pub fn shards(&self) -> u32 {
        self.shards
    }

    /// How many controllers there were.
    pub fn term(&self) -> u64 {
        self.term
    }

    /// Who was the last, unless it is gone.
    pub fn controller(&self) -> Option<Incarnation> {
        self.controller
    }

    /// The nodes that are not gone.
    pub fn members(&self) -> &BTreeMap<Incarnation, Seat> {
        &self.members
    }

    /// The nodes that are not gone, by id.
    pub fn by_id(&self) -> Vec<(NodeId, Incarnation)> {
        let mut found: Vec<_> =
            self.members.iter().map(|(&incarnation, seat)| (seat.node_id, incarnation)).collect();
        found.sort_unstable();
        found
    }

    /// Whether this one has been fenced.
    pub fn is_gone(&self, incarnation: Incarnation) -> bool {
        self.gone.contains_key(&incarnation)
    }

    /// Who has been fenced, and where each fence stands.
    pub fn gone(&self) -> &BTreeMap<Incarnation, u64> {
        &self.gone
    }

    /// The first number of a journal whose round was not deleted, or is not to be.
    pub fn floor(&self, incarnation: Incarnation) -> u64 {
        self.floors.get(&incarnation).copied().unwrap_or(0)
    }

    /// Where the shard's records are, in their order.
    pub fn lineage(&self, shard: Shard) -> &[Stretch] {
        self.lineages.get(&shard).map_or(&[], Vec::as_slice)
    }

    /// The last epoch of a shard; -1 before the first.
    pub fn epoch(&self, shard: Shard) -> Epoch {
        self.lineage(shard).last().map_or(-1, |stretch| stretch.epoch)
    }

    /// Who leads it, and in which epoch.
    pub fn leader(&self, shard: Shard) -> Option<(Incarnation, Epoch)> {
        let last = self.lineage(shard).last()?;
        last.end.is_none().then_some((last.incarnation, last.epoch))
    }

    /// The shards that have a leader, and who it is.
    pub fn led(&self) -> BTreeMap<Shard, Incarnation> {
        (0..self.shards)
            .filter_map(|shard| self.leader(shard).map(|(leader, _)| (shard, leader)))
            .collect()
    }

    /// Where operators want shards to be.
    pub fn pins(&self) -> &BTreeMap<Shard, NodeId> {
        &self.pins
    }

    /// The nodes that operators want to lead nothing, whether they are there or not.
    pub fn drained(&self) -> &BTreeSet<NodeId> {
        &self.drained
    }

    /// Whether this one is to lead nothing.
    pub fn is_drained(&self, incarnation: Incarnation) -> bool {
        let seat = self.members.get(&incarnation);
        seat.is_some_and(|seat| self.drained.contains(&seat.node_id))
    }

    /// The number of the entry behind which others go, if there is one.
    pub fn trims(&self) -> Option<u64> {
        self.trims
    }

    /// Read the next entry.
    ///
    /// # Errors
    /// An entry that no node puts there. The view is of no use then.
    pub fn apply(&mut self, entry: &Entry) -> Result<(), ViewError> {
        for change in &entry.changes {
            self.change(change).map_err(|reason| ViewError { index: self.next_index, reason })?;
        }
        self.next_index += 1;
        Ok(())
    }

    fn change(&mut self, change: &Change) -> Result<(), &'static str> {
        match *change {
            Change::Shards(shards) => {
                demand(self.shards == 0 && shards > 0, "the number of shards is set already")?;
                self.shards = shards;
            }
            Change::Controller { term, incarnation } => {
                demand(term == self.term + 1, "the term is not the next")?;
                self.term = term;
                self.controller = Some(incarnation);
            }
            Change::Join { incarnation, ref seat } => {
                demand(!self.is_gone(incarnation), "who is gone does not come again")?;
                let is_new = self.members.insert(incarnation, seat.clone()).is_none();
                demand(is_new, "who is there does not come again")?;
            }
            Change::Gone { incarnation, end } => self.end(incarnation, end)?,
            Change::Lead { shard, incarnation, epoch, from, end } => {
                demand(shard < self.shards, "there is no such shard")?;
                demand(self.members.contains_key(&incarnation), "who leads is no node")?;
                demand(epoch == self.epoch(shard) + 1, "the epoch is not the next")?;
                let floor = self.floor(incarnation);
                let lineage = self.lineages.entry(shard).or_default();
                if let Some(last) = lineage.last_mut().filter(|last| last.end.is_none()) {
                    demand(end.is_some_and(|end| end >= last.from), "the shard is led")?;
                    last.end = end;
                } else {
                    demand(end.is_none(), "the shard was not led")?;
                }
                lineage.push(Stretch { incarnation, epoch, from, end: None, floor, needed: 0 });
            }
            Change::Pruned { incarnation, below, ref kept } => {
                self.prune(incarnation, below, kept)?;
            }
            Change::Pin { shard, node_id } => {
                demand(shard < self.shards, "there is no such shard")?;
                match node_id {
                    Some(node_id) => self.pins.insert(shard, node_id),
                    None => self.pins.remove(&shard),
                };
            }
            Change::Trims => {
                self.trims.get_or_insert(self.next_index);
            }
            Change::Drain { node_id, is_drained: true } => {
                self.drained.insert(node_id);
            }
            Change::Drain { node_id, is_drained: false } => {
                self.drained.remove(&node_id);
            }
        }
        Ok(())
    }

    fn end(&mut self, incarnation: Incarnation, end: u64) -> Result<(), &'static str> {
        demand(self.members.remove(&incarnation).is_some(), "who goes is no node")?;
        demand(end >= self.floor(incarnation), "a fence below a floor ends nothing")?;
        self.gone.insert(incarnation, end);
        if self.controller == Some(incarnation) {
            self.controller = None;
        }
        for lineage in self.lineages.values_mut() {
            if let Some(last) = lineage.last_mut()
                && last.incarnation == incarnation
                && last.end.is_none()
            {
                last.end = Some(end.max(last.from));
            }
        }
        Ok(())
    }

    fn prune(
        &mut self,
        incarnation: Incarnation,
        below: u64,
        kept: &[Kept],
    ) -> Result<(), &'static str> {
        let end = self.gone.get(&incarnation).copied();
        let is_known = end.is_some() || self.members.contains_key(&incarnation);
        demand(is_known, "whose rounds go is no node")?;
        demand(below > self.floor(incarnation), "these rounds are gone already")?;
        demand(end.is_none_or(|end| below <= end), "a fence stays for good")?;
        self.floors.insert(incarnation, below);
        let stretches = self.lineages.values_mut().flatten();
        for stretch in stretches.filter(|one| one.incarnation == incarnation) {
            stretch.floor = below;
        }
        for one in kept {
            let lineage = self.lineages.get_mut(&one.shard).into_iter().flatten();
            let stretch = { lineage }
                .find(|of| (of.incarnation, of.epoch) == (incarnation, one.epoch))
                .ok_or("whose records go did not lead")?;
            stretch.needed = stretch.needed.max(one.below);
        }
        self.shorten();
        Ok(())
    }

    /// A snapshot that has the records of a stretch has those of all before it. Where it is needed
    /// and none of their rounds stand, nobody reads them any more.
    fn shorten(&mut self) {
        for lineage in self.lineages.values_mut() {
            let gone = lineage.iter().take_while(|one| one.is_empty()).count();
            let needed = lineage.iter().take(gone + 1).rposition(|one| one.needed > 0);
            lineage.drain(..needed.unwrap_or(0));
        }
    }
}

fn demand(holds: bool, reason: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(reason) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seat(node_id: NodeId) -> Seat {
        let host = "127.0.0.1".to_owned();
        Seat { node_id, host: host.clone(), port: 1, control_host: host, control_port: 2 }
    }

    fn lead(shard: Shard, incarnation: Incarnation, epoch: Epoch, end: Option<u64>) -> Change {
        Change::Lead { shard, incarnation, epoch, from: 0, end }
    }

    fn of(changes: Vec<Change>) -> Result<View, ViewError> {
        let mut view = View::default();
        let first = vec![
            Change::Shards(2),
            Change::Join { incarnation: 7, seat: seat(1) },
            Change::Join { incarnation: 8, seat: seat(2) },
            Change::Controller { term: 1, incarnation: 8 },
        ];
        view.apply(&Entry { writer: 7, changes: first })?;
        view.apply(&Entry { writer: 7, changes })?;
        Ok(view)
    }

    #[test]
    fn a_shard_goes_on_where_the_leader_before_has_ended() {
        let changes = vec![lead(0, 7, 0, None), lead(0, 8, 1, Some(9))];
        let view = of(changes).expect("all changes fit");
        assert_eq!(view.leader(0), Some((8, 1)));
        assert_eq!(view.lineage(0)[0].end, Some(9));
        assert_eq!((view.leader(1), view.next_index()), (None, 2));
    }

    #[test]
    fn who_is_gone_leads_nothing_and_controls_nothing() {
        let changes = vec![lead(0, 8, 0, None), Change::Gone { incarnation: 8, end: 3 }];
        let view = of(changes).expect("all changes fit");
        assert_eq!((view.leader(0), view.controller(), view.term()), (None, None, 1));
        assert_eq!(view.lineage(0)[0].end, Some(3));
        assert_eq!(view.by_id(), [(1, 7)]);
    }

    fn pruned(incarnation: Incarnation, below: u64, kept: Vec<Kept>) -> Change {
        Change::Pruned { incarnation, below, kept }
    }

    #[test]
    fn what_rounds_that_went_had_in_them_is_needed_of_a_snapshot() {
        let kept = vec![Kept { shard: 0, epoch: 0, below: 4 }];
        let changes = vec![lead(0, 8, 0, None), lead(1, 8, 0, None), pruned(8, 6, kept)];
        let view = of(changes).expect("all changes fit");
        let of_shard =
            |shard: Shard| (view.lineage(shard)[0].start(), view.lineage(shard)[0].needed);
        assert_eq!((of_shard(0), of_shard(1), view.floor(8)), ((6, 4), (6, 0), 6));
    }

    #[test]
    fn a_shard_forgets_stretches_before_one_that_a_snapshot_must_have() {
        let kept = |epoch, below| Kept { shard: 0, epoch, below };
        let led = vec![lead(0, 7, 0, None), lead(0, 8, 1, Some(4)), lead(0, 7, 2, Some(5))];
        let of_pruned = |changes: Vec<Change>| {
            let view = of([led.clone(), changes].concat()).expect("all changes fit");
            view.lineage(0).iter().map(|one| one.epoch).collect::<Vec<_>>()
        };
        assert_eq!(of_pruned(vec![pruned(8, 9, vec![kept(1, 5)])]), [0, 1, 2]); // 0 has rounds
        assert_eq!(of_pruned(vec![pruned(7, 4, vec![kept(0, 4)])]), [0, 1, 2]);
        let both = vec![pruned(7, 4, vec![kept(0, 4)]), pruned(8, 9, vec![kept(1, 5)])];
        assert_eq!(of_pruned(both), [1, 2]);
        let unwritten = vec![pruned(7, 4, vec![kept(0, 4)]), pruned(8, 9, vec![])];
        assert_eq!(of_pruned(unwritten), [0, 1, 2]); // a snapshot must have those of 0
    }

    #[test]
    fn a_fence_stands_at_the_floor_or_above_and_is_never_pruned() {
        let gone = |end| Change::Gone { incarnation: 8, end };
        assert!(of(vec![pruned(8, 6, vec![]), gone(6)]).is_ok());
        assert!(of(vec![gone(6), pruned(8, 6, vec![])]).is_ok());
        assert!(of(vec![pruned(8, 6, vec![]), gone(5)]).is_err());
        assert!(of(vec![gone(6), pruned(8, 7, vec![])]).is_err());
        assert!(of(vec![pruned(8, 6, vec![]), pruned(8, 6, vec![])]).is_err());
    }

    #[test]
    fn what_operators_want_holds_until_they_want_something_else() {
        let pin = |shard, node_id| Change::Pin { shard, node_id };
        let drain = |node_id, is_drained| Change::Drain { node_id, is_drained };
        let wanted = vec![pin(0, Some(2)), pin(1, Some(9)), drain(2, true), drain(3, true)];
        let view = of(wanted.clone()).expect("all changes fit");
        assert_eq!(view.pins(), &BTreeMap::from([(0, 2), (1, 9)]));
        assert!(view.is_drained(8) && !view.is_drained(7));
        let undone = [wanted, vec![pin(0, None), drain(2, false)]].concat();
        let view = of(undone).expect("all changes fit");
        assert_eq!((view.pins().len(), view.drained().len()), (1, 1));
        assert!(!view.is_drained(8));
        assert!(of(vec![pin(2, Some(1))]).is_err());
    }

    #[test]
    fn what_no_node_puts_is_refused() {
        let twice = vec![lead(0, 7, 0, None), lead(0, 8, 1, None)];
        let epoch = vec![lead(0, 7, 1, None)];
        let unknown = vec![lead(0, 9, 0, None)];
        let term = vec![Change::Controller { term: 1, incarnation: 7 }];
        for changes in [twice, epoch, unknown, term, vec![Change::Shards(3)]] {
            assert_eq!(of(changes).map_err(|error| error.index), Err(1));
        }
    }
}
