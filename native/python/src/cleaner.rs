//! `Cleaner`: the pure half of the log's compaction (kcoord_log). The interpreter's lock is given up
//! while it works.

use crate::error::replay_error;
use kcoord_core::ReplayError;
use kcoord_log::{Cleaner, Options};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// One cleaning of one partition: `pykcoord.log.RecordCleaner`. `hash_key` is 16 bytes that a client
/// cannot guess, `dedupe_buffer_bytes` bounds the memory for keys, times are in ms. Each pass raises
/// ReplayError for a chunk that cannot be read.
#[pyclass(name = "Cleaner", module = "pykcoord._native")]
pub struct PyCleaner {
    cleaner: Cleaner,
    cleaned: Vec<u8>,
}

#[pymethods]
impl PyCleaner {
    #[new]
    fn new(
        hash_key: &[u8],
        dedupe_buffer_bytes: usize,
        now_ms: i64,
        delete_retention_ms: i64,
    ) -> PyResult<Self> {
        let hash_key = hash_key.try_into().map_err(|_| {
            PyValueError::new_err(format!("hash_key: 16 bytes, not {}", hash_key.len()))
        })?;
        let options = Options { hash_key, dedupe_buffer_bytes, now_ms, delete_retention_ms };
        Ok(PyCleaner { cleaner: Cleaner::new(options), cleaned: Vec::new() })
    }

    /// First pass, for transactions: what has no producer need not be shown.
    fn observe(&mut self, py: Python<'_>, chunk: &[u8]) -> PyResult<()> {
        let cleaner = &mut self.cleaner;
        raised(py, py.detach(|| cleaner.observe(chunk)))
    }

    /// Where the first transaction begins that has no marker yet; None: there is no such.
    #[getter]
    fn first_undecided_offset(&self) -> Option<i64> {
        self.cleaner.first_undecided_offset()
    }

    /// Ends the first pass: offsets from `first_dirty_offset` up to `bound` are to be indexed.
    fn start_index(&mut self, first_dirty_offset: i64, bound: i64) {
        self.cleaner.start_index(first_dirty_offset, bound);
    }

    /// Second pass, over the dirty part. False: there is no memory for more keys.
    fn index(&mut self, py: Python<'_>, chunk: &[u8]) -> PyResult<bool> {
        let cleaner = &mut self.cleaner;
        raised(py, py.detach(|| cleaner.index(chunk)))
    }

    /// All up to the bound was indexed.
    fn finish_index(&mut self) {
        self.cleaner.finish_index();
    }

    /// The first offset that is not indexed: what is below is clean afterwards.
    #[getter]
    fn end_offset(&self) -> i64 {
        self.cleaner.end_offset()
    }

    /// How many keys are indexed.
    #[getter]
    fn keys(&self) -> usize {
        self.cleaner.keys()
    }

    /// How many records the third pass was given, and how many stayed.
    #[getter]
    fn records(&self) -> (u64, u64) {
        self.cleaner.records()
    }

    /// Third pass, over all: the batches that stay. The one that ends at `retained_end` always does,
    /// if only as a header.
    fn clean<'py>(
        &mut self,
        py: Python<'py>,
        chunk: &[u8],
        retained_end: i64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let PyCleaner { cleaner, cleaned } = self;
        cleaned.clear();
        raised(py, py.detach(|| cleaner.clean(chunk, retained_end, cleaned)))?;
        Ok(PyBytes::new(py, cleaned))
    }
}

fn raised<T>(py: Python<'_>, result: Result<T, ReplayError>) -> PyResult<T> {
    result.map_err(|error| replay_error(py, error))
}
