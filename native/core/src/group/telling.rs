//! Where a group's events are made. Each costs one look at a flag while events are off.

use super::Machine;
use super::classic::member::flag;
use super::counters::RebalanceCause;
use crate::event::{DeletionCause, Event, EventKind, EventMember, GoneCause};
use crate::finding::FindingKind;

impl Machine {
    pub fn poll_event(&mut self, now_ms: i64) -> Option<Event> {
        self.events.poll(now_ms, self.outbox.next_offset(), self.outbox.durable_offset())
    }

    /// Counts a finding, and makes an event of it.
    pub fn found(&mut self, group: u32, kind: FindingKind, count: u64, detail: String) {
        self.counters.found(kind, count);
        self.push_event(group, EventKind::Finding { kind, count, detail: detail.into() });
    }

    pub fn tell_group_created(&mut self, group: u32) {
        if self.events.is_on() {
            self.push_event(group, EventKind::GroupCreated);
        }
    }

    /// A member that was not there before. A rebalance that comes of it names it.
    pub fn tell_member_joined(&mut self, member: u32, reason: Option<&str>) {
        if self.events.is_on() {
            let group = self.registry.members[member].group;
            let member = self.event_member(member, reason);
            self.events.set_trigger(member.clone());
            self.push_event(group, EventKind::MemberJoined { member });
        }
    }

    /// The member that the next rebalance is due to, and why it says it came.
    #[inline]
    pub fn due_to(&mut self, member: u32, reason: Option<&str>) {
        if self.events.is_on() {
            let member = self.event_member(member, reason);
            self.events.set_trigger(member);
        }
    }

    pub fn tell_rebalance_started(&mut self, group: u32, cause: RebalanceCause) {
        if !self.events.is_on() {
            return;
        }
        self.watch_owners(group);
        let detail = self.events.take_detail();
        let member = match cause {
            RebalanceCause::MemberJoined
            | RebalanceCause::LeaderRejoined
            | RebalanceCause::MetadataChanged
            | RebalanceCause::StaticMemberReplaced
            | RebalanceCause::MemberLeft
            | RebalanceCause::SessionExpired
            | RebalanceCause::SyncExpired => self.events.take_trigger(),
            RebalanceCause::GroupTooLarge
            | RebalanceCause::RecordRefused
            | RebalanceCause::TopicsChanged
            | RebalanceCause::Downgraded => None,
        };
        self.push_event(group, EventKind::RebalanceStarted { cause, member, detail });
    }

    /// `last`: the member by whose JoinGroup the phase ended.
    pub fn tell_join_phase_completed(&mut self, group: u32, last: Option<u32>) {
        if self.events.is_on() {
            let last = last.map(|member| self.event_member(member, None));
            let of = self.classic(group);
            let protocol_name = of.protocol_name.clone();
            let members = of.member_count();
            self.push_event(group, EventKind::JoinPhaseCompleted { members, protocol_name, last });
        }
    }

    pub fn tell_group_stable(&mut self, now_ms: i64, group: u32) {
        if self.events.is_on() {
            let members = self.classic(group).member_count();
            let (leader, moves) = (self.told_leader(group), self.settled_moves(now_ms, group));
            self.push_event(group, EventKind::GroupStable { members, leader, moves });
        }
    }

    /// To be called while the member is still there. A rebalance that comes of it names it.
    pub fn tell_member_gone(
        &mut self,
        now_ms: i64,
        member: u32,
        cause: GoneCause,
        reason: Option<&str>,
    ) {
        if self.events.is_on() {
            self.watch_gone(now_ms, member, cause);
            let group = self.registry.members[member].group;
            let member = self.event_member(member, reason);
            self.push_member_gone(group, cause, member, None);
        }
    }

    /// The same of a session that ended. It may end earlier or later than its timeout says: when a
    /// shard is loaded, or when nothing ran for a while.
    pub fn tell_session_expired(&mut self, now_ms: i64, member: u32) {
        if self.events.is_on() {
            self.watch_gone(now_ms, member, GoneCause::SessionExpired);
            let row = &self.registry.members[member];
            let timeout_ms = match row.has(flag::NEW) {
                true => self.config.new_member_join_timeout_ms,
                false => row.session_timeout_ms,
            };
            let silent_ms = now_ms - row.deadline_ms + i64::from(timeout_ms);
            let (group, member) = (row.group, self.event_member(member, None));
            self.push_member_gone(group, GoneCause::SessionExpired, member, Some(silent_ms));
        }
    }

    pub fn push_member_gone(
        &mut self,
        group: u32,
        cause: GoneCause,
        member: EventMember,
        silent_ms: Option<i64>,
    ) {
        self.events.set_trigger(member.clone());
        self.push_event(group, EventKind::MemberGone { cause, member, silent_ms });
    }

    /// An id that was handed out did not come back, and others wait for it. No rebalance comes of it.
    pub fn tell_never_joined(&mut self, pending: u32) {
        if self.events.is_on() {
            let group = self.registry.members[pending].group;
            let (cause, member) = (GoneCause::NeverJoined, self.event_member(pending, None));
            self.push_event(group, EventKind::MemberGone { cause, member, silent_ms: None });
        }
    }

    /// To be called while the group is still there.
    pub fn tell_group_deleted(&mut self, group: u32, cause: DeletionCause) {
        if self.events.is_on() {
            self.push_event(group, EventKind::GroupDeleted { cause });
            self.watching.forget(group);
        }
    }

    pub fn push_event(&mut self, group: u32, kind: EventKind) {
        let of = &self.registry.groups[group];
        let (group_id, generation_id) = (of.id.clone(), of.generation_id());
        let event = Event { group_id, timestamp_ms: 0, generation_id, kind };
        let was_taken = self.events.push(event);
        self.counters.events_dropped += u64::from(!was_taken);
    }

    pub fn event_member(&self, member: u32, reason: Option<&str>) -> EventMember {
        EventMember::of(self.registry.members[member].packed(), reason)
    }
}
