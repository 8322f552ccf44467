//! ConsumerGroupRegularExpressionValue: key type 16, from Kafka 4.0.

use super::{VERSION, array, open, skip_tags, write_no_tags};
use crate::record::fields::{write_compact_count, write_compact_string, write_i16, write_i64};
use crate::record::reader::DecodeError;

/// What a regular expression was resolved to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegularExpressionValue<'a> {
    /// Names of topics, sorted.
    pub topics: Vec<&'a str>,
    /// Of the metadata that was matched.
    pub version: i64,
    /// When, in milliseconds.
    pub timestamp: i64,
}

impl<'a> RegularExpressionValue<'a> {
    /// Reads the value, version included.
    pub fn parse(value: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = open(value)?;
        let topics = array(&mut reader, 1, |reader| reader.compact_string())?;
        let version = reader.i64()?;
        let timestamp = reader.i64()?;
        skip_tags(&mut reader)?;
        Ok(RegularExpressionValue { topics, version, timestamp })
    }

    /// Appends the value.
    pub fn encode(&self, out: &mut Vec<u8>) {
        write_i16(out, VERSION);
        write_compact_count(out, self.topics.len());
        self.topics.iter().for_each(|topic| write_compact_string(out, topic));
        write_i64(out, self.version);
        write_i64(out, self.timestamp);
        write_no_tags(out);
    }
}
