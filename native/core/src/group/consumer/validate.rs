//! What a ConsumerGroupHeartbeat must be, whatever its group is (consumer-protocol section 2, step 2).

use super::member::LEFT_FOR_A_WHILE;
use crate::config::ConsumerConfig;
use crate::error::ErrorCode;
use crate::request::ConsumerGroupHeartbeatRequest;
use crate::response::Refusal;

/// A member that sends this joins, or joins again.
pub const JOINS: i32 = 0;
/// A member that sends this leaves.
pub const LEAVES: i32 = -1;

/// From this version on the client makes the member id.
const MEMBER_ID_VERSION: i16 = 1;

impl ConsumerGroupHeartbeatRequest<'_> {
    /// What is refused without a look at the group.
    ///
    /// # Errors
    /// The consumer protocol is not enabled, or the request is not as it must be.
    pub fn check(&self, api_version: i16, config: &ConsumerConfig) -> Result<(), Refusal> {
        if !config.is_enabled {
            return Err(ErrorCode::UnsupportedVersion.into());
        }
        validate(api_version, config, self)
    }
}

fn validate(
    api_version: i16,
    config: &ConsumerConfig,
    request: &ConsumerGroupHeartbeatRequest<'_>,
) -> Result<(), Refusal> {
    let epoch = request.member_epoch;
    let needs_member_id = api_version >= MEMBER_ID_VERSION || epoch > JOINS || epoch == LEAVES;
    if needs_member_id && is_blank(request.member_id) {
        return invalid("MemberId can't be empty.");
    }
    if is_blank(request.group_id) {
        return invalid("GroupId can't be empty.");
    }
    if request.instance_id.is_some_and(is_blank) {
        return invalid("InstanceId can't be empty.");
    }
    if request.rack_id().is_some_and(is_blank) {
        return invalid("RackId can't be empty.");
    }
    match epoch {
        JOINS => validate_join(request)?,
        LEFT_FOR_A_WHILE if request.instance_id.is_none() => {
            return invalid("InstanceId can't be null.");
        }
        ..LEFT_FOR_A_WHILE => return invalid("MemberEpoch is invalid."),
        _ => {}
    }
    match request.server_assignor() {
        Some(name) if config.assignor(name).is_none() => Err(Refusal::new(
            ErrorCode::UnsupportedAssignor,
            format!(
                "ServerAssignor {name} is not supported. Supported assignors: {}.",
                config.assignor_names().collect::<Vec<_>>().join(", ")
            ),
        )),
        _ => Ok(()),
    }
}

fn validate_join(request: &ConsumerGroupHeartbeatRequest<'_>) -> Result<(), Refusal> {
    if request.rebalance_timeout_ms == -1 {
        return invalid("RebalanceTimeoutMs must be provided in first request.");
    }
    if request.topic_partitions.as_ref().is_none_or(|owned| !owned.is_empty()) {
        return invalid("TopicPartitions must be empty when (re-)joining.");
    }
    if request.subscribed_topic_names.is_none() && request.subscribed_topic_regex.is_none() {
        return invalid(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        );
    }
    Ok(())
}

fn invalid(message: &'static str) -> Result<(), Refusal> {
    Err(Refusal::new(ErrorCode::InvalidRequest, message))
}

/// As Java's `String.trim` sees it.
fn is_blank(text: &str) -> bool {
    text.chars().all(|character| character <= ' ')
}

/// Whether it says all that a member can say, so that it wants to be told all.
pub fn is_full(request: &ConsumerGroupHeartbeatRequest<'_>) -> bool {
    let has_topics =
        request.subscribed_topic_names.is_some() || request.subscribed_topic_regex.is_some();
    request.member_epoch == JOINS
        || (request.rebalance_timeout_ms != -1 && has_topics && request.topic_partitions.is_some())
}
