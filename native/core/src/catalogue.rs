//! The topics that exist, as far as assigning partitions needs them: an input like any other.
//!
//! The host hands in a whole catalogue at each change of it, and shards share it. Never logged: an
//! assignment that was made from it is.

use std::collections::BTreeMap;

/// Topics by name. Immutable: a change is another catalogue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalogue {
    topics: BTreeMap<Box<str>, CatalogueTopic>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CatalogueTopic {
    /// Numbered from 0.
    pub partitions: u32,
    /// Log end offset by partition; 0 where it is not known.
    pub end_offsets: BTreeMap<i32, i64>,
}

impl Catalogue {
    pub fn new(topics: impl IntoIterator<Item = (Box<str>, CatalogueTopic)>) -> Self {
        Catalogue { topics: topics.into_iter().collect() }
    }

    /// How many partitions a topic has; 0: there is no such topic.
    pub fn partitions(&self, topic: &str) -> u32 {
        self.topics.get(topic).map_or(0, |topic| topic.partitions)
    }

    /// The offset that the next record of a partition gets, as far as it is known.
    pub fn end_offset(&self, topic: &str, partition: i32) -> i64 {
        let offsets = self.topics.get(topic).map(|topic| &topic.end_offsets);
        offsets.and_then(|offsets| offsets.get(&partition)).copied().unwrap_or(0)
    }

    /// Whether both give a topic the same number of partitions.
    pub fn agrees_with(&self, other: &Catalogue, topic: &str) -> bool {
        self.partitions(topic) == other.partitions(topic)
    }

    /// Whether both have the same topics with the same numbers of partitions.
    pub fn has_same_partitions(&self, other: &Catalogue) -> bool {
        self.counts().eq(other.counts())
    }

    fn counts(&self) -> impl Iterator<Item = (&str, u32)> {
        self.topics.iter().map(|(name, topic)| (&**name, topic.partitions))
    }
}
