//! Keys of consumer groups' records (log-format section 2).

use crate::record::fields::{write_i16, write_string};
use crate::record::reader::{DecodeError, Reader};

/// The record types of consumer groups, by the number that a key begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(i16)]
pub enum ConsumerRecordType {
    /// ConsumerGroupMetadata.
    GroupMetadata = 3,
    /// ConsumerGroupPartitionMetadata; written before Kafka 4.1.
    PartitionMetadata = 4,
    /// ConsumerGroupMemberMetadata.
    MemberMetadata = 5,
    /// ConsumerGroupTargetAssignmentMetadata.
    TargetAssignmentMetadata = 6,
    /// ConsumerGroupTargetAssignmentMember.
    TargetAssignmentMember = 7,
    /// ConsumerGroupCurrentMemberAssignment.
    CurrentMemberAssignment = 8,
    /// ConsumerGroupRegularExpression.
    RegularExpression = 16,
}

impl ConsumerRecordType {
    /// Of the key's first two bytes.
    pub const fn of(record_type: i16) -> Option<Self> {
        Some(match record_type {
            3 => Self::GroupMetadata,
            4 => Self::PartitionMetadata,
            5 => Self::MemberMetadata,
            6 => Self::TargetAssignmentMetadata,
            7 => Self::TargetAssignmentMember,
            8 => Self::CurrentMemberAssignment,
            16 => Self::RegularExpression,
            _ => return None,
        })
    }

    /// Whether the key names a member or a regular expression behind the group.
    const fn has_rest(self) -> bool {
        matches!(
            self,
            Self::MemberMetadata
                | Self::TargetAssignmentMember
                | Self::CurrentMemberAssignment
                | Self::RegularExpression
        )
    }
}

/// The key of a record of a consumer group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsumerGroupKey<'a> {
    /// Which record it is.
    pub record_type: ConsumerRecordType,
    /// The group.
    pub group_id: &'a str,
    /// The member id of types 5, 7 and 8, the regular expression of type 16, `""` of the others.
    pub rest: &'a str,
}

impl<'a> ConsumerGroupKey<'a> {
    /// Reads what follows the type.
    pub fn parse(
        record_type: ConsumerRecordType,
        body: &mut Reader<'a>,
    ) -> Result<Self, DecodeError> {
        let group_id = body.string()?;
        let rest = if record_type.has_rest() { body.string()? } else { "" };
        Ok(ConsumerGroupKey { record_type, group_id, rest })
    }

    /// Appends the key, type included.
    pub fn encode(&self, out: &mut Vec<u8>) {
        write_i16(out, self.record_type as i16);
        write_string(out, self.group_id);
        if self.record_type.has_rest() {
            write_string(out, self.rest);
        }
    }
}
