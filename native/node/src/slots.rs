//! The requests in flight: what is needed to answer them once the core has.
//!
//! The core's tickets are made here: slot, part and generation in 64 bits, so that an answer to a
//! peer that is gone finds nothing.

use ahash::RandomState;
use hashbrown::HashMap;

use super::gather::{Gather, Parts};
use kcoord_wire::header::ApiKey;

const PART_BITS: u32 = 20;
const SLOT_BITS: u32 = 24;
/// Parts into which one request may be split (groups named in it).
pub const PARTS_MAX: usize = 1 << PART_BITS;
/// The bits of a ticket that number the part.
pub const PART_MASK: u64 = (PARTS_MAX as u64 - 1) << SLOT_BITS;
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
    /// Where part 0 went; the other parts are in `gather`.
    shard: u32,
    /// It waits, and `waiting` knows where.
    listed: bool,
    /// `None`: one core response is the whole answer.
    gather: Option<Box<Gather>>,
}

#[derive(Debug)]
pub struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Opened since the last turn ended. Most are answered within the turn and never listed.
    opened: Vec<u32>,
    /// The host's tickets of what outlived its turn. Never iterated.
    waiting: HashMap<u64, u32, RandomState>,
}

impl Slots {
    pub fn new(seed: [u64; 2]) -> Self {
        let state = RandomState::with_seeds(seed[1], seed[0], !seed[1], !seed[0]);
        Slots {
            slots: Vec::new(),
            free: Vec::new(),
            opened: Vec::new(),
            waiting: HashMap::with_hasher(state),
        }
    }

    /// Takes a slot; the returned ticket is that of part 0, which goes to `shard`.
    ///
    /// # Panics
    /// With 2^24 requests in flight: the host limits its connections far below.
    pub fn open(&mut self, header: Header, shard: usize, gather: Option<Box<Gather>>) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            assert!(self.slots.len() < 1 << SLOT_BITS, "too many requests in flight");
            let slot = Slot { generation: 0, header: None, shard: 0, listed: false, gather: None };
            self.slots.push(slot);
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        slot.header = Some(header);
        slot.shard = shard as u32;
        slot.gather = gather;
        self.opened.push(index);
        u64::from(slot.generation) << (PART_BITS + SLOT_BITS) | u64::from(index)
    }

    /// Tickets and headers of all that is not answered, none of it in parts.
    pub fn in_flight(&self) -> Vec<(u64, Header)> {
        let slots = self.slots.iter().enumerate();
        let open = slots.filter_map(|(index, slot)| {
            let header = slot.header?;
            assert!(slot.gather.is_none(), "what comes in parts waits for commits alone");
            Some((u64::from(slot.generation) << (PART_BITS + SLOT_BITS) | index as u64, header))
        });
        open.collect()
    }

    /// The ticket of another part of the same request.
    pub fn part(ticket: u64, part: usize) -> u64 {
        debug_assert!(part < PARTS_MAX);
        ticket | (part as u64) << SLOT_BITS
    }

    /// A slot for a request in slices: its parts are added as they are handed on.
    pub fn open_sliced(&mut self, header: Header, parts: Parts) -> u64 {
        self.open(header, 0, Some(Gather::growing(parts)))
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

    /// What was gathered, all of it; the slot stays.
    pub fn take_gather(&mut self, ticket: u64) -> Gather {
        let index = (ticket & ((1 << SLOT_BITS) - 1)) as usize;
        *self.slots[index].gather.take().expect("it was gathering")
    }

    /// Whether the request came in an earlier turn.
    pub fn waited(&self, ticket: u64) -> bool {
        self.slots[(ticket & ((1 << SLOT_BITS) - 1)) as usize].listed
    }

    /// Frees the slot of an answered request and gives back its gathering state.
    pub fn close(&mut self, ticket: u64) -> Option<Box<Gather>> {
        let index = (ticket & ((1 << SLOT_BITS) - 1)) as usize;
        let slot = &mut self.slots[index];
        let header = slot.header.take().expect("it was open");
        if core::mem::take(&mut slot.listed) {
            self.waiting.remove(&header.ticket);
        }
        slot.generation = (slot.generation + 1) & GENERATION_MASK;
        self.free.push(index as u32);
        slot.gather.take()
    }

    /// The turn is over: what was not answered in it waits, and may be abandoned.
    pub fn settle(&mut self) {
        for index in self.opened.drain(..) {
            let slot = &mut self.slots[index as usize];
            if let Some(header) = slot.header {
                slot.listed = true;
                self.waiting.insert(header.ticket, index);
            }
        }
    }

    /// Frees all that waits under the host's ticket; returns the request's ticket, and what to
    /// forget: shards and their tickets.
    pub fn abandon(&mut self, host_ticket: u64) -> Option<(u64, Vec<(u32, u64)>)> {
        let index = self.waiting.get(&host_ticket)?;
        let slot = &self.slots[*index as usize];
        let shard = slot.shard;
        let first = u64::from(slot.generation) << (PART_BITS + SLOT_BITS) | u64::from(*index);
        let gather = self.close(first);
        let shards = gather.map_or_else(|| vec![shard], |gather| gather.shards);
        let part = |(part, shard)| (shard, Self::part(first, part));
        Some((first, shards.into_iter().enumerate().map(part).collect()))
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
        let mut slots = Slots::new([1, 2]);
        let first = slots.open(header(1), 0, None);
        assert_eq!(slots.find(first).map(|(h, _, _)| h.ticket), Some(1));
        slots.close(first);
        assert!(slots.find(first).is_none());
        let second = slots.open(header(2), 7, None);
        assert_ne!(first, second);
        assert!(slots.find(first).is_none());
        slots.settle();
        assert_eq!(slots.abandon(1), None);
        assert_eq!(slots.abandon(2), Some((second, vec![(7, second)])));
        assert!(slots.find(second).is_none());
        assert_eq!(slots.abandon(2), None);
        assert!(slots.waiting.is_empty());
    }

    #[test]
    fn parts_keep_their_number() {
        let mut slots = Slots::new([1, 2]);
        slots.open(header(1), 0, None);
        let ticket = slots.open(header(2), 0, None);
        let part = Slots::part(ticket, PARTS_MAX - 1);
        let (found, _, number) = slots.find(part).expect("in flight");
        assert_eq!((found.ticket, number), (2, PARTS_MAX - 1));
    }

    #[test]
    fn only_what_outlives_its_turn_is_listed() {
        let mut slots = Slots::new([1, 2]);
        let answered = slots.open(header(1), 0, None);
        slots.close(answered);
        let waits = slots.open(header(2), 0, None);
        slots.settle();
        assert_eq!(slots.waiting.len(), 1);
        slots.close(waits);
        assert!(slots.waiting.is_empty());
        assert_eq!(slots.abandon(2), None);
    }
}
