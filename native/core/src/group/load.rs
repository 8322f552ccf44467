//! Loading a shard from its log: what each kind of record does, then the timers made (log-format
//! section 8, states section 11.3). `replay.rs` walks the log. Reads no clock, and writes nothing.

use super::Machine;
use super::counters::RebalanceCause;
use super::registry::GroupType;
use crate::record::{
    self, DecodeError, GroupMetadataValue, OtherKey, RecordKey, TransactionResult,
};
use crate::timer::TimingWheel;

/// Types of the records whose tombstone ends a consumer, share or streams group.
const GROUP_RECORD_TYPES: [i16; 3] = [3, 11, 17];

impl Machine {
    /// All of the log was replayed: the shard serves from now on, appending at `next_offset`.
    pub fn loaded(&mut self, now_ms: i64, next_offset: i64) {
        self.outbox.start_at(next_offset);
        self.wheel = TimingWheel::new(now_ms);
        self.next_expiration_ms =
            Some(now_ms.saturating_add(self.config.offsets_retention_check_interval_ms));
        let mut sessions = 0..;
        for group in self.registry.sorted_groups() {
            for (member, at) in
                self.group(group).member_rows().to_vec().into_iter().zip(&mut sessions)
            {
                self.start_loaded_session(member, now_ms, at);
            }
            if self.group(group).member_rows().len() > self.config.group_max_size {
                // The surplus is shed as its members rejoin.
                self.prepare_rebalance(now_ms, group, RebalanceCause::GroupTooLarge);
            }
        }
    }

    pub(super) fn replay_control(
        &mut self,
        producer_id: i64,
        key: &[u8],
    ) -> Result<(), DecodeError> {
        let Some(result) = TransactionResult::parse_key(key)? else { return Ok(()) };
        for group_id in self.offsets.transactions.close(producer_id) {
            let group = self.registry.find(&group_id).expect("open transactions name their groups");
            let of = &mut self.registry.groups[group];
            of.offset_scope(&mut self.offsets).apply_marker(producer_id, result);
            self.offsets_written(group, self.outbox.next_offset());
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
            RecordKey::GroupMetadata(key) => match value {
                Some(value) => {
                    let value = GroupMetadataValue::parse(value)?;
                    check_members(&value)?;
                    self.apply_group_metadata(key.group, &value);
                }
                None => self.replay_group_tombstone(key.group, GroupType::Classic),
            },
            RecordKey::Other(key) => self.replay_foreign(&key, value.is_none())?,
            RecordKey::Unknown { record_type, .. } => {
                *self.unknown_records.entry(record_type).or_default() += 1;
            }
        }
        Ok(())
    }

    fn replay_group_tombstone(&mut self, group_id: &str, group_type: GroupType) {
        if let Some(group) = self.registry.find(group_id)
            && self.group(group).group_type == group_type
        {
            self.apply_group_tombstone(group);
        }
    }

    /// Groups of other types are not interpreted; which ids they have is remembered.
    fn replay_foreign(
        &mut self,
        key: &OtherKey<'_>,
        is_tombstone: bool,
    ) -> Result<(), DecodeError> {
        let group_type = match key.group_type {
            record::GroupType::Consumer => GroupType::Consumer,
            record::GroupType::Share => GroupType::Share,
            record::GroupType::Streams => GroupType::Streams,
        };
        if is_tombstone {
            if GROUP_RECORD_TYPES.contains(&key.record_type) {
                self.replay_group_tombstone(key.group_id, group_type);
            }
            return Ok(());
        }
        let group = self.registry.find(key.group_id);
        let group = group.unwrap_or_else(|| self.registry.create(key.group_id));
        let of = self.group_mut(group);
        if of.group_type != group_type && !of.is_simple() {
            return Err(DecodeError("a record of a group that is of another type"));
        }
        of.group_type = group_type;
        Ok(())
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
