//! What a shard holds, for people and tables: owned copies, in sorted order.

use crate::offset::CommittedOffset;
use crate::shard::Shard;

/// A group as tables show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupView {
    /// The group.
    pub group_id: Box<str>,
    /// `classic`, `consumer`, `share` or `streams`; only classic groups are interpreted: what only
    /// they have is 0, -1 or empty in others.
    pub group_type: &'static str,
    /// Offsets only: no record of the group itself.
    pub is_simple: bool,
    /// As ListGroups names it; `Unknown` where that takes more than the keys of records.
    pub state: &'static str,
    /// `""`: none.
    pub protocol_type: Box<str>,
    /// The generation.
    pub generation_id: i32,
    /// The assignor that the group uses.
    pub protocol_name: Option<Box<str>>,
    /// The member that assigns.
    pub leader: Option<Box<str>>,
    /// When it entered its state, in milliseconds; -1: unknown.
    pub current_state_timestamp_ms: i64,
    /// Sorted by member id.
    pub members: Vec<MemberView>,
}

/// A member as tables show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberView {
    /// The member's id; empty in a first request.
    pub member_id: Box<str>,
    /// Of a static member (KIP-345).
    pub group_instance_id: Option<Box<str>>,
    /// As the client named itself in the request header.
    pub client_id: Box<str>,
    /// The client's address, as Java prints it: `/127.0.0.1`.
    pub client_host: Box<str>,
    /// How long a member counts as alive after its last heartbeat, in ms.
    pub session_timeout_ms: i32,
    /// How long a join phase waits for the member, in ms.
    pub rebalance_timeout_ms: i32,
    /// Its metadata for the group's protocol.
    pub subscription: Box<[u8]>,
    /// In the bytes of the protocol type (ConsumerProtocolAssignment).
    pub assignment: Box<[u8]>,
}

impl Shard {
    /// The number of groups.
    pub fn group_count(&self) -> usize {
        self.machine.registry.len()
    }

    /// Members of all groups, and ids that were handed out.
    pub fn member_count(&self) -> usize {
        self.machine.registry.members.len()
    }

    /// Committed offsets of all groups.
    pub fn offset_count(&self) -> usize {
        self.machine.offsets.committed_count
    }

    /// All groups, sorted by id.
    pub fn groups(&self) -> impl Iterator<Item = GroupView> {
        let rows = self.machine.registry.sorted_groups();
        rows.into_iter().map(|row| self.machine.view_group(row))
    }

    /// One group.
    pub fn group(&self, group_id: &str) -> Option<GroupView> {
        let row = self.machine.registry.find(group_id)?;
        Some(self.machine.view_group(row))
    }

    /// A group's committed offsets, by topic and partition; none for a group that is not there.
    pub fn offsets(
        &self,
        group_id: &str,
    ) -> impl Iterator<Item = (&str, i32, CommittedOffset<'_>)> {
        let row = self.machine.registry.find(group_id);
        let offsets = row.and_then(|row| self.machine.registry.groups[row].offsets.as_deref());
        let topics = &self.machine.offsets.topics;
        offsets.into_iter().flat_map(move |offsets| offsets.iter(topics))
    }

    /// The highest offset that a group ever committed for each partition of a topic, as far as the
    /// log and this process know; 0: none.
    pub fn furthest_offsets<'a>(
        &'a self,
        topic: &str,
        partitions: &'a [i32],
    ) -> Option<impl Iterator<Item = i64> + 'a> {
        let topics = &self.machine.offsets.topics;
        let topic = topics.find(topic)?;
        Some(partitions.iter().map(move |partition| topics.furthest(topic, *partition)))
    }
}
