//! Responses of the consumer protocol (KIP-848).

use std::sync::Arc;

use super::MemberId;
use crate::error::ErrorCode;
use crate::request::Uuid;
use crate::topic_partition::TopicPartition;

/// To ConsumerGroupHeartbeat, where it is not refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerGroupHeartbeatResponse {
    /// An answer that says nothing new takes no memory.
    pub member_id: MemberId,
    /// The epoch that the member has reached (KIP-848).
    pub member_epoch: i32,
    /// How often to be heard of, in ms.
    pub heartbeat_interval_ms: i32,
    /// `None`: as it was told before. Ascending, each partition once.
    pub assignment: Option<Box<[TopicPartition]>>,
}

/// Why a request was refused. On the wire the member id is null then, and epoch and interval are 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Never `None`.
    pub error_code: ErrorCode,
    /// In words, for people.
    pub error_message: Option<Box<str>>,
}

impl Refusal {
    /// Of a code and its text.
    pub fn new(error_code: ErrorCode, error_message: impl Into<Box<str>>) -> Self {
        Refusal { error_code, error_message: Some(error_message.into()) }
    }
}

impl From<ErrorCode> for Refusal {
    fn from(error_code: ErrorCode) -> Self {
        Refusal { error_code, error_message: None }
    }
}

/// To ConsumerGroupDescribe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerGroupDescribeResponse {
    /// `None` where all went well.
    pub error_code: ErrorCode,
    /// In words, for people.
    pub error_message: Option<Box<str>>,
    /// The group.
    pub group_id: Box<str>,
    /// `Empty`, `Assigning`, `Reconciling` or `Stable`; `""` in errors.
    pub group_state: &'static str,
    /// Grows with each change of members, subscriptions or topics.
    pub group_epoch: i32,
    /// The group epoch that the target is for.
    pub assignment_epoch: i32,
    /// The assignor that made the target.
    pub assignor_name: Box<str>,
    /// The members.
    pub members: Vec<ConsumerGroupDescribedMember>,
}

impl ConsumerGroupDescribeResponse {
    /// A group that is not described: its id and why.
    pub fn refused(group_id: impl Into<Box<str>>, refusal: Refusal) -> Self {
        ConsumerGroupDescribeResponse {
            error_code: refusal.error_code,
            error_message: refusal.error_message,
            group_id: group_id.into(),
            group_state: "",
            group_epoch: 0,
            assignment_epoch: 0,
            assignor_name: "".into(),
            members: Vec::new(),
        }
    }
}

/// A member as administrators see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerGroupDescribedMember {
    /// The member's id; empty in a first request.
    pub member_id: Box<str>,
    /// Of a static member (KIP-345).
    pub instance_id: Option<Box<str>>,
    /// The rack of the client (KIP-881); `None`: not said.
    pub rack_id: Option<Box<str>>,
    /// The epoch that the member has reached (KIP-848).
    pub member_epoch: i32,
    /// As the client named itself in the request header.
    pub client_id: Box<str>,
    /// The client's address, as Java prints it: `/127.0.0.1`.
    pub client_host: Box<str>,
    /// Names, shared with the group; not those that a pattern matches.
    pub subscribed_topic_names: Arc<[Box<str>]>,
    /// `""`: none.
    pub subscribed_topic_regex: Box<str>,
    /// With what it has to give up. Topics that exist.
    pub assignment: Vec<DescribedTopicPartitions>,
    /// What it is to have.
    pub target_assignment: Vec<DescribedTopicPartitions>,
    /// Which protocol it uses.
    pub member_type: MemberType,
}

/// As ConsumerGroupDescribe v1 numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum MemberType {
    /// JoinGroup and SyncGroup.
    Classic = 0,
    /// ConsumerGroupHeartbeat.
    Consumer = 1,
}

/// Partitions of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedTopicPartitions {
    /// The topic, by its id.
    pub topic_id: Uuid,
    /// The topic, by its name.
    pub topic_name: Box<str>,
    /// Partitions of the topic.
    pub partitions: Vec<i32>,
}
