//! `Cleaner`: the pure half of the log's compaction (kcoord_log). The interpreter's lock is given up
//! while it works.

use crate::error::replay_error;
use kcoord_core::ReplayError;
use kcoord_log::{Cleaner, Options};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

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

    fn observe(&mut self, py: Python<'_>, chunk: &[u8]) -> PyResult<()> {
        let cleaner = &mut self.cleaner;
        raised(py, py.detach(|| cleaner.observe(chunk)))
    }

    #[getter]
    fn first_undecided_offset(&self) -> Option<i64> {
        self.cleaner.first_undecided_offset()
    }

    fn start_index(&mut self, first_dirty_offset: i64, bound: i64) {
        self.cleaner.start_index(first_dirty_offset, bound);
    }

    fn index(&mut self, py: Python<'_>, chunk: &[u8]) -> PyResult<bool> {
        let cleaner = &mut self.cleaner;
        raised(py, py.detach(|| cleaner.index(chunk)))
    }

    fn finish_index(&mut self) {
        self.cleaner.finish_index();
    }

    #[getter]
    fn end_offset(&self) -> i64 {
        self.cleaner.end_offset()
    }

    #[getter]
    fn keys(&self) -> usize {
        self.cleaner.keys()
    }

    /// (read, retained)
    #[getter]
    fn records(&self) -> (u64, u64) {
        self.cleaner.records()
    }

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
