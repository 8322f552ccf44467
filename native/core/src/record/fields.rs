//! Writing of record fields, plain and flexible. Lengths are the caller's promise: a string that
//! does not fit its length prefix is a broken invariant (the codec reads none above 32767 bytes).

use crate::request::Uuid;

/// Big-endian.
pub fn write_i16(out: &mut Vec<u8>, value: i16) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Big-endian.
pub fn write_i32(out: &mut Vec<u8>, value: i32) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Big-endian.
pub fn write_i64(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// 16 bytes, most significant half first.
pub fn write_uuid(out: &mut Vec<u8>, value: Uuid) {
    out.extend_from_slice(&value.0.to_be_bytes());
}

/// 7 bits a byte, the lowest first.
pub fn write_unsigned_varint(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// int16 length.
pub fn write_string(out: &mut Vec<u8>, value: &str) {
    let length = i16::try_from(value.len()).expect("strings are at most 32767 bytes");
    write_i16(out, length);
    out.extend_from_slice(value.as_bytes());
}

/// STRING with length -1 for `None`.
pub fn write_nullable_string(out: &mut Vec<u8>, value: Option<&str>) {
    match value {
        Some(value) => write_string(out, value),
        None => write_i16(out, -1),
    }
}

/// COMPACT_STRING.
pub fn write_compact_string(out: &mut Vec<u8>, value: &str) {
    write_compact_bytes(out, value.as_bytes());
}

/// COMPACT_NULLABLE_STRING.
pub fn write_compact_nullable_string(out: &mut Vec<u8>, value: Option<&str>) {
    match value {
        Some(value) => write_compact_string(out, value),
        None => out.push(0),
    }
}

/// int32 length.
pub fn write_bytes(out: &mut Vec<u8>, value: &[u8]) {
    write_i32(out, i32::try_from(value.len()).expect("bytes fit an int32 length"));
    out.extend_from_slice(value);
}

/// COMPACT_BYTES.
pub fn write_compact_bytes(out: &mut Vec<u8>, value: &[u8]) {
    write_unsigned_varint(out, compact_length(value.len()));
    out.extend_from_slice(value);
}

/// Length prefix of a compact array: its count plus one.
pub fn write_compact_count(out: &mut Vec<u8>, count: usize) {
    write_unsigned_varint(out, compact_length(count));
}

/// One tagged field; the tag count stands before the first of them.
pub fn write_tagged_field(out: &mut Vec<u8>, tag: u32, field: impl FnOnce(&mut Vec<u8>)) {
    write_unsigned_varint(out, tag);
    let start = out.len();
    field(out);
    let end = out.len();
    let size = u32::try_from(end - start).expect("a tagged field fits an unsigned varint");
    // The size stands before the field and its width depends on it: appended, then moved ahead.
    write_unsigned_varint(out, size);
    let width = out.len() - end;
    out[start..].rotate_right(width);
}

fn compact_length(length: usize) -> u32 {
    u32::try_from(length + 1).expect("a compact length fits an unsigned varint")
}
