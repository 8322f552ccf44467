//! Bytes that an answer has in common with the state it was made of: no copy, whatever they become.

use core::fmt;
use core::ops::Deref;
use std::sync::Arc;

/// A part of an allocation that is never written to while somebody else has it.
#[derive(Clone)]
pub struct SharedBytes {
    all: Arc<[u8]>,
    start: usize,
    end: usize,
}

impl SharedBytes {
    /// `part` of `all`, which it lies in.
    pub fn part_of(all: &Arc<[u8]>, part: &[u8]) -> Self {
        if part.is_empty() {
            return SharedBytes { all: Arc::clone(all), start: 0, end: 0 };
        }
        let start = part.as_ptr().addr() - all.as_ptr().addr();
        let end = start + part.len();
        assert!(end <= all.len(), "it is a part of something else");
        SharedBytes { all: Arc::clone(all), start, end }
    }
}

impl Deref for SharedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.all[self.start..self.end]
    }
}

impl From<&[u8]> for SharedBytes {
    fn from(bytes: &[u8]) -> Self {
        SharedBytes { all: bytes.into(), start: 0, end: bytes.len() }
    }
}

impl From<Vec<u8>> for SharedBytes {
    fn from(bytes: Vec<u8>) -> Self {
        bytes.as_slice().into()
    }
}

impl PartialEq for SharedBytes {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl fmt::Debug for SharedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_the_same_memory_and_keeps_it() {
        let all: Arc<[u8]> = Arc::from([1, 2, 3, 4]);
        let part = SharedBytes::part_of(&all, &all[1..3]);
        assert!(std::ptr::addr_eq(part.as_ptr(), all[1..].as_ptr()));
        assert!(SharedBytes::part_of(&all, &[]).is_empty());
        drop(all);
        assert_eq!((&*part, part.clone()), (&[2, 3][..], SharedBytes::from(vec![2, 3])));
    }
}
