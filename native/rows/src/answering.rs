//! Answers on their way out: what a row had asked, beside what came of it.

use kcoord_core::ErrorCode;

use super::turned::Turned;
use super::{AllWaiting, Answer, Sink, Source};
use kcoord_node::outcome::Outcome;
use kcoord_wire::header::{ApiSpec, response_header_bytes};
use kcoord_wire::reader::Reader;

/// What came of a request.
pub enum Came<'f> {
    /// Length, header and body of a response; and what it came to, where that is known.
    Frame(&'f [u8], Option<Outcome>),
    /// No body can answer it.
    Refused(ErrorCode),
}

pub fn answer<S: Source>(
    now_ms: i64,
    ticket: u64,
    came: Came<'_>,
    waiting: &mut AllWaiting,
    turned: &mut Turned<'_, S>,
    sink: &mut impl Sink,
) {
    let waited = turned.began_before(ticket).then(|| waiting.remove(&ticket)).flatten();
    let asked = turned.asked(ticket, waited.as_ref());
    let (outcome, payload) = match came {
        Came::Refused(code) => (Outcome::of(code), None),
        Came::Frame(frame, outcome) => {
            let spec = ApiSpec::of(asked.api_key).expect("it was served");
            let flexible = spec.is_flexible(asked.api_version);
            let payload = &frame[response_header_bytes(flexible)..];
            let read = || {
                let body = &mut Reader::new(payload, flexible);
                Outcome::of_body(spec.api, asked.api_version, body)
            };
            (outcome.unwrap_or_else(read), Some(payload))
        }
    };
    sink.answer(&Answer {
        seq: asked.seq,
        ts: now_ms,
        group_id: asked.group_id,
        member_id: outcome.member_id.as_deref().or(asked.member_id),
        api_key: asked.api_key,
        error_code: outcome.error_code.code(),
        generation: outcome.generation.or(asked.generation),
        payload,
    });
}
