//! Events as rows, the fields of `pykcoord.events.Event` in its order, and as values of the topic
//! `__pykcoord_group_events` (docs/events.md).

use std::collections::BTreeMap;
use std::fmt::Write;

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

/// An event as JSON: fields without a value are left out.
pub(crate) fn event_json(event: &Event) -> String {
    let Said { cause, member, count, detail, silent_ms, moves } = said(&event.kind);
    let mut out = String::with_capacity(256);
    out.push_str("{\"kind\":\"");
    out.push_str(event.kind.name());
    out.push_str("\",\"group_id\":");
    text(&mut out, &event.group_id);
    let of = (event.timestamp_ms, event.generation_id);
    let _ = write!(out, ",\"timestamp_ms\":{},\"generation_id\":{}", of.0, of.1);
    for (name, value) in [("cause", cause), ("detail", detail)] {
        field(&mut out, name, value);
    }
    if let Some(count) = count {
        let _ = write!(out, ",\"count\":{count}");
    }
    if let Some(silent_ms) = silent_ms {
        let _ = write!(out, ",\"silent_ms\":{silent_ms}");
    }
    for (name, value) in moves.into_iter().flat_map(figures) {
        let _ = write!(out, ",\"{name}\":{value}");
    }
    if let Some(member) = member {
        out.push_str(",\"member\":{\"member_id\":");
        text(&mut out, member.member_id());
        field(&mut out, "group_instance_id", member.group_instance_id());
        field(&mut out, "client_id", Some(member.client_id()));
        field(&mut out, "client_host", Some(member.client_host()));
        field(&mut out, "reason", member.reason());
        out.push('}');
    }
    out.push('}');
    out
}

fn field(out: &mut String, name: &str, value: Option<&str>) {
    if let Some(value) = value {
        let _ = write!(out, ",\"{name}\":");
        text(out, value);
    }
}

/// A string of JSON.
fn text(out: &mut String, value: &str) {
    out.push('"');
    let mut rest = value;
    let is_special = |character: char| character < ' ' || matches!(character, '"' | '\\' | '\x7f');
    while let Some(at) = rest.find(is_special) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let special = from.chars().next().expect("one was found");
        let _ = write!(out, "\\u{:04x}", special as u32);
        rest = &from[special.len_utf8()..];
    }
    out.push_str(rest);
    out.push('"');
}
