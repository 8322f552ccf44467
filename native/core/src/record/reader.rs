//! Bounds-checked reading of record fields (log-format sections 2 to 4). Borrows, never panics,
//! and believes no count before the bytes are there.

use core::fmt;

use crate::request::Uuid;
use crate::utf8::utf8;

/// Why bytes of the log cannot be read. The replay adds where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError(pub &'static str);

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for DecodeError {}

const ENDS_EARLY: DecodeError = DecodeError("ends in the middle of a field");
pub(crate) const NOT_UTF8: DecodeError = DecodeError("a string is not UTF-8");
const TOO_LONG: DecodeError = DecodeError("a string is longer than 32767 bytes");
const NULL: DecodeError = DecodeError("a field that cannot be null is null");

/// What is left to read.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads from the first byte on.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    /// What was not read.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next `length` bytes.
    #[inline]
    pub fn take(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(ENDS_EARLY)?;
        self.rest = rest;
        Ok(taken)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(ENDS_EARLY)?;
        self.rest = rest;
        Ok(*taken)
    }

    /// A byte.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Big-endian.
    #[inline]
    pub fn i16(&mut self) -> Result<i16, DecodeError> {
        self.array().map(i16::from_be_bytes)
    }

    /// Big-endian.
    #[inline]
    pub fn i32(&mut self) -> Result<i32, DecodeError> {
        self.array().map(i32::from_be_bytes)
    }

    /// Big-endian.
    #[inline]
    pub fn i64(&mut self) -> Result<i64, DecodeError> {
        self.array().map(i64::from_be_bytes)
    }

    /// 16 bytes, most significant half first.
    #[inline]
    pub fn uuid(&mut self) -> Result<Uuid, DecodeError> {
        self.array().map(|bytes| Uuid(u128::from_be_bytes(bytes)))
    }

    /// ZigZag, at most 5 bytes (`ByteUtils.readVarint`).
    #[inline]
    pub fn varint(&mut self) -> Result<i32, DecodeError> {
        let raw = self.unsigned_varint()?;
        Ok((raw >> 1) as i32 ^ -((raw & 1) as i32))
    }

    /// ZigZag, at most 10 bytes (`ByteUtils.readVarlong`).
    #[inline]
    pub fn varlong(&mut self) -> Result<i64, DecodeError> {
        let raw = self.base128(10)?;
        Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }

    /// At most 5 bytes; as in Java, what the fifth has above bit 31 is dropped.
    #[inline]
    pub fn unsigned_varint(&mut self) -> Result<u32, DecodeError> {
        self.base128(5).map(|raw| raw as u32)
    }

    #[inline]
    fn base128(&mut self, longest: usize) -> Result<u64, DecodeError> {
        match self.rest {
            [first, rest @ ..] if *first < 0x80 => {
                self.rest = rest;
                Ok(u64::from(*first))
            }
            _ => self.base128_long(longest),
        }
    }

    fn base128_long(&mut self, longest: usize) -> Result<u64, DecodeError> {
        let mut value = 0;
        for (index, byte) in self.rest.iter().take(longest).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * index);
            if *byte < 0x80 {
                self.rest = &self.rest[index + 1..];
                return Ok(value);
            }
        }
        let whole = self.rest.len() >= longest;
        Err(if whole { DecodeError("a varint is too long") } else { ENDS_EARLY })
    }

    /// int16 length; negative lengths are an error.
    #[inline]
    pub fn string(&mut self) -> Result<&'a str, DecodeError> {
        self.nullable_string()?.ok_or(NULL)
    }

    /// The bytes of a string, whatever they are. As for all strings a negative length is an error.
    #[inline]
    pub fn string_bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = usize::try_from(self.i16()?).map_err(|_| NULL)?;
        self.take(length)
    }

    /// STRING; length -1: `None`.
    #[inline]
    pub fn nullable_string(&mut self) -> Result<Option<&'a str>, DecodeError> {
        match usize::try_from(self.i16()?) {
            Ok(length) => self.text(length).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// COMPACT_STRING.
    pub fn compact_string(&mut self) -> Result<&'a str, DecodeError> {
        self.compact_nullable_string()?.ok_or(NULL)
    }

    /// COMPACT_NULLABLE_STRING.
    pub fn compact_nullable_string(&mut self) -> Result<Option<&'a str>, DecodeError> {
        match self.unsigned_varint()? {
            0 => Ok(None),
            length => self.text(length as usize - 1).map(Some),
        }
    }

    /// A compact length could say more than the strings of any message hold; so it is in Kafka.
    #[inline]
    fn text(&mut self, length: usize) -> Result<&'a str, DecodeError> {
        if length > i16::MAX as usize {
            return Err(TOO_LONG);
        }
        utf8(self.take(length)?).ok_or(NOT_UTF8)
    }

    /// int32 length; negative lengths are an error.
    pub fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = usize::try_from(self.i32()?).map_err(|_| NULL)?;
        self.take(length)
    }

    /// int32 length, negative for null.
    pub fn nullable_bytes(&mut self) -> Result<Option<&'a [u8]>, DecodeError> {
        match usize::try_from(self.i32()?) {
            Ok(length) => self.take(length).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// COMPACT_BYTES.
    pub fn compact_bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        match self.unsigned_varint()? {
            0 => Err(NULL),
            length => self.take(length as usize - 1),
        }
    }

    /// A varint length, -1 for null: keys and values of records and of their headers.
    #[inline]
    pub fn varint_bytes(&mut self) -> Result<Option<&'a [u8]>, DecodeError> {
        match usize::try_from(self.varint()?) {
            Ok(length) => self.take(length).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// The tag buffer at the end of a flexible struct; `field` gets each tag's number and bytes.
    pub fn tagged_fields(
        &mut self,
        mut field: impl FnMut(u32, &'a [u8]) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        for _ in 0..self.unsigned_varint()? {
            let tag = self.unsigned_varint()?;
            let length = self.unsigned_varint()?;
            field(tag, self.take(length as usize)?)?;
        }
        Ok(())
    }
}
