//! Events as rows: the fields of `pykcoord.events.Event`, in its order.

use kcoord_core::event::{Event, EventKind, EventMember};

/// Member id, group instance id, client id, client host, reason.
type MemberRow = (String, Option<String>, String, String, Option<String>);

/// Kind, group, generation, cause, member, count, detail, time and silence in ms.
pub(crate) type EventRow = (
    &'static str,
    String,
    i32,
    Option<&'static str>,
    Option<MemberRow>,
    Option<u64>,
    Option<String>,
    i64,
    Option<i64>,
);

pub(crate) fn event_row(event: Event) -> EventRow {
    let Event { group_id, timestamp_ms, generation_id, kind } = event;
    let name = kind.name();
    let mut silent = None;
    let (cause, member, count, detail) = match kind {
        EventKind::GroupCreated => (None, None, None, None),
        EventKind::RebalanceStarted { cause, member } => (Some(cause.name()), member, None, None),
        EventKind::MemberJoined { member } => (None, Some(member), None, None),
        EventKind::JoinPhaseCompleted { members, protocol_name, last } => {
            (None, last, Some(members as u64), protocol_name)
        }
        EventKind::GroupEpochBumped { cause, member } => (Some(cause.name()), member, None, None),
        EventKind::TargetComputed { members, assignor } => {
            (None, None, Some(members as u64), Some(assignor))
        }
        EventKind::RevocationAwaited { member, partitions }
        | EventKind::MemberReconciled { member, partitions } => {
            (None, Some(member), Some(partitions as u64), None)
        }
        EventKind::MemberFenced { cause, member } => (Some(cause.name()), Some(member), None, None),
        EventKind::GroupMigrated { cause, member, members } => {
            (Some(cause.name()), member, Some(members as u64), None)
        }
        EventKind::GroupStable { members } => (None, None, Some(members as u64), None),
        EventKind::MemberGone { cause, member, silent_ms } => {
            silent = silent_ms;
            (Some(cause.name()), Some(member), None, None)
        }
        EventKind::GroupDeleted { cause } => (Some(cause.name()), None, None, None),
        EventKind::Finding { kind, count, detail } => {
            (Some(kind.name()), None, Some(count), Some(detail))
        }
    };
    let member = member.map(|member| member_row(*member));
    let detail = detail.map(Into::into);
    (name, group_id.into(), generation_id, cause, member, count, detail, timestamp_ms, silent)
}

fn member_row(member: EventMember) -> MemberRow {
    let EventMember { member_id, group_instance_id, client_id, client_host, reason } = member;
    let ids = (member_id.into(), group_instance_id.map(Into::into));
    (ids.0, ids.1, client_id.into(), client_host.into(), reason.map(Into::into))
}
