//! `pykcoord._native`: what Python sees of the native core. PyO3 only, no logic.

use pyo3::prelude::*;

#[pymodule]
fn _native(_module: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}
