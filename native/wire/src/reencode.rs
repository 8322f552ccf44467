//! A frame read and written back: the check that a codec loses nothing, for tests in any language.
//! The server never comes here.

use crate::api;
use crate::header::{self, ApiSpec, Incoming};
use crate::reader::DecodeError;

/// The frame of a request, without its length, as kcoord would write it; `None` if it is not of an
/// owned API in a served version. Unknown tagged fields and bytes after the body are left out.
///
/// # Errors
/// The frame cannot be read.
pub fn reencode_request(frame: &[u8]) -> Result<Option<Vec<u8>>, DecodeError> {
    let Incoming::Owned(head, mut body) = header::open_request(frame)? else { return Ok(None) };
    let (api, version) = (head.spec.api, head.api_version);
    let request = api::decode_request(api, version, &mut body)?;
    let mut out = Vec::new();
    let start = header::begin_request(&mut out, api, version, head.correlation_id, head.client_id);
    api::encode_request(&mut out, version, &request);
    header::finish_response(&mut out, start);
    Ok(Some(out.split_off(4)))
}

/// The same for a response, which does not say itself what it answers.
///
/// # Errors
/// The frame cannot be read.
pub fn reencode_response(
    spec: &ApiSpec,
    version: i16,
    frame: &[u8],
) -> Result<Vec<u8>, DecodeError> {
    let (correlation_id, mut body) = header::open_response(spec.api, version, frame)?;
    let response = api::decode_response(spec.api, version, &mut body)?;
    let mut out = Vec::new();
    let start = header::begin_response(&mut out, spec.api, version, correlation_id);
    api::encode_response(&mut out, version, &response);
    header::finish_response(&mut out, start);
    Ok(out.split_off(4))
}
