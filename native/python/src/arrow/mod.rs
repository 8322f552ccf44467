//! `Rows`: batches of requests in, batches of answers and records out (kcoord_rows). Beside it
//! the records of the log as batches, read and written.

mod batches;
mod columns;
pub mod encoding;
mod envelope;
pub mod records;

use std::num::TryFromIntError;

use arrow_array::RecordBatch;
use arrow_pyarrow::{FromPyArrow, ToPyArrow};
use kcoord_rows::Rows;
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::RowError;
use crate::event::{EventRow, event_row};
use crate::node::PyNode;
use batches::Batches;
use columns::Columns;
use envelope::{Envelope, Room};

/// One shard behind rows of `pyarrow.RecordBatch`es: see kcoord_rows. It is number `shard` of
/// `shards`, and its next record gets `next_offset`; rows that come out say `shard` and `epoch`. The
/// node must be of one shard, and the same in every call.
#[pyclass(name = "Rows", module = "pykcoord._native")]
pub struct PyRows {
    rows: Rows,
    shard: i32,
    epoch: i32,
    /// What was appended and not taken yet; none where it is not asked for.
    batches: Option<Batches>,
    /// What the answers to the last batch needed.
    room: Room,
}

#[pymethods]
impl PyRows {
    #[new]
    fn new(shard: usize, shards: usize, epoch: i32, next_offset: i64) -> PyResult<Self> {
        let narrow = |_: TryFromIntError| PyValueError::new_err("shard: below 2**31");
        if shard >= shards {
            return Err(PyValueError::new_err(format!("shard: {shard} of {shards}")));
        }
        let number = i32::try_from(shard).map_err(narrow)?;
        let rows = Rows::new(shard, shards, next_offset);
        Ok(PyRows { rows, shard: number, epoch, batches: None, room: Room::default() })
    }

    /// Answers and records of a batch of requests. Raises RowError for a batch that cannot be
    /// right: then nothing was done; and OverflowError if the answers fit no batch: then the shard
    /// is of no use any more.
    fn process<'py>(
        &mut self,
        py: Python<'py>,
        mut node: PyRefMut<'_, PyNode>,
        batch: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let batch = RecordBatch::from_pyarrow_bound(batch)?;
        let (rows, node) = (&mut self.rows, &mut node.node);
        let (shard, epoch, kept) = (self.shard, self.epoch, &mut self.batches);
        let room = &mut self.room;
        let done = py.detach(|| {
            let columns = Columns::of(&batch).map_err(|error| {
                RowError::new_err(format!("column {} {}", error.column, error.reason))
            })?;
            let mut envelope = Envelope::with_room(room.scaled(batch.num_rows()), kept.take());
            let processed = rows.process(node, &columns, &mut envelope);
            *kept = envelope.take_batches();
            processed.map_err(|error| RowError::new_err(error.to_string()))?;
            if batch.num_rows() > 0 {
                *room = envelope.room(batch.num_rows());
            }
            envelope.finish(shard, epoch).map_err(PyOverflowError::new_err)
        });
        done?.to_pyarrow(py)
    }

    /// Answers and records of what is due up to a time.
    fn advance<'py>(
        &mut self,
        py: Python<'py>,
        mut node: PyRefMut<'_, PyNode>,
        now_ms: i64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (rows, node) = (&mut self.rows, &mut node.node);
        let (shard, epoch, kept) = (self.shard, self.epoch, &mut self.batches);
        let done = py.detach(|| {
            let mut envelope = Envelope::with_room(Room::default(), kept.take());
            rows.advance(node, now_ms, &mut envelope);
            *kept = envelope.take_batches();
            envelope.finish(shard, epoch).map_err(PyOverflowError::new_err)
        });
        done?.to_pyarrow(py)
    }

    /// Everything that further answers depend on, but for configuration and topics.
    fn checkpoint<'py>(&self, py: Python<'py>, node: PyRef<'_, PyNode>) -> Bound<'py, PyBytes> {
        let (rows, node) = (&self.rows, &node.node);
        PyBytes::new(py, &py.detach(|| rows.checkpoint(node)))
    }

    /// Takes in a checkpoint, before anything else. After a ValueError the node is of no use.
    fn resume(
        &mut self,
        py: Python<'_>,
        mut node: PyRefMut<'_, PyNode>,
        checkpoint: &[u8],
    ) -> PyResult<()> {
        let (rows, node) = (&mut self.rows, &mut node.node);
        py.detach(|| rows.resume(node, checkpoint)).map_err(PyValueError::new_err)
    }

    /// Requests that have no answer yet.
    #[getter]
    fn waiting(&self) -> usize {
        self.rows.waiting()
    }

    /// The offset that the next record gets.
    #[getter]
    fn next_offset(&self) -> i64 {
        self.rows.next_offset()
    }

    /// The time of the last row, in ms; None: there was none.
    #[getter]
    fn now_ms(&self) -> Option<i64> {
        self.rows.now_ms()
    }

    /// When something is due without a row, in ms; None: nothing is waiting.
    #[getter]
    fn next_timeout_ms(&self) -> Option<i64> {
        self.rows.next_timeout_ms()
    }

    /// What was appended since this was last called, as a log has it: whole RecordBatches v2. The
    /// first call asks for them.
    fn take_batches<'py>(&mut self, py: Python<'py>, leader_epoch: i32) -> Bound<'py, PyBytes> {
        let taken = self.batches.replace(Batches { leader_epoch, ..Batches::default() });
        PyBytes::new(py, &taken.unwrap_or_default().bytes)
    }

    /// What happened to groups since the last call, as `Turn.events`: findings always, the rest while
    /// the node tells events.
    fn take_events(&mut self) -> Vec<EventRow> {
        self.rows.take_events().into_iter().map(event_row).collect()
    }

    /// Events that were lost because too many waited.
    #[getter]
    fn events_dropped(&self) -> u64 {
        self.rows.events_dropped()
    }
}
