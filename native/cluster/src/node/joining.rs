//! How a node comes to a cluster, and to be its controller.

use super::Node;
use crate::{Action, Change, Incarnation, Millis, NodeId, Seat, View};

impl Node {
    /// A snapshot of the cluster log, in place of the entries below its number: what a node begins
    /// with that was to read from the first on.
    pub fn restored(&mut self, now: Millis, view: View) {
        let started = self.following.take().unwrap_or(now);
        self.follow_at = now;
        if self.view.next_index() == 0 && self.stop.is_none() {
            self.current_at = Some(started);
            self.store_heard_at = now;
            self.election.restored(now, view.controller());
            // One of them may have been fenced just now.
            let clear_at = now + self.settings.lease_ms + self.settings.lease_margin_ms;
            self.leading.clear_from(0..view.shards(), clear_at);
            self.view = view;
            self.check();
        }
        self.tick(now);
    }

    /// Whether entries may have gone that this node has not read.
    pub(super) fn is_behind(&self, now: Millis) -> bool {
        self.current_at.is_some_and(|at| now > at + self.settings.behind_ms)
    }

    /// Another node has this one's id and another address for clients: this one waits until it is gone.
    pub fn waits_for(&self) -> Option<&Seat> {
        if self.is_member() {
            return None;
        }
        let mut others = self.view.members().values();
        others.find(|seat| seat.node_id == self.seat.node_id && !seat.is_at(&self.seat))
    }

    /// The changes by which this node comes. A process at the same address is gone, since its port
    /// is this one's: its journal is fenced first.
    pub(super) fn join(&mut self) -> Vec<Change> {
        if self.is_member() || self.leaves || self.waits_for().is_some() {
            return Vec::new();
        }
        let mut changes = Vec::new();
        if self.view.shards() == 0 {
            changes.push(Change::Shards(self.shards));
            changes.push(Change::Controller { term: 1, incarnation: self.own });
        }
        let mut members = self.view.members().iter();
        let before = members.find(|(_, seat)| seat.is_at(&self.seat)).map(|(&before, _)| before);
        if let Some(before) = before {
            if self.displaced != Some(before) {
                self.displaced = Some(before);
                self.displaced_end = None;
                let from = self.view.floor(before);
                self.actions.push(Action::Fence { incarnation: before, from });
            }
            let Some(end) = self.displaced_end else { return Vec::new() };
            if end < self.view.floor(before) {
                self.displaced = None; // found where rounds were deleted: search again
                return Vec::new();
            }
            changes.push(Change::Gone { incarnation: before, end });
        }
        changes.push(Change::Join { incarnation: self.own, seat: self.seat.clone() });
        changes
    }

    /// Whether it is time to stand for controller: the nodes do one after the other, by their ids.
    pub(super) fn stands(&self, now: Millis) -> bool {
        if self.controller.is_some() || self.leaves {
            return false;
        }
        let by_id = self.view.by_id();
        let before = |&(_, one): &(NodeId, Incarnation)| Some(one) != self.view.controller();
        let order = by_id.iter().filter(|one| before(one)).position(|&(_, one)| one == self.own);
        self.election.is_due(now, order.unwrap_or(by_id.len() + 1) as Millis, &self.settings)
    }
}
