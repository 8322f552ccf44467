//! What a classic member is assigned, in the bytes that its client reads.

use crate::catalogue::Catalogue;
use crate::consumer_protocol::{Assignment, LATEST_VERSION};
use crate::topic_partition::{TopicPartition, by_topic};

/// The version that a member's metadata begins with, if it is one.
pub fn version_of(metadata: &[u8]) -> Option<i16> {
    let version = i16::from_be_bytes(*metadata.first_chunk()?);
    (version >= 0).then_some(version)
}

/// Partitions as a ConsumerProtocolAssignment of this version, or the newest before it. Topics that
/// are gone are left out.
pub fn encoded_assignment(
    catalogue: &Catalogue,
    partitions: &[TopicPartition],
    version: i16,
) -> Vec<u8> {
    let topics = by_topic(partitions).filter_map(|(topic_id, part)| {
        let numbers = part.iter().map(|at| at.partition).collect();
        Some((catalogue.name_of(topic_id)?, numbers))
    });
    let assigned_partitions = topics.collect();
    let mut out = Vec::new();
    Assignment { version: version.min(LATEST_VERSION), assigned_partitions, user_data: None }
        .encode(&mut out);
    out
}
