//! What a shard holds, for people and tables: owned copies, in sorted order.

use crate::offset::CommittedOffset;
use crate::offset::expiration::expires_at_ms;
use crate::request::Uuid;
pub use crate::response::MemberType;
use crate::shard::Shard;

/// A group as tables show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupView {
    /// The group.
    pub group_id: Box<str>,
    /// `classic`, `consumer`, `share` or `streams`. Share and streams groups are kept, and not
    /// interpreted: what takes more than the keys of their records is 0, -1 or empty.
    pub group_type: &'static str,
    /// Offsets only: no record of the group itself.
    pub is_simple: bool,
    /// As ListGroups names it; `Unknown` where that takes more than the keys of records.
    pub state: &'static str,
    /// `""`: none.
    pub protocol_type: Box<str>,
    /// The generation; of a consumer group its epoch.
    pub generation_id: i32,
    /// The assignor that the group uses.
    pub protocol_name: Option<Box<str>>,
    /// The member that assigns.
    pub leader: Option<Box<str>>,
    /// When it entered its state, in milliseconds; -1: unknown.
    pub current_state_timestamp_ms: i64,
    /// What only consumer groups have.
    pub consumer: Option<ConsumerGroupView>,
    /// Sorted by member id.
    pub members: Vec<MemberView>,
}

/// What only consumer groups have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerGroupView {
    /// Of its subscriptions.
    pub group_epoch: i32,
    /// Of its members' targets.
    pub assignment_epoch: i32,
    /// When they were computed, in milliseconds; 0: never.
    pub assignment_timestamp_ms: i64,
    /// The one that computes the next targets.
    pub assignor_name: Box<str>,
    /// Sorted.
    pub regular_expressions: Vec<RegularExpressionView>,
}

/// A regular expression that members subscribe to, and the topics that it was found to match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegularExpressionView {
    /// In RE2's syntax.
    pub regular_expression: Box<str>,
    /// None: it was not looked up yet.
    pub topics: Option<Vec<Box<str>>>,
    /// When it was looked up, in milliseconds; 0: never.
    pub timestamp_ms: i64,
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
    /// Its metadata for the group's protocol. Empty in a consumer group.
    pub subscription: Box<[u8]>,
    /// In the bytes of the protocol type (ConsumerProtocolAssignment). Empty in a consumer group.
    pub assignment: Box<[u8]>,
    /// What only members of consumer groups have.
    pub consumer: Option<Box<ConsumerMemberView>>,
}

/// What only members of consumer groups have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerMemberView {
    /// Of the assignment that it has; -2: it is static, and left for a while.
    pub member_epoch: i32,
    /// Of the one that it had before.
    pub previous_member_epoch: i32,
    /// As Kafka's `MemberState` names it.
    pub state: &'static str,
    /// Which protocol it speaks.
    pub member_type: MemberType,
    /// As the client named it.
    pub rack_id: Option<Box<str>>,
    /// Sorted.
    pub subscribed_topic_names: Vec<Box<str>>,
    /// `""`: none.
    pub subscribed_topic_regex: Box<str>,
    /// The assignor that it asks for.
    pub server_assignor: Option<Box<str>>,
    /// What it may read, without what it has to give up.
    pub assigned: Vec<TopicPartitionsView>,
    /// What it has to give up, and keeps from others until it did.
    pub pending_revocation: Vec<TopicPartitionsView>,
    /// What it is to read in the end.
    pub target: Vec<TopicPartitionsView>,
}

/// Some partitions of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicPartitionsView {
    /// Its name is not in the records of consumer groups.
    pub topic_id: Uuid,
    /// Ascending.
    pub partitions: Vec<i32>,
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

    /// The committed offsets that expire one day if their groups stay as they are, by group, topic
    /// and partition, each with when: in milliseconds. Offsets of open transactions delay it.
    pub fn expirations(&self) -> impl Iterator<Item = (&str, &str, i32, i64, i64)> {
        let (machine, topics) = (&self.machine, &self.machine.offsets.topics);
        machine.registry.sorted_groups().into_iter().flat_map(move |row| {
            let group = &machine.registry.groups[row];
            let (base, kept) = machine.expiration_of(row);
            let offsets = group.offsets.as_deref().into_iter();
            let offsets = offsets.flat_map(move |offsets| offsets.iter(topics));
            offsets.filter(move |(topic, ..)| !kept.contains(topic)).filter_map(
                move |(topic, partition, committed)| {
                    let (from_ms, retention_ms) =
                        (base.of(committed.commit_timestamp)?, machine.config.offsets_retention_ms);
                    let at_ms = expires_at_ms(from_ms, retention_ms, committed.expire_timestamp);
                    Some((group.id.as_str(), topic, partition, committed.offset, at_ms))
                },
            )
        })
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
