//! A full segment of `__pykcoord_group_events`, written anew: few large batches instead of many small
//! ones, and no more of a group than it may have. Without the interpreter's lock, but for what Python
//! is asked about events that were dropped.

use std::collections::{BTreeMap, HashMap};

use kcoord_core::record::writer::write_record;
use kcoord_core::record::{DecodeError, Reader};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict};

/// In each record that says how many are gone.
const DROPPED: &[u8] = b"events_dropped";

/// Base offset, base timestamp in ms, number of records, records area.
type Batch = (i64, i64, i32, PyBackedBytes);

/// Base offset, number of records, delta of the last offset, first and latest time in ms, records area.
type Merged<T> = (i64, usize, i64, i64, i64, T);

/// Batches, bytes of values of each key in them, how many records are left out.
type Rewritten<'py> = (Vec<Merged<Bound<'py, PyBytes>>>, Bound<'py, PyDict>, u64);

/// The same, but for how many are left out.
type Kept<'a> = (Vec<Merged<Vec<u8>>>, HashMap<&'a [u8], usize>);

#[derive(Clone, Copy)]
struct Record<'a> {
    offset: i64,
    timestamp_ms: i64,
    key: &'a [u8],
    value: &'a [u8],
}

/// The records of whole batches, in their order, in batches of `batch_bytes` of keys and values at
/// least, but for the last; the bytes of values that each key has among them; and how many are left
/// out. `most`: bytes of values of one key, the newest; `only`: of this one alone. What goes has one
/// record left, `dropped_record(key, timestamp_ms, count)`; `dropped_before(value)` is the count of
/// one of before. Raises ValueError for records that cannot be read.
#[pyfunction]
pub fn merge_events<'py>(
    py: Python<'py>,
    batches: Vec<Batch>,
    batch_bytes: usize,
    most: usize,
    only: Option<PyBackedBytes>,
    dropped_before: &Bound<'py, PyAny>,
    dropped_record: &Bound<'py, PyAny>,
) -> PyResult<Rewritten<'py>> {
    let records = py.detach(|| read(&batches));
    let records = records.map_err(|error| PyValueError::new_err(error.to_string()))?;
    let tells_of_others =
        |record: &Record<'_>| record.value.windows(DROPPED.len()).any(|window| window == DROPPED);
    let told = py.detach(|| {
        let is_told = |(_, record): &(usize, &Record<'_>)| tells_of_others(record);
        records.iter().enumerate().filter(is_told).map(|(at, _)| at).collect::<Vec<_>>()
    });
    let mut before: HashMap<usize, u64> = HashMap::new();
    for at in told {
        let value = PyBytes::new(py, records[at].value);
        if let Some(count) = dropped_before.call1((value,))?.extract()? {
            before.insert(at, count);
        }
    }
    let is_bounded =
        |key: &[u8]| !key.is_empty() && only.as_ref().is_none_or(|only| key == &only[..]);
    let (mut kept, dropped, gone) = py.detach(|| bounded(&records, most, is_bounded, &before));
    let mut values: Vec<(usize, PyBackedBytes)> = Vec::with_capacity(dropped.len());
    for (key, (at, count)) in &dropped {
        let arguments = (PyBytes::new(py, key), kept[*at].timestamp_ms, *count);
        values.push((*at, dropped_record.call1(arguments)?.extract()?));
    }
    for (at, value) in &values {
        kept[*at].value = value;
    }
    let (merged, sizes) = py.detach(|| merged(&kept, batch_bytes));
    let bytes = |(base, count, delta, base_ms, latest_ms, area): Merged<Vec<u8>>| {
        (base, count, delta, base_ms, latest_ms, PyBytes::new(py, &area))
    };
    let of_keys = PyDict::new(py);
    for (key, size) in sizes {
        of_keys.set_item(PyBytes::new(py, key), size)?;
    }
    Ok((merged.into_iter().map(bytes).collect(), of_keys, gone))
}

fn read(batches: &[Batch]) -> Result<Vec<Record<'_>>, DecodeError> {
    let mut records = Vec::new();
    for (base_offset, base_ms, count, area) in batches {
        let mut reader = Reader::new(area);
        for _ in 0..*count {
            let length = reader.varint()?;
            let mut record =
                Reader::new(reader.take(usize::try_from(length).unwrap_or(usize::MAX))?);
            record.u8()?;
            let timestamp_ms = base_ms.wrapping_add(record.varlong()?);
            let offset = base_offset.wrapping_add(record.varint()?.into());
            let mut text =
                || record.varint().and_then(|length| record.take(length.max(0) as usize));
            let (key, value) = (text()?, text()?);
            records.push(Record { offset, timestamp_ms, key, value });
        }
    }
    Ok(records)
}

/// What stays; of each key of which something goes the place of its newest in what stays, which is to
/// say so, and how many it stands for; and how many go that stood for themselves.
type Bounded<'a> = (Vec<Record<'a>>, BTreeMap<&'a [u8], (usize, u64)>, u64);

fn bounded<'a>(
    records: &[Record<'a>],
    most: usize,
    is_bounded: impl Fn(&[u8]) -> bool,
    before: &HashMap<usize, u64>,
) -> Bounded<'a> {
    let mut sizes: HashMap<&[u8], usize> = HashMap::new();
    let mut dropped: BTreeMap<&[u8], (usize, u64)> = BTreeMap::new();
    let mut gone = 0;
    let mut kept = Vec::with_capacity(records.len());
    for (at, record) in records.iter().enumerate().rev() {
        let size = sizes.entry(record.key).or_default();
        *size += record.value.len();
        if *size > most && is_bounded(record.key) {
            let stands_for = before.get(&at).copied();
            gone += u64::from(stands_for.is_none());
            let is_first = !dropped.contains_key(record.key);
            let (_, count) = dropped.entry(record.key).or_insert((kept.len(), 0));
            *count += stands_for.unwrap_or(1).max(1);
            if !is_first {
                continue;
            }
        }
        kept.push(*record);
    }
    kept.reverse();
    dropped.values_mut().for_each(|(at, _)| *at = kept.len() - 1 - *at);
    (kept, dropped, gone)
}

fn merged<'a>(kept: &[Record<'a>], batch_bytes: usize) -> Kept<'a> {
    let mut merged: Vec<Merged<Vec<u8>>> = Vec::new();
    let mut sizes: HashMap<&[u8], usize> = HashMap::new();
    let mut size = batch_bytes;
    for Record { offset, timestamp_ms, key, value } in kept {
        *sizes.entry(key).or_default() += value.len();
        let is_far = merged.last().is_some_and(|(base, ..)| i32::try_from(offset - base).is_err());
        if size >= batch_bytes || is_far {
            let area = Vec::with_capacity(2 * batch_bytes);
            merged.push((*offset, 0, 0, *timestamp_ms, *timestamp_ms, area));
            size = 0;
        }
        size += key.len() + value.len();
        let (base, count, delta, base_ms, latest_ms, area) =
            merged.last_mut().expect("one was just begun");
        *delta = offset - *base;
        *count += 1;
        *latest_ms = (*latest_ms).max(*timestamp_ms);
        let offset_delta = i32::try_from(*delta).expect("another batch was begun");
        write_record(area, timestamp_ms - *base_ms, offset_delta, key, Some(value));
    }
    (merged, sizes)
}
