//! Responses of the consumer protocol (KIP-848).

use std::sync::Arc;

use crate::error::ErrorCode;
use crate::request::Uuid;
use crate::topic_partition::TopicPartition;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerGroupHeartbeatResponse {
    /// Shared with the member: an answer that says nothing new takes no memory.
    pub member_id: Arc<str>,
    pub member_epoch: i32,
    pub heartbeat_interval_ms: i32,
    /// `None`: as it was told before. Ascending, each partition once.
    pub assignment: Option<Box<[TopicPartition]>>,
}

/// Why a request was refused. On the wire the member id is null then, and epoch and interval are 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub error_code: ErrorCode,
    pub error_message: Option<Box<str>>,
}

impl Refusal {
    pub fn new(error_code: ErrorCode, error_message: impl Into<Box<str>>) -> Self {
        Refusal { error_code, error_message: Some(error_message.into()) }
    }
}

impl From<ErrorCode> for Refusal {
    fn from(error_code: ErrorCode) -> Self {
        Refusal { error_code, error_message: None }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerGroupDescribeResponse {
    pub error_code: ErrorCode,
    pub error_message: Option<Box<str>>,
    pub group_id: Box<str>,
    /// `Empty`, `Assigning`, `Reconciling` or `Stable`; `""` in errors.
    pub group_state: &'static str,
    pub group_epoch: i32,
    pub assignment_epoch: i32,
    pub assignor_name: Box<str>,
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerGroupDescribedMember {
    pub member_id: Box<str>,
    pub instance_id: Option<Box<str>>,
    pub rack_id: Option<Box<str>>,
    pub member_epoch: i32,
    pub client_id: Box<str>,
    pub client_host: Box<str>,
    pub subscribed_topic_names: Vec<Box<str>>,
    /// `""`: none.
    pub subscribed_topic_regex: Box<str>,
    /// With what it has to give up. Topics that exist.
    pub assignment: Vec<DescribedTopicPartitions>,
    pub target_assignment: Vec<DescribedTopicPartitions>,
    pub member_type: MemberType,
}

/// As ConsumerGroupDescribe v1 numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum MemberType {
    Classic = 0,
    Consumer = 1,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedTopicPartitions {
    pub topic_id: Uuid,
    pub topic_name: Box<str>,
    pub partitions: Vec<i32>,
}
