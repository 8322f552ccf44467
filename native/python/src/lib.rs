//! `pykcoord._native`: what Python sees of the native core. PyO3 only, no logic.

use pyo3::prelude::*;

mod codec;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(codec::reencode, module)?)?;
    Ok(())
}
