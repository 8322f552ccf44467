//! One member of a classic group: a hot row of 64 bytes, and one allocation with all its strings.
//!
//! The row holds what a heartbeat touches, one cache line. Ids, host, protocols and assignment are
//! packed behind it: a client id or an instance id that the member id starts with (it does, unless
//! a client made its own) is not stored twice. Only `Packer` and `Reader` know the packed form.

use std::sync::Arc;

use kcoord_timer::{TimerId, slab::NO_ROW};

use crate::request::Ticket;
use crate::shared_bytes::SharedBytes;
use crate::utf8::utf8;

/// No ticket: the connection that a parked response would go to is gone.
pub const NO_TICKET: Ticket = Ticket::MAX;

/// Soft state of a member, as bits.
pub mod flag {
    /// From being added until its first join phase completes (states section 1.2).
    pub const NEW: u8 = 1;
    /// Its JoinGroup is parked.
    pub const AWAITING_JOIN: u8 = 1 << 1;
    /// Its SyncGroup is parked.
    pub const AWAITING_SYNC: u8 = 1 << 2;
    /// Was answered JoinGroup in this generation and has not sent SyncGroup.
    pub const PENDING_SYNC: u8 = 1 << 3;
    /// Only an id that was handed out with MEMBER_ID_REQUIRED (KIP-394): not a member yet.
    pub const PENDING: u8 = 1 << 4;
}

#[derive(Debug)]
#[repr(align(64))]
pub struct Member {
    /// Answers may have it in common with the member: what is written then is a copy.
    packed: Arc<[u8]>,
    /// When its session ends. The timer may be armed for an earlier time, never for a later one.
    pub deadline_ms: i64,
    pub timer: TimerId,
    /// Of the parked JoinGroup or SyncGroup.
    pub ticket: Ticket,
    /// Row of its group.
    pub group: u32,
    /// Where it stands in its group's roster, if that has one.
    pub place: u32,
    pub session_timeout_ms: i32,
    pub rebalance_timeout_ms: i32,
    pub flags: u8,
}

const _: () = assert!(size_of::<Member>() == 64, "a heartbeat touches one line of a member");

impl Default for Member {
    fn default() -> Self {
        Member {
            packed: Arc::default(),
            deadline_ms: 0,
            timer: TimerId::NONE,
            ticket: NO_TICKET,
            group: NO_ROW,
            place: 0,
            session_timeout_ms: 0,
            rebalance_timeout_ms: 0,
            flags: 0,
        }
    }
}

/// What a member is, besides its timeouts: borrowed from its packed form or from a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details<'a> {
    pub member_id: &'a str,
    pub group_instance_id: Option<&'a str>,
    pub client_id: &'a str,
    pub client_host: &'a str,
    pub assignment: &'a [u8],
    /// Name and metadata, in the member's order of preference.
    pub protocols: Vec<(&'a str, &'a [u8])>,
}

impl Member {
    pub fn new(details: &Details<'_>, session_timeout_ms: i32, rebalance_timeout_ms: i32) -> Self {
        let packed = pack(details);
        Member { packed, session_timeout_ms, rebalance_timeout_ms, ..Member::default() }
    }

    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    pub fn set(&mut self, flag: u8) {
        self.flags |= flag;
    }

    pub fn clear(&mut self, flag: u8) {
        self.flags &= !flag;
    }

    pub fn is_member_id(&self, member_id: &str) -> bool {
        Reader(&self.packed).bytes() == member_id.as_bytes()
    }

    /// What [`is_member_id`](Self::is_member_id) reads of a usual id: for a prefetch.
    pub fn first_packed(&self) -> &[u8] {
        &self.packed[..self.packed.len().min(64)]
    }

    pub fn member_id(&self) -> &str {
        Reader(&self.packed).text()
    }

    pub fn group_instance_id(&self) -> Option<&str> {
        self.front().group_instance_id.map(text)
    }

    pub fn is_static(&self) -> bool {
        let mut reader = Reader(&self.packed);
        reader.bytes();
        reader.number() & HAS_INSTANCE_ID != 0
    }

    /// What a client says of itself besides its id is this.
    pub fn is_described_as(
        &self,
        group_instance_id: Option<&str>,
        client_id: &str,
        client_host: &str,
    ) -> bool {
        let own = self.front();
        own.client_id == client_id.as_bytes()
            && own.client_host == client_host.as_bytes()
            && own.group_instance_id == group_instance_id.map(str::as_bytes)
    }

    pub fn assignment(&self) -> &[u8] {
        self.front().behind.bytes()
    }

    /// Name and metadata of what it can speak, in its order of preference.
    pub fn protocols(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let mut reader = self.front().behind;
        reader.bytes();
        let count = reader.number();
        (0..count).map(move |_| (reader.text(), reader.bytes()))
    }

    /// Metadata for one protocol; empty if the member does not have it.
    pub fn metadata(&self, protocol: &str) -> &[u8] {
        self.protocols().find(|(name, _)| *name == protocol).map_or(&[], |(_, metadata)| metadata)
    }

    /// The same without a copy, for an answer; `bytes` are this member's.
    pub fn share(&self, bytes: &[u8]) -> SharedBytes {
        SharedBytes::part_of(&self.packed, bytes)
    }

    pub fn details(&self) -> Details<'_> {
        Details { protocols: self.protocols().collect(), ..self.details_but_protocols() }
    }

    /// Takes no memory.
    pub fn details_but_protocols(&self) -> Details<'_> {
        let mut front = self.front();
        Details {
            member_id: text(front.member_id),
            group_instance_id: front.group_instance_id.map(text),
            client_id: text(front.client_id),
            client_host: text(front.client_host),
            assignment: front.behind.bytes(),
            protocols: Vec::new(),
        }
    }

    pub fn store_assignment(&mut self, assignment: &[u8]) {
        let mut reader = self.front().behind;
        let front = self.packed.len() - reader.0.len();
        let stored = reader.bytes();
        if stored == assignment {
            return;
        }
        let (is_as_long, behind) = (stored.len() == assignment.len(), reader.0.len());
        if is_as_long && let Some(packed) = Arc::get_mut(&mut self.packed) {
            let at = front + number_len(assignment.len());
            packed[at..at + assignment.len()].copy_from_slice(assignment);
            return;
        }
        let length = front + sized(assignment) + behind;
        self.packed = packed_in(length, |packer| {
            packer.raw(&self.packed[..front]);
            packer.bytes(assignment);
            packer.raw(&self.packed[self.packed.len() - behind..]);
        });
    }

    pub fn store_protocols(&mut self, protocols: Vec<(&str, &[u8])>) {
        self.packed = pack(&Details { protocols, ..self.details_but_protocols() });
    }

    /// Gives the member another id. The caller updates what finds it by its id.
    pub fn store_member_id(&mut self, member_id: &str) {
        self.packed = pack(&Details { member_id, ..self.details() });
    }

    fn front(&self) -> Front<'_> {
        let mut behind = Reader(&self.packed);
        let member_id = behind.bytes();
        let shape = behind.number();
        let client_id = behind.prefix_or_bytes(member_id, shape & CLIENT_ID_IS_PREFIX != 0);
        let client_host = behind.bytes();
        let group_instance_id = (shape & HAS_INSTANCE_ID != 0)
            .then(|| behind.prefix_or_bytes(member_id, shape & INSTANCE_ID_IS_PREFIX != 0));
        Front { member_id, group_instance_id, client_id, client_host, behind }
    }
}

/// What stands before the assignment, as bytes: most readers only want to get past it.
struct Front<'a> {
    member_id: &'a [u8],
    group_instance_id: Option<&'a [u8]>,
    client_id: &'a [u8],
    client_host: &'a [u8],
    /// At the assignment.
    behind: Reader<'a>,
}

const CLIENT_ID_IS_PREFIX: usize = 1;
const HAS_INSTANCE_ID: usize = 1 << 1;
const INSTANCE_ID_IS_PREFIX: usize = 1 << 2;

fn pack(details: &Details<'_>) -> Arc<[u8]> {
    let client_id_is_prefix = details.member_id.starts_with(details.client_id);
    let instance_id = details.group_instance_id;
    let instance_id_is_prefix = instance_id.is_some_and(|id| details.member_id.starts_with(id));
    let mut shape = 0;
    for (bit, is_set) in [
        (CLIENT_ID_IS_PREFIX, client_id_is_prefix),
        (HAS_INSTANCE_ID, instance_id.is_some()),
        (INSTANCE_ID_IS_PREFIX, instance_id_is_prefix),
    ] {
        shape |= if is_set { bit } else { 0 };
    }
    let part = |text: &str, is_prefix| {
        if is_prefix { number_len(text.len()) } else { sized(text) }
    };
    let length = sized(details.member_id)
        + number_len(shape)
        + part(details.client_id, client_id_is_prefix)
        + sized(details.client_host)
        + instance_id.map_or(0, |id| part(id, instance_id_is_prefix))
        + sized(details.assignment)
        + number_len(details.protocols.len())
        + details.protocols.iter().map(|one| sized(one.0) + sized(one.1)).sum::<usize>();
    packed_in(length, |packer| {
        packer.text(details.member_id);
        packer.number(shape);
        packer.prefix_or_text(details.client_id, client_id_is_prefix);
        packer.text(details.client_host);
        if let Some(instance_id) = instance_id {
            packer.prefix_or_text(instance_id, instance_id_is_prefix);
        }
        packer.bytes(details.assignment);
        packer.number(details.protocols.len());
        for (name, metadata) in &details.protocols {
            packer.text(name);
            packer.bytes(metadata);
        }
    })
}

/// Exactly so many bytes, in one allocation.
fn packed_in(length: usize, write: impl FnOnce(&mut Packer<'_>)) -> Arc<[u8]> {
    let mut packed: Arc<[u8]> = core::iter::repeat_n(0, length).collect();
    let room = Arc::get_mut(&mut packed).expect("nobody else has it yet");
    let mut packer = Packer(room);
    write(&mut packer);
    debug_assert!(packer.0.is_empty(), "its length was known");
    packed
}

/// Bytes of something with its length before it.
fn sized(bytes: impl AsRef<[u8]>) -> usize {
    let length = bytes.as_ref().len();
    number_len(length) + length
}

const fn number_len(number: usize) -> usize {
    (usize::BITS - (number | 1).leading_zeros()).div_ceil(7) as usize
}

/// Writes into what is left of its memory.
struct Packer<'a>(&'a mut [u8]);

impl Packer<'_> {
    fn number(&mut self, mut number: usize) {
        while number >= 0x80 {
            self.raw(&[number as u8 | 0x80]);
            number >>= 7;
        }
        self.raw(&[number as u8]);
    }

    fn raw(&mut self, bytes: &[u8]) {
        let (here, behind) = core::mem::take(&mut self.0).split_at_mut(bytes.len());
        here.copy_from_slice(bytes);
        self.0 = behind;
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len());
        self.raw(bytes);
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    fn prefix_or_text(&mut self, text: &str, is_prefix: bool) {
        if is_prefix { self.number(text.len()) } else { self.text(text) }
    }
}

/// Reads what [`Packer`] wrote: it need not expect anything else.
#[derive(Clone, Copy)]
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn number(&mut self) -> usize {
        let mut number = 0;
        for shift in (0..).step_by(7) {
            let byte = self.0[0];
            self.0 = &self.0[1..];
            number |= usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        number
    }

    fn bytes(&mut self) -> &'a [u8] {
        let length = self.number();
        let (bytes, rest) = self.0.split_at(length);
        self.0 = rest;
        bytes
    }

    fn text(&mut self) -> &'a str {
        text(self.bytes())
    }

    fn prefix_or_bytes(&mut self, member_id: &'a [u8], is_prefix: bool) -> &'a [u8] {
        if is_prefix { &member_id[..self.number()] } else { self.bytes() }
    }
}

fn text(bytes: &[u8]) -> &str {
    utf8(bytes).expect("packed from a string")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packs_and_reads_back_every_shape() {
        for (member_id, client_id, instance_id) in [
            ("app-0c4d", "app", None),
            ("app-0c4d", "other", None),
            ("i1-0c4d", "app", Some("i1")),
            ("i1-0c4d", "i1", Some("other")),
            ("-0c4d", "", Some("")),
        ] {
            let details = Details {
                member_id,
                group_instance_id: instance_id,
                client_id,
                client_host: "/127.0.0.1",
                assignment: &[7; 300],
                protocols: vec![("range", &[1, 2]), ("sticky", &[])],
            };
            let mut member = Member::new(&details, 1, 2);
            assert_eq!(member.details(), details);
            assert!(member.is_member_id(member_id) && !member.is_member_id("app-0c4"));
            assert_eq!(member.metadata("range"), [1, 2]);
            member.store_assignment(&[9]);
            assert_eq!(member.details(), Details { assignment: &[9], ..details });
        }
    }
}
