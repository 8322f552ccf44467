//! The two kinds of error: a code for the peer, and corrupt data found while replaying.

use core::fmt;

macro_rules! error_codes {
    ($($(#[$text:meta])* $name:ident = $code:literal,)+) => {
        /// Kafka's error codes, as values for a response (`org.apache.kafka.common.protocol.Errors`).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(i16)]
        pub enum ErrorCode {
            $($(#[$text])* $name = $code,)+
        }

        const ALL: [ErrorCode; [$($code),+].len()] = [$(ErrorCode::$name),+];
    };
}

error_codes! {
    /// The coordinator failed.
    UnknownServerError = -1,
    /// No error.
    None = 0,
    /// There is no such topic or partition.
    UnknownTopicOrPartition = 3,
    /// Another node leads the partition.
    NotLeaderOrFollower = 6,
    /// The record was not durable in time.
    RequestTimedOut = 7,
    /// Longer than `offset.metadata.max.bytes`.
    OffsetMetadataTooLarge = 12,
    /// The shard is being loaded: ask again.
    CoordinatorLoadInProgress = 14,
    /// There is no coordinator now: ask again.
    CoordinatorNotAvailable = 15,
    /// Another node leads the shard: look for the coordinator again.
    NotCoordinator = 16,
    /// The generation is not the current one.
    IllegalGeneration = 22,
    /// The protocol is none that the group's members share.
    InconsistentGroupProtocol = 23,
    /// The group id is not allowed here.
    InvalidGroupId = 24,
    /// The group has no such member.
    UnknownMemberId = 25,
    /// Outside of the bounds of the settings.
    InvalidSessionTimeout = 26,
    /// A rebalance is under way: join again.
    RebalanceInProgress = 27,
    /// The API is not served in this version, or not in this form.
    UnsupportedVersion = 35,
    /// Fields that contradict each other, or that must be there.
    InvalidRequest = 42,
    /// Another producer has taken over its transactions: the epoch is of the past.
    InvalidProducerEpoch = 47,
    /// The transaction is not in a state in which that is possible.
    InvalidTxnState = 48,
    /// The transactional id does not belong to this producer.
    InvalidProducerIdMapping = 49,
    /// Another transaction of the producer is being ended: ask again.
    ConcurrentTransactions = 51,
    /// Another transaction coordinator has taken over.
    TransactionCoordinatorFenced = 52,
    /// The client may not use this transactional id.
    TransactionalIdAuthorizationFailed = 53,
    /// The group has members.
    NonEmptyGroup = 68,
    /// There is no such group.
    GroupIdNotFound = 69,
    /// Join again with the id in the response (KIP-394).
    MemberIdRequired = 79,
    /// The group is full.
    GroupMaxSizeReached = 81,
    /// Another member has taken over this instance id (KIP-345).
    FencedInstanceId = 82,
    /// A member of the group subscribes to the topic.
    GroupSubscribedToTopic = 86,
    /// A transaction on the offset is open (KIP-447).
    UnstableOffsetCommit = 88,
    /// Another producer has the transactional id.
    ProducerFenced = 90,
    /// There is no topic with this id.
    UnknownTopicId = 100,
    /// The member epoch is not one that the member can have: join anew (KIP-848).
    FencedMemberEpoch = 110,
    /// The instance id belongs to a member that has not left.
    UnreleasedInstanceId = 111,
    /// The coordinator has no assignor of this name.
    UnsupportedAssignor = 112,
    /// The member epoch is behind: send a heartbeat first (KIP-848).
    StaleMemberEpoch = 113,
    /// The producer may abort the transaction, and go on.
    TransactionAbortable = 120,
    /// The pattern of a subscription cannot be compiled.
    InvalidRegularExpression = 128,
}

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

    /// As Kafka writes it.
    pub const fn name(self) -> &'static str {
        match self {
            ErrorCode::UnknownServerError => "UNKNOWN_SERVER_ERROR",
            ErrorCode::None => "NONE",
            ErrorCode::UnknownTopicOrPartition => "UNKNOWN_TOPIC_OR_PARTITION",
            ErrorCode::NotLeaderOrFollower => "NOT_LEADER_OR_FOLLOWER",
            ErrorCode::RequestTimedOut => "REQUEST_TIMED_OUT",
            ErrorCode::OffsetMetadataTooLarge => "OFFSET_METADATA_TOO_LARGE",
            ErrorCode::CoordinatorLoadInProgress => "COORDINATOR_LOAD_IN_PROGRESS",
            ErrorCode::CoordinatorNotAvailable => "COORDINATOR_NOT_AVAILABLE",
            ErrorCode::NotCoordinator => "NOT_COORDINATOR",
            ErrorCode::IllegalGeneration => "ILLEGAL_GENERATION",
            ErrorCode::InconsistentGroupProtocol => "INCONSISTENT_GROUP_PROTOCOL",
            ErrorCode::InvalidGroupId => "INVALID_GROUP_ID",
            ErrorCode::UnknownMemberId => "UNKNOWN_MEMBER_ID",
            ErrorCode::InvalidSessionTimeout => "INVALID_SESSION_TIMEOUT",
            ErrorCode::RebalanceInProgress => "REBALANCE_IN_PROGRESS",
            ErrorCode::UnsupportedVersion => "UNSUPPORTED_VERSION",
            ErrorCode::InvalidRequest => "INVALID_REQUEST",
            ErrorCode::InvalidProducerEpoch => "INVALID_PRODUCER_EPOCH",
            ErrorCode::InvalidTxnState => "INVALID_TXN_STATE",
            ErrorCode::InvalidProducerIdMapping => "INVALID_PRODUCER_ID_MAPPING",
            ErrorCode::ConcurrentTransactions => "CONCURRENT_TRANSACTIONS",
            ErrorCode::TransactionCoordinatorFenced => "TRANSACTION_COORDINATOR_FENCED",
            ErrorCode::TransactionalIdAuthorizationFailed => {
                "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
            }
            ErrorCode::NonEmptyGroup => "NON_EMPTY_GROUP",
            ErrorCode::GroupIdNotFound => "GROUP_ID_NOT_FOUND",
            ErrorCode::MemberIdRequired => "MEMBER_ID_REQUIRED",
            ErrorCode::GroupMaxSizeReached => "GROUP_MAX_SIZE_REACHED",
            ErrorCode::FencedInstanceId => "FENCED_INSTANCE_ID",
            ErrorCode::GroupSubscribedToTopic => "GROUP_SUBSCRIBED_TO_TOPIC",
            ErrorCode::UnstableOffsetCommit => "UNSTABLE_OFFSET_COMMIT",
            ErrorCode::ProducerFenced => "PRODUCER_FENCED",
            ErrorCode::UnknownTopicId => "UNKNOWN_TOPIC_ID",
            ErrorCode::FencedMemberEpoch => "FENCED_MEMBER_EPOCH",
            ErrorCode::UnreleasedInstanceId => "UNRELEASED_INSTANCE_ID",
            ErrorCode::UnsupportedAssignor => "UNSUPPORTED_ASSIGNOR",
            ErrorCode::StaleMemberEpoch => "STALE_MEMBER_EPOCH",
            ErrorCode::TransactionAbortable => "TRANSACTION_ABORTABLE",
            ErrorCode::InvalidRegularExpression => "INVALID_REGULAR_EXPRESSION",
        }
    }

    /// Whether it is one: all but `None`.
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
    /// What is wrong, in words.
    pub reason: String,
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "offset {} (byte {} of the chunk): {}", self.offset, self.position, self.reason)
    }
}

impl std::error::Error for ReplayError {}
