//! The periodic removal of expired offsets and of empty groups (`cleanupGroupMetadata`,
//! spec/offsets.md 6). An input that yields records, like a request.

use super::Machine;
use super::classic::state::State;
use super::registry::GroupType;
use super::subscription::CONSUMER_PROTOCOL_TYPE;
use crate::offset::expiration::{ExpirationBase, expire};

impl Machine {
    pub fn expire_groups(&mut self, now_ms: i64) {
        for group in self.registry.rows() {
            self.expire_group(now_ms, group);
        }
    }

    fn expire_group(&mut self, now_ms: i64, group: u32) {
        let is_removable = self.expire_offsets(now_ms, group);
        let of = self.group(group);
        // Ids that were handed out and have not come back do not keep a group, as in Kafka.
        if is_removable && of.state == State::Empty && of.group_type == GroupType::Classic {
            self.emit_group_tombstone(now_ms, group);
        }
    }

    /// True if the group has no offset left and no transaction open.
    fn expire_offsets(&mut self, now_ms: i64, group: u32) -> bool {
        if self.group(group).offsets.is_none() {
            return true;
        }
        let (base, topics) = self.expiration_base(group);
        let start_offset = self.outbox.next_offset();
        let of = &mut self.registry.groups[group];
        let mut scope = of.offset_scope(&mut self.offsets);
        let subscribed = |topic: &str| topics.as_ref().is_some_and(|topics| topics.contains(topic));
        let retention_ms = self.config.offsets_retention_ms;
        let is_removable =
            expire(&mut scope, base, retention_ms, subscribed, now_ms, &mut self.outbox);
        self.offsets_written(group, start_offset);
        is_removable
    }

    /// From when on a group's offsets age (`offsetExpirationCondition`), and the topics which its
    /// members still consume.
    fn expiration_base(
        &self,
        group: u32,
    ) -> (ExpirationBase, super::subscription::SubscribedTopics) {
        let of = self.group(group);
        if of.group_type != GroupType::Classic {
            // What it subscribes to is not known here.
            return (ExpirationBase::Never, None);
        }
        let is_consumers = of.protocol_type() == CONSUMER_PROTOCOL_TYPE;
        match of.state {
            _ if of.protocol_type.is_none() => (ExpirationBase::CommitTimestamp, None),
            State::Empty if of.state_timestamp_ms == -1 => (ExpirationBase::CommitTimestamp, None),
            State::Empty => (ExpirationBase::CurrentStateTimestamp(of.state_timestamp_ms), None),
            State::Stable if is_consumers => match self.subscribed_topics(group) {
                Some(topics) => (ExpirationBase::CommitTimestamp, Some(topics)),
                None => (ExpirationBase::Never, None),
            },
            _ => (ExpirationBase::Never, None),
        }
    }
}
