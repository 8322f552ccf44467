//! A topic is deleted: its offsets go, in every group (`onTopicsDeleted`, offsets section 6).

use crate::group::Machine;
use crate::offset::delete;
use crate::request::Uuid;

impl Machine {
    /// Tombstones for the topic's committed and pending offsets. Those of another topic that had
    /// the same name stay.
    pub fn delete_topic_offsets(&mut self, now_ms: i64, name: &str, topic_id: Uuid) {
        if self.offsets.topics.find(name).is_none() {
            return;
        }
        for group in self.registry.sorted_groups() {
            if self.group(group).offsets.is_none() {
                continue;
            }
            let start_offset = self.outbox.next_offset();
            let mut scope = self.registry.groups[group].offset_scope(&mut self.offsets);
            delete::delete_topic(&mut scope, name, topic_id, now_ms, &mut self.outbox);
            self.offsets_written(group, start_offset);
        }
    }
}
