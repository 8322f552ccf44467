//! Strings out of bytes.

use ascii::AsciiStr;

/// Ids and names are ASCII nearly always, and short; checking just that costs a third of the full
/// check.
#[inline]
pub fn utf8(bytes: &[u8]) -> Option<&str> {
    match AsciiStr::from_ascii(bytes) {
        Ok(ascii) => Some(ascii.as_str()),
        Err(_) => core::str::from_utf8(bytes).ok(),
    }
}
