//! `LiveRecords`: what is left of a partition's records, for `pykcoord log import` and `export`.

use kcoord_core::record::{LiveRecords, Rewriting, Run};
use kcoord_core::request::Uuid;
use kcoord_node::routing::shard_of;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::error::replay_error;

/// partition, producer id, producer epoch, record count, base timestamp, max timestamp, records
type PyRun<'py> = (usize, i64, i16, i32, i64, i64, Bound<'py, PyBytes>);

/// The last record of each key of a log, to be written into another one. Belongs to its thread.
#[pyclass(name = "LiveRecords", module = "pykcoord._native", unsendable)]
#[derive(Default)]
pub struct PyLiveRecords(LiveRecords);

#[pymethods]
impl PyLiveRecords {
    #[new]
    fn new() -> Self {
        PyLiveRecords::default()
    }

    /// Whole uncompressed batches, in the order of the log. Raises ReplayError.
    fn add(&mut self, py: Python<'_>, chunk: &[u8]) -> PyResult<()> {
        self.0.add(chunk).map_err(|error| replay_error(py, error))
    }

    /// Keys and values of all but offsets and classic groups.
    fn uninterpreted<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = PyDict::new(py);
        for (key, value) in self.0.uninterpreted() {
            found.set_item(PyBytes::new(py, key), PyBytes::new(py, value))?;
        }
        Ok(found)
    }

    /// Takes all records out, as batches of the partition of each group, of `partitions` in all;
    /// what names no group goes to `unknown`. Offsets keep a topic id if it is among `topic_ids`,
    /// and those of transactions that have not ended stay pending if `keep_open`.
    fn take_runs<'py>(
        &mut self,
        py: Python<'py>,
        partitions: usize,
        unknown: usize,
        topic_ids: Vec<[u8; 16]>,
        keep_open: bool,
    ) -> PyResult<Vec<PyRun<'py>>> {
        let ids: Vec<Uuid> =
            topic_ids.into_iter().map(|id| Uuid(u128::from_be_bytes(id))).collect();
        let rewriting = Rewriting { keep_open, topic_ids: &ids };
        let records = core::mem::take(&mut self.0);
        let runs = records
            .into_runs(&rewriting, unknown, |group| shard_of(group, partitions))
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(runs.into_iter().map(|run| row(py, &run)).collect())
    }
}

fn row<'py>(py: Python<'py>, run: &Run) -> PyRun<'py> {
    let (producer_id, producer_epoch) = run.producer.unwrap_or((-1, -1));
    let records = PyBytes::new(py, &run.records);
    (
        run.partition,
        producer_id,
        producer_epoch,
        run.record_count,
        run.base_timestamp,
        run.max_timestamp,
        records,
    )
}

/// The partition of `__consumer_offsets` that holds the group, of so many.
#[pyfunction]
pub fn partition_of(group: &str, partitions: usize) -> PyResult<usize> {
    if !(1..=i32::MAX as usize).contains(&partitions) {
        return Err(PyValueError::new_err("partitions: from 1 to 2147483647"));
    }
    Ok(shard_of(group, partitions))
}
