//! One level of the wheel: 64 slots, each a list of entries in order of insertion, and one bit per
//! slot that says whether it holds any. It knows neither the time nor the other levels.

use super::slab::{NIL, Slab};

pub(super) const SLOT_BITS: u32 = 6;
pub(super) const SLOTS: usize = 1 << SLOT_BITS;

/// A list threaded through the slab: oldest first.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    pub head: u32,
    pub tail: u32,
}

impl List {
    pub const EMPTY: List = List { head: NIL, tail: NIL };

    pub fn is_empty(&self) -> bool {
        self.head == NIL
    }

    pub fn push_back<T>(&mut self, slab: &mut Slab<T>, index: u32) {
        let tail = self.tail;
        let entry = slab.entry_mut(index);
        entry.previous = tail;
        entry.next = NIL;
        match tail {
            NIL => self.head = index,
            tail => slab.entry_mut(tail).next = index,
        }
        self.tail = index;
    }

    pub fn unlink<T>(&mut self, slab: &mut Slab<T>, index: u32) {
        let entry = slab.entry(index);
        let (previous, next) = (entry.previous, entry.next);
        match previous {
            NIL => {
                debug_assert_eq!(self.head, index, "the entry is in another list");
                self.head = next;
            }
            previous => slab.entry_mut(previous).next = next,
        }
        match next {
            NIL => {
                debug_assert_eq!(self.tail, index, "the entry is in another list");
                self.tail = previous;
            }
            next => slab.entry_mut(next).previous = previous,
        }
    }

    pub fn indices<T>(self, slab: &Slab<T>) -> impl Iterator<Item = u32> + '_ {
        let mut at = self.head;
        core::iter::from_fn(move || {
            let index = at;
            (index != NIL).then(|| {
                at = slab.entry(index).next;
                index
            })
        })
    }
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    list: List,
    /// No entry of the slot is due before it. Cancelling the earliest one does not raise it.
    earliest_ms: i64,
}

#[derive(Debug)]
pub(super) struct Level {
    occupied: u64,
    slots: [Slot; SLOTS],
}

impl Level {
    pub const EMPTY: Level =
        Level { occupied: 0, slots: [Slot { list: List::EMPTY, earliest_ms: 0 }; SLOTS] };

    /// The first slot that holds an entry. The wheel keeps none behind the current time, so that
    /// the lowest slot is also the next one.
    pub fn first_occupied(&self) -> Option<usize> {
        (self.occupied != 0).then(|| self.occupied.trailing_zeros() as usize)
    }

    pub fn earliest_ms(&self, slot: usize) -> i64 {
        self.slots[slot].earliest_ms
    }

    pub fn list(&self, slot: usize) -> List {
        self.slots[slot].list
    }

    pub fn is_occupied(&self, slot: usize) -> bool {
        self.occupied & (1 << slot) != 0
    }

    pub fn push_back<T>(&mut self, slab: &mut Slab<T>, slot: usize, index: u32) {
        let deadline_ms = slab.entry(index).deadline_ms;
        let Slot { list, earliest_ms } = &mut self.slots[slot];
        if list.is_empty() || deadline_ms < *earliest_ms {
            *earliest_ms = deadline_ms;
        }
        list.push_back(slab, index);
        self.occupied |= 1 << slot;
    }

    pub fn unlink<T>(&mut self, slab: &mut Slab<T>, slot: usize, index: u32) {
        let list = &mut self.slots[slot].list;
        list.unlink(slab, index);
        if list.is_empty() {
            self.occupied &= !(1 << slot);
        }
    }

    /// Empties a slot and hands out its list.
    pub fn take(&mut self, slot: usize) -> List {
        self.occupied &= !(1 << slot);
        core::mem::replace(&mut self.slots[slot].list, List::EMPTY)
    }
}
