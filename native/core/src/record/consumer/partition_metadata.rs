//! ConsumerGroupPartitionMetadataValue: key type 4. Kafka up to 4.0 wrote it; a reader of today only
//! remembers that there is one, because its tombstone is due then.

use super::{VERSION, array, open, skip_tags, write_no_tags};
use crate::record::fields::{
    write_compact_count, write_compact_string, write_i16, write_i32, write_uuid,
};
use crate::record::reader::{DecodeError, Reader};
use crate::request::Uuid;

/// An id, an empty name, a number, no partitions, no tags.
const SMALLEST_TOPIC: usize = 23;
/// A number, no racks, no tags.
const SMALLEST_PARTITION: usize = 6;

/// The topics of a group's subscriptions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionMetadataValue<'a> {
    /// The topics.
    pub topics: Vec<TopicMetadata<'a>>,
}

/// One of the topics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicMetadata<'a> {
    /// The topic, by its id.
    pub topic_id: Uuid,
    /// The topic, by its name.
    pub topic_name: &'a str,
    /// The number of its partitions.
    pub num_partitions: i32,
    /// Where replicas of its partitions are.
    pub partition_racks: Vec<PartitionRacks<'a>>,
}

/// Where the replicas of a partition are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionRacks<'a> {
    /// The partition.
    pub partition: i32,
    /// Racks that have a replica.
    pub racks: Vec<&'a str>,
}

impl<'a> PartitionMetadataValue<'a> {
    /// Reads the value, version included.
    pub fn parse(value: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = open(value)?;
        let topics = array(&mut reader, SMALLEST_TOPIC, topic)?;
        skip_tags(&mut reader)?;
        Ok(PartitionMetadataValue { topics })
    }

    /// Appends the value.
    pub fn encode(&self, out: &mut Vec<u8>) {
        write_i16(out, VERSION);
        write_compact_count(out, self.topics.len());
        for topic in &self.topics {
            write_uuid(out, topic.topic_id);
            write_compact_string(out, topic.topic_name);
            write_i32(out, topic.num_partitions);
            write_compact_count(out, topic.partition_racks.len());
            for of in &topic.partition_racks {
                write_i32(out, of.partition);
                write_compact_count(out, of.racks.len());
                of.racks.iter().for_each(|rack| write_compact_string(out, rack));
                write_no_tags(out);
            }
            write_no_tags(out);
        }
        write_no_tags(out);
    }
}

fn topic<'a>(reader: &mut Reader<'a>) -> Result<TopicMetadata<'a>, DecodeError> {
    let topic = TopicMetadata {
        topic_id: reader.uuid()?,
        topic_name: reader.compact_string()?,
        num_partitions: reader.i32()?,
        partition_racks: array(reader, SMALLEST_PARTITION, partition_racks)?,
    };
    skip_tags(reader)?;
    Ok(topic)
}

fn partition_racks<'a>(reader: &mut Reader<'a>) -> Result<PartitionRacks<'a>, DecodeError> {
    let partition = reader.i32()?;
    let racks = array(reader, 1, |reader| reader.compact_string())?;
    skip_tags(reader)?;
    Ok(PartitionRacks { partition, racks })
}
