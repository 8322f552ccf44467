//! Writes Kafka's types to the end of a buffer. It knows nothing of APIs, and it trusts its caller:
//! a string over Kafka's limit is a broken invariant, since every string came in by a reader.

use kcoord_core::ErrorCode;
use kcoord_core::request::Uuid;

use crate::reader::MAX_STRING_LENGTH;

/// See the module's first lines.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
    flexible: bool,
}

impl<'a> Writer<'a> {
    /// `flexible`: compact lengths and tag buffers (KIP-482).
    pub const fn new(out: &'a mut Vec<u8>, flexible: bool) -> Writer<'a> {
        Writer { out, flexible }
    }

    /// A byte: 0 or 1.
    #[inline]
    pub fn boolean(&mut self, value: bool) {
        self.out.push(u8::from(value));
    }

    /// A signed byte.
    #[inline]
    pub fn i8(&mut self, value: i8) {
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    /// Before a struct that may be null, and is not.
    #[inline]
    pub fn present_struct(&mut self) {
        self.i8(1);
    }

    /// In place of a struct.
    #[inline]
    pub fn null_struct(&mut self) {
        self.i8(-1);
    }

    /// Big-endian.
    #[inline]
    pub fn i16(&mut self, value: i16) {
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    /// Big-endian.
    #[inline]
    pub fn i32(&mut self, value: i32) {
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    /// Big-endian.
    #[inline]
    pub fn i64(&mut self, value: i64) {
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    /// 16 bytes, most significant half first.
    #[inline]
    pub fn uuid(&mut self, value: Uuid) {
        self.out.extend_from_slice(&value.0.to_be_bytes());
    }

    /// As an INT16.
    #[inline]
    pub fn error_code(&mut self, value: ErrorCode) {
        self.i16(value.code());
    }

    /// A string.
    #[inline]
    pub fn string(&mut self, value: &str) {
        assert!(value.len() <= MAX_STRING_LENGTH, "a string of {} bytes", value.len());
        if self.flexible {
            self.compact_length(value.len());
        } else {
            self.i16(value.len() as i16);
        }
        self.out.extend_from_slice(value.as_bytes());
    }

    /// A string, or null.
    #[inline]
    pub fn nullable_string(&mut self, value: Option<&str>) {
        match value {
            Some(value) => self.string(value),
            None if self.flexible => self.out.push(0),
            None => self.i16(-1),
        }
    }

    /// Bytes.
    #[inline]
    pub fn bytes(&mut self, value: &[u8]) {
        self.array_length(value.len());
        self.out.extend_from_slice(value);
    }

    /// Bytes, or null.
    #[inline]
    pub fn nullable_bytes(&mut self, value: Option<&[u8]>) {
        match value {
            Some(value) => self.bytes(value),
            None => self.null_array(),
        }
    }

    /// Before the elements of an array.
    #[inline]
    pub fn array_length(&mut self, length: usize) {
        if self.flexible {
            self.compact_length(length);
        } else {
            self.i32(i32::try_from(length).expect("an array or bytes below 2 GiB"));
        }
    }

    /// An array that is null.
    #[inline]
    pub fn null_array(&mut self) {
        if self.flexible { self.out.push(0) } else { self.i32(-1) }
    }

    /// The end of a struct: an empty tag buffer in a flexible version.
    #[inline]
    pub fn tags(&mut self) {
        if self.flexible {
            self.out.push(0);
        }
    }

    /// Length plus one; zero is null.
    #[inline]
    fn compact_length(&mut self, length: usize) {
        let mut rest = length + 1;
        while rest >= 0x80 {
            self.out.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        self.out.push(rest as u8);
    }
}

/// Bytes of an unsigned varint.
pub(crate) fn varint_bytes(value: usize) -> usize {
    value.max(1).ilog2() as usize / 7 + 1
}
