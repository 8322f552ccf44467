//! The requests in flight: what is needed to answer them once the core has.
//!
//! The core's tickets are made here: slot, part and generation in 64 bits, so that an answer to a
//! peer that is gone finds nothing.

use super::gather::Gather;
use crate::header::ApiKey;

const PART_BITS: u32 = 20;
const SLOT_BITS: u32 = 24;
/// Parts into which one request may be split (groups named in it).
pub const PARTS_MAX: usize = 1 << PART_BITS;
const GENERATION_MASK: u32 = (1 << (64 - PART_BITS - SLOT_BITS)) - 1;

/// Where a reply goes, and in which shape.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    pub ticket: u64,
    pub correlation_id: i32,
    pub api: ApiKey,
    pub version: i16,
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    /// `None`: free.
    header: Option<Header>,
    /// `None`: one core response is the whole answer.
    gather: Option<Box<Gather>>,
}

#[derive(Debug, Default)]
pub struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Slots {
    /// Takes a slot; the returned ticket is that of part 0.
    ///
    /// # Panics
    /// With 2^24 requests in flight: the host limits its connections far below.
    pub fn open(&mut self, header: Header, gather: Option<Box<Gather>>) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            assert!(self.slots.len() < 1 << SLOT_BITS, "too many requests in flight");
            self.slots.push(Slot { generation: 0, header: None, gather: None });
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        slot.header = Some(header);
        slot.gather = gather;
        u64::from(slot.generation) << (PART_BITS + SLOT_BITS) | u64::from(index)
    }

    /// The ticket of another part of the same request.
    pub fn part(ticket: u64, part: usize) -> u64 {
        debug_assert!(part < PARTS_MAX);
        ticket | (part as u64) << SLOT_BITS
    }

    /// Header and gathering state of a live request, and which part of it this ticket is.
    pub fn find(&mut self, ticket: u64) -> Option<(Header, Option<&mut Gather>, usize)> {
        let index = (ticket & ((1 << SLOT_BITS) - 1)) as usize;
        let part = (ticket >> SLOT_BITS) as usize & (PARTS_MAX - 1);
        let generation = (ticket >> (SLOT_BITS + PART_BITS)) as u32;
        let slot = &mut self.slots[index];
        match slot.header {
            Some(header) if slot.generation == generation => {
                Some((header, slot.gather.as_deref_mut(), part))
            }
            _ => None,
        }
    }

    /// Frees the slot of an answered request and gives back its gathering state.
    pub fn close(&mut self, ticket: u64) -> Option<Box<Gather>> {
        let index = (ticket & ((1 << SLOT_BITS) - 1)) as usize;
        let slot = &mut self.slots[index];
        slot.header = None;
        slot.generation = (slot.generation + 1) & GENERATION_MASK;
        self.free.push(index as u32);
        slot.gather.take()
    }

    /// Frees whatever the host's ticket has in flight and returns the core tickets to forget.
    /// A scan: connections end far less often than requests.
    pub fn abandon(&mut self, host_ticket: u64) -> Vec<u64> {
        let of_ticket = |slot: &Slot| slot.header.is_some_and(|h| h.ticket == host_ticket);
        let Some(index) = self.slots.iter().position(of_ticket) else { return Vec::new() };
        let generation = u64::from(self.slots[index].generation);
        let first = generation << (PART_BITS + SLOT_BITS) | index as u64;
        let parts = self.slots[index].gather.as_deref().map_or(1, |gather| gather.count);
        self.close(first);
        (0..parts).map(|part| Self::part(first, part)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(ticket: u64) -> Header {
        Header { ticket, correlation_id: 1, api: ApiKey::Heartbeat, version: 4 }
    }

    #[test]
    fn a_ticket_of_an_ended_request_finds_nothing() {
        let mut slots = Slots::default();
        let first = slots.open(header(1), None);
        assert_eq!(slots.find(first).map(|(h, _, _)| h.ticket), Some(1));
        slots.close(first);
        assert!(slots.find(first).is_none());
        let second = slots.open(header(2), None);
        assert_ne!(first, second);
        assert!(slots.find(first).is_none());
        assert_eq!(slots.abandon(2), [second]);
        assert!(slots.find(second).is_none());
        assert!(slots.abandon(2).is_empty());
    }

    #[test]
    fn parts_keep_their_number() {
        let mut slots = Slots::default();
        slots.open(header(1), None);
        let ticket = slots.open(header(2), None);
        let part = Slots::part(ticket, PARTS_MAX - 1);
        let (found, _, number) = slots.find(part).expect("in flight");
        assert_eq!((found.ticket, number), (2, PARTS_MAX - 1));
    }
}
