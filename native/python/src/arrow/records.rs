//! Records of `__consumer_offsets` as columns: `decode_log` from chunks of the log, `decode_rows`
//! from keys and values that were read from it elsewhere. Must never leave a record out: one that
//! cannot be decoded is an error; one of an unknown type is a row.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use arrow_array::builder::{
    ArrayBuilder, BinaryBuilder, BooleanBuilder, Int32Builder, Int64Builder, StringBuilder,
};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_pyarrow::PyArrowType;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use kcoord_core::ReplayError;
use kcoord_core::record::offset_commit::OFFSET_COMMIT_KEY_TYPE;
use kcoord_core::record::{
    Batch, Batches, DecodeError, GroupMetadataValue, OffsetCommitValue, Reader, Record, RecordKey,
    TransactionResult,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use crate::dump::schema_name;
use crate::error::replay_error;

/// The columns, in order, and whether they can be null.
static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    use DataType::{Binary, Boolean, Int32, Int64, Utf8};
    let columns = [
        ("partition", Int32, false),
        ("offset", Int64, false),
        ("timestamp", Int64, false),
        ("kind", Utf8, false),
        ("group_id", Utf8, true),
        ("topic", Utf8, true),
        ("topic_partition", Int32, true),
        ("committed", Int64, true),
        ("metadata", Utf8, true),
        ("tombstone", Boolean, false),
        ("key", Binary, true),
        ("value", Binary, true),
        ("leader_epoch", Int32, true),
        ("generation", Int32, true),
        ("producer_id", Int64, true),
        ("producer_epoch", Int32, true),
    ];
    let fields = columns.map(|(name, of, nullable)| Field::new(name, of, nullable));
    Arc::new(Schema::new(fields.to_vec()))
});

/// The schema of what `decode_log` and `decode_rows` return.
#[pyfunction]
pub fn record_schema() -> PyArrowType<Schema> {
    PyArrowType(SCHEMA.as_ref().clone())
}

/// The records at or above `from_offset` and below `to_offset` of chunks of whole, uncompressed
/// batches: of the columns those that are named, in their usual order, or all. Raises ReplayError,
/// and ValueError for no name, or one that is no column's.
#[pyfunction]
#[pyo3(signature = (partition, chunks, from_offset, to_offset, names=None))]
pub fn decode_log(
    py: Python<'_>,
    partition: i32,
    chunks: Vec<PyBackedBytes>,
    from_offset: i64,
    to_offset: i64,
    names: Option<Vec<String>>,
) -> PyResult<PyArrowType<RecordBatch>> {
    check_names(names.as_deref())?;
    let decode = || {
        let mut columns = Columns::of_log(&chunks, names.as_deref());
        for batch in chunks.iter().flat_map(|chunk| Batches::new(chunk)) {
            let batch = batch?;
            for record in batch.records() {
                let record = record?;
                if (from_offset..to_offset).contains(&record.offset) {
                    columns
                        .push(partition, &record, Some(&batch))
                        .map_err(|error| batch.error(record.offset, error.to_string()))?;
                }
            }
        }
        Ok(columns.finish())
    };
    let decoded: Result<_, ReplayError> = py.detach(decode);
    decoded.map(PyArrowType).map_err(|error| replay_error(py, error))
}

/// The same columns of records whose place, key and value others know: partition (int32), offset
/// and timestamp in ms (int64), key and value (binary). Nothing is known of transactions then.
/// Raises ReplayError, whose `position` is the row, and ValueError for columns of another type and
/// for names as there.
#[pyfunction]
#[pyo3(signature = (rows, names=None))]
pub fn decode_rows(
    py: Python<'_>,
    rows: PyArrowType<RecordBatch>,
    names: Option<Vec<String>>,
) -> PyResult<PyArrowType<RecordBatch>> {
    let rows = rows.0;
    check_rows(&rows)?;
    check_names(names.as_deref())?;
    let decode = || {
        let partitions = rows.column(0).as_primitive::<Int32Type>();
        let offsets = rows.column(1).as_primitive::<Int64Type>();
        let timestamps = rows.column(2).as_primitive::<Int64Type>();
        let (keys, values) = (rows.column(3).as_binary::<i32>(), rows.column(4).as_binary::<i32>());
        let mut columns =
            Columns::with_capacity(rows.num_rows(), keys.value_data().len(), names.as_deref());
        for row in 0..rows.num_rows() {
            let record = Record {
                offset: offsets.value(row),
                timestamp: timestamps.value(row),
                key: keys.is_valid(row).then(|| keys.value(row)),
                value: values.is_valid(row).then(|| values.value(row)),
                tail: &[],
            };
            columns.push(partitions.value(row), &record, None).map_err(|error| {
                let reason = format!("partition {}: {error}", partitions.value(row));
                ReplayError { offset: record.offset, position: row, reason }
            })?;
        }
        Ok(columns.finish())
    };
    let decoded: Result<_, ReplayError> = py.detach(decode);
    decoded.map(PyArrowType).map_err(|error| replay_error(py, error))
}

fn check_names(names: Option<&[String]>) -> PyResult<()> {
    let Some(names) = names else { return Ok(()) };
    if names.is_empty() {
        return Err(PyValueError::new_err("no column is asked for"));
    }
    match names.iter().find(|name| SCHEMA.index_of(name).is_err()) {
        Some(name) => Err(PyValueError::new_err(format!("there is no column {name}"))),
        None => Ok(()),
    }
}

fn check_rows(rows: &RecordBatch) -> PyResult<()> {
    use DataType::{Binary, Int32, Int64};
    let wanted = [
        ("partition", Int32),
        ("offset", Int64),
        ("timestamp", Int64),
        ("key", Binary),
        ("value", Binary),
    ];
    if rows.num_columns() != wanted.len() {
        return Err(PyValueError::new_err(
            "rows have five columns: partition, offset, timestamp, \
             key and value",
        ));
    }
    for (column, (name, of)) in rows.columns().iter().zip(wanted) {
        if *column.data_type() != of {
            let is = column.data_type();
            return Err(PyValueError::new_err(format!("column {name} is {is}, not {of}")));
        }
        if of != Binary && column.null_count() > 0 {
            return Err(PyValueError::new_err(format!("column {name} has nulls")));
        }
    }
    Ok(())
}

/// What a record says, as far as there are columns for it.
#[derive(Default)]
struct Fields<'a> {
    group_id: Option<&'a str>,
    topic: Option<&'a str>,
    topic_partition: Option<i32>,
    committed: Option<i64>,
    metadata: Option<&'a str>,
    leader_epoch: Option<i32>,
    generation: Option<i32>,
}

/// `None`: it was not asked for.
struct Columns {
    partition: Option<Int32Builder>,
    offset: Option<Int64Builder>,
    timestamp: Option<Int64Builder>,
    kind: Option<StringBuilder>,
    group_id: Option<StringBuilder>,
    topic: Option<StringBuilder>,
    topic_partition: Option<Int32Builder>,
    committed: Option<Int64Builder>,
    metadata: Option<StringBuilder>,
    tombstone: Option<BooleanBuilder>,
    key: Option<BinaryBuilder>,
    value: Option<BinaryBuilder>,
    leader_epoch: Option<Int32Builder>,
    generation: Option<Int32Builder>,
    producer_id: Option<Int64Builder>,
    producer_epoch: Option<Int32Builder>,
}

/// Appends to a column that was asked for.
macro_rules! put {
    ($column:expr, $append:ident, $value:expr) => {
        if let Some(column) = &mut $column {
            column.$append($value);
        }
    };
}

impl Columns {
    /// Room for all records of the chunks, as their headers count them.
    fn of_log(chunks: &[PyBackedBytes], names: Option<&[String]>) -> Self {
        let batches = chunks.iter().flat_map(|chunk| Batches::new(chunk)).flatten();
        let records = batches.map(|batch| batch.header.records_count as usize).sum::<usize>();
        let bytes = chunks.iter().map(|chunk| chunk.len()).sum::<usize>();
        // A record takes seven bytes at least: a count is not believed beyond that.
        Columns::with_capacity(records.min(bytes / 7), bytes / 2, names)
    }

    fn with_capacity(rows: usize, bytes: usize, names: Option<&[String]>) -> Self {
        let asked = |name: &str| names.is_none_or(|names| names.iter().any(|one| one == name));
        Columns {
            partition: asked("partition").then(|| Int32Builder::with_capacity(rows)),
            offset: asked("offset").then(|| Int64Builder::with_capacity(rows)),
            timestamp: asked("timestamp").then(|| Int64Builder::with_capacity(rows)),
            kind: asked("kind").then(|| StringBuilder::with_capacity(rows, rows * 12)),
            group_id: asked("group_id").then(|| StringBuilder::with_capacity(rows, bytes / 4)),
            topic: asked("topic").then(|| StringBuilder::with_capacity(rows, bytes / 4)),
            topic_partition: asked("topic_partition").then(|| Int32Builder::with_capacity(rows)),
            committed: asked("committed").then(|| Int64Builder::with_capacity(rows)),
            metadata: asked("metadata").then(|| StringBuilder::with_capacity(rows, 0)),
            tombstone: asked("tombstone").then(|| BooleanBuilder::with_capacity(rows)),
            key: asked("key").then(|| BinaryBuilder::with_capacity(rows, bytes)),
            value: asked("value").then(|| BinaryBuilder::with_capacity(rows, bytes)),
            leader_epoch: asked("leader_epoch").then(|| Int32Builder::with_capacity(rows)),
            generation: asked("generation").then(|| Int32Builder::with_capacity(rows)),
            producer_id: asked("producer_id").then(|| Int64Builder::with_capacity(rows)),
            producer_epoch: asked("producer_epoch").then(|| Int32Builder::with_capacity(rows)),
        }
    }

    #[inline]
    fn push(
        &mut self,
        partition: i32,
        record: &Record<'_>,
        batch: Option<&Batch<'_>>,
    ) -> Result<(), DecodeError> {
        let is_control = batch.is_some_and(|batch| batch.header.attributes.is_control());
        let (kind, fields) = parse(record, is_control)?;
        let producer = batch.filter(|batch| batch.header.producer_id >= 0);
        let producer_id = producer.map(|batch| batch.header.producer_id);
        let producer_epoch = producer.map(|batch| i32::from(batch.header.producer_epoch));
        put!(self.partition, append_value, partition);
        put!(self.offset, append_value, record.offset);
        put!(self.timestamp, append_value, record.timestamp);
        put!(self.kind, append_value, kind);
        put!(self.group_id, append_option, fields.group_id);
        put!(self.topic, append_option, fields.topic);
        put!(self.topic_partition, append_option, fields.topic_partition);
        put!(self.committed, append_option, fields.committed);
        put!(self.metadata, append_option, fields.metadata);
        put!(self.tombstone, append_value, record.value.is_none());
        put!(self.key, append_option, record.key);
        put!(self.value, append_option, record.value);
        put!(self.leader_epoch, append_option, fields.leader_epoch);
        put!(self.generation, append_option, fields.generation);
        put!(self.producer_id, append_option, producer_id);
        put!(self.producer_epoch, append_option, producer_epoch);
        Ok(())
    }

    fn finish(mut self) -> RecordBatch {
        let columns: [Option<ArrayRef>; 16] = [
            array(self.partition.as_mut()),
            array(self.offset.as_mut()),
            array(self.timestamp.as_mut()),
            array(self.kind.as_mut()),
            array(self.group_id.as_mut()),
            array(self.topic.as_mut()),
            array(self.topic_partition.as_mut()),
            array(self.committed.as_mut()),
            array(self.metadata.as_mut()),
            array(self.tombstone.as_mut()),
            array(self.key.as_mut()),
            array(self.value.as_mut()),
            array(self.leader_epoch.as_mut()),
            array(self.generation.as_mut()),
            array(self.producer_id.as_mut()),
            array(self.producer_epoch.as_mut()),
        ];
        let asked: Vec<usize> = (0..columns.len()).filter(|at| columns[*at].is_some()).collect();
        let schema = SCHEMA.project(&asked).expect("columns of the schema");
        RecordBatch::try_new(Arc::new(schema), columns.into_iter().flatten().collect())
            .expect("the columns are those of the schema")
    }
}

fn array(builder: Option<&mut impl ArrayBuilder>) -> Option<ArrayRef> {
    builder.map(ArrayBuilder::finish)
}

#[inline]
fn parse<'a>(
    record: &Record<'a>,
    is_control: bool,
) -> Result<(Cow<'static, str>, Fields<'a>), DecodeError> {
    let Some(raw_key) = record.key else {
        return Ok(("null key".into(), Fields::default()));
    };
    if is_control {
        let kind = match TransactionResult::parse_key(raw_key)? {
            Some(TransactionResult::Commit) => "COMMIT",
            Some(TransactionResult::Abort) => "ABORT",
            None => "control",
        };
        return Ok((kind.into(), Fields::default()));
    }
    let mut fields = Fields::default();
    let kind = match RecordKey::parse(raw_key)? {
        RecordKey::OffsetCommit(key) => {
            fields.group_id = Some(key.group);
            fields.topic = Some(key.topic);
            fields.topic_partition = Some(key.partition);
            if let Some(raw) = record.value {
                let value = OffsetCommitValue::parse(raw)?;
                fields.committed = Some(value.offset);
                fields.metadata = Some(value.metadata);
                fields.leader_epoch = (value.leader_epoch >= 0).then_some(value.leader_epoch);
            }
            let written = raw_key[..2] == OFFSET_COMMIT_KEY_TYPE.to_be_bytes();
            Cow::Borrowed(if written { "OffsetCommit" } else { "LegacyOffsetCommit" })
        }
        RecordKey::GroupMetadata(key) => {
            fields.group_id = Some(key.group);
            if let Some(raw) = record.value {
                fields.generation = Some(GroupMetadataValue::parse(raw)?.generation);
            }
            Cow::Borrowed("GroupMetadata")
        }
        RecordKey::ConsumerGroup(key) => {
            let record_type = key.record_type as i16;
            fields.group_id = Some(key.group_id);
            fields.generation = group_epoch(record_type, record.value);
            schema_name(record_type)
        }
        RecordKey::Other(key) => {
            fields.group_id = Some(key.group_id);
            fields.generation = group_epoch(key.record_type, record.value);
            schema_name(key.record_type)
        }
        RecordKey::Unknown { record_type, .. } => schema_name(record_type),
    };
    Ok((kind, fields))
}

/// The epoch of a consumer, share or streams group, which its metadata record begins with.
fn group_epoch(record_type: i16, value: Option<&[u8]>) -> Option<i32> {
    let mut reader = Reader::new(value.filter(|_| matches!(record_type, 3 | 11 | 17))?);
    if reader.i16().ok()? != 0 {
        return None;
    }
    reader.i32().ok()
}
