//! One level of the wheel: 64 slots, each a list of entries in order of insertion, and one bit per
//! slot that says whether it holds any. It knows neither the time nor the other levels.

use super::lines::{Lines, List, Spot};

pub(super) const SLOT_BITS: u32 = 6;
pub(super) const SLOTS: usize = 1 << SLOT_BITS;

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

    #[inline]
    pub fn push_back(
        &mut self,
        lines: &mut Lines,
        slot: usize,
        entry: u32,
        deadline_ms: i64,
    ) -> Spot {
        let Slot { list, earliest_ms } = &mut self.slots[slot];
        if list.is_empty() || deadline_ms < *earliest_ms {
            *earliest_ms = deadline_ms;
        }
        self.occupied |= 1 << slot;
        list.push_back(lines, entry)
    }

    pub fn unlink(&mut self, lines: &mut Lines, slot: usize, spot: Spot) {
        let list = &mut self.slots[slot].list;
        list.unlink(lines, spot);
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
