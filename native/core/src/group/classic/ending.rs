//! The end of a classic group: its tombstone, and what goes with it.

use crate::group::Machine;
use crate::record::GroupMetadataKey;

impl Machine {
    pub fn emit_classic_tombstone(&mut self, now_ms: i64, group: u32) {
        self.scratch_key.clear();
        let key = GroupMetadataKey { group: self.registry.groups[group].id.as_str() };
        key.encode(&mut self.scratch_key);
        self.outbox.emit(now_ms, &self.scratch_key, None);
    }

    /// Drops members, ids that were handed out, and timers.
    pub fn close_classic_group(&mut self, group: u32) {
        if let Some(soft) = self.classic_mut(group).rebalance.take() {
            self.wheel.cancel(soft.join_timer);
            self.wheel.cancel(soft.sync_timer);
            for pending in soft.pending.sorted_rows() {
                let removed = self.registry.members.remove(pending);
                self.wheel.cancel(removed.timer);
            }
        }
        for member in self.classic(group).member_rows().collect::<Vec<u32>>() {
            let removed = self.registry.detach_member(member);
            self.wheel.cancel(removed.timer);
        }
    }
}
