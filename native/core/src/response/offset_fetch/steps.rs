//! An answer that is gone through in steps, with other work between them.

use super::{
    HEAD_BYTES, OffsetFetchResponse, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, ROW_BYTES, first_topic,
};
use crate::request::Uuid;

/// How far somebody has come who goes through an answer; at first it is before all topics.
#[derive(Clone, Copy, Debug, Default)]
pub struct OffsetFetchPlace {
    at: usize,
    /// Of the topic, that come next.
    partitions: u32,
}

/// What stands at a place.
#[derive(Debug)]
pub enum OffsetFetchStep<'a> {
    /// A topic; its partitions are the next steps.
    Topic(OffsetFetchResponseTopic<'a>),
    /// A partition, and whether it is the last of its topic.
    Partition(OffsetFetchResponsePartition<'a>, bool),
}

impl OffsetFetchResponse {
    /// What stands at the place, which moves on; `None`: nothing more.
    #[inline]
    pub fn step(&self, place: &mut OffsetFetchPlace) -> Option<OffsetFetchStep<'_>> {
        let end = self.topics_length();
        let rest = &self.bytes[place.at..end];
        if place.partitions > 0 {
            let mut next = OffsetFetchResponsePartitions { count: 1, bytes: rest };
            let partition = next.next().expect("its topic has as many");
            place.at = end - next.bytes.len();
            place.partitions -= 1;
            return Some(OffsetFetchStep::Partition(partition, place.partitions == 0));
        }
        let (topic, _) = first_topic(rest)?;
        place.at += HEAD_BYTES + topic.name.len();
        place.partitions = topic.partitions.count;
        Some(OffsetFetchStep::Topic(topic))
    }

    /// The same with ids put to the names of topics. `Err`: one has none, and nothing was changed.
    pub fn with_topic_ids(mut self, id_of: impl Fn(&str) -> Option<Uuid>) -> Result<Self, Self> {
        let Some(ids) = self.topics().map(|topic| id_of(topic.name())).collect::<Option<Vec<_>>>()
        else {
            return Err(self);
        };
        let end = self.topics_length();
        let mut at = 0;
        for id in ids {
            let rest = &self.bytes[at..end];
            let behind = first_topic(rest).map_or(0, |(_, behind)| behind.len());
            self.bytes[at..at + 16].copy_from_slice(&id.0.to_le_bytes());
            at = end - behind;
        }
        Ok(self)
    }
}

impl OffsetFetchResponsePartitions<'_> {
    /// Whether any of them has metadata.
    pub fn have_metadata(&self) -> bool {
        self.bytes.len() > self.count as usize * ROW_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::super::OffsetFetchResponseBuilder;
    use super::*;
    use crate::error::ErrorCode;

    fn answer() -> OffsetFetchResponse {
        let mut builder = OffsetFetchResponseBuilder::new("g", ErrorCode::None);
        let partition = |partition_index, metadata| OffsetFetchResponsePartition {
            metadata,
            ..OffsetFetchResponsePartition::absent(partition_index, ErrorCode::None)
        };
        let two = [partition(0, "m"), partition(7, "")];
        builder.push_topic("none", Uuid::ZERO, [].into_iter());
        builder.push_topic("two", Uuid(2), two.into_iter());
        builder.push_topic("one", Uuid::ZERO, [partition(1, "")].into_iter());
        builder.finish()
    }

    #[test]
    fn steps_are_the_topics_and_their_partitions() {
        let (answer, mut place) = (answer(), OffsetFetchPlace::default());
        let mut found = Vec::new();
        while let Some(step) = answer.step(&mut place) {
            found.push(match step {
                OffsetFetchStep::Topic(topic) => {
                    format!("{} {}", topic.name(), topic.partitions.have_metadata())
                }
                OffsetFetchStep::Partition(of, last) => {
                    format!("{}{} {last}", of.partition_index, of.metadata)
                }
            });
        }
        let expected = ["none false", "two true", "0m false", "7 true", "one false", "1 true"];
        assert_eq!(found, expected);
    }

    #[test]
    fn ids_are_put_to_all_names_or_to_none() {
        let partial = answer().with_topic_ids(|name| (name != "two").then_some(Uuid(9)));
        assert_eq!(partial, Err(answer()));
        let whole = answer().with_topic_ids(|name| Some(Uuid(name.len() as u128)));
        let whole = whole.expect("each has one");
        let ids: Vec<u128> = whole.topics().map(|topic| topic.topic_id.0).collect();
        assert_eq!(ids, [4, 3, 3]);
        let partitions = |of: &OffsetFetchResponse| -> Vec<i32> {
            of.topics().flat_map(|topic| topic.partitions).map(|of| of.partition_index).collect()
        };
        assert_eq!(partitions(&whole), partitions(&answer()));
    }
}
