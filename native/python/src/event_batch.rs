//! `EventBatch`: what happened to groups in a step, as it is kept in `__pykcoord_group_events`. Written
//! down, and put into records of a log, without the interpreter's lock.

use std::collections::BTreeMap;

use kcoord_core::event::Event;
use kcoord_core::record::writer::write_record;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::event::write_event;

/// Events as they are kept, in their order: of each the shard, the time in ms, the group id and the
/// JSON, both in UTF-8. Of any thread.
#[pyclass(name = "EventBatch", module = "pykcoord._native", frozen)]
pub struct PyEventBatch {
    rows: Vec<Row>,
    /// Keys and values, one after the other.
    texts: Vec<u8>,
}

struct Row {
    shard: usize,
    timestamp_ms: i64,
    /// In `texts`: it begins where the row before ends.
    key_end: usize,
    value_end: usize,
}

/// Shard, number of records, first and latest time in ms, records area of a batch.
type Area<T> = (usize, usize, i64, i64, T);

impl PyEventBatch {
    /// `events_of`: of which shards they are, in order, and how many of each.
    pub(crate) fn of(events: &[Event], events_of: &[(usize, usize)]) -> PyEventBatch {
        let mut recorded = PyEventBatch::with_room(events.len());
        let mut rest = events;
        for (shard, count) in events_of {
            let (here, behind) = rest.split_at(*count);
            for event in here {
                let key = event.group_id.as_bytes();
                recorded.push(*shard, event.timestamp_ms, key, |out| write_event(out, event));
            }
            rest = behind;
        }
        recorded
    }

    fn with_room(count: usize) -> PyEventBatch {
        PyEventBatch { rows: Vec::with_capacity(count), texts: Vec::with_capacity(320 * count) }
    }

    fn push(
        &mut self,
        shard: usize,
        timestamp_ms: i64,
        key: &[u8],
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        self.texts.extend_from_slice(key);
        let key_end = self.texts.len();
        write(&mut self.texts);
        self.rows.push(Row { shard, timestamp_ms, key_end, value_end: self.texts.len() });
    }

    /// Each row with its key and value.
    fn each(&self) -> impl Iterator<Item = (&Row, &[u8], &[u8])> {
        let mut start = 0;
        self.rows.iter().map(move |row| {
            let from = core::mem::replace(&mut start, row.value_end);
            (row, &self.texts[from..row.key_end], &self.texts[row.key_end..row.value_end])
        })
    }
}

#[pymethods]
impl PyEventBatch {
    #[new]
    fn new(rows: Vec<(usize, i64, Vec<u8>, Vec<u8>)>) -> PyEventBatch {
        let mut recorded = PyEventBatch::with_room(rows.len());
        for (shard, timestamp_ms, key, value) in rows {
            recorded.push(shard, timestamp_ms, &key, |out| out.extend_from_slice(&value));
        }
        recorded
    }

    /// How many events.
    fn __len__(&self) -> usize {
        self.rows.len()
    }

    /// Bytes of all group ids and values.
    #[getter]
    fn size_bytes(&self) -> usize {
        self.texts.len()
    }

    /// The shards of which there are events, each once.
    #[getter]
    fn shards(&self) -> Vec<usize> {
        let mut shards: Vec<usize> = self.rows.iter().map(|row| row.shard).collect();
        shards.dedup();
        shards.sort_unstable();
        shards.dedup();
        shards
    }

    /// All of them.
    fn rows<'py>(
        &self,
        py: Python<'py>,
    ) -> Vec<(usize, i64, Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let row = |(row, key, value): (&Row, &[u8], &[u8])| {
            (row.shard, row.timestamp_ms, PyBytes::new(py, key), PyBytes::new(py, value))
        };
        self.each().map(row).collect()
    }
}

/// The events of several, in their order, as records of one batch for each shard: the shard, the
/// number of records, the first and the latest time in ms, and the records area. Deltas are to the
/// first record. The interpreter's lock is given up meanwhile.
#[pyfunction]
pub fn record_areas(
    py: Python<'_>,
    recorded: Vec<Py<PyEventBatch>>,
) -> Vec<Area<Bound<'_, PyBytes>>> {
    let areas = py.detach(|| {
        let mut areas: BTreeMap<usize, Area<Vec<u8>>> = BTreeMap::new();
        for (row, key, value) in recorded.iter().flat_map(|one| one.get().each()) {
            let at_ms = row.timestamp_ms;
            let new = || (row.shard, 0, at_ms, at_ms, Vec::new());
            let (_, count, base_ms, latest_ms, area) = areas.entry(row.shard).or_insert_with(new);
            let offset_delta = i32::try_from(*count).expect("a recorder takes far fewer");
            write_record(area, at_ms - *base_ms, offset_delta, key, Some(value));
            *count += 1;
            *latest_ms = at_ms.max(*latest_ms);
        }
        areas
    });
    let bytes = |(shard, count, base_ms, latest_ms, area): Area<Vec<u8>>| {
        (shard, count, base_ms, latest_ms, PyBytes::new(py, &area))
    };
    areas.into_values().map(bytes).collect()
}
