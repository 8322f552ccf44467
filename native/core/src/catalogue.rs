//! The topics that exist, as far as assigning partitions needs them: an input like any other.
//!
//! The host hands in a whole catalogue at each change of it, and shards share it. Never logged: an
//! assignment that was made from it is.

use core::ops::Deref;
use std::collections::{BTreeMap, Bound};
use std::sync::{Arc, OnceLock};

use crate::request::Uuid;

/// Topics by name. Immutable: a change is another catalogue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalogue {
    topics: BTreeMap<Box<str>, Entry>,
    /// Of topics that have an id.
    names: BTreeMap<Uuid, Box<str>>,
}

/// A topic, and what was found out of it.
#[derive(Clone, Debug, Default)]
struct Entry {
    topic: CatalogueTopic,
    /// See [`Catalogue::topic_hash`].
    hash: OnceLock<u64>,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.topic == other.topic
    }
}

impl Eq for Entry {}

impl Deref for Entry {
    type Target = CatalogueTopic;

    fn deref(&self) -> &CatalogueTopic {
        &self.topic
    }
}

/// What is known of a topic besides its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CatalogueTopic {
    /// Zero where it has none.
    pub id: Uuid,
    /// Numbered from 0.
    pub partitions: u32,
    /// Log end offset by partition; 0 where it is not known.
    pub end_offsets: BTreeMap<i32, i64>,
    /// The racks of a partition's replicas, for each partition; empty where they are not known.
    pub racks: Vec<Box<[Box<str>]>>,
}

impl Catalogue {
    /// Of all topics that exist, by name.
    pub fn new(topics: impl IntoIterator<Item = (Box<str>, CatalogueTopic)>) -> Self {
        let entry = |(name, topic)| (name, Entry { topic, hash: OnceLock::new() });
        let topics: BTreeMap<Box<str>, Entry> = topics.into_iter().map(entry).collect();
        let with_id = topics.iter().filter(|(_, topic)| !topic.id.is_zero());
        let names = with_id.map(|(name, topic)| (topic.id, name.clone())).collect();
        Catalogue { topics, names }
    }

    /// Id and number of partitions of a topic that has an id.
    pub fn topic(&self, name: &str) -> Option<(Uuid, u32)> {
        let topic = self.topics.get(name).filter(|topic| !topic.id.is_zero())?;
        Some((topic.id, topic.partitions))
    }

    /// A number that stands for a topic that has an id, its id, its partitions and their racks, made by
    /// `make` of name, id, number of partitions and racks where it is asked for first.
    pub(crate) fn topic_hash(
        &self,
        name: &str,
        make: impl FnOnce(&str, Uuid, u32, &[Box<[Box<str>]>]) -> u64,
    ) -> Option<u64> {
        let entry = self.topics.get(name).filter(|entry| !entry.id.is_zero())?;
        Some(*entry.hash.get_or_init(|| make(name, entry.id, entry.partitions, self.racks(name))))
    }

    /// The name of the topic with this id.
    pub fn name_of(&self, topic_id: Uuid) -> Option<&str> {
        self.names.get(&topic_id).map(|name| &**name)
    }

    /// Topics that have an id, sorted: those that come after a name; after none: all.
    pub fn names_after(&self, name: Option<&str>) -> impl Iterator<Item = &str> {
        let start = name.map_or(Bound::Unbounded, Bound::Excluded);
        let topics = self.topics.range::<str, _>((start, Bound::Unbounded));
        topics.filter(|(_, topic)| !topic.id.is_zero()).map(|(name, _)| &**name)
    }

    /// Whether both have the same topics, ids, numbers of partitions and racks.
    pub fn is_same(&self, other: &Catalogue) -> bool {
        self.names == other.names && self.has_same_placement(other)
    }

    /// Whether all that the other has was here already.
    pub fn has_topics_of(&self, other: &Catalogue) -> bool {
        other.names.iter().all(|(topic_id, name)| self.name_of(*topic_id) == Some(name))
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

    /// The racks of the replicas of each partition; empty where they are not known of all.
    pub fn racks(&self, topic: &str) -> &[Box<[Box<str>]>] {
        match self.topics.get(topic) {
            Some(topic) if topic.racks.len() == topic.partitions as usize => &topic.racks,
            _ => &[],
        }
    }

    /// Whether both give a topic the same number of partitions, in the same racks.
    pub fn agrees_with(&self, other: &Catalogue, topic: &str) -> bool {
        self.partitions(topic) == other.partitions(topic) && self.racks(topic) == other.racks(topic)
    }

    /// Whether both have the same topics with the same partitions in the same racks.
    pub fn has_same_placement(&self, other: &Catalogue) -> bool {
        self.has_same_partitions(other)
            && self.topics.keys().all(|topic| self.racks(topic) == other.racks(topic))
    }

    /// Whether both have the same topics with the same numbers of partitions.
    pub fn has_same_partitions(&self, other: &Catalogue) -> bool {
        self.counts().eq(other.counts())
    }

    fn counts(&self) -> impl Iterator<Item = (&str, u32)> {
        self.topics.iter().map(|(name, topic)| (&**name, topic.partitions))
    }
}

static NO_TOPICS: Catalogue = Catalogue { topics: BTreeMap::new(), names: BTreeMap::new() };

/// The topics, as far as the host has told of any.
pub fn known(catalogue: &Option<Arc<Catalogue>>) -> &Catalogue {
    catalogue.as_deref().unwrap_or(&NO_TOPICS)
}
