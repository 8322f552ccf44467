//! Writing a batch that lost records, or got a delete horizon, as Kafka's MemoryRecords.filterTo
//! does: offsets, the batch's extent and its producer stay; times and the CRC are written anew.

use kcoord_core::record::writer::{varint_len, write_varint};
use kcoord_core::record::{Attributes, BatchHeader, Record};

use crate::seal::write_sealed;

/// Attribute bits that outlive a rewrite: timestamp type, transactional, control.
const LASTING: i16 = 0b11_1000;
const DELETE_HORIZON: i16 = 1 << 6;
const NO_TIMESTAMP: i64 = -1;

/// Appends the batch of `header` with `records` only, at least one. With a `delete_horizon_ms` the
/// batch says from when on its tombstones, or its marker, may go (KIP-534).
pub fn write_batch(
    header: &BatchHeader,
    records: &[Record<'_>],
    delete_horizon_ms: Option<i64>,
    scratch: &mut Vec<u8>,
    out: &mut Vec<u8>,
) {
    let base_timestamp = delete_horizon_ms.unwrap_or(records[0].timestamp);
    scratch.clear();
    let mut max_timestamp = NO_TIMESTAMP;
    for record in records {
        max_timestamp = max_timestamp.max(record.timestamp);
        let timestamp_delta = record.timestamp.wrapping_sub(base_timestamp);
        let offset_delta = record.offset - header.base_offset;
        let length = 1 + varint_len(timestamp_delta) + varint_len(offset_delta) + record.tail.len();
        write_varint(scratch, length as i64);
        scratch.push(0);
        write_varint(scratch, timestamp_delta);
        write_varint(scratch, offset_delta);
        scratch.extend_from_slice(record.tail);
    }
    let horizon = if delete_horizon_ms.is_some() { DELETE_HORIZON } else { 0 };
    let log_append_time = header.attributes.has_log_append_time();
    let rewritten = BatchHeader {
        attributes: Attributes(header.attributes.0 & LASTING | horizon),
        base_timestamp,
        max_timestamp: if log_append_time { header.max_timestamp } else { max_timestamp },
        records_count: records.len() as i32,
        ..*header
    };
    write_sealed(&rewritten, scratch, out);
}

/// Appends the batch of `header` without records: its offsets and its producer stay known.
pub fn write_empty(header: &BatchHeader, out: &mut Vec<u8>) {
    let rewritten = BatchHeader {
        attributes: Attributes(header.attributes.0 & LASTING),
        base_timestamp: NO_TIMESTAMP,
        records_count: 0,
        ..*header
    };
    write_sealed(&rewritten, &[], out);
}
