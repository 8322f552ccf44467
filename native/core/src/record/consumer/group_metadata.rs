//! ConsumerGroupMetadataValue: key type 3.

use super::{VERSION, open};
use crate::record::fields::{write_i16, write_i32, write_i64, write_tagged_field};
use crate::record::reader::{DecodeError, Reader};

const METADATA_HASH_TAG: u32 = 0;

/// The epoch of a consumer group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsumerGroupMetadataValue {
    /// The group epoch.
    pub epoch: i32,
    /// Over the subscribed topics that exist; 0: none does, or written before 4.1.
    pub metadata_hash: i64,
}

impl ConsumerGroupMetadataValue {
    /// Reads the value, version included.
    pub fn parse(value: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = open(value)?;
        let epoch = reader.i32()?;
        let mut metadata_hash = 0;
        reader.tagged_fields(|tag, bytes| {
            if tag == METADATA_HASH_TAG {
                metadata_hash = Reader::new(bytes).i64()?;
            }
            Ok(())
        })?;
        Ok(ConsumerGroupMetadataValue { epoch, metadata_hash })
    }

    /// Appends the value.
    pub fn encode(&self, out: &mut Vec<u8>) {
        write_i16(out, VERSION);
        write_i32(out, self.epoch);
        if self.metadata_hash == 0 {
            return super::write_no_tags(out);
        }
        out.push(1);
        write_tagged_field(out, METADATA_HASH_TAG, |out| write_i64(out, self.metadata_hash));
    }
}
