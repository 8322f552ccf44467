//! Records of a batch as compaction sees them: offset, time, key, and the bytes behind.

use kcoord_core::ReplayError;
use kcoord_core::record::{Batch, DecodeError, Reader};

/// One record. `tail` is everything behind its offset: key, value and headers, as they stand.
#[derive(Clone, Copy, Debug)]
pub struct RawRecord<'a> {
    pub offset: i64,
    pub timestamp: i64,
    pub key: Option<&'a [u8]>,
    pub is_tombstone: bool,
    pub tail: &'a [u8],
}

/// Calls `each` for every record of the batch. The count and all bounds are checked.
#[inline]
pub fn for_each<'a>(
    batch: &Batch<'a>,
    mut each: impl FnMut(RawRecord<'a>),
) -> Result<(), ReplayError> {
    let mut reader = Reader::new(batch.records);
    for number in 0..batch.header.records_count {
        match parse(batch, &mut reader) {
            Ok(record) => each(record),
            Err(error) => return Err(failed(batch, number, error)),
        }
    }
    if reader.rest().is_empty() {
        return Ok(());
    }
    Err(failed(batch, batch.header.records_count, DecodeError("bytes behind the last record")))
}

#[inline]
fn parse<'a>(batch: &Batch<'a>, reader: &mut Reader<'a>) -> Result<RawRecord<'a>, DecodeError> {
    let length = usize::try_from(reader.varint()?)
        .map_err(|_| DecodeError("a record with a negative length"))?;
    let mut body = Reader::new(reader.take(length)?);
    body.u8()?;
    let timestamp_delta = body.varlong()?;
    let offset_delta = body.varint()?;
    let tail = body.rest();
    let key = body.varint_bytes()?;
    let value = body.varint_bytes()?;
    check_headers(&mut body)?;
    let header = &batch.header;
    if !(0..=header.last_offset_delta).contains(&offset_delta) {
        return Err(DecodeError("a record's offset lies outside its batch"));
    }
    let timestamp = if header.attributes.has_log_append_time() {
        header.max_timestamp
    } else {
        header.base_timestamp.wrapping_add(timestamp_delta)
    };
    let offset = header.base_offset + i64::from(offset_delta);
    Ok(RawRecord { offset, timestamp, key, is_tombstone: value.is_none(), tail })
}

#[inline]
fn check_headers(body: &mut Reader<'_>) -> Result<(), DecodeError> {
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

#[cold]
fn failed(batch: &Batch<'_>, number: i32, error: DecodeError) -> ReplayError {
    batch.error(batch.header.base_offset, format!("record {number} of the batch: {error}"))
}
