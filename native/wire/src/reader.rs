//! A bounds-checked cursor over the bytes of one frame. It never reads past the end, never
//! believes a count or a length before the bytes are there, and never panics, on any input.
//! Strings and bytes borrow from the frame; nothing is allocated but the vectors of arrays.

use core::fmt;

use ascii::AsciiStr;
use kcoord_core::ErrorCode;
use kcoord_core::request::Uuid;

/// Why bytes from the network could not be read. The connection is closed; no peer sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// The field that was being read, in snake case of Kafka's name.
    pub field: &'static str,
    /// What is wrong with it.
    pub kind: DecodeErrorKind,
    /// Bytes of the frame read so far.
    pub position: usize,
}

/// Why bytes cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeErrorKind {
    /// The field needs more bytes than are left.
    EndOfInput,
    /// Null where the schema has no null.
    Null,
    /// A string longer than Kafka's 32,767 bytes, or a client id no member id can be made from.
    TooLong,
    /// More elements than the bytes that are left could hold.
    TooManyElements,
    /// More elements than are served: reading millions would hold others up.
    BeyondBound,
    /// A string is not UTF-8.
    InvalidUtf8,
    /// A varint of more than 32 bits.
    InvalidVarint,
    /// Client side: an error code, state or type that kcoord does not know.
    UnknownValue,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match self.kind {
            DecodeErrorKind::EndOfInput => "goes beyond the end of the frame",
            DecodeErrorKind::Null => "must not be null",
            DecodeErrorKind::TooLong => "is too long",
            DecodeErrorKind::TooManyElements => "claims more elements than the frame can hold",
            DecodeErrorKind::BeyondBound => "has more elements than are served",
            DecodeErrorKind::InvalidUtf8 => "is not UTF-8",
            DecodeErrorKind::InvalidVarint => "has a malformed length",
            DecodeErrorKind::UnknownValue => "holds an unknown value",
        };
        write!(f, "{} (byte {}) {reason}", self.field, self.position)
    }
}

impl std::error::Error for DecodeError {}

/// What reading gives.
pub type Result<T> = core::result::Result<T, DecodeError>;

/// Longest string of the protocol, in bytes (`Short.MAX_VALUE`).
pub const MAX_STRING_LENGTH: usize = 0x7fff;

/// See the module's first lines.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    length: usize,
    encoding: Encoding,
}

/// As wide as its neighbours, so that a reader moves by whole words: a narrow store before a wide
/// load stalls, and cost a heartbeat half of its time.
#[repr(usize)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Plain,
    Flexible,
}

impl Encoding {
    const fn of(flexible: bool) -> Encoding {
        if flexible { Encoding::Flexible } else { Encoding::Plain }
    }
}

impl<'a> Reader<'a> {
    /// `flexible`: compact lengths and tag buffers (KIP-482).
    pub const fn new(bytes: &'a [u8], flexible: bool) -> Reader<'a> {
        Reader { rest: bytes, length: bytes.len(), encoding: Encoding::of(flexible) }
    }

    /// Switches the encoding: a request header is read before its body's encoding is known.
    pub const fn set_flexible(&mut self, flexible: bool) {
        self.encoding = Encoding::of(flexible);
    }

    const fn flexible(&self) -> bool {
        matches!(self.encoding, Encoding::Flexible)
    }

    /// Bytes read so far.
    pub const fn position(&self) -> usize {
        self.length - self.rest.len()
    }

    /// How many bytes are left.
    pub const fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// A byte: 0 is false, all else true.
    #[inline]
    pub fn boolean(&mut self, field: &'static str) -> Result<bool> {
        Ok(self.fixed::<1>(field)?[0] != 0)
    }

    /// A signed byte.
    #[inline]
    pub fn i8(&mut self, field: &'static str) -> Result<i8> {
        self.fixed(field).map(i8::from_be_bytes)
    }

    /// Whether a struct that may be null follows.
    #[inline]
    pub fn is_present(&mut self, field: &'static str) -> Result<bool> {
        Ok(self.i8(field)? >= 0)
    }

    /// Big-endian.
    #[inline]
    pub fn i16(&mut self, field: &'static str) -> Result<i16> {
        self.fixed(field).map(i16::from_be_bytes)
    }

    /// Big-endian.
    #[inline]
    pub fn i32(&mut self, field: &'static str) -> Result<i32> {
        self.fixed(field).map(i32::from_be_bytes)
    }

    /// Big-endian.
    #[inline]
    pub fn i64(&mut self, field: &'static str) -> Result<i64> {
        self.fixed(field).map(i64::from_be_bytes)
    }

    /// 16 bytes, most significant half first.
    #[inline]
    pub fn uuid(&mut self, field: &'static str) -> Result<Uuid> {
        self.fixed(field).map(|bytes| Uuid(u128::from_be_bytes(bytes)))
    }

    /// Client side: a code that [`ErrorCode`] has no name for is refused.
    pub fn error_code(&mut self, field: &'static str) -> Result<ErrorCode> {
        let code = self.i16(field)?;
        ErrorCode::from_code(code).ok_or_else(|| self.error(field, DecodeErrorKind::UnknownValue))
    }

    /// A string; null is an error.
    #[inline(always)]
    pub fn string(&mut self, field: &'static str) -> Result<&'a str> {
        match self.nullable_string(field)? {
            Some(string) => Ok(string),
            None => Err(self.error(field, DecodeErrorKind::Null)),
        }
    }

    /// A string, or null.
    #[inline(always)]
    pub fn nullable_string(&mut self, field: &'static str) -> Result<Option<&'a str>> {
        let length = if self.flexible() {
            self.compact_length(field)?
        } else {
            // Any negative length is null to Kafka's generated readers.
            usize::try_from(self.i16(field)?).ok()
        };
        let Some(length) = length else { return Ok(None) };
        if length > MAX_STRING_LENGTH {
            return Err(self.error(field, DecodeErrorKind::TooLong));
        }
        let bytes = self.take(field, length)?;
        match utf8(bytes) {
            Some(string) => Ok(Some(string)),
            None => Err(self.error(field, DecodeErrorKind::InvalidUtf8)),
        }
    }

    /// Bytes; null is an error.
    #[inline]
    pub fn bytes(&mut self, field: &'static str) -> Result<&'a [u8]> {
        match self.nullable_bytes(field)? {
            Some(bytes) => Ok(bytes),
            None => Err(self.error(field, DecodeErrorKind::Null)),
        }
    }

    /// Bytes, or null.
    #[inline]
    pub fn nullable_bytes(&mut self, field: &'static str) -> Result<Option<&'a [u8]>> {
        match self.long_length(field)? {
            Some(length) => self.take(field, length).map(Some),
            None => Ok(None),
        }
    }

    /// `minimum`: bytes of the smallest possible element, in either encoding. The vector is
    /// allocated once, and only when the bytes that are left can hold that many elements.
    #[inline]
    pub fn array<T>(
        &mut self,
        field: &'static str,
        minimum: usize,
        element: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        match self.nullable_array(field, minimum, element)? {
            Some(elements) => Ok(elements),
            None => Err(self.error(field, DecodeErrorKind::Null)),
        }
    }

    /// [`Reader::array`], whose elements are taken out of those that the request may have `left`.
    #[inline]
    pub fn counted_array<T>(
        &mut self,
        field: &'static str,
        minimum: usize,
        left: &mut usize,
        element: impl FnMut(&mut Self, &mut usize) -> Result<T>,
    ) -> Result<Vec<T>> {
        match self.nullable_counted_array(field, minimum, left, element)? {
            Some(elements) => Ok(elements),
            None => Err(self.error(field, DecodeErrorKind::Null)),
        }
    }

    /// [`Reader::array`], where null is allowed.
    #[inline]
    pub fn nullable_array<T>(
        &mut self,
        field: &'static str,
        minimum: usize,
        mut element: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Option<Vec<T>>> {
        let mut left = usize::MAX;
        self.nullable_counted_array(field, minimum, &mut left, |body, _| element(body))
    }

    /// [`Reader::counted_array`], where null is allowed.
    #[inline]
    pub fn nullable_counted_array<T>(
        &mut self,
        field: &'static str,
        minimum: usize,
        left: &mut usize,
        mut element: impl FnMut(&mut Self, &mut usize) -> Result<T>,
    ) -> Result<Option<Vec<T>>> {
        let Some(count) = self.counted_length(field, minimum, left)? else { return Ok(None) };
        let mut elements = Vec::with_capacity(count);
        for _ in 0..count {
            elements.push(element(self, left)?);
        }
        Ok(Some(elements))
    }

    /// What comes before the elements of such an array: how many there are; `None`: it is null.
    #[inline(always)]
    pub fn counted_length(
        &mut self,
        field: &'static str,
        minimum: usize,
        left: &mut usize,
    ) -> Result<Option<usize>> {
        let Some(count) = self.long_length(field)? else { return Ok(None) };
        if count > self.rest.len() / minimum {
            return Err(self.error(field, DecodeErrorKind::TooManyElements));
        }
        let Some(after) = left.checked_sub(count) else {
            return Err(self.error(field, DecodeErrorKind::BeyondBound));
        };
        *left = after;
        Ok(Some(count))
    }

    /// Passes over so many bytes.
    #[inline]
    pub fn skip(&mut self, field: &'static str, length: usize) -> Result<()> {
        self.take(field, length).map(drop)
    }

    /// The end of a struct: skips the tag buffer of a flexible version.
    #[inline]
    pub fn tags(&mut self) -> Result<()> {
        if !self.flexible() {
            return Ok(());
        }
        if let [0, rest @ ..] = self.rest {
            self.rest = rest;
            return Ok(());
        }
        self.skip_tags()
    }

    /// No tag of the APIs served here is known, so all are skipped; each must lie in the frame.
    #[cold]
    fn skip_tags(&mut self) -> Result<()> {
        const FIELD: &str = "tagged_fields";
        for _ in 0..self.unsigned_varint(FIELD)? {
            self.unsigned_varint(FIELD)?;
            let size = self.unsigned_varint(FIELD)?;
            self.take(FIELD, size as usize)?;
        }
        Ok(())
    }

    #[inline]
    fn long_length(&mut self, field: &'static str) -> Result<Option<usize>> {
        if self.flexible() {
            self.compact_length(field)
        } else {
            Ok(usize::try_from(self.i32(field)?).ok())
        }
    }

    /// Length plus one; zero is null.
    #[inline]
    fn compact_length(&mut self, field: &'static str) -> Result<Option<usize>> {
        Ok((self.unsigned_varint(field)? as usize).checked_sub(1))
    }

    #[inline]
    fn unsigned_varint(&mut self, field: &'static str) -> Result<u32> {
        if let [byte, rest @ ..] = self.rest
            && *byte < 0x80
        {
            self.rest = rest;
            return Ok(u32::from(*byte));
        }
        self.long_varint(field)
    }

    fn long_varint(&mut self, field: &'static str) -> Result<u32> {
        let mut value = 0;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.fixed::<1>(field)?;
            if shift == 28 && byte > 0x0f {
                break;
            }
            value |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.error(field, DecodeErrorKind::InvalidVarint))
    }

    #[inline]
    fn fixed<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N]> {
        match self.rest.split_first_chunk::<N>() {
            Some((head, rest)) => {
                self.rest = rest;
                Ok(*head)
            }
            None => Err(self.error(field, DecodeErrorKind::EndOfInput)),
        }
    }

    #[inline]
    fn take(&mut self, field: &'static str, length: usize) -> Result<&'a [u8]> {
        match self.rest.split_at_checked(length) {
            Some((head, rest)) => {
                self.rest = rest;
                Ok(head)
            }
            None => Err(self.error(field, DecodeErrorKind::EndOfInput)),
        }
    }

    /// An error at the reader's position, for checks that a codec makes itself.
    #[cold]
    pub const fn error(&self, field: &'static str, kind: DecodeErrorKind) -> DecodeError {
        DecodeError { field, kind, position: self.position() }
    }
}

/// Ids are ASCII nearly always, and short; checking just that costs a third of the full check.
#[inline]
fn utf8(bytes: &[u8]) -> Option<&str> {
    match AsciiStr::from_ascii(bytes) {
        Ok(ascii) => Some(ascii.as_str()),
        Err(_) => core::str::from_utf8(bytes).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_of_up_to_32_bits_are_read() {
        let cases: [(&[u8], u32); 6] = [
            (&[0x00], 0),
            (&[0x7f], 127),
            (&[0x80, 0x01], 128),
            (&[0xff, 0x7f], 16383),
            (&[0x80, 0x80, 0x01], 16384),
            (&[0xff, 0xff, 0xff, 0xff, 0x0f], u32::MAX),
        ];
        for (bytes, value) in cases {
            assert_eq!(Reader::new(bytes, true).unsigned_varint("x"), Ok(value));
        }
    }

    #[test]
    fn varints_of_more_than_32_bits_are_refused() {
        for bytes in [[0xff, 0xff, 0xff, 0xff, 0x10], [0xff; 5]] {
            let error = Reader::new(&bytes, true).unsigned_varint("x").unwrap_err();
            assert_eq!(error.kind, DecodeErrorKind::InvalidVarint);
        }
    }

    #[test]
    fn a_count_is_checked_before_anything_is_allocated() {
        for bytes in [&[0x7f, 0xff, 0xff, 0xff, 0, 0][..], &[0, 0, 0, 2, 0, 0][..]] {
            let error = Reader::new(bytes, false).array("x", 2, |r| r.i16("y")).unwrap_err();
            assert_eq!(
                error,
                DecodeError { field: "x", kind: DecodeErrorKind::TooManyElements, position: 4 }
            );
        }
    }

    #[test]
    fn negative_lengths_are_null_and_null_is_refused_where_the_schema_has_none() {
        let bytes = [0xff, 0xfe];
        assert_eq!(Reader::new(&bytes, false).nullable_string("x"), Ok(None));
        let error = Reader::new(&bytes, false).string("x").unwrap_err();
        assert_eq!(error.kind, DecodeErrorKind::Null);
        assert_eq!(error.to_string(), "x (byte 2) must not be null");
    }

    #[test]
    fn strings_are_utf_8_and_at_most_32767_bytes() {
        let error = Reader::new(&[0, 1, 0xff], false).string("x").unwrap_err();
        assert_eq!(error.kind, DecodeErrorKind::InvalidUtf8);
        let mut long = vec![0x81, 0x80, 0x02];
        long.resize(3 + 0x8000, b'a');
        let error = Reader::new(&long, true).string("x").unwrap_err();
        assert_eq!(error.kind, DecodeErrorKind::TooLong);
    }

    #[test]
    fn unknown_tags_are_skipped_and_must_lie_in_the_frame() {
        let mut reader = Reader::new(&[2, 0, 1, 9, 5, 2, 8, 8, 7], true);
        assert_eq!(reader.tags(), Ok(()));
        assert_eq!(reader.remaining(), 1);
        for bytes in [&[1, 0, 3, 1, 2][..], &[5, 0, 0][..], &[][..]] {
            let error = Reader::new(bytes, true).tags().unwrap_err();
            assert_eq!(error.kind, DecodeErrorKind::EndOfInput);
        }
    }
}
