//! The records area of a RecordBatch v2, written record by record (log-format section 4.2).

/// Appends one record without headers. `offset_delta` counts from the batch's base offset.
pub fn write_record(
    out: &mut Vec<u8>,
    timestamp_delta: i64,
    offset_delta: i32,
    key: &[u8],
    value: Option<&[u8]>,
) {
    let value_length = value.map_or(-1, |value| value.len() as i64);
    let body = 1
        + varint_len(timestamp_delta)
        + varint_len(i64::from(offset_delta))
        + varint_len(key.len() as i64)
        + key.len()
        + varint_len(value_length)
        + value.map_or(0, <[u8]>::len)
        + 1;
    out.reserve(body + 5);
    write_varint(out, body as i64);
    out.push(0);
    write_varint(out, timestamp_delta);
    write_varint(out, i64::from(offset_delta));
    write_varint(out, key.len() as i64);
    out.extend_from_slice(key);
    write_varint(out, value_length);
    out.extend_from_slice(value.unwrap_or_default());
    out.push(0);
}

/// ZigZag, then base-128 groups, least significant first (`ByteUtils.writeVarlong`).
pub fn write_varint(out: &mut Vec<u8>, value: i64) {
    let mut rest = zigzag(value);
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// How many bytes `write_varint` writes.
pub const fn varint_len(value: i64) -> usize {
    let bits = 64 - (zigzag(value) | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}
