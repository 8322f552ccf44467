//! The topics of a run.

use crate::plan::TOPICS;

/// A topic that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topic {
    pub id: u128,
    pub partitions: i32,
}

/// The topics of the world, which every client sees at once.
#[derive(Clone, Debug)]
pub struct Catalogue {
    pub topics: [Option<Topic>; TOPICS.len()],
    /// One more with each change.
    pub version: u32,
}

impl Catalogue {
    /// Ids of the topics, by their numbers.
    pub fn ids(&self) -> [Option<u128>; TOPICS.len()] {
        self.topics.map(|topic| topic.map(|topic| topic.id))
    }
}
