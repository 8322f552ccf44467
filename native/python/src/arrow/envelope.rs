//! Answers and records as one batch: `pykcoord.arrow.ENVELOPE`, column by column.

use std::sync::{Arc, LazyLock};

use crate::arrow::batches::Batches;
use arrow_array::builder::NullBufferBuilder;
use arrow_array::{
    ArrayRef, BinaryArray, Int8Array, Int16Array, Int32Array, Int64Array, RecordBatch, StringArray,
};
use arrow_buffer::{BooleanBufferBuilder, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use kcoord_core::outbox::Append;
use kcoord_rows::{Answer, Record, Sink};

const RESPONSE: i8 = 0;
const RECORD: i8 = 1;

static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    let field = |name, data_type, nullable| Field::new(name, data_type, nullable);
    Arc::new(Schema::new(vec![
        field("kind", DataType::Int8, false),
        field("shard", DataType::Int32, false),
        field("seq", DataType::Int64, true),
        field("offset", DataType::Int64, true),
        field("epoch", DataType::Int32, true),
        field("ts", DataType::Int64, false),
        field("group_id", DataType::Utf8, true),
        field("member_id", DataType::Utf8, true),
        field("api_key", DataType::Int16, true),
        field("error_code", DataType::Int16, true),
        field("generation", DataType::Int32, true),
        field("key", DataType::Binary, true),
        field("body", DataType::Binary, true),
    ]))
});

/// A sink that gathers its rows.
pub struct Envelope {
    kinds: Vec<i8>,
    is_answer: BooleanBufferBuilder,
    seqs: Vec<i64>,
    seq_nulls: NullBufferBuilder,
    offsets: Vec<i64>,
    ts: Vec<i64>,
    group_ids: Bytes,
    member_ids: Bytes,
    api_keys: Vec<i16>,
    error_codes: Vec<i16>,
    generations: Vec<i32>,
    generation_nulls: NullBufferBuilder,
    keys: Bytes,
    bodies: Bytes,
    /// What was appended, if it is asked for.
    batches: Option<Batches>,
}

/// Bytes of a column for which there is always room, if as many may come.
const FREE_BYTES: usize = 1 << 20;

/// How much memory an envelope needed: the next of as many requests needs about as much. Without
/// that it would be copied again and again while it grows.
#[derive(Clone, Copy, Default)]
pub struct Room {
    requests: usize,
    rows: usize,
    group_ids: usize,
    member_ids: usize,
    keys: usize,
    bodies: usize,
}

impl Room {
    /// For so many requests, with an eighth to spare; not much more than was needed, since what
    /// time did before the last ones is no measure for the next.
    pub fn scaled(self, requests: usize) -> Room {
        let scale = |needed: usize| {
            let scaled = needed as u128 * requests as u128 * 9 / 8;
            let scaled = scaled.checked_div(self.requests as u128).unwrap_or_default();
            usize::try_from(scaled).unwrap_or(usize::MAX)
        };
        let bytes = |needed: usize| {
            let most = needed.saturating_mul(2).clamp(FREE_BYTES, i32::MAX as usize);
            scale(needed).min(most)
        };
        Room {
            requests,
            rows: scale(self.rows).min(self.rows.saturating_mul(2)).max(requests),
            group_ids: bytes(self.group_ids),
            member_ids: bytes(self.member_ids),
            keys: bytes(self.keys),
            bodies: bytes(self.bodies),
        }
    }
}

impl Envelope {
    pub fn with_room(room: Room, batches: Option<Batches>) -> Self {
        let rows = room.rows;
        Envelope {
            batches,
            kinds: Vec::with_capacity(rows),
            is_answer: BooleanBufferBuilder::new(rows),
            seqs: Vec::with_capacity(rows),
            seq_nulls: NullBufferBuilder::new(rows),
            offsets: Vec::with_capacity(rows),
            ts: Vec::with_capacity(rows),
            group_ids: Bytes::with_capacity(rows, room.group_ids),
            member_ids: Bytes::with_capacity(rows, room.member_ids),
            api_keys: Vec::with_capacity(rows),
            error_codes: Vec::with_capacity(rows),
            generations: Vec::with_capacity(rows),
            generation_nulls: NullBufferBuilder::new(rows),
            keys: Bytes::with_capacity(rows, room.keys),
            bodies: Bytes::with_capacity(rows, room.bodies),
        }
    }

    /// What it needed, for so many requests.
    pub fn room(&self, requests: usize) -> Room {
        Room {
            requests,
            rows: self.kinds.len(),
            group_ids: self.group_ids.values.len(),
            member_ids: self.member_ids.values.len(),
            keys: self.keys.values.len(),
            bodies: self.bodies.values.len(),
        }
    }

    /// What was appended since it was last asked.
    pub fn take_batches(&mut self) -> Option<Batches> {
        self.batches.take()
    }

    /// The batch; an error says which column is too large for one.
    pub fn finish(mut self, shard: i32, epoch: i32) -> Result<RecordBatch, String> {
        let rows = self.kinds.len();
        let is_answer = self.is_answer.finish();
        let of_records = nulls(NullBuffer::new(!&is_answer));
        let of_answers = nulls(NullBuffer::new(is_answer));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int8Array::new(self.kinds.into(), None)),
            Arc::new(Int32Array::new(vec![shard; rows].into(), None)),
            Arc::new(Int64Array::new(self.seqs.into(), self.seq_nulls.finish())),
            Arc::new(Int64Array::new(self.offsets.into(), of_records.clone())),
            Arc::new(Int32Array::new(vec![epoch; rows].into(), of_records)),
            Arc::new(Int64Array::new(self.ts.into(), None)),
            Arc::new(self.group_ids.strings("group_id")?),
            Arc::new(self.member_ids.strings("member_id")?),
            Arc::new(Int16Array::new(self.api_keys.into(), of_answers.clone())),
            Arc::new(Int16Array::new(self.error_codes.into(), of_answers)),
            Arc::new(Int32Array::new(self.generations.into(), self.generation_nulls.finish())),
            Arc::new(self.keys.binary("key")?),
            Arc::new(self.bodies.binary("body")?),
        ];
        Ok(RecordBatch::try_new(SCHEMA.clone(), columns).expect("columns of the schema"))
    }
}

impl Sink for Envelope {
    #[inline]
    fn answer(&mut self, answer: &Answer<'_>) {
        self.kinds.push(RESPONSE);
        self.is_answer.append(true);
        self.seqs.push(answer.seq);
        self.seq_nulls.append(true);
        self.offsets.push(0);
        self.ts.push(answer.ts);
        self.group_ids.push(Some(answer.group_id.as_bytes()));
        self.member_ids.push(answer.member_id.map(str::as_bytes));
        self.api_keys.push(answer.api_key);
        self.error_codes.push(answer.error_code);
        self.generations.push(answer.generation.unwrap_or_default());
        self.generation_nulls.append(answer.generation.is_some());
        self.keys.push(None);
        self.bodies.push(answer.payload);
    }

    #[inline]
    fn record(&mut self, record: &Record<'_>) {
        self.kinds.push(RECORD);
        self.is_answer.append(false);
        self.seqs.push(record.cause_seq.unwrap_or_default());
        self.seq_nulls.append(record.cause_seq.is_some());
        self.offsets.push(record.offset);
        self.ts.push(record.ts);
        self.group_ids.push(None);
        self.member_ids.push(None);
        self.api_keys.push(0);
        self.error_codes.push(0);
        self.generations.push(0);
        self.generation_nulls.append(false);
        self.keys.push(Some(record.key));
        self.bodies.push(record.value);
    }

    fn append(&mut self, append: &Append) {
        if let Some(batches) = &mut self.batches {
            batches.push(append);
        }
    }
}

/// No buffer where nothing is NULL, as Arrow has it.
fn nulls(nulls: NullBuffer) -> Option<NullBuffer> {
    Some(nulls).filter(|nulls| nulls.null_count() > 0)
}

/// A column of strings or bytes. Ends are counted in 64 bits, so that too many are noticed.
struct Bytes {
    values: Vec<u8>,
    ends: Vec<i32>,
    nulls: NullBufferBuilder,
}

impl Bytes {
    fn with_capacity(rows: usize, bytes: usize) -> Self {
        let mut ends = Vec::with_capacity(rows + 1);
        ends.push(0);
        let values = Vec::with_capacity(bytes);
        Bytes { values, ends, nulls: NullBufferBuilder::new(rows) }
    }

    #[inline]
    fn push(&mut self, value: Option<&[u8]>) {
        self.values.extend_from_slice(value.unwrap_or_default());
        // Of more than 2 GiB nothing is made: `finish` sees how many there are.
        self.ends.push(self.values.len() as i32);
        self.nulls.append(value.is_some());
    }

    fn parts(
        mut self,
        column: &str,
    ) -> Result<(OffsetBuffer<i32>, Buffer, Option<NullBuffer>), String> {
        if self.values.len() > i32::MAX as usize {
            return Err(format!(
                "column {column}: {} bytes fit no batch: give the shard fewer rows at once",
                self.values.len()
            ));
        }
        let ends = OffsetBuffer::new(ScalarBuffer::from(self.ends));
        Ok((ends, Buffer::from_vec(self.values), self.nulls.finish()))
    }

    fn strings(self, column: &str) -> Result<StringArray, String> {
        let (ends, values, nulls) = self.parts(column)?;
        Ok(StringArray::new(ends, values, nulls))
    }

    fn binary(self, column: &str) -> Result<BinaryArray, String> {
        let (ends, values, nulls) = self.parts(column)?;
        Ok(BinaryArray::new(ends, values, nulls))
    }
}
