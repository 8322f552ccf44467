//! `pykcoord._native`: what Python sees of the native core. PyO3 only, no logic.

mod arrow;
mod assignor;
mod bulk_assignor;
mod cleaner;
mod cluster;
mod codec;
mod config;
mod dump;
mod dump_consumer;
mod error;
mod event;
mod event_batch;
mod event_segment;
mod inspect;
mod journal;
mod live;
mod loader;
mod node;
mod purgatory;
mod session;
mod target_job;
mod timing_wheel;

use mimalloc::MiMalloc;
use pyo3::prelude::*;

/// A commit is a dozen small allocations, and a turn frees what many others made: the system's
/// allocator takes a quarter of the time of both.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// The native half of pykcoord, for the package's own modules: no promise to others, but for the
/// names that `pykcoord` exports.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("profile", if cfg!(debug_assertions) { "debug" } else { "release" })?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("GROUP_APIS", codec::group_apis())?;
    module.add("LONGEST_FRAMES", codec::longest_frames())?;
    module.add("ReplayError", module.py().get_type::<error::ReplayError>())?;
    module.add("RowError", module.py().get_type::<error::RowError>())?;
    module.add_function(wrap_pyfunction!(arrow::encoding::encode_records, module)?)?;
    module.add_function(wrap_pyfunction!(arrow::records::decode_log, module)?)?;
    module.add_function(wrap_pyfunction!(arrow::records::decode_rows, module)?)?;
    module.add_function(wrap_pyfunction!(arrow::records::record_schema, module)?)?;
    module.add_function(wrap_pyfunction!(assignor::assign, module)?)?;
    module.add_function(wrap_pyfunction!(assignor::encode_assignment, module)?)?;
    module.add_function(wrap_pyfunction!(assignor::encode_subscription, module)?)?;
    module.add_function(wrap_pyfunction!(assignor::read_sticky_user_data, module)?)?;
    module.add_function(wrap_pyfunction!(assignor::sticky_user_data, module)?)?;
    module.add_function(wrap_pyfunction!(codec::body_at, module)?)?;
    module.add_function(wrap_pyfunction!(codec::reencode, module)?)?;
    module.add_function(wrap_pyfunction!(dump::dump, module)?)?;
    module.add_function(wrap_pyfunction!(dump::decode_subscription, module)?)?;
    module.add_function(wrap_pyfunction!(dump::decode_assignment, module)?)?;
    module.add_class::<bulk_assignor::PyBulkAssignor>()?;
    module.add_class::<cleaner::PyCleaner>()?;
    module.add_class::<cluster::PyClusterNode>()?;
    module.add_class::<cluster::PyClusterView>()?;
    module.add_class::<journal::PyJournalWriter>()?;
    module.add_function(wrap_pyfunction!(live::partition_of, module)?)?;
    module.add_class::<live::PyLiveRecords>()?;
    module.add_class::<node::PyNode>()?;
    module.add_class::<node::PyTurn>()?;
    module.add_class::<purgatory::PyPurgatory>()?;
    module.add_class::<event_batch::PyEventBatch>()?;
    module.add_function(wrap_pyfunction!(event_batch::record_areas, module)?)?;
    module.add_function(wrap_pyfunction!(event_segment::merge_events, module)?)?;
    module.add_class::<loader::PyLoader>()?;
    module.add_class::<session::PySession>()?;
    module.add_class::<target_job::PyTargetJob>()?;
    module.add_class::<target_job::PyTargetAnswer>()?;
    module.add_class::<target_job::PyNewTargets>()?;
    module.add_class::<arrow::PyRows>()?;
    module.add_class::<timing_wheel::PyTimingWheel>()?;
    Ok(())
}
