//! Loading a shard from its log: what each kind of record does, then the timers made (log-format
//! section 8, states section 11.3). `replay.rs` walks the log. Reads no clock, and writes nothing.

use kcoord_timer::TimingWheel;

use super::Machine;
use crate::record::{DecodeError, GroupMetadataValue, RecordKey, TransactionResult};

impl Machine {
    /// All of the log was replayed: the shard serves from now on, appending at `next_offset`.
    pub fn loaded(&mut self, now_ms: i64, next_offset: i64) {
        self.outbox.start_at(next_offset);
        self.wheel = TimingWheel::new(now_ms);
        self.next_expiration_ms =
            Some(now_ms.saturating_add(self.config.offsets_retention_check_interval_ms));
        let mut sessions = 0..;
        for group in self.registry.sorted_groups() {
            self.start_loaded_group(now_ms, group, &mut sessions);
        }
    }

    pub(super) fn replay_control(
        &mut self,
        producer_id: i64,
        key: &[u8],
    ) -> Result<(), DecodeError> {
        if let Some(result) = TransactionResult::parse_key(key)? {
            self.apply_marker(producer_id, result, self.outbox.next_offset());
        }
        Ok(())
    }

    /// A data record of any type but a commit.
    pub(super) fn replay_other(
        &mut self,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), DecodeError> {
        match RecordKey::parse(key)? {
            RecordKey::OffsetCommit(_) => unreachable!("commits have a way of their own"),
            RecordKey::GroupMetadata(of) => match value {
                Some(value) => {
                    let value = GroupMetadataValue::parse(value)?;
                    check_members(&value)?;
                    self.apply_group_metadata(of.group, &value);
                }
                None => self.replay_classic_tombstone(of.group),
            },
            RecordKey::ConsumerGroup(of) => self.replay_consumer_record(&of, value)?,
            RecordKey::Other(other) => self.apply_foreign(&other, key, value)?,
            RecordKey::Unknown { record_type, .. } => {
                *self.unknown_records.entry(record_type).or_default() += 1;
                match value {
                    Some(value) => self.kept_records.insert(key.into(), value.into()),
                    None => self.kept_records.remove(key),
                };
            }
        }
        Ok(())
    }

    fn replay_classic_tombstone(&mut self, group_id: &str) {
        if let Some(group) = self.registry.find(group_id)
            && self.group(group).as_classic().is_some()
        {
            self.apply_group_tombstone(group);
        }
    }
}

/// What `ClassicGroup` would refuse to build.
fn check_members(value: &GroupMetadataValue<'_>) -> Result<(), DecodeError> {
    if value.members.len() < 2 {
        return Ok(());
    }
    let mut ids: Vec<&str> = value.members.iter().map(|member| member.member_id).collect();
    let mut instance_ids: Vec<&str> =
        value.members.iter().filter_map(|member| member.group_instance_id).collect();
    for names in [&mut ids, &mut instance_ids] {
        names.sort_unstable();
        if names.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(DecodeError("a GROUP_METADATA names a member or an instance id twice"));
        }
    }
    Ok(())
}
