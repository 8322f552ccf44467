//! A consumer group's record in the log, at a start (log-format section 8.2).

use crate::group::Machine;
use crate::record::DecodeError;
use crate::record::consumer::{ConsumerGroupKey, ConsumerGroupRecord, RecordChange};

impl Machine {
    /// Tombstones of what is not there mean nothing. A record makes a consumer group of none, or of
    /// one that only has offsets.
    pub fn replay_consumer_record(
        &mut self,
        key: &ConsumerGroupKey<'_>,
        value: Option<&[u8]>,
    ) -> Result<(), DecodeError> {
        let record = ConsumerGroupRecord::parse(key, value)?;
        let found = self.registry.find(key.group_id);
        let group = match found.filter(|group| self.registry.is_consumer(*group)) {
            Some(group) => group,
            None if value.is_none() => return Ok(()),
            None if found.is_none_or(|group| self.group(group).is_simple()) => {
                self.registry.make_consumer(key.group_id)
            }
            None => return Err(DecodeError("a record of a group that is of another type")),
        };
        self.registry.apply_consumer_record(group, &record.change);
        if matches!(record.change, RecordChange::GroupMetadata(None)) {
            self.apply_group_tombstone(group);
        }
        Ok(())
    }
}
