//! Where a group's events are made. Each costs one look at a flag while events are off.

use super::Machine;
use super::counters::RebalanceCause;
use crate::event::{DeletionCause, Event, EventKind, EventMember, GoneCause, bounded_reason};
use crate::finding::FindingKind;

impl Machine {
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.poll(self.outbox.next_offset(), self.outbox.durable_offset())
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
        let member = match cause {
            RebalanceCause::MemberJoined
            | RebalanceCause::MemberRejoined
            | RebalanceCause::StaticMemberReplaced
            | RebalanceCause::MemberLeft
            | RebalanceCause::SessionExpired
            | RebalanceCause::SyncExpired => self.events.take_trigger(),
            RebalanceCause::GroupTooLarge
            | RebalanceCause::RecordRefused
            | RebalanceCause::TopicsChanged
            | RebalanceCause::Downgraded => None,
        };
        self.push_event(group, EventKind::RebalanceStarted { cause, member });
    }

    pub fn tell_join_phase_completed(&mut self, group: u32) {
        if self.events.is_on() {
            let of = self.classic(group);
            let protocol_name = of.protocol_name().map(Into::into);
            let members = of.member_count();
            self.push_event(group, EventKind::JoinPhaseCompleted { members, protocol_name });
        }
    }

    pub fn tell_group_stable(&mut self, group: u32) {
        if self.events.is_on() {
            let members = self.classic(group).member_count();
            self.push_event(group, EventKind::GroupStable { members });
        }
    }

    /// To be called while the member is still there. A rebalance that comes of it names it.
    pub fn tell_member_gone(&mut self, member: u32, cause: GoneCause, reason: Option<&str>) {
        if self.events.is_on() {
            let group = self.registry.members[member].group;
            let member = self.event_member(member, reason);
            self.events.set_trigger(member.clone());
            self.push_event(group, EventKind::MemberGone { cause, member });
        }
    }

    /// To be called while the group is still there.
    pub fn tell_group_deleted(&mut self, group: u32, cause: DeletionCause) {
        if self.events.is_on() {
            self.push_event(group, EventKind::GroupDeleted { cause });
        }
    }

    pub fn push_event(&mut self, group: u32, kind: EventKind) {
        let of = &self.registry.groups[group];
        let (group_id, generation_id) = (of.id.as_str().into(), of.generation_id());
        let was_taken = self.events.push(Event { group_id, generation_id, kind });
        self.counters.events_dropped += u64::from(!was_taken);
    }

    fn event_member(&self, member: u32, reason: Option<&str>) -> Box<EventMember> {
        let details = self.registry.members[member].details_but_protocols();
        Box::new(EventMember {
            member_id: details.member_id.into(),
            group_instance_id: details.group_instance_id.map(Into::into),
            client_id: details.client_id.into(),
            client_host: details.client_host.into(),
            reason: reason.filter(|reason| !reason.is_empty()).map(bounded_reason),
        })
    }
}
