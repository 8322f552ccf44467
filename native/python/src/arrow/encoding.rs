//! Records written: the records area of one batch from rows of Arrow. Must never write what
//! `decode_log` would not read: every key is there, offsets rise and fit the batch.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, RecordBatch};
use arrow_pyarrow::PyArrowType;
use arrow_schema::DataType;
use kcoord_core::record::writer::write_record;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// The records area of a batch of `count` rows from row `start` on: offset and timestamp in ms
/// (int64), key and value (binary; null: a tombstone). Base offset and base timestamp are those of
/// the first row. Raises ValueError.
#[pyfunction]
pub fn encode_records<'py>(
    py: Python<'py>,
    rows: PyArrowType<RecordBatch>,
    start: usize,
    count: usize,
) -> PyResult<Bound<'py, PyBytes>> {
    let rows = rows.0;
    check(&rows, start, count).map_err(PyValueError::new_err)?;
    let area = py.detach(|| encode(&rows, start, count)).map_err(PyValueError::new_err)?;
    Ok(PyBytes::new(py, &area))
}

fn check(rows: &RecordBatch, start: usize, count: usize) -> Result<(), String> {
    use DataType::{Binary, Int64};
    let wanted = [("offset", Int64), ("timestamp", Int64), ("key", Binary), ("value", Binary)];
    let types = rows.columns().iter().map(|column| column.data_type());
    if !types.eq(wanted.iter().map(|(_, of)| of)) {
        return Err("rows have four columns: offset and timestamp (int64), key and value".into());
    }
    for (column, (name, _)) in rows.columns().iter().zip(wanted).take(3) {
        if column.null_count() > 0 {
            return Err(format!("column {name} has nulls"));
        }
    }
    match start.checked_add(count) {
        Some(end) if count > 0 && end <= rows.num_rows() => Ok(()),
        _ => Err(format!("rows {start} and {count} more, of {}", rows.num_rows())),
    }
}

fn encode(rows: &RecordBatch, start: usize, count: usize) -> Result<Vec<u8>, String> {
    let offsets = rows.column(0).as_primitive::<Int64Type>();
    let timestamps = rows.column(1).as_primitive::<Int64Type>();
    let (keys, values) = (rows.column(2).as_binary::<i32>(), rows.column(3).as_binary::<i32>());
    let (base_offset, base_timestamp) = (offsets.value(start), timestamps.value(start));
    let mut area = Vec::new();
    let mut next_offset = base_offset;
    for row in start..start + count {
        let offset = offsets.value(row);
        let delta = offset.checked_sub(base_offset).and_then(|delta| i32::try_from(delta).ok());
        let delta = delta.filter(|_| offset >= next_offset).ok_or_else(|| {
            format!("offset {offset} does not fit into a batch of base offset {base_offset}")
        })?;
        let value = values.is_valid(row).then(|| values.value(row));
        let timestamp_delta = timestamps.value(row).wrapping_sub(base_timestamp);
        write_record(&mut area, timestamp_delta, delta, keys.value(row), value);
        next_offset = offset.saturating_add(1);
    }
    Ok(area)
}
