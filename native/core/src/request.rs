//! What a shard can be asked. Strings and bytes borrow from the frame; nothing is kept unless a
//! handler copies it. One struct per API, fields in Kafka's names; values that a version does not
//! carry hold Kafka's default.

mod consumer;

use core::ops::Range;

pub use consumer::{ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest, Preferences};

use crate::record::{Producer, TransactionResult};

/// Chosen by the host; comes back with the response.
pub type Ticket = u64;

/// A 128-bit id as Kafka writes it: most significant half first. Zero means "none".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub u128);

impl Uuid {
    /// "None".
    pub const ZERO: Uuid = Uuid(0);

    /// Whether it means "none".
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

/// What every request brings along besides its body.
#[derive(Clone, Copy, Debug)]
pub struct RequestContext<'a> {
    /// The host's number of the request.
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

/// A request to a shard.
#[derive(Clone, Debug)]
pub enum Request<'a> {
    /// Membership in a classic group.
    JoinGroup(JoinGroupRequest<'a>),
    /// The leader's assignments, or the wish for one's own.
    SyncGroup(SyncGroupRequest<'a>),
    /// A member of a classic group is alive.
    Heartbeat(HeartbeatRequest<'a>),
    /// Members go.
    LeaveGroup(LeaveGroupRequest<'a>),
    /// Membership in a consumer group, and what follows of it (KIP-848).
    ConsumerGroupHeartbeat(ConsumerGroupHeartbeatRequest<'a>),
    /// One group; the host splits and gathers.
    ConsumerGroupDescribe(ConsumerGroupDescribeRequest<'a>),
    /// Offsets of one group.
    OffsetCommit(OffsetCommitRequest<'a>),
    /// Offsets of one group that wait for the end of a transaction.
    TxnOffsetCommit(TxnOffsetCommitRequest<'a>),
    /// The end of a transaction, in all groups of the shard; the host splits and gathers.
    WriteTxnMarkers(TransactionMarker),
    /// One group; the host splits batches, which may reach several shards.
    OffsetFetch(OffsetFetchRequest<'a>),
    /// Offsets of one group go.
    OffsetDelete(OffsetDeleteRequest<'a>),
    /// One group; the host splits and gathers.
    DescribeGroups(DescribeGroupRequest<'a>),
    /// The groups of one request that live in this shard: one atomic append.
    DeleteGroups(DeleteGroupsRequest<'a>),
    /// Some of the offsets of a group that is deleted, at most so many; the rest goes by
    /// [`DeleteGroups`](Self::DeleteGroups), and is to. Not answered.
    DeleteGroupOffsets(&'a str, usize),
    /// All groups of the shard.
    ListGroups(ListGroupsRequest<'a>),
    /// The same, of the groups in some rows of the shard ([`Shard::group_rows`](crate::Shard)).
    ListGroupRows(ListGroupsRequest<'a>, Range<u32>),
}

/// JoinGroup.
#[derive(Clone, Debug, Default)]
pub struct JoinGroupRequest<'a> {
    /// The group.
    pub group_id: &'a str,
    /// How long a member counts as alive after its last heartbeat, in ms.
    pub session_timeout_ms: i32,
    /// v0 carries none: the codec sets the session timeout.
    pub rebalance_timeout_ms: i32,
    /// The member's id; empty in a first request.
    pub member_id: &'a str,
    /// Of a static member (KIP-345).
    pub group_instance_id: Option<&'a str>,
    /// `consumer` for consumers; empty for a group that never had members.
    pub protocol_type: &'a str,
    /// In the client's order of preference.
    pub protocols: Vec<JoinGroupProtocol<'a>>,
    /// In the words of the client (KIP-800).
    pub reason: Option<&'a str>,
}

/// An assignor that a member knows, with its subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinGroupProtocol<'a> {
    /// The name of the assignor.
    pub name: &'a str,
    /// The subscription, in its bytes.
    pub metadata: &'a [u8],
}

/// SyncGroup.
#[derive(Clone, Debug, Default)]
pub struct SyncGroupRequest<'a> {
    /// The group.
    pub group_id: &'a str,
    /// The generation.
    pub generation_id: i32,
    /// The member's id; empty in a first request.
    pub member_id: &'a str,
    /// Of a static member (KIP-345).
    pub group_instance_id: Option<&'a str>,
    /// v5+ must carry both; a null there is refused with INCONSISTENT_GROUP_PROTOCOL.
    pub protocol_type: Option<&'a str>,
    /// The assignor that the group uses.
    pub protocol_name: Option<&'a str>,
    /// By the leader: one for each member. By others: none.
    pub assignments: Vec<SyncGroupAssignment<'a>>,
}

/// What the leader gives a member.
#[derive(Clone, Copy, Debug)]
pub struct SyncGroupAssignment<'a> {
    /// The member's id; empty in a first request.
    pub member_id: &'a str,
    /// In the bytes of the protocol type (ConsumerProtocolAssignment).
    pub assignment: &'a [u8],
}

/// Heartbeat.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeartbeatRequest<'a> {
    /// The group.
    pub group_id: &'a str,
    /// The generation.
    pub generation_id: i32,
    /// The member's id; empty in a first request.
    pub member_id: &'a str,
    /// Of a static member (KIP-345).
    pub group_instance_id: Option<&'a str>,
}

/// LeaveGroup.
#[derive(Clone, Debug, Default)]
pub struct LeaveGroupRequest<'a> {
    /// The group.
    pub group_id: &'a str,
    /// v0-2 carry one member without an instance id.
    pub members: Vec<LeaveGroupMember<'a>>,
}

/// A member that goes.
#[derive(Clone, Copy, Debug)]
pub struct LeaveGroupMember<'a> {
    /// The member's id; empty in a first request.
    pub member_id: &'a str,
    /// Of a static member (KIP-345).
    pub group_instance_id: Option<&'a str>,
    /// In the words of the client (KIP-800).
    pub reason: Option<&'a str>,
}

/// OffsetCommit.
#[derive(Clone, Debug, Default)]
pub struct OffsetCommitRequest<'a> {
    /// The group.
    pub group_id: &'a str,
    /// -1: no member.
    pub generation_id_or_member_epoch: i32,
    /// The member's id; empty in a first request.
    pub member_id: &'a str,
    /// Of a static member (KIP-345).
    pub group_instance_id: Option<&'a str>,
    /// v2-4; -1: the coordinator's own retention.
    pub retention_time_ms: i64,
    /// Topics and partitions that exist; what does not was answered by the API layer.
    pub topics: Vec<OffsetCommitTopic<'a>>,
}

impl OffsetCommitRequest<'_> {
    /// Whether it is no member's.
    pub fn names_nobody(&self) -> bool {
        self.generation_id_or_member_epoch < 0
            && self.member_id.is_empty()
            && self.group_instance_id.is_none()
    }
}

/// Offsets of a topic.
#[derive(Clone, Debug)]
pub struct OffsetCommitTopic<'a> {
    /// The name of the topic.
    pub name: &'a str,
    /// Zero where unknown (embedded use without a catalogue).
    pub topic_id: Uuid,
    /// Partitions of the topic.
    pub partitions: Vec<OffsetCommitPartition<'a>>,
}

/// The offset of a partition.
#[derive(Clone, Copy, Debug)]
pub struct OffsetCommitPartition<'a> {
    /// The partition.
    pub partition_index: i32,
    /// The next record to read; any number is taken, as in Kafka.
    pub committed_offset: i64,
    /// -1: none.
    pub committed_leader_epoch: i32,
    /// Text of the client beside the offset.
    pub committed_metadata: Option<&'a str>,
}

/// TxnOffsetCommit.
#[derive(Clone, Debug)]
pub struct TxnOffsetCommitRequest<'a> {
    /// The name of the producer's transactions: the host's, for the transaction coordinator.
    pub transactional_id: &'a str,
    /// Whose transaction it is.
    pub producer: Producer,
    /// What is committed, and by which member; -1 and `""`: by none.
    pub commit: OffsetCommitRequest<'a>,
}

impl Default for TxnOffsetCommitRequest<'_> {
    fn default() -> Self {
        TxnOffsetCommitRequest {
            transactional_id: "",
            producer: Producer { id: -1, epoch: -1 },
            commit: OffsetCommitRequest::default(),
        }
    }
}

/// One marker of a WriteTxnMarkers, in one partition of `__consumer_offsets`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionMarker {
    /// Whose transaction ends; since KIP-890 with an epoch above that of its offsets.
    pub producer: Producer,
    /// How it ends.
    pub result: TransactionResult,
    /// Of the transaction coordinator that ends it: a later one fences it.
    pub coordinator_epoch: i32,
    /// 2: epochs rise with each transaction (KIP-890). 0 or 1: they do not, or it is not known.
    pub transaction_version: i8,
}

/// OffsetFetch of one group.
#[derive(Clone, Debug)]
pub struct OffsetFetchRequest<'a> {
    /// The group.
    pub group_id: &'a str,
    /// v9 and later, with the epoch: `None`: not as a member.
    pub member_id: Option<&'a str>,
    /// Of a consumer group; -1: not as a member.
    pub member_epoch: i32,
    /// `None`: all partitions that have an offset.
    pub topics: Option<Vec<OffsetFetchTopic<'a>>>,
    /// Offsets of open transactions are refused (KIP-447).
    pub require_stable: bool,
}

/// Partitions of a topic.
#[derive(Clone, Debug)]
pub struct OffsetFetchTopic<'a> {
    /// The name of the topic.
    pub name: &'a str,
    /// v10: compared with the id stored with the offset, when both are known.
    pub topic_id: Uuid,
    /// The partitions.
    pub partition_indexes: Vec<i32>,
}

/// OffsetDelete.
#[derive(Clone, Debug, Default)]
pub struct OffsetDeleteRequest<'a> {
    /// The group.
    pub group_id: &'a str,
    /// Topics and partitions that exist; what does not was answered by the API layer.
    pub topics: Vec<OffsetDeleteTopic<'a>>,
}

/// Partitions of a topic.
#[derive(Clone, Debug)]
pub struct OffsetDeleteTopic<'a> {
    /// The name of the topic.
    pub name: &'a str,
    /// Partitions of the topic.
    pub partitions: Vec<i32>,
}

/// DescribeGroups of one group.
#[derive(Clone, Copy, Debug)]
pub struct DescribeGroupRequest<'a> {
    /// The group.
    pub group_id: &'a str,
}

/// DeleteGroups.
#[derive(Clone, Debug, Default)]
pub struct DeleteGroupsRequest<'a> {
    /// The groups.
    pub groups_names: Vec<&'a str>,
}

/// ListGroups.
#[derive(Clone, Debug, Default)]
pub struct ListGroupsRequest<'a> {
    /// Names of states; empty: all.
    pub states_filter: Vec<&'a str>,
    /// Names of types; empty: all.
    pub types_filter: Vec<&'a str>,
}
