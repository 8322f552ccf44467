//! The wheel: eleven levels of 64 slots, 1 ms at the bottom, any `i64` at the top.
//!
//! An entry's level is the highest base-64 digit in which its deadline differs from the current
//! time, its slot that digit of the deadline. Hence the invariant that everything here rests on:
//! **an entry's place follows from its deadline and the current time alone**. Time therefore may
//! not enter a slot without emptying it: into the due list at level 0, into finer levels above
//! ([`TimingWheel::advance`] cascades). Two consequences: levels are ordered in time (all of a
//! lower level is due before all of a higher one), and entries of one deadline share one list,
//! which keeps them in order of insertion.
//!
//! The wheel must never fire early, fire a cancelled timer, or depend on how often it is advanced.
//! Kafka's `TimingWheel` has 20 slots a level; nothing that can be observed depends on it.

mod entries;
mod level;
mod lines;

pub use self::entries::TimerId;
use self::entries::{Entries, Entry};
use self::level::{Level, SLOT_BITS, SLOTS};
use self::lines::{Lines, List, NIL, Spot};

const LEVELS: usize = u64::BITS.div_ceil(SLOT_BITS) as usize;

/// Timers with a payload, in milliseconds on the caller's monotonic time line.
///
/// `insert` and `cancel` are O(1). `advance` costs what is due plus the cascades (each timer moves
/// at most once per level); idle time costs nothing.
#[derive(Debug)]
pub struct TimingWheel<T> {
    now_ms: i64,
    entries: Entries<T>,
    lines: Lines,
    levels: Box<[Level; LEVELS]>,
    /// All entries whose deadline is not after `now_ms`.
    due: List,
    /// First entry of `due` that arrived since the last `advance`, which has to come first.
    arrived_late: u32,
    /// Whether late arrivals may have broken the order of `due`.
    due_unordered: bool,
    /// The line of `due` whose entries were prefetched last.
    prefetched: u32,
}

/// Where an entry is, by its deadline and the current time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Due,
    Slot { level: usize, slot: usize },
}

impl<T> TimingWheel<T> {
    /// An empty one, whose time is `now_ms`.
    pub fn new(now_ms: i64) -> Self {
        TimingWheel {
            now_ms,
            entries: Entries::new(),
            lines: Lines::new(),
            levels: Box::new([Level::EMPTY; LEVELS]),
            due: List::EMPTY,
            arrived_late: NIL,
            due_unordered: false,
            prefetched: NIL,
        }
    }

    /// The time of the last `advance`.
    pub fn now_ms(&self) -> i64 {
        self.now_ms
    }

    /// Timers that have neither been popped nor cancelled.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it has no timers.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a timer. Any deadline is legal: one that is not after the current time is due at the
    /// next [`advance`](Self::advance), not before, so that a loop of pop and insert ends.
    pub fn insert(&mut self, deadline_ms: i64, payload: T) -> TimerId {
        let id = self.entries.insert(deadline_ms, payload);
        if deadline_ms <= self.now_ms {
            self.note_late(id.index(), deadline_ms);
        }
        self.link(id.index());
        id
    }

    /// Removes a timer that has not been popped, due or not. `None` if the id is stale.
    pub fn cancel(&mut self, id: TimerId) -> Option<T> {
        let Entry { deadline_ms, spot, .. } = *self.entries.live(id)?;
        match place(deadline_ms, self.now_ms) {
            Place::Due => self.unlink_due(id.index(), spot),
            Place::Slot { level, slot } => {
                self.levels[level].unlink(&mut self.lines, slot, spot);
            }
        }
        Some(self.entries.remove(id.index()).1)
    }

    /// Moves time forward; [`pop_expired`](Self::pop_expired) then returns what is due.
    ///
    /// Panics if `now_ms` lies before the last one: the host's time never runs back.
    pub fn advance(&mut self, now_ms: i64) {
        assert!(now_ms >= self.now_ms, "time ran back: {now_ms} after {}", self.now_ms);
        self.arrived_late = NIL;
        if self.due_unordered {
            self.order_due();
        }
        while let Some((level, slot, start_ms)) = self.next_slot().filter(|next| next.2 <= now_ms) {
            self.now_ms = start_ms;
            self.empty_slot(level, slot);
        }
        self.now_ms = now_ms;
    }

    /// The next due timer and its deadline: by deadline, then in order of insertion. Timers may be
    /// inserted and cancelled between pops; what has been cancelled is not returned.
    pub fn pop_expired(&mut self) -> Option<(i64, T)> {
        let line = self.due.first_line()?;
        if line != self.prefetched {
            self.prefetched = line;
            self.entries.prefetch(self.lines.entries(line));
        }
        let index = self.due.first(&self.lines).filter(|index| *index != self.arrived_late)?;
        self.due.pop_front(&mut self.lines);
        Some(self.entries.remove(index))
    }

    /// When to call `advance` next: no timer is due before. `None` if there are no timers; a time
    /// that is not after the current one as long as something is due already.
    ///
    /// It is the exact deadline of the next timer unless an earlier one in the same slot was
    /// cancelled: then a lower bound, and who advances to it and asks again gets a later one.
    pub fn next_deadline(&self) -> Option<i64> {
        if let Some(index) = self.due.first(&self.lines) {
            return Some(self.entries.entry(index).deadline_ms);
        }
        let (level, slot, _) = self.next_slot()?;
        Some(self.levels[level].earliest_ms(slot))
    }

    /// The deadline that the timer was inserted with. `None` if the id is stale.
    pub fn deadline(&self, id: TimerId) -> Option<i64> {
        self.entries.live(id).map(|entry| entry.deadline_ms)
    }

    /// What a timer holds; `None`: it is gone.
    pub fn payload(&self, id: TimerId) -> Option<&T> {
        self.entries.payload(id)
    }

    /// What a timer holds; `None`: it is gone.
    pub fn payload_mut(&mut self, id: TimerId) -> Option<&mut T> {
        self.entries.payload_mut(id)
    }

    /// The payloads of all timers, in no useful order: for garbage collectors.
    pub fn payloads(&self) -> impl Iterator<Item = &T> {
        self.entries.payloads()
    }

    /// All timers, in the order in which they will be popped.
    pub fn entries(&self) -> Vec<(i64, TimerId, &T)> {
        let slots = (0..LEVELS).flat_map(|level| (0..SLOTS).map(move |slot| (level, slot)));
        let lists = slots.map(|(level, slot)| self.levels[level].list(slot));
        let indices = lists.flat_map(|list| list.entries(&self.lines));
        let mut found: Vec<_> = self
            .due
            .entries(&self.lines)
            .chain(indices)
            .map(|index| self.entries.named(index))
            .collect();
        // Those of one deadline stand in one list, in order.
        found.sort_by_key(|(deadline_ms, _, _)| *deadline_ms);
        found
    }

    /// Walks all timers and panics unless each is where the invariant wants it. For tests.
    pub fn assert_consistent(&self) {
        let mut count = 0;
        for index in self.due.entries(&self.lines) {
            let deadline_ms = self.entries.entry(index).deadline_ms;
            assert_eq!(place(deadline_ms, self.now_ms), Place::Due);
            count += 1;
        }
        for (level, slot) in (0..LEVELS).flat_map(|level| (0..SLOTS).map(move |slot| (level, slot)))
        {
            let (list, expected) = (self.levels[level].list(slot), Place::Slot { level, slot });
            assert_eq!(self.levels[level].is_occupied(slot), !list.is_empty(), "{expected:?}");
            for index in list.entries(&self.lines) {
                let deadline_ms = self.entries.entry(index).deadline_ms;
                assert_eq!(place(deadline_ms, self.now_ms), expected);
                assert!(self.levels[level].earliest_ms(slot) <= deadline_ms);
                count += 1;
            }
        }
        assert_eq!(count, self.len(), "every timer is in exactly one list");
    }

    /// The slot that time enters next, and when. It is in the lowest level that holds anything.
    fn next_slot(&self) -> Option<(usize, usize, i64)> {
        let occupied = |(level, slots): (usize, &Level)| Some((level, slots.first_occupied()?));
        let (level, slot) = self.levels.iter().enumerate().find_map(occupied)?;
        let shift = level as u32 * SLOT_BITS;
        // The digits above the slot's are those of the current time; the top level has none above.
        let above = ordered(self.now_ms).checked_shr(shift + SLOT_BITS).unwrap_or(0);
        let above = above.checked_shl(shift + SLOT_BITS).unwrap_or(0);
        let start_ms = unordered(above | (slot as u64) << shift);
        debug_assert!(start_ms > self.now_ms, "a slot was entered but not emptied");
        Some((level, slot, start_ms))
    }

    /// Moves the entries of a slot that time has just entered to where they belong now.
    fn empty_slot(&mut self, level: usize, slot: usize) {
        let mut list = self.levels[level].take(slot);
        if level == 0 {
            // One deadline, in order.
            return self.due.append(&mut self.lines, list);
        }
        while let Some(entries) = list.pop_line(&mut self.lines) {
            self.entries.prefetch(entries);
            for index in entries {
                let place = self.link(index);
                debug_assert!(
                    !matches!(place, Place::Slot { level: other, .. } if other >= level),
                    "a cascade goes down: {place:?}"
                );
            }
        }
    }

    /// Puts an entry where it belongs now, behind those that are there.
    fn link(&mut self, index: u32) -> Place {
        let entry = self.entries.entry_mut(index);
        let place = place(entry.deadline_ms, self.now_ms);
        entry.spot = match place {
            Place::Due => self.due.push_back(&mut self.lines, index),
            Place::Slot { level, slot } => {
                self.levels[level].push_back(&mut self.lines, slot, index, entry.deadline_ms)
            }
        };
        place
    }

    /// An entry that is due already comes behind all others.
    fn note_late(&mut self, index: u32, deadline_ms: i64) {
        if let Some(last) = self.due.last(&self.lines) {
            self.due_unordered |= self.entries.entry(last).deadline_ms > deadline_ms;
        }
        if self.arrived_late == NIL {
            self.arrived_late = index;
        }
    }

    fn unlink_due(&mut self, index: u32, spot: Spot) {
        if self.arrived_late == index {
            self.arrived_late = self.due.after(&self.lines, spot).unwrap_or(NIL);
        }
        self.due.unlink(&mut self.lines, spot);
    }

    /// Sorts what late arrivals have brought out of order. The rest of `due` is in order already.
    fn order_due(&mut self) {
        let mut indices: Vec<u32> = self.due.entries(&self.lines).collect();
        indices.sort_by_key(|index| self.entries.entry(*index).deadline_ms);
        while self.due.pop_line(&mut self.lines).is_some() {}
        for index in indices {
            self.entries.entry_mut(index).spot = self.due.push_back(&mut self.lines, index);
        }
        self.due_unordered = false;
    }
}

fn place(deadline_ms: i64, now_ms: i64) -> Place {
    if deadline_ms <= now_ms {
        return Place::Due;
    }
    let differing = ordered(deadline_ms) ^ ordered(now_ms);
    let level = differing.ilog2() / SLOT_BITS;
    let slot = (ordered(deadline_ms) >> (level * SLOT_BITS)) as usize % SLOTS;
    Place::Slot { level: level as usize, slot }
}

/// Maps signed time to numbers whose digits sort like it.
fn ordered(time_ms: i64) -> u64 {
    (time_ms as u64) ^ (1 << 63)
}

fn unordered(digits: u64) -> i64 {
    (digits ^ (1 << 63)) as i64
}
