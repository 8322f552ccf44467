//! Records of consumer groups (KIP-848): key types 3 to 8 and 16, values of version 0, the only one
//! there is (log-format section 3.3).
//!
//! One file per record. A value is read in every form that a release wrote, and written as Kafka 4.4
//! writes it. Sorted lists are sorted by who builds the value: nothing here orders.

pub mod current_member_assignment;
pub mod group_metadata;
pub mod key;
pub mod member_metadata;
pub mod partition_metadata;
pub mod regular_expression;
pub mod target_assignment_member;
pub mod target_assignment_metadata;

pub use current_member_assignment::{CurrentMemberAssignmentValue, EpochPartitions, MemberState};
pub use group_metadata::ConsumerGroupMetadataValue;
pub use key::{ConsumerGroupKey, ConsumerRecordType};
pub use member_metadata::{ClassicMemberMetadata, ClassicProtocol, MemberMetadataValue};
pub use partition_metadata::{PartitionMetadataValue, PartitionRacks, TopicMetadata};
pub use regular_expression::RegularExpressionValue;
pub use target_assignment_member::{TargetAssignmentMemberValue, TopicPartitions};
pub use target_assignment_metadata::TargetAssignmentMetadataValue;

use super::fields::{write_compact_count, write_i32};
use super::reader::{DecodeError, Reader};

/// A record of a consumer group: what is decided, written, applied and replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerGroupRecord<'a> {
    /// The group.
    pub group_id: &'a str,
    /// What it says.
    pub change: RecordChange<'a>,
}

/// Which record, and its value; `None` is a tombstone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordChange<'a> {
    /// Type 3.
    GroupMetadata(Option<ConsumerGroupMetadataValue>),
    /// Type 4. Kafka 4.1 and newer write tombstones only.
    PartitionMetadata(Option<PartitionMetadataValue<'a>>),
    /// Type 5.
    MemberMetadata {
        /// The member.
        member_id: &'a str,
        /// `None`: a tombstone.
        value: Option<MemberMetadataValue<'a>>,
    },
    /// Type 6.
    TargetAssignmentMetadata(Option<TargetAssignmentMetadataValue>),
    /// Type 7.
    TargetAssignmentMember {
        /// The member.
        member_id: &'a str,
        /// `None`: a tombstone.
        value: Option<TargetAssignmentMemberValue>,
    },
    /// Type 8.
    CurrentMemberAssignment {
        /// The member.
        member_id: &'a str,
        /// `None`: a tombstone.
        value: Option<CurrentMemberAssignmentValue>,
    },
    /// Type 16.
    RegularExpression {
        /// The pattern.
        regular_expression: &'a str,
        /// `None`: a tombstone.
        value: Option<RegularExpressionValue<'a>>,
    },
}

impl<'a> ConsumerGroupRecord<'a> {
    /// # Errors
    /// A value of an unknown version, or cut short.
    pub fn parse(key: &ConsumerGroupKey<'a>, value: Option<&'a [u8]>) -> Result<Self, DecodeError> {
        use ConsumerRecordType as T;
        use RecordChange as C;
        let change = match key.record_type {
            T::GroupMetadata => {
                C::GroupMetadata(value.map(ConsumerGroupMetadataValue::parse).transpose()?)
            }
            T::PartitionMetadata => {
                C::PartitionMetadata(value.map(PartitionMetadataValue::parse).transpose()?)
            }
            T::MemberMetadata => C::MemberMetadata {
                member_id: key.rest,
                value: value.map(MemberMetadataValue::parse).transpose()?,
            },
            T::TargetAssignmentMetadata => C::TargetAssignmentMetadata(
                value.map(TargetAssignmentMetadataValue::parse).transpose()?,
            ),
            T::TargetAssignmentMember => C::TargetAssignmentMember {
                member_id: key.rest,
                value: value.map(TargetAssignmentMemberValue::parse).transpose()?,
            },
            T::CurrentMemberAssignment => C::CurrentMemberAssignment {
                member_id: key.rest,
                value: value.map(CurrentMemberAssignmentValue::parse).transpose()?,
            },
            T::RegularExpression => C::RegularExpression {
                regular_expression: key.rest,
                value: value.map(RegularExpressionValue::parse).transpose()?,
            },
        };
        Ok(ConsumerGroupRecord { group_id: key.group_id, change })
    }

    /// Its key.
    pub fn key(&self) -> ConsumerGroupKey<'_> {
        self.change.key(self.group_id)
    }

    /// Appends the value; false for a tombstone, which has none.
    pub fn encode_value(&self, out: &mut Vec<u8>) -> bool {
        self.change.encode_value(out)
    }
}

impl RecordChange<'_> {
    /// Its key in a group.
    pub fn key<'k>(&'k self, group_id: &'k str) -> ConsumerGroupKey<'k> {
        use ConsumerRecordType as T;
        use RecordChange as C;
        let (record_type, rest) = match self {
            C::GroupMetadata(_) => (T::GroupMetadata, ""),
            C::PartitionMetadata(_) => (T::PartitionMetadata, ""),
            C::MemberMetadata { member_id, .. } => (T::MemberMetadata, *member_id),
            C::TargetAssignmentMetadata(_) => (T::TargetAssignmentMetadata, ""),
            C::TargetAssignmentMember { member_id, .. } => (T::TargetAssignmentMember, *member_id),
            C::CurrentMemberAssignment { member_id, .. } => {
                (T::CurrentMemberAssignment, *member_id)
            }
            C::RegularExpression { regular_expression, .. } => {
                (T::RegularExpression, *regular_expression)
            }
        };
        ConsumerGroupKey { record_type, group_id, rest }
    }

    /// Appends the value; false for a tombstone, which has none.
    pub fn encode_value(&self, out: &mut Vec<u8>) -> bool {
        use RecordChange as C;
        match self {
            C::GroupMetadata(value) => value.map(|value| value.encode(out)),
            C::PartitionMetadata(value) => value.as_ref().map(|value| value.encode(out)),
            C::MemberMetadata { value, .. } => value.as_ref().map(|value| value.encode(out)),
            C::TargetAssignmentMetadata(value) => value.map(|value| value.encode(out)),
            C::TargetAssignmentMember { value, .. } => {
                value.as_ref().map(|value| value.encode(out))
            }
            C::CurrentMemberAssignment { value, .. } => {
                value.as_ref().map(|value| value.encode(out))
            }
            C::RegularExpression { value, .. } => value.as_ref().map(|value| value.encode(out)),
        }
        .is_some()
    }
}

const VERSION: i16 = 0;

/// The version that a value begins with; only one is known.
fn open(value: &[u8]) -> Result<Reader<'_>, DecodeError> {
    let mut reader = Reader::new(value);
    match reader.i16()? {
        VERSION => Ok(reader),
        _ => Err(DecodeError("unknown version of a value of a consumer group")),
    }
}

/// A compact array whose elements take `smallest` bytes at least, so that no count is believed
/// before the bytes are there.
fn array<'a, T>(
    reader: &mut Reader<'a>,
    smallest: usize,
    mut element: impl FnMut(&mut Reader<'a>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let count = match reader.unsigned_varint()? {
        0 => return Err(DecodeError("an array of a consumer group's record is null")),
        length => length as usize - 1,
    };
    let mut elements = Vec::with_capacity(count.min(reader.rest().len() / smallest));
    for _ in 0..count {
        elements.push(element(reader)?);
    }
    Ok(elements)
}

fn numbers(reader: &mut Reader<'_>) -> Result<Vec<i32>, DecodeError> {
    array(reader, size_of::<i32>(), |reader| reader.i32())
}

fn write_numbers(out: &mut Vec<u8>, numbers: &[i32]) {
    write_compact_count(out, numbers.len());
    numbers.iter().for_each(|number| write_i32(out, *number));
}

fn skip_tags(reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    reader.tagged_fields(|_, _| Ok(()))
}

/// No tagged fields follow.
fn write_no_tags(out: &mut Vec<u8>) {
    out.push(0);
}
