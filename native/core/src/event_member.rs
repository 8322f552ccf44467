//! A member as events tell of it.

use core::fmt;

use crate::group::classic::packed::{Details, Packed};

/// What is kept of a reason that a client gives (KIP-800; Java's client cuts its own at as many).
pub const MAX_REASON_BYTES: usize = 255;

/// Up to here an event has a member's details in common with the member. Larger ones are mostly
/// metadata, which an event would keep for nothing: it takes a copy without them.
const MAX_SHARED_BYTES: usize = 4_096;

/// A member as it was when something happened to it.
#[derive(Clone, PartialEq, Eq)]
pub struct EventMember {
    packed: Packed,
    reason: Option<Box<str>>,
}

impl EventMember {
    /// One that is there.
    pub(crate) fn of(packed: &Packed, reason: Option<&str>) -> Self {
        if packed.len() > MAX_SHARED_BYTES {
            let details = Details { assignment: &[], ..packed.details_but_protocols() };
            return EventMember::said(&details, reason);
        }
        EventMember { packed: packed.clone(), reason: stated(reason) }
    }

    /// One that says this of itself.
    pub(crate) fn said(details: &Details<'_>, reason: Option<&str>) -> Self {
        EventMember { packed: Packed::new(details), reason: stated(reason) }
    }

    /// The member's id.
    pub fn member_id(&self) -> &str {
        self.packed.member_id()
    }

    /// Of a static member (KIP-345).
    pub fn group_instance_id(&self) -> Option<&str> {
        self.packed.details_but_protocols().group_instance_id
    }

    /// As the client named itself in the request header.
    pub fn client_id(&self) -> &str {
        self.packed.details_but_protocols().client_id
    }

    /// The client's address, as Java prints it: `/127.0.0.1`.
    pub fn client_host(&self) -> &str {
        self.packed.details_but_protocols().client_host
    }

    /// What the client gave as its reason (KIP-800), at most
    /// [`MAX_REASON_BYTES`] of it.
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// The memory that it keeps.
    pub(crate) fn bytes(&self) -> usize {
        self.packed.len() + self.reason.as_ref().map_or(0, |reason| reason.len())
    }
}

impl fmt::Debug for EventMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventMember")
            .field("member_id", &self.member_id())
            .field("group_instance_id", &self.group_instance_id())
            .field("client_id", &self.client_id())
            .field("client_host", &self.client_host())
            .field("reason", &self.reason())
            .finish()
    }
}

fn stated(reason: Option<&str>) -> Option<Box<str>> {
    reason.filter(|reason| !reason.is_empty()).map(bounded_reason)
}

/// The beginning of a reason.
pub fn bounded_reason(reason: &str) -> Box<str> {
    let ends = (0..=reason.len().min(MAX_REASON_BYTES)).rev();
    let end = ends.into_iter().find(|at| reason.is_char_boundary(*at));
    reason[..end.unwrap_or_default()].into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(metadata: &[u8]) -> Packed {
        Packed::new(&Details {
            member_id: "app-1",
            group_instance_id: Some("i1"),
            client_id: "app",
            client_host: "/127.0.0.1",
            assignment: &[7; 9],
            protocols: vec![("range", metadata)],
        })
    }

    #[test]
    fn an_event_keeps_the_metadata_of_no_large_member() {
        let small = EventMember::of(&packed(&[1; 100]), Some("a deploy"));
        let large = EventMember::of(&packed(&[1; 1 << 20]), Some("a deploy"));
        assert!(large.bytes() < 100, "{}", large.bytes());
        for member in [small, large] {
            let ids = (member.member_id(), member.group_instance_id());
            assert_eq!(ids, ("app-1", Some("i1")));
            let client = (member.client_id(), member.client_host(), member.reason());
            assert_eq!(client, ("app", "/127.0.0.1", Some("a deploy")));
        }
    }

    #[test]
    fn a_reason_is_cut_between_characters() {
        let reason = bounded_reason(&"ä".repeat(MAX_REASON_BYTES));
        assert_eq!(reason.len(), MAX_REASON_BYTES - 1);
        assert_eq!(&*bounded_reason("short"), "short");
    }
}
