//! Strings of groups, made small: ids kept inside their row, and names shared by many groups.

use core::fmt;
use core::ops::Deref;
use std::sync::Arc;

use ahash::RandomState;
use hashbrown::HashTable;

use crate::utf8::utf8;

const INLINE_BYTES: usize = 22;

/// A group id. One of up to 22 bytes needs no allocation. It reads as a `str`.
#[derive(Clone, PartialEq, Eq)]
pub struct GroupId(Repr);

#[derive(Clone, PartialEq, Eq)]
enum Repr {
    Inline(u8, [u8; INLINE_BYTES]),
    Heap(Box<[u8]>),
}

const _: () = assert!(size_of::<GroupId>() == 24, "a group id must leave room in its row");

impl GroupId {
    /// The id that reads so.
    pub fn new(id: &str) -> Self {
        let bytes = id.as_bytes();
        if bytes.len() > INLINE_BYTES {
            return GroupId(Repr::Heap(bytes.into()));
        }
        let mut inline = [0; INLINE_BYTES];
        inline[..bytes.len()].copy_from_slice(bytes);
        GroupId(Repr::Inline(bytes.len() as u8, inline))
    }

    /// In UTF-8.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline(length, bytes) => &bytes[..usize::from(*length)],
            Repr::Heap(bytes) => bytes,
        }
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        utf8(self.as_bytes()).expect("made from a string")
    }
}

impl From<&str> for GroupId {
    fn from(id: &str) -> Self {
        GroupId::new(id)
    }
}

impl Deref for GroupId {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl Default for GroupId {
    fn default() -> Self {
        GroupId::new("")
    }
}

impl fmt::Debug for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), f)
    }
}

/// A string that many groups share: a protocol type or a protocol name.
pub type Shared = Arc<Box<str>>;

/// Gives equal strings one home. What no group uses any more is dropped when the table would grow.
#[derive(Debug, Default)]
pub struct Interner {
    table: HashTable<Shared>,
}

impl Interner {
    pub fn intern(&mut self, hasher: &RandomState, text: &str) -> Shared {
        let hash = hasher.hash_one(text);
        if let Some(shared) = self.table.find(hash, |shared| &***shared == text) {
            return Shared::clone(shared);
        }
        if self.table.len() == self.table.capacity() {
            self.table.retain(|shared| Arc::strong_count(shared) > 1);
        }
        let shared = Shared::new(text.into());
        let rehash = |shared: &Shared| hasher.hash_one(&***shared);
        self.table.insert_unique(hash, Shared::clone(&shared), rehash);
        shared
    }
}
