//! `pykcoord._native`: what Python sees of the native core. PyO3 only, no logic.

use pyo3::prelude::*;

mod codec;
mod dump;
mod error;
mod purgatory;
mod timing_wheel;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("ReplayError", module.py().get_type::<error::ReplayError>())?;
    module.add_function(wrap_pyfunction!(codec::reencode, module)?)?;
    module.add_function(wrap_pyfunction!(dump::dump, module)?)?;
    module.add_function(wrap_pyfunction!(dump::decode_subscription, module)?)?;
    module.add_function(wrap_pyfunction!(dump::decode_assignment, module)?)?;
    module.add_class::<purgatory::PyPurgatory>()?;
    module.add_class::<timing_wheel::PyTimingWheel>()?;
    Ok(())
}
