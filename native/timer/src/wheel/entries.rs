//! The wheel's entries, in pages, with generations.
//!
//! Entries never move and the memory grows by one page, so that no insert ever copies the others
//! and no memory is held in reserve. An id that has been removed must never match a later entry.

use core::hint::black_box;

use super::lines::{NIL, OfLine, Spot};

const PAGE_BITS: u32 = 8;
const PAGE_ENTRIES: usize = 1 << PAGE_BITS;

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

    /// Whether it names no timer.
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
pub(super) struct Entries<T> {
    pages: Vec<Vec<Entry<T>>>,
    vacant: u32,
    len: usize,
}

impl<T> Entries<T> {
    pub fn new() -> Self {
        Entries { pages: Vec::new(), vacant: NIL, len: 0 }
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
        let page = self.pages.get((id.index() >> PAGE_BITS) as usize)?;
        let entry = page.get(id.index() as usize % PAGE_ENTRIES)?;
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
        self.pages.iter().flatten().filter_map(|entry| entry.payload.as_ref())
    }

    /// Deadline, id and payload of an occupied entry.
    pub fn named(&self, index: u32) -> (i64, TimerId, &T) {
        let entry = self.entry(index);
        let payload = entry.payload.as_ref().expect("a listed entry is occupied");
        (entry.deadline_ms, TimerId::new(index, entry.generation), payload)
    }

    /// Reads a little of each entry, so that the waits for memory overlap (a prefetch).
    pub fn prefetch(&self, indices: OfLine) {
        black_box(indices.fold(0, |prefetched, index| prefetched ^ self.entry(index).generation));
    }

    pub fn entry(&self, index: u32) -> &Entry<T> {
        &self.pages[(index >> PAGE_BITS) as usize][index as usize % PAGE_ENTRIES]
    }

    pub fn entry_mut(&mut self, index: u32) -> &mut Entry<T> {
        &mut self.pages[(index >> PAGE_BITS) as usize][index as usize % PAGE_ENTRIES]
    }

    fn grow(&mut self, deadline_ms: i64, payload: T) -> TimerId {
        if self.pages.last().is_none_or(|page| page.len() == PAGE_ENTRIES) {
            self.pages.push(Vec::with_capacity(PAGE_ENTRIES));
        }
        let full = (self.pages.len() - 1) * PAGE_ENTRIES;
        let page = self.pages.last_mut().expect("a page was just ensured");
        let index = u32::try_from(full + page.len()).expect("fewer than 2^32 timers");
        assert!(index != NIL, "fewer than 2^32 - 1 timers");
        page.push(Entry { deadline_ms, spot: NIL, generation: 0, payload: Some(payload) });
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
    }

    #[test]
    fn an_entry_retires_before_its_generation_repeats() {
        let mut entries = Entries::new();
        let first = entries.insert(0, 'a');
        entries.remove(first.index());
        entries.entry_mut(0).generation = u32::MAX;
        let last = entries.insert(0, 'b');
        assert_eq!(last, TimerId::new(0, u32::MAX));
        entries.remove(0);
        assert_eq!(entries.insert(0, 'c').index(), 1);
        assert!(entries.live(last).is_none());
        assert!(entries.live(first).is_none());
        assert_eq!(entries.len(), 1);
    }

    #[test]
    fn pages_are_filled_before_another_is_taken() {
        let mut entries = Entries::new();
        let ids: Vec<_> = (0..PAGE_ENTRIES as i64 + 1).map(|at| entries.insert(at, at)).collect();
        assert_eq!(entries.pages.len(), 2);
        for id in &ids {
            assert_eq!(entries.payload(*id), Some(&entries.entry(id.index()).deadline_ms));
            entries.remove(id.index());
        }
        for _ in &ids {
            entries.insert(0, 0);
        }
        assert_eq!(entries.pages.len(), 2);
    }
}
