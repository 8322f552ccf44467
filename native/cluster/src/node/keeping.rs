//! What a node does so that the store does not only grow.

use super::Node;
use crate::pruning::{Around, Pruning};
use crate::{Change, Entry, Incarnation, Millis, Place, Shard};

impl Node {
    /// The snapshots of a shard that stand and can be read, at least the newest two, the newest
    /// first. `None`: the store did not answer, or the snapshot could not be written.
    pub fn snapshots(&mut self, now: Millis, shard: Shard, places: Option<&[Place]>) {
        self.pruning.snapshots(shard, places);
        self.tick(now);
    }

    /// Some rounds of a journal were deleted, or none could be; `is_done`: there are no more.
    pub fn deleted(&mut self, now: Millis, incarnation: Incarnation, is_done: bool) {
        self.pruning.deleted(incarnation, is_done);
        self.tick(now);
    }

    /// The snapshots of the cluster log that stand and can be read, at least the newest two, the
    /// newest first. `None`: the store did not answer.
    pub fn log_snapshots(&mut self, now: Millis, indices: Option<&[u64]>) {
        self.trimming.snapshots(now, indices);
    }

    /// Some entries were deleted, or none could be; `is_done`: there are no more.
    pub fn trimmed(&mut self, now: Millis, is_done: bool) {
        self.trimming.trimmed(now, is_done);
    }

    /// As the controller: ask for what the cluster log needs so as not only to grow.
    pub(super) fn trim(&mut self, now: Millis) {
        if self.controller.is_some() {
            self.trimming.tick(now, &self.view, &self.settings, &mut self.actions);
        }
    }

    /// Ask for snapshots and deletions that are due.
    pub(super) fn prune(&mut self, now: Millis) {
        if !self.is_member() {
            return;
        }
        let mut actions = Vec::new();
        let wants_proof = self.decide(|pruning, around| pruning.tick(now, around, &mut actions));
        self.actions.append(&mut actions);
        if wants_proof {
            self.prove(now);
        }
    }

    /// Which rounds go, as an entry says that.
    pub(super) fn prunable(&mut self) -> Vec<Change> {
        if !self.is_member() {
            return Vec::new();
        }
        self.decide(Pruning::changes)
    }

    /// An entry stands.
    pub(super) fn follow_pruned(&mut self, entry: &Entry) {
        for change in &entry.changes {
            if let &Change::Pruned { incarnation, below, .. } = change {
                self.decide(|pruning, around| pruning.pruned(around, incarnation, below));
            }
        }
    }

    fn decide<T>(&mut self, by: impl FnOnce(&mut Pruning, &Around<'_>) -> T) -> T {
        let around = Around {
            view: &self.view,
            own: self.own,
            journal_next: self.journal_next,
            serves: self.leading.serving().collect(),
            controls: self.controller.is_some(),
            settings: &self.settings,
        };
        by(&mut self.pruning, &around)
    }
}
