//! A row on its way in: what makes it impossible, for its whole batch, and what makes it a request
//! that is answered with an error, as a peer's fault is.

use std::ops::Range;

use kcoord_core::ErrorCode;
use kcoord_core::request::HeartbeatRequest;

use super::{Row, RowError, Source};
use kcoord_node::Arrived;
use kcoord_node::routing::shard_of;
use kcoord_wire::api::{self, RequestBody};
use kcoord_wire::header::{ApiKey, ApiSpec, MAX_CLIENT_ID_LENGTH};
use kcoord_wire::reader::Reader;

/// The last millisecond of the year 9999: what lies behind it is no time.
const MAX_TS: i64 = 253_402_300_799_999;

/// Finds what cannot be right. Bodies are not decoded: a peer may have sent anything.
#[inline(always)]
pub fn check(
    at: usize,
    row: &Row<'_>,
    before_ms: i64,
    shard: usize,
    shards: usize,
) -> Result<(), RowError> {
    let error = |column, reason| Err(RowError { row: at, column, reason });
    if row.ts < before_ms {
        let reason = format!("{} comes after {before_ms}: sort rows by ts, then seq", row.ts);
        return error("ts", reason);
    }
    if row.ts > MAX_TS {
        return error("ts", format!("{} is no time in milliseconds since 1970", row.ts));
    }
    let home = shard_of(row.asked.group_id, shards);
    if home != shard {
        let reason =
            format!("{:?} belongs to shard {home} of {shards}, not {shard}", row.asked.group_id);
        return error("group_id", reason);
    }
    let Some(spec) =
        ApiSpec::of(row.asked.api_key).filter(|spec| spec.serves(row.asked.api_version))
    else {
        return Ok(());
    };
    let Some(payload) = row.payload else {
        if spec.api == ApiKey::Heartbeat
            && row.asked.member_id.is_some()
            && row.asked.generation.is_some()
        {
            return Ok(());
        }
        let reason = match spec.api {
            ApiKey::Heartbeat => "NULL, in a heartbeat without member_id or generation".to_owned(),
            _ => format!("NULL, which only a heartbeat may have: this is {}", spec.name),
        };
        return error("payload", reason);
    };
    match payload_error(spec, row, payload, shard, shards) {
        Some((column, reason)) => error(column, reason),
        None => Ok(()),
    }
}

/// Whether the body speaks of another group than the row.
fn payload_error(
    spec: &ApiSpec,
    row: &Row<'_>,
    payload: &[u8],
    shard: usize,
    shards: usize,
) -> Option<(&'static str, String)> {
    let flexible = spec.is_flexible(row.asked.api_version);
    let mut body = Reader::new(payload, flexible);
    if spec.names_one_group || spec.api == ApiKey::OffsetFetch && row.asked.api_version < 8 {
        // The first field of all of these.
        let group_id = body.string("group_id").ok()?;
        let reason = || format!("{:?}, but the payload says {group_id:?}", row.asked.group_id);
        return (group_id != row.asked.group_id).then(|| ("group_id", reason()));
    }
    let request = api::decode_request(spec.api, row.asked.api_version, &mut body).ok()?;
    let groups: Vec<&str> = match &request {
        RequestBody::OffsetFetch(groups) => groups.iter().map(|group| group.group_id).collect(),
        RequestBody::DescribeGroups(request) | RequestBody::ConsumerGroupDescribe(request) => {
            request.groups.to_vec()
        }
        RequestBody::DeleteGroups(request) => request.groups_names.to_vec(),
        _ => Vec::new(),
    };
    let stray = groups.into_iter().find(|group_id| shard_of(group_id, shards) != shard)?;
    let home = shard_of(stray, shards);
    let reason = format!(
        "it names {stray:?}, which belongs to shard {home} of {shards}: split the request by shard"
    );
    Some(("payload", reason))
}

/// The heartbeats that rows are, if all of them are and can be read; of rows that were checked.
#[inline]
pub fn beats<'a>(
    source: &'a impl Source,
    range: &Range<usize>,
) -> Option<Vec<HeartbeatRequest<'a>>> {
    // Most turns that are something else say so with their first row.
    let first = beat(source.row(range.start))?;
    let mut beats = Vec::with_capacity(range.len());
    beats.push(first);
    for at in range.start + 1..range.end {
        beats.push(beat(source.row(at))?);
    }
    Some(beats)
}

#[inline(always)]
fn beat(row: Row<'_>) -> Option<HeartbeatRequest<'_>> {
    let spec = served(&row).ok().filter(|spec| spec.api == ApiKey::Heartbeat)?;
    let Some(payload) = row.payload else { return Some(beat_of_columns(&row)) };
    let mut body = Reader::new(payload, spec.is_flexible(row.asked.api_version));
    api::heartbeat::decode_request(row.asked.api_version, &mut body).ok()
}

/// What keeps a row from being served whatever its body says; the error is the answer to it.
#[inline(always)]
fn served(row: &Row<'_>) -> Result<&'static ApiSpec, ErrorCode> {
    let spec = ApiSpec::of(row.asked.api_key).filter(|spec| spec.serves(row.asked.api_version));
    let spec = spec.ok_or(ErrorCode::UnsupportedVersion)?;
    // No host of rows asks a transaction coordinator.
    if spec.api.is_transactional() {
        return Err(ErrorCode::UnsupportedVersion);
    }
    if row.client_id.is_some_and(|client_id| client_id.len() > MAX_CLIENT_ID_LENGTH) {
        return Err(ErrorCode::InvalidRequest);
    }
    Ok(spec)
}

fn beat_of_columns<'a>(row: &Row<'a>) -> HeartbeatRequest<'a> {
    HeartbeatRequest {
        group_id: row.asked.group_id,
        generation_id: row.asked.generation.expect("it was checked"),
        member_id: row.asked.member_id.expect("it was checked"),
        group_instance_id: None,
    }
}

/// The request of a row that was checked; the error is the answer to it.
#[inline]
pub fn arrived<'a>(ticket: u64, row: Row<'a>) -> Result<Arrived<'a>, ErrorCode> {
    let spec = served(&row)?;
    let body = match row.payload {
        Some(payload) => {
            let mut body = Reader::new(payload, spec.is_flexible(row.asked.api_version));
            api::decode_request(spec.api, row.asked.api_version, &mut body)
                .map_err(|_| ErrorCode::InvalidRequest)?
        }
        None => RequestBody::Heartbeat(beat_of_columns(&row)),
    };
    Ok(Arrived {
        ticket,
        api: spec.api,
        api_version: row.asked.api_version,
        client_id: row.client_id.unwrap_or_default(),
        client_host: row.client_host.unwrap_or_default(),
        body,
    })
}
