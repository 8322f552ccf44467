//! One member of a classic group: a hot row of 64 bytes, and one allocation with all its strings.
//!
//! The row holds what a heartbeat touches, one cache line. Ids, host, protocols and assignment are
//! packed behind it (packed.rs).

use kcoord_timer::{TimerId, slab::NO_ROW};

pub use super::packed::Details;
use super::packed::{Packed, text};
use crate::request::Ticket;
use crate::shared_bytes::SharedBytes;

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
    /// Answers and events may have it in common with the member: what is written then is a copy.
    packed: Packed,
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
            packed: Packed::default(),
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

impl Member {
    pub fn new(details: &Details<'_>, session_timeout_ms: i32, rebalance_timeout_ms: i32) -> Self {
        let packed = Packed::new(details);
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
        self.packed.member_id_bytes() == member_id.as_bytes()
    }

    /// What [`is_member_id`](Self::is_member_id) reads of a usual id: for a prefetch.
    pub fn first_packed(&self) -> &[u8] {
        self.packed.first()
    }

    pub fn member_id(&self) -> &str {
        self.packed.member_id()
    }

    pub fn group_instance_id(&self) -> Option<&str> {
        self.packed.front().group_instance_id.map(text)
    }

    pub fn is_static(&self) -> bool {
        self.packed.has_instance_id()
    }

    /// What a client says of itself besides its id is this.
    pub fn is_described_as(
        &self,
        group_instance_id: Option<&str>,
        client_id: &str,
        client_host: &str,
    ) -> bool {
        let own = self.packed.front();
        own.client_id == client_id.as_bytes()
            && own.client_host == client_host.as_bytes()
            && own.group_instance_id == group_instance_id.map(str::as_bytes)
    }

    pub fn assignment(&self) -> &[u8] {
        self.packed.front().behind.bytes()
    }

    /// Name and metadata of what it can speak, in its order of preference.
    pub fn protocols(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let mut reader = self.packed.front().behind;
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
        self.packed.share(bytes)
    }

    pub fn details(&self) -> Details<'_> {
        Details { protocols: self.protocols().collect(), ..self.details_but_protocols() }
    }

    /// Takes no memory.
    pub fn details_but_protocols(&self) -> Details<'_> {
        self.packed.details_but_protocols()
    }

    /// What it is, without a copy, for an event.
    pub fn packed(&self) -> &Packed {
        &self.packed
    }

    pub fn store_assignment(&mut self, assignment: &[u8]) {
        self.packed.store_assignment(assignment);
    }

    pub fn store_protocols(&mut self, protocols: Vec<(&str, &[u8])>) {
        self.packed = Packed::new(&Details { protocols, ..self.details_but_protocols() });
    }

    /// Gives the member another id. The caller updates what finds it by its id.
    pub fn store_member_id(&mut self, member_id: &str) {
        self.packed = Packed::new(&Details { member_id, ..self.details() });
    }
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
