//! ConsumerGroupTargetAssignmentMemberValue: key type 7.

use super::{VERSION, array, numbers, open, skip_tags, write_no_tags, write_numbers};
use crate::record::fields::{write_compact_count, write_i16, write_i32, write_uuid};
use crate::record::reader::DecodeError;
use crate::request::Uuid;
use crate::topic_partition::{TopicPartition, by_topic};

/// An id, no partitions, no tags.
const SMALLEST_TOPIC: usize = 18;

/// What a member is to have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetAssignmentMemberValue {
    /// By topic.
    pub topic_partitions: Vec<TopicPartitions>,
}

/// Partitions of one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicPartitions {
    /// The topic, by its id.
    pub topic_id: Uuid,
    /// Partitions of the topic.
    pub partitions: Vec<i32>,
}

impl TargetAssignmentMemberValue {
    /// Reads the value, version included.
    pub fn parse(value: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = open(value)?;
        let topic_partitions = array(&mut reader, SMALLEST_TOPIC, |reader| {
            let topic_id = reader.uuid()?;
            let partitions = numbers(reader)?;
            skip_tags(reader)?;
            Ok(TopicPartitions { topic_id, partitions })
        })?;
        skip_tags(&mut reader)?;
        Ok(TargetAssignmentMemberValue { topic_partitions })
    }

    /// Appends the value of a set of partitions.
    pub fn encode_set(set: &[TopicPartition], out: &mut Vec<u8>) {
        write_i16(out, VERSION);
        write_compact_count(out, by_topic(set).count());
        for (topic_id, partitions) in by_topic(set) {
            write_uuid(out, topic_id);
            write_compact_count(out, partitions.len());
            partitions.iter().for_each(|at| write_i32(out, at.partition));
            write_no_tags(out);
        }
        write_no_tags(out);
    }

    /// Appends the value.
    pub fn encode(&self, out: &mut Vec<u8>) {
        write_i16(out, VERSION);
        write_compact_count(out, self.topic_partitions.len());
        for topic in &self.topic_partitions {
            write_uuid(out, topic.topic_id);
            write_numbers(out, &topic.partitions);
            write_no_tags(out);
        }
        write_no_tags(out);
    }
}
