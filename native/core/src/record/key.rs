//! Which record a key names (log-format section 2). A type that nobody knows is kept, not lost.

use super::group_metadata::{GROUP_METADATA_KEY_TYPE, GroupMetadataKey};
use super::offset_commit::OffsetCommitKey;
use super::reader::{DecodeError, Reader};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKey<'a> {
    /// Types 0 and 1.
    OffsetCommit(OffsetCommitKey<'a>),
    /// Type 2.
    GroupMetadata(GroupMetadataKey<'a>),
    /// A record of a consumer, share or streams group: types 3 to 8, 10 to 17, 19 to 23.
    Other(OtherKey<'a>),
    /// Left over from an aborted upgrade, or written by a newer Kafka: skip it and say so.
    Unknown { record_type: i16, raw: &'a [u8] },
}

/// Enough of a key to know whose group it names; the whole of it is in `rest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherKey<'a> {
    pub record_type: i16,
    pub group_type: GroupType,
    pub group_id: &'a str,
    /// What follows the group id: a member id, a regular expression, or nothing.
    pub rest: &'a [u8],
}

/// Groups that are not classic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupType {
    Consumer,
    Share,
    Streams,
}

impl GroupType {
    /// As ListGroups names it.
    pub const fn name(self) -> &'static str {
        match self {
            GroupType::Consumer => "consumer",
            GroupType::Share => "share",
            GroupType::Streams => "streams",
        }
    }

    const fn of_record_type(record_type: i16) -> Option<GroupType> {
        match record_type {
            3..=8 | 16 => Some(GroupType::Consumer),
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
            _ => match GroupType::of_record_type(record_type) {
                Some(group_type) => {
                    let group_id = reader.string()?;
                    let rest = reader.rest();
                    Ok(RecordKey::Other(OtherKey { record_type, group_type, group_id, rest }))
                }
                None => Ok(RecordKey::Unknown { record_type, raw }),
            },
        }
    }
}
