//! The two kinds of error: a code for the peer, and corrupt data found while replaying.

use core::fmt;

/// Kafka's error codes, as values for a response (`org.apache.kafka.common.protocol.Errors`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i16)]
pub enum ErrorCode {
    UnknownServerError = -1,
    None = 0,
    UnknownTopicOrPartition = 3,
    RequestTimedOut = 7,
    OffsetMetadataTooLarge = 12,
    CoordinatorLoadInProgress = 14,
    CoordinatorNotAvailable = 15,
    NotCoordinator = 16,
    IllegalGeneration = 22,
    InconsistentGroupProtocol = 23,
    InvalidGroupId = 24,
    UnknownMemberId = 25,
    InvalidSessionTimeout = 26,
    RebalanceInProgress = 27,
    UnsupportedVersion = 35,
    InvalidRequest = 42,
    NonEmptyGroup = 68,
    GroupIdNotFound = 69,
    MemberIdRequired = 79,
    GroupMaxSizeReached = 81,
    FencedInstanceId = 82,
    GroupSubscribedToTopic = 86,
    UnstableOffsetCommit = 88,
    UnknownTopicId = 100,
    FencedMemberEpoch = 110,
    UnreleasedInstanceId = 111,
    UnsupportedAssignor = 112,
    StaleMemberEpoch = 113,
    InvalidRegularExpression = 128,
}

const ALL: [ErrorCode; 29] = [
    ErrorCode::UnknownServerError,
    ErrorCode::None,
    ErrorCode::UnknownTopicOrPartition,
    ErrorCode::RequestTimedOut,
    ErrorCode::OffsetMetadataTooLarge,
    ErrorCode::CoordinatorLoadInProgress,
    ErrorCode::CoordinatorNotAvailable,
    ErrorCode::NotCoordinator,
    ErrorCode::IllegalGeneration,
    ErrorCode::InconsistentGroupProtocol,
    ErrorCode::InvalidGroupId,
    ErrorCode::UnknownMemberId,
    ErrorCode::InvalidSessionTimeout,
    ErrorCode::RebalanceInProgress,
    ErrorCode::UnsupportedVersion,
    ErrorCode::InvalidRequest,
    ErrorCode::NonEmptyGroup,
    ErrorCode::GroupIdNotFound,
    ErrorCode::MemberIdRequired,
    ErrorCode::GroupMaxSizeReached,
    ErrorCode::FencedInstanceId,
    ErrorCode::GroupSubscribedToTopic,
    ErrorCode::UnstableOffsetCommit,
    ErrorCode::UnknownTopicId,
    ErrorCode::FencedMemberEpoch,
    ErrorCode::UnreleasedInstanceId,
    ErrorCode::UnsupportedAssignor,
    ErrorCode::StaleMemberEpoch,
    ErrorCode::InvalidRegularExpression,
];

impl ErrorCode {
    /// The number on the wire.
    pub const fn code(self) -> i16 {
        self as i16
    }

    /// The code of a number on the wire; `None` for those that kcoord never sends.
    pub const fn from_code(code: i16) -> Option<ErrorCode> {
        let mut index = 0;
        while index < ALL.len() {
            if ALL[index].code() == code {
                return Some(ALL[index]);
            }
            index += 1;
        }
        None
    }

    pub const fn is_error(self) -> bool {
        !matches!(self, ErrorCode::None)
    }
}

/// Corrupt or unreadable data in the log. It fails the load of the shard; it never reaches a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayError {
    /// Offset of the record (or of the batch's base, when the batch itself is broken).
    pub offset: i64,
    /// Byte position inside the buffer given to `replay`, where the batch starts.
    pub position: usize,
    pub reason: String,
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "offset {} (byte {} of the chunk): {}", self.offset, self.position, self.reason)
    }
}

impl std::error::Error for ReplayError {}
