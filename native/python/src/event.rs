//! Events as rows, the fields of `pykcoord.events.Event` in its order, and as values of the topic
//! `__pykcoord_group_events` (docs/events.md).

use std::collections::BTreeMap;

use kcoord_core::event::{Event, EventKind, EventMember, Moves};

/// Member id, group instance id, client id, client host, reason.
type MemberRow = (String, Option<String>, String, String, Option<String>);

/// By name.
type Figures = BTreeMap<&'static str, u64>;

/// Kind, group, generation, cause, member, count, detail, time and silence in ms, figures.
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
    Option<Figures>,
);

/// What an event says besides its group, generation and time.
#[derive(Default)]
struct Said<'a> {
    cause: Option<&'static str>,
    member: Option<&'a EventMember>,
    count: Option<u64>,
    detail: Option<&'a str>,
    silent_ms: Option<i64>,
    moves: Option<&'a Moves>,
}

fn said(kind: &EventKind) -> Said<'_> {
    let none = Said::default();
    match kind {
        EventKind::GroupCreated => none,
        EventKind::RebalanceStarted { cause, member, detail } => {
            let (cause, detail) = (Some(cause.name()), detail.as_deref());
            Said { cause, member: member.as_ref(), detail, ..none }
        }
        EventKind::MemberJoined { member } | EventKind::MemberRejoined { member } => {
            Said { member: Some(member), ..none }
        }
        EventKind::JoinPhaseCompleted { members, protocol_name, last } => Said {
            member: last.as_ref(),
            count: Some(*members as u64),
            detail: protocol_name.as_ref().map(|name| &***name),
            ..none
        },
        EventKind::GroupEpochBumped { cause, member } => {
            Said { cause: Some(cause.name()), member: member.as_ref(), ..none }
        }
        EventKind::TargetComputed { members, assignor } => {
            Said { count: Some(*members as u64), detail: Some(assignor), ..none }
        }
        EventKind::RevocationAwaited { member, partitions } => {
            Said { member: Some(member), count: Some(*partitions as u64), ..none }
        }
        EventKind::MemberReconciled { member, partitions, gains } => {
            let (member, count) = (Some(member), Some(*partitions as u64));
            Said { member, count, moves: gains.as_deref(), ..none }
        }
        EventKind::MemberFenced { cause, member } => {
            Said { cause: Some(cause.name()), member: Some(member), ..none }
        }
        EventKind::GroupMigrated { cause, member, members } => {
            let (cause, count) = (Some(cause.name()), Some(*members as u64));
            Said { cause, member: member.as_ref(), count, ..none }
        }
        EventKind::GroupStable { members, leader, moves } => {
            let (member, moves) = (leader.as_ref(), moves.as_deref());
            Said { member, count: Some(*members as u64), moves, ..none }
        }
        EventKind::HeartbeatLate { member, silent_ms, count } => {
            let silent_ms = Some(*silent_ms);
            Said { member: Some(member), count: Some(*count), silent_ms, ..none }
        }
        EventKind::RequestRefused { api, error_code, member, count } => {
            let (cause, detail) = (Some(error_code.name()), Some(*api));
            Said { cause, member: Some(member), count: Some(*count), detail, ..none }
        }
        EventKind::MemberGone { cause, member, silent_ms } => {
            let (cause, silent_ms) = (Some(cause.name()), *silent_ms);
            Said { cause, member: Some(member), silent_ms, ..none }
        }
        EventKind::JoinHeld { cause, member, for_ms } => {
            Said { cause: Some(cause.name()), member: Some(member), count: Some(*for_ms), ..none }
        }
        EventKind::RemovalPutOff { cause, member, for_ms } => {
            Said { cause: Some(cause.name()), member: Some(member), count: Some(*for_ms), ..none }
        }
        EventKind::GroupDeleted { cause } => Said { cause: Some(cause.name()), ..none },
        EventKind::Finding { kind, count, detail } => {
            let (cause, detail) = (Some(kind.name()), Some(&**detail));
            Said { cause, count: Some(*count), detail, ..none }
        }
    }
}

fn figures(moves: &Moves) -> [(&'static str, u64); 7] {
    let Moves { partitions, moved, least, unowned, unowned_ms, longest_ms, refused_commits } =
        *moves;
    [
        ("partitions", partitions),
        ("moved", moved),
        ("least", least),
        ("unowned", unowned),
        ("unowned_ms", unowned_ms),
        ("longest_ms", longest_ms),
        ("refused_commits", refused_commits),
    ]
}

/// Whether members are to decide anew: what the lines of log tell of.
pub(crate) fn is_start(event: &Event) -> bool {
    matches!(event.kind, EventKind::RebalanceStarted { .. } | EventKind::GroupEpochBumped { .. })
}

pub(crate) fn event_row(event: Event) -> EventRow {
    let Said { cause, member, count, detail, silent_ms, moves } = said(&event.kind);
    let (member, detail) = (member.map(member_row), detail.map(Into::into));
    let figures = moves.map(|moves| figures(moves).into_iter().collect());
    let name = event.kind.name();
    let (generation_id, at_ms) = (event.generation_id, event.timestamp_ms);
    let group_id = event.group_id.as_str().into();
    (name, group_id, generation_id, cause, member, count, detail, at_ms, silent_ms, figures)
}

fn member_row(member: &EventMember) -> MemberRow {
    let owned = |text: Option<&str>| text.map(Into::into);
    let ids = (member.member_id().into(), owned(member.group_instance_id()));
    let client = (member.client_id().into(), member.client_host().into());
    (ids.0, ids.1, client.0, client.1, owned(member.reason()))
}

/// Appends an event as JSON: fields without a value are left out.
pub(crate) fn write_event(out: &mut Vec<u8>, event: &Event) {
    let Said { cause, member, count, detail, silent_ms, moves } = said(&event.kind);
    put(out, "{\"kind\":\"");
    put(out, event.kind.name());
    put(out, "\",\"group_id\":");
    text(out, &event.group_id);
    number(out, "timestamp_ms", event.timestamp_ms);
    number(out, "generation_id", event.generation_id.into());
    for (name, value) in [("cause", cause), ("detail", detail)] {
        field(out, name, value);
    }
    if let Some(count) = count {
        number(out, "count", count as i64);
    }
    if let Some(silent_ms) = silent_ms {
        number(out, "silent_ms", silent_ms);
    }
    for (name, value) in moves.into_iter().flat_map(figures) {
        number(out, name, value as i64);
    }
    if let Some(member) = member {
        put(out, ",\"member\":{\"member_id\":");
        text(out, member.member_id());
        field(out, "group_instance_id", member.group_instance_id());
        field(out, "client_id", Some(member.client_id()));
        field(out, "client_host", Some(member.client_host()));
        field(out, "reason", member.reason());
        out.push(b'}');
    }
    out.push(b'}');
}

fn put(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

fn name(out: &mut Vec<u8>, name: &str) {
    put(out, ",\"");
    put(out, name);
    put(out, "\":");
}

fn number(out: &mut Vec<u8>, of: &str, value: i64) {
    name(out, of);
    // Most of what formatting a number costs is not the number.
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = value.unsigned_abs();
    while at == digits.len() || rest > 0 {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    if value < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

fn field(out: &mut Vec<u8>, of: &str, value: Option<&str>) {
    if let Some(value) = value {
        name(out, of);
        text(out, value);
    }
}

/// A string of JSON.
fn text(out: &mut Vec<u8>, value: &str) {
    out.push(b'"');
    // Bytes of longer characters are none of these.
    let is_special = |byte: &u8| *byte < b' ' || matches!(*byte, b'"' | b'\\' | 0x7f);
    let mut rest = value.as_bytes();
    while let Some(at) = rest.iter().position(is_special) {
        let (before, from) = rest.split_at(at);
        out.extend_from_slice(before);
        let digit = |number: u8| b"0123456789abcdef"[usize::from(number)];
        out.extend_from_slice(b"\\u00");
        out.extend_from_slice(&[digit(from[0] >> 4), digit(from[0] & 0xf)]);
        rest = &from[1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}
