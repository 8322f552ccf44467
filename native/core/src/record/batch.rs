//! A chunk of the log: whole RecordBatches v2, uncompressed, and the records in them
//! (log-format section 4).
//!
//! This is the way of recovery: it allocates nothing unless it fails. The CRC was verified by
//! the reader of the chunk; the bounds are checked here all the same.

use super::fields::{write_i16, write_i32, write_i64};
use super::reader::{DecodeError, Reader};
use crate::error::ReplayError;
use crate::outbox::Append;

/// Bytes of a batch before its records.
pub const BATCH_OVERHEAD: usize = 61;
/// Where its CRC-32C stands, which covers what follows it: the writer of the batch puts it there.
pub const CRC_AT: usize = 17;
/// Where the bytes begin that the CRC is of.
pub const CRC_FROM: usize = CRC_AT + 4;
/// Bytes before and including the length field.
const LENGTH_END: usize = 12;
const MAGIC: u8 = 2;
const TRANSACTIONAL: i16 = 1 << 4;
const CONTROL: i16 = 1 << 5;
const NO_PRODUCER: Producer = Producer { id: -1, epoch: -1 };
const COMPRESSIONS: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];

/// The attributes of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes(pub i16);

impl Attributes {
    /// 0: none, 1: gzip, 2: snappy, 3: lz4, 4: zstd.
    pub const fn compression(self) -> i16 {
        self.0 & 0b111
    }

    /// Every record's timestamp is the batch's largest.
    pub const fn has_log_append_time(self) -> bool {
        self.0 & 1 << 3 != 0
    }

    /// Whether it belongs to a transaction.
    pub const fn is_transactional(self) -> bool {
        self.0 & 1 << 4 != 0
    }

    /// Whether it holds a marker, and no data.
    pub const fn is_control(self) -> bool {
        self.0 & 1 << 5 != 0
    }

    /// `base_timestamp` is the time from which the batch's tombstones may go.
    pub const fn has_delete_horizon(self) -> bool {
        self.0 & 1 << 6 != 0
    }
}

/// A producer as of one of its epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Producer {
    /// At least 0.
    pub id: i64,
    /// Rises when another takes over its transactions.
    pub epoch: i16,
}

/// What a batch is that a shard emits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BatchKind {
    /// Of no producer.
    #[default]
    Plain,
    /// Of a producer's transaction: its offsets are pending.
    Transactional(Producer),
    /// The one record that ends it.
    EndMarker(Producer),
}

/// Of no producer. Beside [`Producer`] a type of its own: who is generic over both is compiled for
/// plain records alone, which are the hot path.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

impl From<Plain> for BatchKind {
    fn from(_: Plain) -> Self {
        BatchKind::Plain
    }
}

impl From<Producer> for BatchKind {
    fn from(producer: Producer) -> Self {
        BatchKind::Transactional(producer)
    }
}

/// The fields before the records, in the order of the format; its length follows from the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// The offset of the first record.
    pub base_offset: i64,
    /// Of the leader that wrote it; not in the CRC.
    pub partition_leader_epoch: i32,
    /// CRC-32C of all that follows it.
    pub crc: u32,
    /// Compression, kind of timestamp, transaction, control.
    pub attributes: Attributes,
    /// Of the last record, from the base offset.
    pub last_offset_delta: i32,
    /// Of the first record, in ms since the epoch.
    pub base_timestamp: i64,
    /// The latest of its records, in ms since the epoch.
    pub max_timestamp: i64,
    /// -1: none.
    pub producer_id: i64,
    /// Of the producer; -1: none.
    pub producer_epoch: i16,
    /// Of the first record; -1: none.
    pub base_sequence: i32,
    /// The number of records.
    pub records_count: i32,
}

impl BatchHeader {
    /// The header of records that a shard emitted, uncompressed, as Kafka's coordinator writes it.
    /// Leader epoch and CRC are 0: they are the host's, who writes the batch.
    pub fn of(append: &Append) -> Self {
        let (attributes, producer, base_sequence) = match append.kind {
            BatchKind::Plain => (0, NO_PRODUCER, 0),
            BatchKind::Transactional(producer) => (TRANSACTIONAL, producer, 0),
            BatchKind::EndMarker(producer) => (TRANSACTIONAL | CONTROL, producer, -1),
        };
        BatchHeader {
            base_offset: append.base_offset,
            partition_leader_epoch: 0,
            crc: 0,
            attributes: Attributes(attributes),
            last_offset_delta: append.record_count - 1,
            base_timestamp: append.base_timestamp,
            max_timestamp: append.max_timestamp,
            producer_id: producer.id,
            producer_epoch: producer.epoch,
            base_sequence,
            records_count: append.record_count,
        }
    }

    /// Appends a whole batch. The CRC is written as it stands here.
    pub fn encode(&self, records: &[u8], out: &mut Vec<u8>) {
        let length = BATCH_OVERHEAD - LENGTH_END + records.len();
        write_i64(out, self.base_offset);
        write_i32(out, i32::try_from(length).expect("a batch is at most 2 GiB"));
        write_i32(out, self.partition_leader_epoch);
        out.push(MAGIC);
        out.extend_from_slice(&self.crc.to_be_bytes());
        write_i16(out, self.attributes.0);
        write_i32(out, self.last_offset_delta);
        write_i64(out, self.base_timestamp);
        write_i64(out, self.max_timestamp);
        write_i64(out, self.producer_id);
        write_i16(out, self.producer_epoch);
        write_i32(out, self.base_sequence);
        write_i32(out, self.records_count);
        out.extend_from_slice(records);
    }

    fn parse(reader: &mut Reader<'_>, base_offset: i64) -> Result<Self, DecodeError> {
        let partition_leader_epoch = reader.i32()?;
        if reader.u8()? != MAGIC {
            return Err(DecodeError("not a RecordBatch v2: its magic byte is not 2"));
        }
        Ok(BatchHeader {
            base_offset,
            partition_leader_epoch,
            crc: reader.i32()? as u32,
            attributes: Attributes(reader.i16()?),
            last_offset_delta: reader.i32()?,
            base_timestamp: reader.i64()?,
            max_timestamp: reader.i64()?,
            producer_id: reader.i64()?,
            producer_epoch: reader.i16()?,
            base_sequence: reader.i32()?,
            records_count: reader.i32()?,
        })
    }

    fn validate(&self) -> Result<(), DecodeError> {
        if self.base_offset < 0 || self.last_offset_delta < 0 || self.records_count < 0 {
            return Err(DecodeError("a batch with a negative offset, delta or record count"));
        }
        if self.base_offset.checked_add(i64::from(self.last_offset_delta) + 1).is_none() {
            return Err(DecodeError("a batch whose last offset exceeds an int64"));
        }
        Ok(())
    }
}

/// The batches of a chunk, in order. Ends after the first error.
#[derive(Clone, Debug)]
pub struct Batches<'a> {
    chunk: &'a [u8],
    position: usize,
}

impl<'a> Batches<'a> {
    /// Of whole, uncompressed batches.
    pub fn new(chunk: &'a [u8]) -> Self {
        Batches { chunk, position: 0 }
    }

    fn parse(&mut self) -> Result<Batch<'a>, ReplayError> {
        let position = self.position;
        let mut reader = Reader::new(&self.chunk[position..]);
        let mut base_offset = -1;
        let mut parse = || {
            base_offset = reader.i64()?;
            let length = usize::try_from(reader.i32()?)
                .map_err(|_| DecodeError("a batch with a negative length"))?;
            let mut body = Reader::new(reader.take(length)?);
            let header = BatchHeader::parse(&mut body, base_offset)?;
            header.validate()?;
            Ok(Batch { position, header, records: body.rest() })
        };
        let batch = parse().map_err(|error: DecodeError| ReplayError {
            offset: base_offset,
            position,
            reason: error.to_string(),
        })?;
        self.position += BATCH_OVERHEAD + batch.records.len();
        batch.refuse_compressed()?;
        Ok(batch)
    }
}

impl<'a> Iterator for Batches<'a> {
    type Item = Result<Batch<'a>, ReplayError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.position == self.chunk.len() {
            return None;
        }
        let batch = self.parse();
        if batch.is_err() {
            self.position = self.chunk.len();
        }
        Some(batch)
    }
}

/// A batch, borrowed from a chunk of the log.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// Where it starts in the chunk.
    pub position: usize,
    /// Its header.
    pub header: BatchHeader,
    /// The records area.
    pub records: &'a [u8],
}

impl<'a> Batch<'a> {
    /// Offset after the last of the batch, which compaction keeps although records go.
    pub fn next_offset(&self) -> i64 {
        self.header.base_offset + i64::from(self.header.last_offset_delta) + 1
    }

    /// Whose transaction the records belong to, if to any. As in Kafka's loader the producer id
    /// decides, not the attribute.
    pub fn producer_id(&self) -> Option<i64> {
        (self.header.producer_id >= 0).then_some(self.header.producer_id)
    }

    /// Its records, in order.
    pub fn records(&self) -> Records<'a> {
        Records { batch: *self, reader: Reader::new(self.records), done: 0 }
    }

    /// An error at an offset of this batch.
    #[cold]
    pub fn error(&self, offset: i64, reason: impl Into<String>) -> ReplayError {
        ReplayError { offset, position: self.position, reason: reason.into() }
    }

    fn refuse_compressed(&self) -> Result<(), ReplayError> {
        let compression = self.header.attributes.compression();
        if compression == 0 {
            return Ok(());
        }
        let name = COMPRESSIONS.get(compression as usize).unwrap_or(&"unknown");
        let reason = format!("the batch is compressed ({name}): it must be decompressed first");
        Err(self.error(self.header.base_offset, reason))
    }
}

/// A record, borrowed from its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its offset in the log.
    pub offset: i64,
    /// Milliseconds.
    pub timestamp: i64,
    /// `None`: no key.
    pub key: Option<&'a [u8]>,
    /// `None`: a tombstone.
    pub value: Option<&'a [u8]>,
    /// All behind its offset: key, value and headers as they stand.
    pub tail: &'a [u8],
}

/// The records of a batch. Ends after the first error.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    batch: Batch<'a>,
    reader: Reader<'a>,
    done: i32,
}

impl<'a> Records<'a> {
    #[inline]
    fn parse(&mut self) -> Result<Record<'a>, DecodeError> {
        let length = usize::try_from(self.reader.varint()?)
            .map_err(|_| DecodeError("a record with a negative length"))?;
        let mut body = Reader::new(self.reader.take(length)?);
        body.u8()?;
        let timestamp_delta = body.varlong()?;
        let offset_delta = body.varint()?;
        let tail = body.rest();
        let key = body.varint_bytes()?;
        let value = body.varint_bytes()?;
        skip_headers(&mut body)?;
        let header = &self.batch.header;
        if !(0..=header.last_offset_delta).contains(&offset_delta) {
            return Err(DecodeError("a record's offset lies outside its batch"));
        }
        let timestamp = if header.attributes.has_log_append_time() {
            header.max_timestamp
        } else {
            header.base_timestamp.wrapping_add(timestamp_delta)
        };
        let offset = header.base_offset + i64::from(offset_delta);
        Ok(Record { offset, timestamp, key, value, tail })
    }

    #[cold]
    fn fail(&mut self, error: DecodeError) -> ReplayError {
        let reason = format!("record {} of the batch: {error}", self.done);
        self.done = self.batch.header.records_count;
        self.reader = Reader::new(&[]);
        self.batch.error(self.batch.header.base_offset, reason)
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, ReplayError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.done == self.batch.header.records_count {
            let behind = !self.reader.rest().is_empty();
            return behind.then(|| Err(self.fail(DecodeError("bytes behind the last record"))));
        }
        match self.parse() {
            Ok(record) => {
                self.done += 1;
                Some(Ok(record))
            }
            Err(error) => Some(Err(self.fail(error))),
        }
    }
}

#[inline]
fn skip_headers(body: &mut Reader<'_>) -> Result<(), DecodeError> {
    if body.rest() == [0] {
        return Ok(());
    }
    let count = body.varint()?;
    if count < 0 {
        return Err(DecodeError("a record with a negative number of headers"));
    }
    for _ in 0..count {
        body.varint_bytes()?.ok_or(DecodeError("a record header without a key"))?;
        body.varint_bytes()?;
    }
    if body.rest().is_empty() {
        Ok(())
    } else {
        Err(DecodeError("a record longer than its fields"))
    }
}
