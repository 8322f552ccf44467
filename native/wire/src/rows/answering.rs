//! Answers on their way out: what a row had asked, beside what came of it.

use kcoord_core::ErrorCode;

use super::turned::Turned;
use super::{AllWaiting, Answer, Sink, Source};
use crate::header::{ApiSpec, response_header_bytes};
use crate::outcome::Outcome;
use crate::reader::Reader;

/// `frame`: length, header and body of a response. `outcome`: what it came to, where that is known.
pub fn reply<S: Source>(
    now_ms: i64,
    ticket: u64,
    frame: &[u8],
    outcome: Option<Outcome>,
    waiting: &mut AllWaiting,
    turned: &mut Turned<'_, S>,
    sink: &mut impl Sink,
) {
    let waited = turned.began_before(ticket).then(|| waiting.remove(&ticket)).flatten();
    let asked = turned.asked(ticket, waited.as_ref());
    let spec = ApiSpec::of(asked.api_key).expect("it was served");
    let flexible = spec.is_flexible(asked.api_version);
    let payload = &frame[response_header_bytes(flexible)..];
    let Outcome { error_code, generation, member_id } = outcome.unwrap_or_else(|| {
        Outcome::of_body(spec.api, asked.api_version, &mut Reader::new(payload, flexible))
    });
    sink.answer(&Answer {
        seq: asked.seq,
        ts: now_ms,
        group_id: asked.group_id,
        member_id: member_id.as_deref().or(asked.member_id),
        api_key: asked.api_key,
        error_code: error_code.code(),
        generation: generation.or(asked.generation),
        payload: Some(payload),
    });
}

/// A request that no body can answer.
pub fn refuse<S: Source>(
    now_ms: i64,
    ticket: u64,
    code: ErrorCode,
    waiting: &mut AllWaiting,
    turned: &mut Turned<'_, S>,
    sink: &mut impl Sink,
) {
    let waited = turned.began_before(ticket).then(|| waiting.remove(&ticket)).flatten();
    let asked = turned.asked(ticket, waited.as_ref());
    sink.answer(&Answer {
        seq: asked.seq,
        ts: now_ms,
        group_id: asked.group_id,
        member_id: asked.member_id,
        api_key: asked.api_key,
        error_code: code.code(),
        generation: asked.generation,
        payload: None,
    });
}
