//! What a shard can be asked. Strings and bytes borrow from the frame; nothing is kept unless a
//! handler copies it. One struct per API, fields in Kafka's names; values that a version does not
//! carry hold Kafka's default.

mod consumer;

use core::ops::Range;

pub use consumer::{ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest, Preferences};

/// Chosen by the host; comes back with the response.
pub type Ticket = u64;

/// A 128-bit id as Kafka writes it: most significant half first. Zero means "none".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub u128);

impl Uuid {
    pub const ZERO: Uuid = Uuid(0);

    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

/// What every request brings along besides its body.
#[derive(Clone, Copy, Debug)]
pub struct RequestContext<'a> {
    pub ticket: Ticket,
    /// Version of the API. Semantics depend on it in JoinGroup, OffsetCommit and DescribeGroups.
    pub api_version: i16,
    /// From the request header; `""` where it was null.
    pub client_id: &'a str,
    /// Java's `InetAddress.toString`: starts with `/`, e.g. `/127.0.0.1`.
    pub client_host: &'a str,
    /// Entropy for a member id, should one be needed (version and variant bits are set by the core).
    pub uuid: u128,
}

#[derive(Clone, Debug)]
pub enum Request<'a> {
    JoinGroup(JoinGroupRequest<'a>),
    SyncGroup(SyncGroupRequest<'a>),
    Heartbeat(HeartbeatRequest<'a>),
    LeaveGroup(LeaveGroupRequest<'a>),
    ConsumerGroupHeartbeat(ConsumerGroupHeartbeatRequest<'a>),
    /// One group; the host splits and gathers.
    ConsumerGroupDescribe(ConsumerGroupDescribeRequest<'a>),
    OffsetCommit(OffsetCommitRequest<'a>),
    /// One group; the host splits batches, which may reach several shards.
    OffsetFetch(OffsetFetchRequest<'a>),
    OffsetDelete(OffsetDeleteRequest<'a>),
    /// One group; the host splits and gathers.
    DescribeGroup(DescribeGroupRequest<'a>),
    /// The groups of one request that live in this shard: one atomic append.
    DeleteGroups(DeleteGroupsRequest<'a>),
    ListGroups(ListGroupsRequest<'a>),
    /// The same, of the groups in some rows of the shard ([`Shard::group_rows`](crate::Shard)).
    ListGroupRows(ListGroupsRequest<'a>, Range<u32>),
}

#[derive(Clone, Debug)]
pub struct JoinGroupRequest<'a> {
    pub group_id: &'a str,
    pub session_timeout_ms: i32,
    /// v0 carries none: the codec sets the session timeout.
    pub rebalance_timeout_ms: i32,
    pub member_id: &'a str,
    pub group_instance_id: Option<&'a str>,
    pub protocol_type: &'a str,
    /// In the client's order of preference.
    pub protocols: Vec<JoinGroupProtocol<'a>>,
    pub reason: Option<&'a str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinGroupProtocol<'a> {
    pub name: &'a str,
    pub metadata: &'a [u8],
}

#[derive(Clone, Debug)]
pub struct SyncGroupRequest<'a> {
    pub group_id: &'a str,
    pub generation_id: i32,
    pub member_id: &'a str,
    pub group_instance_id: Option<&'a str>,
    /// v5+ must carry both; a null there is refused with INCONSISTENT_GROUP_PROTOCOL.
    pub protocol_type: Option<&'a str>,
    pub protocol_name: Option<&'a str>,
    pub assignments: Vec<SyncGroupAssignment<'a>>,
}

#[derive(Clone, Copy, Debug)]
pub struct SyncGroupAssignment<'a> {
    pub member_id: &'a str,
    pub assignment: &'a [u8],
}

#[derive(Clone, Copy, Debug)]
pub struct HeartbeatRequest<'a> {
    pub group_id: &'a str,
    pub generation_id: i32,
    pub member_id: &'a str,
    pub group_instance_id: Option<&'a str>,
}

#[derive(Clone, Debug)]
pub struct LeaveGroupRequest<'a> {
    pub group_id: &'a str,
    /// v0-2 carry one member without an instance id.
    pub members: Vec<LeaveGroupMember<'a>>,
}

#[derive(Clone, Copy, Debug)]
pub struct LeaveGroupMember<'a> {
    pub member_id: &'a str,
    pub group_instance_id: Option<&'a str>,
    pub reason: Option<&'a str>,
}

#[derive(Clone, Debug)]
pub struct OffsetCommitRequest<'a> {
    pub group_id: &'a str,
    /// -1: no member.
    pub generation_id_or_member_epoch: i32,
    pub member_id: &'a str,
    pub group_instance_id: Option<&'a str>,
    /// v2-4; -1: the coordinator's own retention.
    pub retention_time_ms: i64,
    /// Topics and partitions that exist; what does not was answered by the API layer.
    pub topics: Vec<OffsetCommitTopic<'a>>,
}

#[derive(Clone, Debug)]
pub struct OffsetCommitTopic<'a> {
    pub name: &'a str,
    /// Zero where unknown (embedded use without a catalogue).
    pub topic_id: Uuid,
    pub partitions: Vec<OffsetCommitPartition<'a>>,
}

#[derive(Clone, Copy, Debug)]
pub struct OffsetCommitPartition<'a> {
    pub partition_index: i32,
    pub committed_offset: i64,
    /// -1: none.
    pub committed_leader_epoch: i32,
    pub committed_metadata: Option<&'a str>,
}

#[derive(Clone, Debug)]
pub struct OffsetFetchRequest<'a> {
    pub group_id: &'a str,
    pub member_id: Option<&'a str>,
    pub member_epoch: i32,
    /// `None`: all partitions that have an offset.
    pub topics: Option<Vec<OffsetFetchTopic<'a>>>,
    pub require_stable: bool,
}

#[derive(Clone, Debug)]
pub struct OffsetFetchTopic<'a> {
    pub name: &'a str,
    /// v10: compared with the id stored with the offset, when both are known.
    pub topic_id: Uuid,
    pub partition_indexes: Vec<i32>,
}

#[derive(Clone, Debug)]
pub struct OffsetDeleteRequest<'a> {
    pub group_id: &'a str,
    /// Topics and partitions that exist; what does not was answered by the API layer.
    pub topics: Vec<OffsetDeleteTopic<'a>>,
}

#[derive(Clone, Debug)]
pub struct OffsetDeleteTopic<'a> {
    pub name: &'a str,
    pub partitions: Vec<i32>,
}

#[derive(Clone, Copy, Debug)]
pub struct DescribeGroupRequest<'a> {
    pub group_id: &'a str,
}

#[derive(Clone, Debug)]
pub struct DeleteGroupsRequest<'a> {
    pub groups_names: Vec<&'a str>,
}

#[derive(Clone, Debug, Default)]
pub struct ListGroupsRequest<'a> {
    pub states_filter: Vec<&'a str>,
    pub types_filter: Vec<&'a str>,
}
