//! Bounds on what a client can make grow, and the answer to a request beyond them.
//!
//! Generous: no real client meets one. Kafka bounds these only through its request size, and
//! fails later, while it writes the record.

use crate::error::ErrorCode;
use crate::request::{JoinGroupRequest, RequestContext};

/// Strings in records carry a 16-bit length (log-format section 3.2); a member id is made of a
/// client id or an instance id, a dash and 36 characters.
pub const MAX_STRING_BYTES: usize = i16::MAX as usize - 37;

/// Protocols that one member may offer: INCONSISTENT_GROUP_PROTOCOL beyond.
pub const MAX_PROTOCOLS_PER_MEMBER: usize = 1_024;

/// Protocol metadata of one member: INCONSISTENT_GROUP_PROTOCOL beyond.
pub const MAX_METADATA_BYTES_PER_MEMBER: usize = 16 << 20;

/// Entries that one request may name, all its lists together: groups, members, topics, partitions,
/// protocols. A frame may hold millions; they are not read, and its connection is closed.
pub const MAX_ENTRIES_PER_REQUEST: usize = 1 << 17;

/// Partitions of one OffsetCommit or OffsetDelete: UNKNOWN_SERVER_ERROR beyond, as Kafka answers
/// MESSAGE_TOO_LARGE. Its own bound is in bytes, 1 MiB of records by default, and met earlier.
pub const MAX_PARTITIONS_PER_REQUEST: usize = 1 << 15;

/// Member ids that were handed out and not yet used (KIP-394): GROUP_MAX_SIZE_REACHED beyond.
pub const MAX_PENDING_MEMBERS_PER_GROUP: usize = 1 << 20;

/// One answer to DescribeGroups or OffsetFetch: UNKNOWN_SERVER_ERROR for what is beyond. A group is
/// answered in one go, and other clients wait for that: some 10 ms. Of ListGroups, which is not:
/// half of the next.
pub const MAX_ANSWER_BYTES: usize = 32 << 20;

/// All such answers that are not sent: COORDINATOR_LOAD_IN_PROGRESS beyond, and clients come back.
pub const MAX_UNSENT_BYTES: usize = 512 << 20;

/// Value of a group's record: UNKNOWN_SERVER_ERROR beyond, as Kafka answers MESSAGE_TOO_LARGE.
pub const MAX_GROUP_RECORD_BYTES: usize = 256 << 20;

/// Least time between two attempts to end a join phase that no member can lead. With a rebalance
/// timeout of 0 Kafka tries again at once, for as long as the absent members' sessions last.
pub const MIN_JOIN_RETRY_MS: i32 = 100;

/// The answer to an OffsetCommit or OffsetDelete of so many partitions.
pub fn check_partitions(count: usize) -> Result<(), ErrorCode> {
    if count > MAX_PARTITIONS_PER_REQUEST { Err(ErrorCode::UnknownServerError) } else { Ok(()) }
}

/// The answer to a JoinGroup that is out of bounds.
pub fn check_join_group(
    context: &RequestContext<'_>,
    request: &JoinGroupRequest<'_>,
) -> Result<(), ErrorCode> {
    let too_long = |text: &str| text.len() > MAX_STRING_BYTES;
    if too_long(request.group_id) {
        return Err(ErrorCode::InvalidGroupId);
    }
    let metadata_bytes: usize = request.protocols.iter().map(|p| p.metadata.len()).sum();
    if request.protocols.len() > MAX_PROTOCOLS_PER_MEMBER
        || metadata_bytes > MAX_METADATA_BYTES_PER_MEMBER
        || too_long(request.protocol_type)
        || request.protocols.iter().any(|protocol| too_long(protocol.name))
    {
        return Err(ErrorCode::InconsistentGroupProtocol);
    }
    let client = [context.client_id, context.client_host];
    if client.into_iter().chain(request.group_instance_id).any(too_long) {
        return Err(ErrorCode::InvalidRequest);
    }
    Ok(())
}
