//! Events that wait for whoever has the rows: the newest of them, bounded.

use std::collections::VecDeque;

use kcoord_core::event::Event;

/// So many wait at most; then the oldest is dropped.
pub const MAX_EVENTS: usize = 10_000;
/// The same of their texts, in bytes.
pub const MAX_EVENT_BYTES: usize = 4 << 20;

#[derive(Debug, Default)]
pub struct Told {
    waiting: VecDeque<Event>,
    bytes: usize,
    dropped: u64,
}

impl Told {
    #[cold]
    pub fn extend(&mut self, events: impl Iterator<Item = Event>) {
        for event in events {
            self.bytes += event.bytes();
            self.waiting.push_back(event);
            while self.waiting.len() > MAX_EVENTS || self.bytes > MAX_EVENT_BYTES {
                let oldest = self.waiting.pop_front().expect("one is too many");
                self.bytes -= oldest.bytes();
                self.dropped += 1;
            }
        }
    }

    pub fn take(&mut self) -> Vec<Event> {
        self.bytes = 0;
        std::mem::take(&mut self.waiting).into()
    }

    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use kcoord_core::event::EventKind;

    use super::*;

    fn of(group_id: &str, number: usize) -> Event {
        let (timestamp_ms, kind) = (number as i64, EventKind::GroupCreated);
        Event { group_id: group_id.into(), timestamp_ms, generation_id: 0, kind }
    }

    #[test]
    fn the_newest_wait_in_number_and_in_bytes() {
        let mut told = Told::default();
        told.extend((0..MAX_EVENTS + 3).map(|number| of("g", number)));
        assert_eq!(told.dropped(), 3);
        let taken = told.take();
        assert_eq!((taken.len(), taken[0].timestamp_ms), (MAX_EVENTS, 3));
        assert!(told.take().is_empty());
        let long = "g".repeat(MAX_EVENT_BYTES / 3);
        told.extend((0..5).map(|number| of(&long, number)));
        assert_eq!(told.dropped(), 5);
        let times: Vec<i64> = told.take().iter().map(|event| event.timestamp_ms).collect();
        assert_eq!(times, [2, 3, 4]);
        assert_eq!(told.bytes, 0);
    }
}
