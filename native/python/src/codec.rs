//! Frames without a node: where the body of a request begins, and `_native.reencode`, by which the
//! tests hold the codec against recorded frames.

use kcoord_node::slices::longest_frame_bytes;
use kcoord_wire::header::{self, APIS, ApiSpec};
use kcoord_wire::reencode::{reencode_request, reencode_response};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Where the body begins of a request frame (without its 4-byte length), whatever its API: after the
/// client id and, in `flexible` versions, the tags. Raises `ValueError` for what is no header.
#[pyfunction]
pub fn body_at(frame: &[u8], flexible: bool) -> PyResult<usize> {
    header::body_at(frame, flexible).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Of each API that the core owns: key, Kafka's name, lowest and highest version served.
pub fn group_apis() -> Vec<(i16, &'static str, i16, i16)> {
    let row = |spec: &ApiSpec| (spec.api as i16, spec.name, spec.min_version, spec.max_version);
    APIS.iter().map(row).collect()
}

/// Key and bytes of those APIs whose frames have a bound of their own.
pub fn longest_frames() -> Vec<(i16, usize)> {
    let bound = |spec: &ApiSpec| Some((spec.api as i16, longest_frame_bytes(spec.api)?));
    APIS.iter().filter_map(bound).collect()
}

/// Reads a frame (without its 4-byte length) of an API that the core owns, and writes it back.
///
/// Raises `ValueError` if the API or version is not served, the frame says another, or it cannot
/// be read.
#[pyfunction]
pub fn reencode<'py>(
    py: Python<'py>,
    frame: &[u8],
    api_key: i16,
    api_version: i16,
    is_request: bool,
) -> PyResult<Bound<'py, PyBytes>> {
    let spec = ApiSpec::of(api_key).filter(|spec| spec.serves(api_version));
    let spec = spec.ok_or_else(|| PyValueError::new_err("api_key, api_version: not served"))?;
    let head = [api_key.to_be_bytes(), api_version.to_be_bytes()].concat();
    if is_request && !frame.starts_with(&head) {
        return Err(PyValueError::new_err("frame: not of this API and version"));
    }
    let again = match is_request {
        true => reencode_request(frame).map(Option::unwrap_or_default),
        false => reencode_response(spec, api_version, frame),
    };
    let again = again.map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(PyBytes::new(py, &again))
}
