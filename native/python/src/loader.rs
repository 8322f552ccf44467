//! `Loader`: a shard that is being loaded, beside the node and on any thread.

use crate::error::replay_error;
use kcoord_core::Shard;
use kcoord_core::snapshot::Cursor;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A shard that is being loaded, on any thread: of the log from its start, or of a snapshot and what
/// follows it. Every method raises ValueError once a node has adopted it.
#[pyclass(name = "Loader", module = "pykcoord._native")]
pub struct PyLoader {
    /// None: a node has adopted it.
    shard: Option<Shard>,
    cursor: Cursor,
}

#[pymethods]
impl PyLoader {
    /// Applies whole, checked, uncompressed batches of the log, in its order. Raises ReplayError.
    fn replay(&mut self, py: Python<'_>, chunk: &[u8]) -> PyResult<()> {
        let shard = self.shard()?;
        py.detach(|| shard.replay(chunk)).map_err(|error| replay_error(py, error))
    }

    /// Applies a chunk of a snapshot, in its order, before any of the log. Raises ReplayError.
    fn restore(&mut self, py: Python<'_>, chunk: &[u8]) -> PyResult<()> {
        let shard = self.shard()?;
        py.detach(|| shard.restore(chunk)).map_err(|error| replay_error(py, error))
    }

    /// The next chunk of what restores the state as it is; to be called until it says None.
    fn snapshot_chunk<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        self.shard()?;
        let (Some(shard), cursor) = (&self.shard, &mut self.cursor) else { unreachable!() };
        let chunk = py.detach(|| shard.snapshot(cursor));
        Ok(chunk.map(|chunk| PyBytes::new(py, &chunk)))
    }
}

impl PyLoader {
    pub fn new(shard: Shard) -> Self {
        PyLoader { shard: Some(shard), cursor: Cursor::default() }
    }

    pub fn take(&mut self) -> PyResult<Shard> {
        self.shard()?;
        Ok(self.shard.take().expect("it was just there"))
    }

    fn shard(&mut self) -> PyResult<&mut Shard> {
        let adopted = || PyValueError::new_err("loader: it was adopted already");
        self.shard.as_mut().ok_or_else(adopted)
    }
}
