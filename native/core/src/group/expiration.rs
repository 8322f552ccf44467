//! The periodic removal of expired offsets and of empty groups (`cleanupGroupMetadata`,
//! offsets section 6). An input that yields records, like a request.

use super::Machine;
use crate::event::DeletionCause;
use crate::offset::expiration::expire;

impl Machine {
    pub fn expire_groups(&mut self, now_ms: i64) {
        self.offsets.producers.expire(now_ms);
        for group in self.registry.rows() {
            self.expire_group(now_ms, group);
        }
    }

    fn expire_group(&mut self, now_ms: i64, group: u32) {
        let is_removable = self.expire_offsets(now_ms, group);
        let of = self.group(group);
        // Ids that were handed out and have not come back do not keep a group, as in Kafka.
        if is_removable && of.expires() && of.is_empty() {
            self.tell_group_deleted(group, DeletionCause::Expired);
            self.emit_group_tombstone(now_ms, group);
        }
    }

    /// True if the group has no offset left and no transaction open.
    fn expire_offsets(&mut self, now_ms: i64, group: u32) -> bool {
        if self.group(group).offsets.is_none() {
            return true;
        }
        let (base, topics) = self.expiration_of(group);
        let start_offset = self.outbox.next_offset();
        let of = &mut self.registry.groups[group];
        let mut scope = of.offset_scope(&mut self.offsets);
        let subscribed = |topic: &str| topics.contains(topic);
        let retention_ms = self.config.offsets_retention_ms;
        let is_removable =
            expire(&mut scope, base, retention_ms, subscribed, now_ms, &mut self.outbox);
        self.offsets_written(group, start_offset);
        is_removable
    }
}
