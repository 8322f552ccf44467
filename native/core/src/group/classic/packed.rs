//! What a member is, in one allocation: its ids, its client, its assignment and its protocols.
//!
//! A client id or an instance id that the member id starts with (it does, unless a client made its
//! own) is not stored twice. Only `Packer` and `Reader` know the form.

use core::fmt;
use std::sync::Arc;

use crate::shared_bytes::SharedBytes;
use crate::utf8::utf8;

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

/// A member's details. Cheap to have in common: what is written while somebody else has it is a copy.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Packed(Arc<[u8]>);

impl Packed {
    pub fn new(details: &Details<'_>) -> Self {
        Packed(pack(details))
    }

    /// How many bytes it has.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn member_id_bytes(&self) -> &[u8] {
        Reader(&self.0).bytes()
    }

    pub fn member_id(&self) -> &str {
        Reader(&self.0).text()
    }

    pub fn has_instance_id(&self) -> bool {
        let mut reader = Reader(&self.0);
        reader.bytes();
        reader.number() & HAS_INSTANCE_ID != 0
    }

    /// What a look at a usual member id reads: for a prefetch.
    pub fn first(&self) -> &[u8] {
        &self.0[..self.0.len().min(64)]
    }

    /// A part of it without a copy.
    pub fn share(&self, bytes: &[u8]) -> SharedBytes {
        SharedBytes::part_of(&self.0, bytes)
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
        let front = self.0.len() - reader.0.len();
        let stored = reader.bytes();
        if stored == assignment {
            return;
        }
        let (is_as_long, behind) = (stored.len() == assignment.len(), reader.0.len());
        if is_as_long && let Some(packed) = Arc::get_mut(&mut self.0) {
            let at = front + number_len(assignment.len());
            packed[at..at + assignment.len()].copy_from_slice(assignment);
            return;
        }
        let length = front + sized(assignment) + behind;
        self.0 = packed_in(length, |packer| {
            packer.raw(&self.0[..front]);
            packer.bytes(assignment);
            packer.raw(&self.0[self.0.len() - behind..]);
        });
    }

    pub fn front(&self) -> Front<'_> {
        let mut behind = Reader(&self.0);
        let member_id = behind.bytes();
        let shape = behind.number();
        let client_id = behind.prefix_or_bytes(member_id, shape & CLIENT_ID_IS_PREFIX != 0);
        let client_host = behind.bytes();
        let group_instance_id = (shape & HAS_INSTANCE_ID != 0)
            .then(|| behind.prefix_or_bytes(member_id, shape & INSTANCE_ID_IS_PREFIX != 0));
        Front { member_id, group_instance_id, client_id, client_host, behind }
    }
}

impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.details_but_protocols().fmt(f)
    }
}

/// What stands before the assignment, as bytes: most readers only want to get past it.
pub struct Front<'a> {
    pub member_id: &'a [u8],
    pub group_instance_id: Option<&'a [u8]>,
    pub client_id: &'a [u8],
    pub client_host: &'a [u8],
    /// At the assignment.
    pub behind: Reader<'a>,
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
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Nearly always of one byte.
    #[inline]
    pub fn number(&mut self) -> usize {
        let first = self.byte();
        if first < 0x80 { usize::from(first) } else { self.long_number(first) }
    }

    #[cold]
    fn long_number(&mut self, first: u8) -> usize {
        let mut number = usize::from(first & 0x7f);
        let mut shift = 7;
        loop {
            let byte = self.byte();
            number |= usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return number;
            }
            shift += 7;
        }
    }

    #[inline]
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().expect("it was packed whole");
        self.0 = rest;
        *first
    }

    pub fn bytes(&mut self) -> &'a [u8] {
        let length = self.number();
        let (bytes, rest) = self.0.split_at(length);
        self.0 = rest;
        bytes
    }

    pub fn text(&mut self) -> &'a str {
        text(self.bytes())
    }

    fn prefix_or_bytes(&mut self, member_id: &'a [u8], is_prefix: bool) -> &'a [u8] {
        if is_prefix { &member_id[..self.number()] } else { self.bytes() }
    }
}

pub fn text(bytes: &[u8]) -> &str {
    utf8(bytes).expect("packed from a string")
}
