//! How far a walk over the offsets of a group goes at once, and where it goes on.

use super::entries::Key;

/// Offsets that are looked at in one go, at most.
const LOOKED: usize = 32_768;

/// Tombstones that are written in one go, at most.
const TOMBSTONES: usize = 512;

/// The next offset of a group that is to be looked at, or where it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place(pub(super) Key);

/// What was done of what may be done in one go.
#[derive(Debug, Default)]
pub struct Bounds {
    looked: usize,
    tombstones: usize,
}

impl Bounds {
    /// Whether nothing more may be done.
    pub fn are_met(&self) -> bool {
        self.looked >= LOOKED || self.tombstones >= TOMBSTONES
    }

    /// An offset was looked at.
    pub(super) fn look(&mut self) {
        self.looked += 1;
    }

    /// So many tombstones were written, or will be.
    pub fn written(&mut self, count: usize) {
        self.tombstones += count;
    }

    /// How many offsets were looked at.
    pub fn looked(&self) -> usize {
        self.looked
    }

    /// How many tombstones were written.
    pub fn tombstones(&self) -> usize {
        self.tombstones
    }
}
