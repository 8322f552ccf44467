//! Events as rows: the fields of `pykcoord.events.Event`, in its order.

use kcoord_core::event::{Event, EventKind, EventMember};

/// Member id, group instance id, client id, client host, reason.
type MemberRow = (String, Option<String>, String, String, Option<String>);

/// Kind, group, generation, cause, member, count, detail.
pub(crate) type EventRow = (
    &'static str,
    String,
    i32,
    Option<&'static str>,
    Option<MemberRow>,
    Option<u64>,
    Option<String>,
);

/// Group, generation, kind, how many, and one of them or the reason.
pub(crate) type FindingRow = (String, i32, &'static str, u64, String);

pub(crate) fn event_row(event: Event) -> EventRow {
    let Event { group_id, generation_id, kind } = event;
    let name = kind.name();
    let (cause, member, count, detail) = match kind {
        EventKind::GroupCreated => (None, None, None, None),
        EventKind::RebalanceStarted { cause, member } => (Some(cause.name()), member, None, None),
        EventKind::JoinPhaseCompleted { members, protocol_name } => {
            (None, None, Some(members as u64), protocol_name)
        }
        EventKind::GroupStable { members } => (None, None, Some(members as u64), None),
        EventKind::MemberGone { cause, member } => (Some(cause.name()), Some(member), None, None),
        EventKind::GroupDeleted { cause } => (Some(cause.name()), None, None, None),
        EventKind::Finding { kind, count, detail } => {
            (Some(kind.name()), None, Some(count), Some(detail))
        }
    };
    let member = member.map(|member| member_row(*member));
    (name, group_id.into(), generation_id, cause, member, count, detail.map(Into::into))
}

fn member_row(member: EventMember) -> MemberRow {
    let EventMember { member_id, group_instance_id, client_id, client_host, reason } = member;
    let ids = (member_id.into(), group_instance_id.map(Into::into));
    (ids.0, ids.1, client_id.into(), client_host.into(), reason.map(Into::into))
}

/// `None`: the event is no finding.
pub(crate) fn finding_row(event: Event) -> Option<FindingRow> {
    let Event { group_id, generation_id, kind } = event;
    let EventKind::Finding { kind, count, detail } = kind else { return None };
    Some((group_id.into(), generation_id, kind.name(), count, detail.into()))
}
