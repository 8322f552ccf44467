//! The id of a member, handed about without taking memory.

use core::fmt;
use core::ops::Deref;
use std::sync::Arc;

use crate::utf8::utf8;

/// As clients make them: 16 bytes in base64.
const INLINE_BYTES: usize = 22;

/// The id of a member of a consumer group. A clone takes no memory: up to 22 bytes, which is what
/// clients make, lie in the value itself; longer ones are shared.
#[derive(Clone)]
pub struct MemberId(Repr);

#[derive(Clone)]
enum Repr {
    Inline(u8, [u8; INLINE_BYTES]),
    Shared(Arc<str>),
}

const _: () = assert!(size_of::<MemberId>() == 24, "a member id must leave room in its row");

impl MemberId {
    /// Of these characters.
    pub fn new(id: &str) -> Self {
        let bytes = id.as_bytes();
        if bytes.len() > INLINE_BYTES {
            return MemberId(Repr::Shared(id.into()));
        }
        let mut inline = [0; INLINE_BYTES];
        inline[..bytes.len()].copy_from_slice(bytes);
        MemberId(Repr::Inline(bytes.len() as u8, inline))
    }

    /// Its characters in UTF-8.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline(length, bytes) => &bytes[..usize::from(*length)],
            Repr::Shared(text) => text.as_bytes(),
        }
    }
}

impl Deref for MemberId {
    type Target = str;

    fn deref(&self) -> &str {
        match &self.0 {
            Repr::Inline(..) => utf8(self.as_bytes()).expect("made from a string"),
            Repr::Shared(text) => text,
        }
    }
}

impl Default for MemberId {
    fn default() -> Self {
        MemberId::new("")
    }
}

impl PartialEq for MemberId {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for MemberId {}

impl PartialOrd for MemberId {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for MemberId {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl fmt::Debug for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_any_length_are_compared_as_their_characters() {
        let long = "consumer-é".repeat(9);
        let texts = ["", "a", "é", "XyAbCdEfGhIjKl00000001", "XyAbCdEfGhIjKl000000012", &long];
        for one in texts {
            let id = MemberId::new(one);
            assert_eq!(
                (&*id, id.as_bytes(), id.to_string()),
                (one, one.as_bytes(), one.to_owned())
            );
            for other in texts {
                assert_eq!(id.cmp(&MemberId::new(other)), one.cmp(other));
                assert_eq!(id == MemberId::new(other), one == other);
            }
        }
        assert_eq!(MemberId::default(), MemberId::new(""));
    }
}
