//! Events of consumer groups and their members. Each costs one look at a flag while events are off.

use super::member::Member;
use super::reconcile::Next;
use super::validate::JOINS;
use crate::config::ServerAssignor;
use crate::error::ErrorCode;
use crate::event::{EpochCause, EventKind, EventMember, FencedCause, GoneCause, MigrationCause};
use crate::group::Machine;
use crate::group::classic::member::Details;
use crate::group::watching::Asking;
use crate::record::consumer::MemberState;
use crate::request::{ConsumerGroupHeartbeatRequest, RequestContext};
use crate::response::Refusal;

impl Machine {
    /// A member that was not there before, or not under this id.
    pub fn tell_consumer_joined(&mut self, row: u32, reason: Option<&str>) {
        if self.events.is_on() {
            let (group, member) = self.described(row, reason);
            self.push_event(group, EventKind::MemberJoined { member });
        }
    }

    /// To be called while the member is still there.
    pub fn tell_consumer_gone(
        &mut self,
        now_ms: i64,
        row: u32,
        cause: GoneCause,
        reason: Option<&str>,
    ) {
        if self.events.is_on() {
            self.watch_consumer_gone(now_ms, row, cause);
            let (group, member) = self.described(row, reason);
            self.push_member_gone(group, cause, member, None);
        }
    }

    /// The same of a session that ended.
    pub fn tell_consumer_session_expired(&mut self, now_ms: i64, row: u32) {
        if self.events.is_on() {
            self.watch_consumer_gone(now_ms, row, GoneCause::SessionExpired);
            let member = &self.registry.consumer_members[row];
            let timeout_ms = match &member.classic {
                Some(classic) => classic.session_timeout_ms,
                None => self.session_timeout_ms_of(member.group),
            };
            let silent_ms = now_ms - member.deadline_ms + i64::from(timeout_ms);
            let (group, member) = self.described(row, None);
            self.push_member_gone(group, GoneCause::SessionExpired, member, Some(silent_ms));
        }
    }

    /// Once the record is written. `by`: the member that caused it, if it is there.
    pub fn tell_group_epoch_bumped(&mut self, group: u32, cause: EpochCause, by: Option<u32>) {
        if self.events.is_on() {
            let member = match cause {
                EpochCause::MemberJoined
                | EpochCause::SubscriptionChanged
                | EpochCause::AssignorChanged => by.map(|row| self.described(row, None).1),
                EpochCause::MemberLeft
                | EpochCause::SessionExpired
                | EpochCause::RebalanceTimeout
                | EpochCause::SyncExpired => self.events.take_trigger(),
                EpochCause::TopicsChanged | EpochCause::RegexResolved => None,
            };
            self.push_event(group, EventKind::GroupEpochBumped { cause, member });
        }
    }

    /// Once the records are written. `members`: those whose target is another.
    pub fn tell_target_computed(&mut self, group: u32, members: usize, assignor: &ServerAssignor) {
        if self.events.is_on() {
            let assignor = assignor.name().into();
            self.push_event(group, EventKind::TargetComputed { members, assignor });
        }
    }

    /// Once the member's step is written.
    pub fn tell_member_step(&mut self, row: u32, next: &Next) {
        if !self.events.is_on() {
            return;
        }
        let (group, member) = self.described(row, None);
        match next.state {
            MemberState::UnrevokedPartitions => {
                let partitions = next.revoking.len();
                self.push_event(group, EventKind::RevocationAwaited { member, partitions });
            }
            // One that waits for newer targets has not arrived.
            MemberState::Stable if next.member_epoch == self.group(group).generation_id() => {
                let (partitions, gains) = (next.assigned.len(), self.take_gains(row));
                self.push_event(group, EventKind::MemberReconciled { member, partitions, gains });
            }
            MemberState::Stable | MemberState::UnreleasedPartitions | MemberState::Unknown => {}
        }
    }

    /// Of a heartbeat that is refused. Who goes on with the same epoch is told of once.
    #[cold]
    pub fn tell_member_fenced(
        &mut self,
        context: &RequestContext<'_>,
        request: &ConsumerGroupHeartbeatRequest<'_>,
        refusal: &Refusal,
    ) {
        if !self.events.is_on() {
            return;
        }
        if refusal.error_code != ErrorCode::FencedMemberEpoch {
            let of = (request.group_id, request.member_id, request.instance_id);
            let asking = Asking::of(context, of.0, of.1, of.2);
            return self.tell_refused("ConsumerGroupHeartbeat", asking, refusal.error_code);
        }
        let group =
            self.registry.find(request.group_id).filter(|row| self.registry.is_consumer(*row));
        let Some(group) = group else { return };
        let Some(row) = self.registry.find_consumer_member(group, request.member_id) else {
            return;
        };
        let (sent, has) = (request.member_epoch, self.registry.consumer_members[row].member_epoch);
        if self.fenced_epochs.insert(row, sent) == Some(sent) {
            return;
        }
        let cause = match sent {
            // It is the epoch that the member has, or joins anew with.
            _ if sent == has || sent == JOINS => FencedCause::UnknownState,
            _ if sent < has => FencedCause::OldEpoch,
            _ => FencedCause::NewerEpoch,
        };
        // As it came, which may be from elsewhere.
        let (client_id, client_host) = (context.client_id, context.client_host);
        let own = details(&self.registry.consumer_members[row]);
        let member = EventMember::said(&Details { client_id, client_host, ..own }, None);
        self.push_event(group, EventKind::MemberFenced { cause, member });
    }

    /// A classic group is a consumer group now, because a member came.
    pub fn tell_upgraded(
        &mut self,
        group: u32,
        context: &RequestContext<'_>,
        request: &ConsumerGroupHeartbeatRequest<'_>,
        members: usize,
    ) {
        if self.events.is_on() {
            let details = Details {
                member_id: request.member_id,
                group_instance_id: request.instance_id,
                client_id: context.client_id,
                client_host: context.client_host,
                ..Details::default()
            };
            self.watching.forget(group);
            let member = Some(EventMember::said(&details, None));
            let cause = MigrationCause::Upgraded;
            self.push_event(group, EventKind::GroupMigrated { cause, member, members });
        }
    }

    /// A consumer group is a classic group now.
    pub fn tell_downgraded(&mut self, group: u32, member: Option<EventMember>, members: usize) {
        if self.events.is_on() {
            self.watching.forget(group);
            let cause = MigrationCause::Downgraded;
            self.push_event(group, EventKind::GroupMigrated { cause, member, members });
        }
    }

    /// A member for an event to come; none while events are off.
    pub fn told_member(&self, row: u32) -> Option<EventMember> {
        self.events.is_on().then(|| self.described(row, None).1)
    }

    /// The group of a member, and what an event says of it.
    pub fn described(&self, row: u32, reason: Option<&str>) -> (u32, EventMember) {
        let member = &self.registry.consumer_members[row];
        (member.group, EventMember::said(&details(member), reason))
    }
}

fn details(member: &Member) -> Details<'_> {
    Details {
        member_id: &member.id,
        group_instance_id: member.instance_id(),
        client_id: member.client_id(),
        client_host: member.client_host(),
        ..Details::default()
    }
}
