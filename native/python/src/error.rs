//! The exceptions that the extension module raises on its own account.

use kcoord_core::ReplayError as CoreReplayError;
use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

create_exception!(
    pykcoord._native,
    ReplayError,
    PyValueError,
    "A log that cannot be applied: `offset` (of the record), `position` (byte of the batch in the \
     chunk) and `reason`."
);

create_exception!(
    pykcoord._native,
    RowError,
    PyValueError,
    "A batch of requests that cannot be right: which column, which row, and why."
);

/// The exception for corrupt data that the core found.
pub fn replay_error(py: Python<'_>, error: CoreReplayError) -> PyErr {
    let raised = ReplayError::new_err(error.to_string());
    let value = raised.value(py);
    let set = || -> PyResult<()> {
        value.setattr("offset", error.offset)?;
        value.setattr("position", error.position)?;
        value.setattr("reason", error.reason.as_str())
    };
    match set() {
        Ok(()) => raised,
        Err(other) => other,
    }
}
