//! What happened to groups, for logs and for hosts that watch. Nothing is decided by it.
//!
//! Events leave through one bounded queue ([`Shard::poll_event`](crate::Shard::poll_event)). They
//! are off until a host asks for them ([`Shard::tell_events`](crate::Shard::tell_events)), but for
//! findings, which always leave; a heartbeat that is accepted makes none. An event leaves once all
//! is durable that its shard had written by the end of the turn in which it happened: what a failed
//! append undoes never leaves, and the events of a shard keep their order.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::error::ErrorCode;
pub use crate::event_cause::{
    DeletionCause, EpochCause, FencedCause, GoneCause, HeldCause, MigrationCause,
};
pub use crate::event_member::{EventMember, MAX_REASON_BYTES, bounded_reason};
use crate::finding::{FindingKind, MAX_FINDINGS};
pub use crate::group::counters::RebalanceCause;
pub use crate::group::text::GroupId;

/// Events that wait for their host or for the log, in number and in bytes of their texts; what
/// comes when there are so many is dropped and counted.
pub const MAX_EVENTS: usize = 4_096;
/// The memory that events may take until they are taken; what comes then is dropped and counted.
pub const MAX_EVENT_BYTES: usize = 1 << 20;

/// Something that happened to a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The group.
    pub group_id: GroupId,
    /// When it happened, in ms since the epoch: the time of its turn.
    pub timestamp_ms: i64,
    /// Of the group when it happened: where a rebalance starts, the generation that ends. Of a
    /// consumer group the group epoch: where it was bumped, the epoch that begins.
    pub generation_id: i32,
    /// What happened.
    pub kind: EventKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// By a JoinGroup, or by a commit without a member.
    GroupCreated,
    /// A member that was not there before.
    MemberJoined {
        /// Which member.
        member: EventMember,
    },
    /// A member of a classic group that was there before has joined again, in a join phase or so
    /// that one begins.
    MemberRejoined {
        /// Which member.
        member: EventMember,
    },
    /// Members of a classic group are asked to join. The member is the one that caused it, where one
    /// did.
    RebalanceStarted {
        /// Why.
        cause: RebalanceCause,
        /// Which member.
        member: Option<EventMember>,
        /// Where a member's metadata changed: what of it. Where the leader asked again: what the
        /// group reads.
        detail: Option<Box<str>>,
    },
    /// The next generation begins, with so many members; 0: the group is empty now.
    JoinPhaseCompleted {
        /// The number of members.
        members: usize,
        /// The assignor of the new generation; `None`: the group is empty.
        protocol_name: Option<Arc<Box<str>>>,
        /// The member for which all others waited: it came last. `None`: the phase did not end by a
        /// member that joined.
        last: Option<EventMember>,
    },
    /// Every member can have its assignment.
    GroupStable {
        /// The number of members.
        members: usize,
        /// The member that assigned; `None`: the coordinator did.
        leader: Option<EventMember>,
        /// What became of the partitions, where the group had a generation before.
        moves: Option<Box<Moves>>,
    },
    /// A member was heard of, but had been silent for more than three quarters of its session
    /// timeout. Told the first, second, fourth, eighth ... time in a generation.
    HeartbeatLate {
        /// Which member.
        member: EventMember,
        /// For how long nothing was heard of it, in ms.
        silent_ms: i64,
        /// How often by now.
        count: u64,
    },
    /// A request of a member, or of one that is none any more, was refused. Told the first, second,
    /// fourth, eighth ... time in a generation.
    RequestRefused {
        /// Kafka's name of the API.
        api: &'static str,
        /// With which code.
        error_code: ErrorCode,
        /// Who asked, as it said.
        member: EventMember,
        /// How often by now.
        count: u64,
    },
    /// The partitions of a consumer group are to be decided anew. The member is the one that caused
    /// it, where one did.
    GroupEpochBumped {
        /// Why.
        cause: EpochCause,
        /// Which member.
        member: Option<EventMember>,
    },
    /// Members of a consumer group have their targets for the group's epoch.
    TargetComputed {
        /// Members whose target is another than before.
        members: usize,
        /// The assignor.
        assignor: Box<str>,
    },
    /// A member of a consumer group has partitions to give up, and others may wait for them.
    RevocationAwaited {
        /// Which member.
        member: EventMember,
        /// How many partitions.
        partitions: usize,
    },
    /// A member of a consumer group has come to its target.
    MemberReconciled {
        /// Which member.
        member: EventMember,
        /// How many partitions it has.
        partitions: usize,
        /// What it got on the way, where it got something.
        gains: Option<Box<Moves>>,
    },
    /// A member of a consumer group was refused, and has to give up its partitions and join again:
    /// once for each epoch with which it comes.
    MemberFenced {
        /// Why.
        cause: FencedCause,
        /// Which member.
        member: EventMember,
    },
    /// A group is of the other kind now, with so many members that stayed.
    GroupMigrated {
        /// To which.
        cause: MigrationCause,
        /// The member that caused it: the one that came, or the one that went.
        member: Option<EventMember>,
        /// How many members were taken over.
        members: usize,
    },
    /// A member left, or was removed.
    MemberGone {
        /// Why.
        cause: GoneCause,
        /// Which member.
        member: EventMember,
        /// Of a session that expired: for how long nothing was heard of it, in ms.
        silent_ms: Option<i64>,
    },
    /// The JoinGroup of a newcomer to a classic group waits.
    JoinHeld {
        /// Why.
        cause: HeldCause,
        /// The newcomer; its id is empty, since it has none yet.
        member: EventMember,
        /// For so many ms, unless it gives up before.
        for_ms: u64,
    },
    /// A member of a classic group left, or its session ended; it stays until the group may rebalance.
    RemovalPutOff {
        /// Why it is to go: `Left` or `SessionExpired`.
        cause: GoneCause,
        /// Which member.
        member: EventMember,
        /// For so many ms, unless the group rebalances before.
        for_ms: u64,
    },
    /// The group is no longer there.
    GroupDeleted {
        /// Why.
        cause: DeletionCause,
    },
    /// How many of the kind, and one of them or the reason, for people.
    Finding {
        /// What was noticed.
        kind: FindingKind,
        /// How many of the kind in this generation.
        count: u64,
        /// One of them, or the reason.
        detail: Box<str>,
    },
}

impl EventKind {
    /// As logs and hosts name it.
    pub const fn name(&self) -> &'static str {
        match self {
            EventKind::GroupCreated => "group_created",
            EventKind::MemberJoined { .. } => "member_joined",
            EventKind::MemberRejoined { .. } => "member_rejoined",
            EventKind::RebalanceStarted { .. } => "rebalance_started",
            EventKind::JoinPhaseCompleted { .. } => "join_phase_completed",
            EventKind::GroupStable { .. } => "group_stable",
            EventKind::HeartbeatLate { .. } => "heartbeat_late",
            EventKind::RequestRefused { .. } => "request_refused",
            EventKind::GroupEpochBumped { .. } => "group_epoch_bumped",
            EventKind::TargetComputed { .. } => "target_computed",
            EventKind::RevocationAwaited { .. } => "revocation_awaited",
            EventKind::MemberReconciled { .. } => "member_reconciled",
            EventKind::MemberFenced { .. } => "member_fenced",
            EventKind::GroupMigrated { .. } => "group_migrated",
            EventKind::MemberGone { .. } => "member_gone",
            EventKind::JoinHeld { .. } => "join_held",
            EventKind::RemovalPutOff { .. } => "removal_put_off",
            EventKind::GroupDeleted { .. } => "group_deleted",
            EventKind::Finding { .. } => "finding",
        }
    }
}

/// What became of partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// How many are assigned now; of a member's gains: how many it got.
    pub partitions: u64,
    /// How many have another owner than before.
    pub moved: u64,
    /// How many had to, so that every member, or this one, has as many as it has now.
    pub least: u64,
    /// How many nobody owned for a while.
    pub unowned: u64,
    /// For how long in all, in ms.
    pub unowned_ms: u64,
    /// And the longest of them.
    pub longest_ms: u64,
    /// Commits that were refused since the last such event.
    pub refused_commits: u64,
}

impl Event {
    /// Of its texts.
    pub fn bytes(&self) -> usize {
        let texts = match &self.kind {
            EventKind::GroupCreated
            | EventKind::TargetComputed { .. }
            | EventKind::GroupDeleted { .. } => 0,
            EventKind::RebalanceStarted { member, detail, .. } => {
                let member = member.as_ref().map_or(0, |member| member.bytes());
                member + detail.as_ref().map_or(0, |detail| detail.len())
            }
            EventKind::GroupStable { leader: member, .. }
            | EventKind::GroupEpochBumped { member, .. }
            | EventKind::GroupMigrated { member, .. } => {
                member.as_ref().map_or(0, |member| member.bytes())
            }
            EventKind::JoinPhaseCompleted { protocol_name, last, .. } => {
                let last = last.as_ref().map_or(0, |member| member.bytes());
                last + protocol_name.as_ref().map_or(0, |name| name.len())
            }
            EventKind::MemberJoined { member }
            | EventKind::MemberRejoined { member }
            | EventKind::HeartbeatLate { member, .. }
            | EventKind::RequestRefused { member, .. }
            | EventKind::RevocationAwaited { member, .. }
            | EventKind::MemberReconciled { member, .. }
            | EventKind::MemberFenced { member, .. }
            | EventKind::JoinHeld { member, .. }
            | EventKind::RemovalPutOff { member, .. }
            | EventKind::MemberGone { member, .. } => member.bytes(),
            EventKind::Finding { detail, .. } => detail.len(),
        };
        self.group_id.as_bytes().len() + texts
    }

    /// Whether it is one, which is told even while events are off.
    pub const fn is_finding(&self) -> bool {
        matches!(self.kind, EventKind::Finding { .. })
    }
}

/// An event in the queue.
#[derive(Debug)]
struct Waiting {
    /// The offset up to which the log must be durable first; known once the event is sealed.
    end_offset: i64,
    bytes: u32,
    event: Event,
}

/// The queue of a shard.
#[derive(Debug, Default)]
pub struct Events {
    is_on: bool,
    waiting: VecDeque<Waiting>,
    /// How many of them happened before the last poll.
    sealed: usize,
    bytes: usize,
    findings: usize,
    /// The member that causes what comes next.
    trigger: Option<EventMember>,
    /// What of its metadata changed.
    detail: Option<Box<str>>,
}

impl Events {
    /// Whether events besides findings are told from now on.
    pub fn turn(&mut self, on: bool) {
        self.is_on = on;
    }

    /// Whether events besides findings are told.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Of what is about to happen: taken by the event that it causes.
    pub fn set_trigger(&mut self, member: EventMember) {
        self.trigger = Some(member);
    }

    /// Takes the member that is about to cause a rebalance.
    pub fn take_trigger(&mut self) -> Option<EventMember> {
        self.trigger.take()
    }

    /// What changed of the metadata of the member that causes what comes next.
    pub fn set_detail(&mut self, detail: Option<Box<str>>) {
        self.detail = detail;
    }

    /// Takes what changed.
    pub fn take_detail(&mut self) -> Option<Box<str>> {
        self.detail.take()
    }

    /// False: it is dropped, because too many wait.
    #[inline]
    pub fn push(&mut self, event: Event) -> bool {
        let (bytes, is_finding) = (event.bytes(), event.is_finding());
        let is_full = self.waiting.len() >= MAX_EVENTS
            || self.bytes + bytes > MAX_EVENT_BYTES
            || (is_finding && self.findings >= MAX_FINDINGS);
        if is_full {
            return false;
        }
        self.bytes += bytes;
        self.findings += usize::from(is_finding);
        let bytes = bytes as u32; // It is less than the bound.
        self.waiting.push_back(Waiting { end_offset: i64::MAX, bytes, event });
        true
    }

    fn seal(&mut self, now_ms: i64, next_offset: i64) {
        for waiting in self.waiting.range_mut(self.sealed..) {
            waiting.end_offset = next_offset;
            waiting.event.timestamp_ms = now_ms;
        }
        self.sealed = self.waiting.len();
    }

    /// The next event whose turn has come: what happened since the last call happened at `now_ms`,
    /// and waits for all that was written below `next_offset`; all below `durable_offset` is durable.
    pub fn poll(&mut self, now_ms: i64, next_offset: i64, durable_offset: i64) -> Option<Event> {
        if self.sealed < self.waiting.len() {
            self.seal(now_ms, next_offset);
        }
        if self.waiting.front()?.end_offset > durable_offset {
            return None;
        }
        let Waiting { bytes, event, .. } = self.waiting.pop_front()?;
        self.sealed -= 1;
        self.bytes -= bytes as usize;
        self.findings -= usize::from(event.is_finding());
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(group_id: &str) -> Event {
        let kind = EventKind::GroupCreated;
        Event { group_id: group_id.into(), timestamp_ms: 0, generation_id: 1, kind }
    }

    fn finding(number: u64) -> Event {
        let kind = FindingKind::UnknownMember;
        let kind = EventKind::Finding { kind, count: number, detail: "".into() };
        Event { kind, ..of("g") }
    }

    #[test]
    fn events_wait_for_what_was_written_in_their_turn_and_keep_their_order() {
        let mut events = Events::default();
        _ = events.push(of("a"));
        let at = |timestamp_ms: i64, group_id: &str| Event { timestamp_ms, ..of(group_id) };
        assert_eq!(events.poll(100, 5, 3), None);
        _ = events.push(of("b"));
        assert_eq!(events.poll(101, 6, 5), Some(at(100, "a")));
        assert_eq!(events.poll(102, 9, 5), None);
        assert_eq!(events.poll(103, 9, 6), Some(at(101, "b")));
        _ = events.push(of("c"));
        assert_eq!(events.poll(104, 9, 9), Some(at(104, "c")));
        assert_eq!(events.poll(105, 9, 9), None);
    }

    #[test]
    fn what_waits_is_bounded_in_number_and_in_bytes() {
        let mut events = Events::default();
        let taken = (0..MAX_EVENTS + 3).filter(|_| events.push(of("g"))).count();
        assert_eq!(taken, MAX_EVENTS);
        while events.poll(0, 0, 0).is_some() {}
        let long = of(&"g".repeat(MAX_EVENT_BYTES / 2));
        assert_eq!([0; 3].map(|_| events.push(long.clone())), [true, true, false]);
        while events.poll(0, 0, 0).is_some() {}
        assert_eq!((events.bytes, events.sealed, events.findings), (0, 0, 0));
        assert!(events.push(long));
    }

    #[test]
    fn findings_leave_room_for_other_events() {
        let mut events = Events::default();
        let taken = (0..MAX_FINDINGS as u64 + 1).filter(|number| events.push(finding(*number)));
        assert_eq!(taken.count(), MAX_FINDINGS);
        assert!(events.push(of("g")));
    }
}
