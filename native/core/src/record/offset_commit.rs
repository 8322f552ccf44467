//! OFFSET_COMMIT: key types 0 and 1, values v0 to v4 (log-format section 3.1).

use super::fields::{
    write_compact_string, write_i16, write_i32, write_i64, write_string, write_unsigned_varint,
    write_uuid,
};
use super::reader::{DecodeError, Reader};
use crate::request::Uuid;

/// Key type that Kafka writes. Type 0 is read into the same slot.
pub const OFFSET_COMMIT_KEY_TYPE: i16 = 1;

const TOPIC_ID_TAG: u32 = 0;
/// `expire_timestamp` and `leader_epoch` where there is none.
const NONE: i64 = -1;

/// The key of a committed offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetCommitKey<'a> {
    /// The group.
    pub group: &'a str,
    /// The topic.
    pub topic: &'a str,
    /// The partition.
    pub partition: i32,
}

impl<'a> OffsetCommitKey<'a> {
    /// Reads what follows the type.
    #[inline]
    pub fn parse(body: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(OffsetCommitKey { group: body.string()?, topic: body.string()?, partition: body.i32()? })
    }

    /// Appends the key, type included.
    pub fn encode(&self, key_type: i16, out: &mut Vec<u8>) {
        write_i16(out, key_type);
        write_string(out, self.group);
        write_string(out, self.topic);
        write_i32(out, self.partition);
    }
}

/// A committed offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetCommitValue<'a> {
    /// The committed offset.
    pub offset: i64,
    /// -1: none. From v3.
    pub leader_epoch: i32,
    /// The client's text beside the offset.
    pub metadata: &'a str,
    /// Milliseconds.
    pub commit_timestamp: i64,
    /// Milliseconds; -1: none. In v1 only.
    pub expire_timestamp: i64,
    /// Zero: any topic of that name. From v4.
    pub topic_id: Uuid,
}

impl<'a> OffsetCommitValue<'a> {
    // A call would return it through memory in small pieces, and its caller wait for them to read it
    // in larger ones: a seventh of a recovery, with `GroupScope::store`.
    /// Reads the value, version included.
    #[inline(always)]
    pub fn parse(value: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(value);
        let version = reader.i16()?;
        if !(0..=4).contains(&version) {
            return Err(DecodeError("unknown version of an OFFSET_COMMIT value"));
        }
        let offset = reader.i64()?;
        let leader_epoch = if version >= 3 { reader.i32()? } else { NONE as i32 };
        let metadata = if version >= 4 { reader.compact_string()? } else { reader.string()? };
        let commit_timestamp = reader.i64()?;
        let expire_timestamp = if version == 1 { reader.i64()? } else { NONE };
        let mut topic_id = Uuid::ZERO;
        if version >= 4 {
            reader.tagged_fields(|tag, bytes| {
                if tag == TOPIC_ID_TAG {
                    topic_id = Reader::new(bytes).uuid()?;
                }
                Ok(())
            })?;
        }
        Ok(OffsetCommitValue {
            offset,
            leader_epoch,
            metadata,
            commit_timestamp,
            expire_timestamp,
            topic_id,
        })
    }

    /// The version Kafka 4.3 writes: 1 carries an explicit expiry (and loses leader epoch and
    /// topic id), 4 everything else.
    pub fn written_version(&self) -> i16 {
        if self.expire_timestamp == NONE { 4 } else { 1 }
    }

    /// What a reader of the written version finds: live state must equal replayed state.
    pub fn as_read_back(&self) -> Self {
        match self.written_version() {
            1 => OffsetCommitValue { leader_epoch: -1, topic_id: Uuid::ZERO, ..*self },
            _ => *self,
        }
    }

    /// Appends the value in a version; fields that it does not have are left out.
    pub fn encode(&self, version: i16, out: &mut Vec<u8>) {
        assert!((0..=4).contains(&version), "OFFSET_COMMIT values have versions 0 to 4");
        write_i16(out, version);
        write_i64(out, self.offset);
        if version >= 3 {
            write_i32(out, self.leader_epoch);
        }
        if version >= 4 {
            write_compact_string(out, self.metadata);
        } else {
            write_string(out, self.metadata);
        }
        write_i64(out, self.commit_timestamp);
        if version == 1 {
            write_i64(out, self.expire_timestamp);
        }
        if version >= 4 {
            self.encode_tags(out);
        }
    }

    fn encode_tags(&self, out: &mut Vec<u8>) {
        if self.topic_id.is_zero() {
            return out.push(0);
        }
        out.push(1);
        write_unsigned_varint(out, TOPIC_ID_TAG);
        write_unsigned_varint(out, 16);
        write_uuid(out, self.topic_id);
    }
}
