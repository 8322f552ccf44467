//! Control records: the markers that end a transaction (log-format section 5).

use super::fields::{write_i16, write_i32};
use super::reader::{DecodeError, Reader};

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionResult {
    /// Its offsets are dropped.
    Abort,
    /// Its offsets count.
    Commit,
}

impl TransactionResult {
    /// Reads the key of a control record, leniently as Kafka does: any version from 0 on, the
    /// first four bytes. `None`: another kind of control record, to be ignored.
    pub fn parse_key(key: &[u8]) -> Result<Option<Self>, DecodeError> {
        let mut reader = Reader::new(key);
        if reader.i16()? < 0 {
            return Err(DecodeError("a control record's key has a negative version"));
        }
        Ok(match reader.i16()? {
            0 => Some(TransactionResult::Abort),
            1 => Some(TransactionResult::Commit),
            _ => None,
        })
    }

    /// Reads the value of an end marker: the epoch of its transaction coordinator.
    pub fn parse_value(value: &[u8]) -> Result<i32, DecodeError> {
        let mut reader = Reader::new(value);
        if reader.i16()? < 0 {
            return Err(DecodeError("an end marker's value has a negative version"));
        }
        reader.i32()
    }

    /// Appends the key of an end marker.
    pub fn encode_key(self, out: &mut Vec<u8>) {
        write_i16(out, 0);
        write_i16(out, matches!(self, TransactionResult::Commit).into());
    }

    /// Appends the value of an end marker.
    pub fn encode_value(coordinator_epoch: i32, out: &mut Vec<u8>) {
        write_i16(out, 0);
        write_i32(out, coordinator_epoch);
    }
}
