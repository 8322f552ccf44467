//! Which record a key names (log-format section 2). A record of an unknown type is kept.

use super::consumer::{ConsumerGroupKey, ConsumerRecordType};
use super::group_metadata::{GROUP_METADATA_KEY_TYPE, GroupMetadataKey};
use super::offset_commit::OffsetCommitKey;
use super::reader::{DecodeError, Reader};

/// The key of a record of `__consumer_offsets`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKey<'a> {
    /// Types 0 and 1.
    OffsetCommit(OffsetCommitKey<'a>),
    /// Type 2.
    GroupMetadata(GroupMetadataKey<'a>),
    /// Types 3 to 8 and 16.
    ConsumerGroup(ConsumerGroupKey<'a>),
    /// A record of a share or streams group: types 10 to 15, 17, 19 to 23.
    Other(OtherKey<'a>),
    /// Left over from an aborted upgrade, or written by a newer Kafka: skip it and say so.
    Unknown {
        /// The key's first two bytes.
        record_type: i16,
        /// The whole key.
        raw: &'a [u8],
    },
}

/// Enough of a key to know whose group it names; the whole of it is in `rest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherKey<'a> {
    /// The key's first two bytes.
    pub record_type: i16,
    /// Never classic.
    pub group_type: GroupType,
    /// The group.
    pub group_id: &'a str,
    /// What follows the group id: a member id, or nothing.
    pub rest: &'a [u8],
}

/// Which protocol the members of a group speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupType {
    /// JoinGroup and SyncGroup.
    Classic,
    /// ConsumerGroupHeartbeat (KIP-848).
    Consumer,
    /// ShareGroupHeartbeat (KIP-932).
    Share,
    /// StreamsGroupHeartbeat (KIP-1071).
    Streams,
}

impl GroupType {
    /// All that there are.
    pub const ALL: [GroupType; 4] =
        [GroupType::Classic, GroupType::Consumer, GroupType::Share, GroupType::Streams];

    /// As ListGroups names it.
    pub const fn name(self) -> &'static str {
        match self {
            GroupType::Classic => "classic",
            GroupType::Consumer => "consumer",
            GroupType::Share => "share",
            GroupType::Streams => "streams",
        }
    }

    /// The record whose tombstone ends a group.
    pub const fn group_record_type(self) -> i16 {
        match self {
            GroupType::Classic => GROUP_METADATA_KEY_TYPE,
            GroupType::Consumer => 3,
            GroupType::Share => 11,
            GroupType::Streams => 17,
        }
    }

    /// The record that each member has, where members have records of their own.
    pub const fn member_record_type(self) -> Option<i16> {
        match self {
            GroupType::Classic => None,
            GroupType::Consumer => Some(5),
            GroupType::Share => Some(10),
            GroupType::Streams => Some(19),
        }
    }

    const fn of_record_type(record_type: i16) -> Option<GroupType> {
        match record_type {
            10..=15 => Some(GroupType::Share),
            17 | 19..=23 => Some(GroupType::Streams),
            _ => None,
        }
    }
}

impl<'a> RecordKey<'a> {
    /// `raw` is a whole key, type included. As in Kafka, bytes behind the last field are ignored.
    #[inline]
    pub fn parse(raw: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(raw);
        let record_type = reader.i16()?;
        match record_type {
            0 | 1 => OffsetCommitKey::parse(&mut reader).map(RecordKey::OffsetCommit),
            GROUP_METADATA_KEY_TYPE => {
                GroupMetadataKey::parse(&mut reader).map(RecordKey::GroupMetadata)
            }
            _ => Self::parse_other(record_type, raw, reader),
        }
    }

    fn parse_other(
        record_type: i16,
        raw: &'a [u8],
        mut body: Reader<'a>,
    ) -> Result<Self, DecodeError> {
        if let Some(record_type) = ConsumerRecordType::of(record_type) {
            return ConsumerGroupKey::parse(record_type, &mut body).map(RecordKey::ConsumerGroup);
        }
        let Some(group_type) = GroupType::of_record_type(record_type) else {
            return Ok(RecordKey::Unknown { record_type, raw });
        };
        let group_id = body.string()?;
        Ok(RecordKey::Other(OtherKey { record_type, group_type, group_id, rest: body.rest() }))
    }
}
