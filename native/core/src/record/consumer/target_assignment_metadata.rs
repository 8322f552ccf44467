//! ConsumerGroupTargetAssignmentMetadataValue: key type 6.

use super::{VERSION, open};
use crate::record::fields::{write_i16, write_i32, write_i64, write_tagged_field};
use crate::record::reader::{DecodeError, Reader};

const ASSIGNMENT_TIMESTAMP_TAG: u32 = 0;

/// The epoch of the group that the target is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetAssignmentMetadataValue {
    /// The group epoch that the target belongs to.
    pub assignment_epoch: i32,
    /// When the target was computed, in milliseconds; 0: never, or written before 4.3.
    pub assignment_timestamp: i64,
}

impl TargetAssignmentMetadataValue {
    /// Reads the value, version included.
    pub fn parse(value: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = open(value)?;
        let assignment_epoch = reader.i32()?;
        let mut assignment_timestamp = 0;
        reader.tagged_fields(|tag, bytes| {
            if tag == ASSIGNMENT_TIMESTAMP_TAG {
                assignment_timestamp = Reader::new(bytes).i64()?;
            }
            Ok(())
        })?;
        Ok(TargetAssignmentMetadataValue { assignment_epoch, assignment_timestamp })
    }

    /// Appends the value.
    pub fn encode(&self, out: &mut Vec<u8>) {
        write_i16(out, VERSION);
        write_i32(out, self.assignment_epoch);
        if self.assignment_timestamp == 0 {
            return super::write_no_tags(out);
        }
        out.push(1);
        write_tagged_field(out, ASSIGNMENT_TIMESTAMP_TAG, |out| {
            write_i64(out, self.assignment_timestamp);
        });
    }
}
