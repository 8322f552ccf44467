//! Where the wheel's entries live: a slab in chunks, with generations.
//!
//! Entries never move and a full slab grows by one chunk, so that no insert ever copies the others
//! and no memory is held in reserve. An id that has been removed must never match a later entry.

use core::hint::black_box;

use super::lines::{Entries, Spot};

/// Marks the end of a list, and the id that no timer has.
pub(super) const NIL: u32 = u32::MAX;

const CHUNK_BITS: u32 = 8;
const CHUNK_ENTRIES: usize = 1 << CHUNK_BITS;

/// Names one timer. It becomes stale when the timer fires or is cancelled; a stale id is harmless.
///
/// One number: a pair would be written in halves, and who reads it whole right after waits for
/// both to leave the core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerId(u64);

impl TimerId {
    /// Equal to no timer's id, at any time.
    pub const NONE: TimerId = TimerId(0);

    const fn new(index: u32, generation: u32) -> TimerId {
        TimerId((generation as u64) << 32 | index.wrapping_add(1) as u64)
    }

    pub(super) const fn index(self) -> u32 {
        (self.0 as u32).wrapping_sub(1)
    }

    const fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    pub const fn is_none(self) -> bool {
        self.index() == NIL
    }

    /// The id as one number, for callers that cannot hold a struct; 0 for `NONE`.
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// Any number is an acceptable id: one that was never given out is stale.
    pub const fn from_bits(bits: u64) -> TimerId {
        TimerId(bits)
    }
}

#[derive(Debug)]
pub(super) struct Entry<T> {
    pub deadline_ms: i64,
    /// Where in its list it stands; in a vacant entry the next vacant one.
    pub spot: Spot,
    generation: u32,
    /// `None` in a vacant entry.
    payload: Option<T>,
}

#[derive(Debug)]
pub(super) struct Slab<T> {
    chunks: Vec<Vec<Entry<T>>>,
    vacant: u32,
    len: usize,
}

impl<T> Slab<T> {
    pub fn new() -> Self {
        Slab { chunks: Vec::new(), vacant: NIL, len: 0 }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Stores an entry that is in no list yet.
    pub fn insert(&mut self, deadline_ms: i64, payload: T) -> TimerId {
        self.len += 1;
        if self.vacant == NIL {
            return self.grow(deadline_ms, payload);
        }
        let index = self.vacant;
        let entry = self.entry_mut(index);
        debug_assert!(entry.payload.is_none());
        let next_vacant = entry.spot;
        entry.deadline_ms = deadline_ms;
        entry.payload = Some(payload);
        let generation = entry.generation;
        self.vacant = next_vacant;
        TimerId::new(index, generation)
    }

    /// Empties an entry that is in no list any more; its id is stale from now on.
    pub fn remove(&mut self, index: u32) -> (i64, T) {
        let vacant = self.vacant;
        let entry = self.entry_mut(index);
        let payload = entry.payload.take().expect("a listed entry is occupied");
        let deadline_ms = entry.deadline_ms;
        // An entry whose generations are used up stays unused: its ids would repeat.
        if entry.generation != u32::MAX {
            entry.generation += 1;
            entry.spot = vacant;
            self.vacant = index;
        }
        self.len -= 1;
        (deadline_ms, payload)
    }

    /// The entry that `id` names, unless it has fired, was cancelled, or never was.
    pub fn live(&self, id: TimerId) -> Option<&Entry<T>> {
        let chunk = self.chunks.get((id.index() >> CHUNK_BITS) as usize)?;
        let entry = chunk.get(id.index() as usize % CHUNK_ENTRIES)?;
        (entry.generation == id.generation() && entry.payload.is_some()).then_some(entry)
    }

    pub fn payload(&self, id: TimerId) -> Option<&T> {
        self.live(id)?.payload.as_ref()
    }

    pub fn payload_mut(&mut self, id: TimerId) -> Option<&mut T> {
        self.live(id)?;
        self.entry_mut(id.index()).payload.as_mut()
    }

    /// All payloads, by index.
    pub fn payloads(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten().filter_map(|entry| entry.payload.as_ref())
    }

    /// Deadline, id and payload of an occupied entry.
    pub fn named(&self, index: u32) -> (i64, TimerId, &T) {
        let entry = self.entry(index);
        let payload = entry.payload.as_ref().expect("a listed entry is occupied");
        (entry.deadline_ms, TimerId::new(index, entry.generation), payload)
    }

    /// Reads a little of each entry, so that the waits for memory overlap.
    pub fn touch(&self, indices: Entries) {
        black_box(indices.fold(0, |touched, index| touched ^ self.entry(index).generation));
    }

    pub fn entry(&self, index: u32) -> &Entry<T> {
        &self.chunks[(index >> CHUNK_BITS) as usize][index as usize % CHUNK_ENTRIES]
    }

    pub fn entry_mut(&mut self, index: u32) -> &mut Entry<T> {
        &mut self.chunks[(index >> CHUNK_BITS) as usize][index as usize % CHUNK_ENTRIES]
    }

    fn grow(&mut self, deadline_ms: i64, payload: T) -> TimerId {
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK_ENTRIES) {
            self.chunks.push(Vec::with_capacity(CHUNK_ENTRIES));
        }
        let full = (self.chunks.len() - 1) * CHUNK_ENTRIES;
        let chunk = self.chunks.last_mut().expect("a chunk was just ensured");
        let index = u32::try_from(full + chunk.len()).expect("fewer than 2^32 timers");
        assert!(index != NIL, "fewer than 2^32 - 1 timers");
        chunk.push(Entry { deadline_ms, spot: NIL, generation: 0, payload: Some(payload) });
        TimerId::new(index, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_small() {
        assert_eq!(size_of::<TimerId>(), 8);
        assert!(size_of::<Entry<[u32; 3]>>() <= 32);
        assert!(size_of::<Entry<[u8; 12]>>() <= 32);
        assert!(size_of::<Entry<crate::purgatory::DelayedOperation>>() <= 32);
    }

    #[test]
    fn an_entry_retires_before_its_generation_repeats() {
        let mut slab = Slab::new();
        let first = slab.insert(0, 'a');
        slab.remove(first.index());
        slab.entry_mut(0).generation = u32::MAX;
        let last = slab.insert(0, 'b');
        assert_eq!(last, TimerId::new(0, u32::MAX));
        slab.remove(0);
        assert_eq!(slab.insert(0, 'c').index(), 1);
        assert!(slab.live(last).is_none());
        assert!(slab.live(first).is_none());
        assert_eq!(slab.len(), 1);
    }

    #[test]
    fn chunks_are_filled_before_another_is_taken() {
        let mut slab = Slab::new();
        let ids: Vec<_> = (0..CHUNK_ENTRIES as i64 + 1).map(|at| slab.insert(at, at)).collect();
        assert_eq!(slab.chunks.len(), 2);
        for id in &ids {
            assert_eq!(slab.payload(*id), Some(&slab.entry(id.index()).deadline_ms));
            slab.remove(id.index());
        }
        for _ in &ids {
            slab.insert(0, 0);
        }
        assert_eq!(slab.chunks.len(), 2);
    }
}
