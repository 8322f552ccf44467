//! The kinds of groups, and what each kind answers to what every group is asked: one method per
//! question. A further kind is an arm of [`GroupKind`] and of each question here; what it answers
//! stands in its own files.

use super::Machine;
use super::classic::group::ClassicGroup;
use super::classic::state::State;
use super::consumer::{ConsumerGroup, ConsumerGroupState};
use super::foreign::{ForeignGroup, UNKNOWN_STATE};
use super::text::GroupId;
use crate::error::ErrorCode;
use crate::offset::expiration::{ConsumedTopics, ExpirationBase};
use crate::offset::{GroupOffsets, GroupScope, OffsetTables};
use crate::record::GroupType;
use crate::request::{OffsetCommitRequest, OffsetFetchRequest};
use crate::snapshot;
use crate::views::GroupView;

/// What lives under a group id.
#[derive(Debug)]
pub enum GroupKind {
    Classic(ClassicGroup),
    Consumer(Box<ConsumerGroup>),
    /// Of another protocol: kept, and not served.
    Foreign(Box<ForeignGroup>),
}

impl Default for GroupKind {
    fn default() -> Self {
        GroupKind::Classic(ClassicGroup::default())
    }
}

/// Every name that [`Machine::state_name`] gives.
pub const STATE_NAMES: [&str; 7] = [
    State::Empty.name(),
    State::PreparingRebalance.name(),
    State::CompletingRebalance.name(),
    State::Stable.name(),
    ConsumerGroupState::Assigning.name(),
    ConsumerGroupState::Reconciling.name(),
    UNKNOWN_STATE,
];

#[derive(Debug, Default)]
pub struct Group {
    pub id: GroupId,
    pub offsets: Option<Box<GroupOffsets>>,
    /// Offset after the last record that was written for this group.
    pub last_record_end: i64,
    pub kind: GroupKind,
}

const _: () = assert!(size_of::<Group>() <= 104, "a group at rest is small");

impl Group {
    /// Its offsets, to be read or written.
    pub fn offset_scope<'a>(&'a mut self, tables: &'a mut OffsetTables) -> GroupScope<'a> {
        let offsets = self.offsets.get_or_insert_default();
        GroupScope { group_id: self.id.as_str(), offsets, tables }
    }

    pub fn group_type(&self) -> GroupType {
        match &self.kind {
            GroupKind::Classic(_) => GroupType::Classic,
            GroupKind::Consumer(_) => GroupType::Consumer,
            GroupKind::Foreign(foreign) => foreign.group_type(),
        }
    }

    /// As ListGroups names it; `""`: none. Groups that are not classic have the name of their type.
    pub fn protocol_type(&self) -> &str {
        match &self.kind {
            GroupKind::Classic(classic) => classic.protocol_type(),
            GroupKind::Consumer(_) => GroupType::Consumer.name(),
            GroupKind::Foreign(foreign) => foreign.group_type().name(),
        }
    }

    /// Generation or epoch, as far as it is known.
    pub fn generation_id(&self) -> i32 {
        match &self.kind {
            GroupKind::Classic(classic) => classic.generation_id,
            GroupKind::Consumer(of) => of.group_epoch,
            GroupKind::Foreign(_) => 0,
        }
    }

    /// Offsets only: no record of the group itself.
    pub fn is_simple(&self) -> bool {
        match &self.kind {
            GroupKind::Classic(classic) => classic.protocol_type.is_none(),
            GroupKind::Consumer(_) => false,
            GroupKind::Foreign(_) => false,
        }
    }

    /// Whether it has no members (`isEmpty`).
    pub fn is_empty(&self) -> bool {
        match &self.kind {
            GroupKind::Classic(classic) => classic.state == State::Empty,
            GroupKind::Consumer(of) => of.members.is_empty(),
            GroupKind::Foreign(foreign) => foreign.is_empty(),
        }
    }

    /// Whether an empty group goes with its last offset (`shouldExpire`).
    pub fn expires(&self) -> bool {
        match &self.kind {
            GroupKind::Classic(_) => true,
            GroupKind::Consumer(_) => true,
            GroupKind::Foreign(foreign) => foreign.expires(),
        }
    }

    /// Whether a new classic member may have the id of this group: an empty one goes for it.
    pub fn gives_way_to_classic(&self) -> bool {
        match &self.kind {
            GroupKind::Classic(_) => false,
            GroupKind::Consumer(of) => of.members.is_empty(),
            GroupKind::Foreign(foreign) => foreign.gives_way_to_classic(),
        }
    }

    /// What it is as a classic group, if it is one.
    #[inline]
    pub fn as_classic(&self) -> Option<&ClassicGroup> {
        match &self.kind {
            GroupKind::Classic(classic) => Some(classic),
            GroupKind::Consumer(_) => None,
            GroupKind::Foreign(_) => None,
        }
    }

    /// What it is as a consumer group, if it is one.
    #[inline]
    pub fn as_consumer(&self) -> Option<&ConsumerGroup> {
        match &self.kind {
            GroupKind::Consumer(of) => Some(of),
            GroupKind::Classic(_) | GroupKind::Foreign(_) => None,
        }
    }

    /// # Panics
    /// If it is not a classic group.
    #[inline]
    pub fn classic(&self) -> &ClassicGroup {
        match &self.kind {
            GroupKind::Classic(classic) => classic,
            GroupKind::Consumer(_) | GroupKind::Foreign(_) => not_classic(),
        }
    }

    /// # Panics
    /// If it is not a classic group.
    #[inline]
    pub fn classic_mut(&mut self) -> &mut ClassicGroup {
        match &mut self.kind {
            GroupKind::Classic(classic) => classic,
            GroupKind::Consumer(_) | GroupKind::Foreign(_) => not_classic(),
        }
    }
}

#[cold]
#[inline(never)]
fn not_classic() -> ! {
    unreachable!("only a classic group is asked for what classic groups have")
}

impl Machine {
    /// As ListGroups and the groups' own descriptions name it.
    pub fn state_name(&self, group: u32) -> &'static str {
        match &self.group(group).kind {
            GroupKind::Classic(classic) => classic.state.name(),
            GroupKind::Consumer(of) => of.state(&self.registry.consumer_members).name(),
            GroupKind::Foreign(foreign) => foreign.state_name(),
        }
    }

    /// Whether this caller may commit (`validateOffsetCommit`); a member that may is alive.
    pub fn admit_commit(
        &mut self,
        now_ms: i64,
        api_version: i16,
        group: u32,
        request: &OffsetCommitRequest<'_>,
    ) -> Result<(), ErrorCode> {
        match &self.group(group).kind {
            GroupKind::Classic(_) => self.admit_classic_commit(now_ms, group, request),
            GroupKind::Consumer(_) => self.admit_consumer_commit(api_version, group, request),
            GroupKind::Foreign(foreign) => foreign.admit_commit(request),
        }
    }

    /// The same in a transaction, where no member need be named, and none is kept alive.
    pub fn admit_transactional_commit(
        &self,
        group: u32,
        request: &OffsetCommitRequest<'_>,
    ) -> Result<(), ErrorCode> {
        match &self.group(group).kind {
            GroupKind::Classic(_) => self.admit_classic_transactional_commit(group, request),
            GroupKind::Consumer(_) => self.admit_consumer_transactional_commit(group, request),
            GroupKind::Foreign(foreign) => foreign.admit_transactional_commit(request),
        }
    }

    /// Whether this caller may fetch offsets (`validateOffsetFetch`).
    pub fn admit_fetch(
        &self,
        group: u32,
        request: &OffsetFetchRequest<'_>,
    ) -> Result<(), ErrorCode> {
        match &self.group(group).kind {
            GroupKind::Classic(_) => Ok(()),
            GroupKind::Consumer(_) => self.admit_consumer_fetch(group, request),
            GroupKind::Foreign(foreign) => foreign.admit_fetch(request),
        }
    }

    /// Whether offsets may be deleted (`validateOffsetDelete`), but for those of
    /// [`consumed_topics`](Self::consumed_topics).
    pub fn admit_offset_delete(&self, group: u32) -> Result<(), ErrorCode> {
        match &self.group(group).kind {
            GroupKind::Classic(classic) => classic.admit_offset_delete(),
            GroupKind::Consumer(_) => Ok(()),
            GroupKind::Foreign(foreign) => foreign.admit_offset_delete(),
        }
    }

    /// Topics whose offsets must not be deleted (`isSubscribedToTopic`).
    pub fn consumed_topics(&self, group: u32) -> ConsumedTopics {
        match &self.group(group).kind {
            GroupKind::Classic(_) => self.topics_of_classic(group),
            GroupKind::Consumer(_) => self.topics_of_consumer(group),
            GroupKind::Foreign(foreign) => foreign.consumed_topics(),
        }
    }

    /// From when on its offsets age (`offsetExpirationCondition`), and which are kept all the same.
    pub fn expiration_of(&self, group: u32) -> (ExpirationBase, ConsumedTopics) {
        match &self.group(group).kind {
            GroupKind::Classic(_) => self.expiration_of_classic(group),
            GroupKind::Consumer(_) => self.expiration_of_consumer(group),
            GroupKind::Foreign(foreign) => foreign.expiration(),
        }
    }

    /// Writes the records that end a group without members and offsets
    /// (`createGroupTombstoneRecords`), and takes it out.
    pub fn emit_group_tombstone(&mut self, now_ms: i64, group: u32) {
        match &self.group(group).kind {
            GroupKind::Classic(_) => self.emit_classic_tombstone(now_ms, group),
            GroupKind::Consumer(_) => self.emit_consumer_tombstones(now_ms, group),
            GroupKind::Foreign(_) => self.emit_foreign_tombstones(now_ms, group),
        }
        self.last_tombstone_end = self.outbox.next_offset();
        self.apply_group_tombstone(group);
    }

    /// Drops all that a group which goes has besides its row and its offsets: members and timers.
    pub fn close_group(&mut self, group: u32) {
        match &self.group(group).kind {
            GroupKind::Classic(_) => self.close_classic_group(group),
            GroupKind::Consumer(_) => self.close_consumer_group(group),
            GroupKind::Foreign(_) => {}
        }
    }

    /// The log was replayed: starts what is never logged. `sessions` numbers those of all groups.
    pub fn start_loaded_group(
        &mut self,
        now_ms: i64,
        group: u32,
        sessions: &mut impl Iterator<Item = u64>,
    ) {
        match &self.group(group).kind {
            GroupKind::Classic(_) => self.start_loaded_classic_group(now_ms, group, sessions),
            GroupKind::Consumer(_) => self.start_loaded_consumers(now_ms, group),
            GroupKind::Foreign(_) => {}
        }
    }

    /// Writes the group's own records to a snapshot; its offsets come behind them.
    pub fn write_group_to_snapshot(&self, group: u32, out: &mut snapshot::Writer) {
        match &self.group(group).kind {
            GroupKind::Classic(_) => self.write_classic_group(group, out),
            GroupKind::Consumer(_) => self.write_consumer_group(group, out),
            GroupKind::Foreign(foreign) => foreign.write(out),
        }
    }

    /// For people and tables.
    pub fn view_group(&self, group: u32) -> GroupView {
        let of = self.group(group);
        let bare = GroupView {
            group_id: of.id.as_str().into(),
            group_type: of.group_type().name(),
            is_simple: of.is_simple(),
            state: self.state_name(group),
            protocol_type: of.protocol_type().into(),
            generation_id: of.generation_id(),
            protocol_name: None,
            leader: None,
            current_state_timestamp_ms: -1,
            consumer: None,
            members: Vec::new(),
        };
        match &of.kind {
            GroupKind::Classic(classic) => classic.view(&self.registry.members, bare),
            GroupKind::Consumer(_) => self.view_consumer_group(group, bare),
            GroupKind::Foreign(_) => bare,
        }
    }

    /// Walks all that belongs to the group, and panics unless it fits together. For tests.
    pub fn assert_group_consistent(&self, group: u32) {
        match &self.group(group).kind {
            GroupKind::Classic(_) => self.assert_classic_group(group),
            GroupKind::Consumer(_) => self.assert_consumer_group(group),
            GroupKind::Foreign(foreign) => foreign.assert_consistent(&self.group(group).id),
        }
    }
}
