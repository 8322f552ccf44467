//! The API layer's view of the topic catalogue: what exists, and under which id.

use ahash::RandomState;
use hashbrown::HashMap;
use kcoord_core::catalogue::{Catalogue, CatalogueTopic};
use kcoord_core::request::Uuid;

/// A topic that exists.
#[derive(Clone, Debug)]
pub struct Topic {
    /// Its name.
    pub name: Box<str>,
    /// Its id.
    pub id: Uuid,
    /// The number of its partitions.
    pub partitions: i32,
    /// Log end offsets by partition, as far as the host knows them.
    pub end_offsets: Vec<(i32, i64)>,
    /// The racks of a partition's replicas, for each partition; empty: not known.
    pub racks: Vec<Box<[Box<str>]>>,
}

/// Its order never shows: what is listed is sorted.
pub struct Topics {
    by_name: HashMap<Box<str>, Topic, RandomState>,
    name_by_id: HashMap<u128, Box<str>, RandomState>,
    /// Without a catalogue every topic and partition passes (embedded use).
    open: bool,
}

impl Topics {
    /// Accepts every topic.
    pub fn open(seed: [u64; 2]) -> Self {
        let state = RandomState::with_seeds(seed[0], seed[1], !seed[0], !seed[1]);
        Topics {
            by_name: HashMap::with_hasher(state.clone()),
            name_by_id: HashMap::with_hasher(state),
            open: true,
        }
    }

    /// Exactly these topics exist.
    pub fn of(seed: [u64; 2], topics: impl IntoIterator<Item = Topic>) -> Self {
        let mut catalogue = Topics { open: false, ..Topics::open(seed) };
        for topic in topics {
            // Zero is no id: a catalogue that has none is not asked by it.
            if !topic.id.is_zero() {
                catalogue.name_by_id.insert(topic.id.0, topic.name.clone());
            }
            catalogue.by_name.insert(topic.name.clone(), topic);
        }
        catalogue
    }

    /// Topics of this catalogue that `next` has not, by name: deleted, or created anew under
    /// another id.
    pub fn missing_in(&self, next: &Topics) -> Vec<Topic> {
        let gone = |topic: &&Topic| next.topic_id(&topic.name) != Some(topic.id);
        let mut missing: Vec<Topic> = self.by_name.values().filter(gone).cloned().collect();
        missing.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        missing
    }

    /// For other tables of a turn whose keys come from the network.
    pub fn hasher(&self) -> &RandomState {
        self.by_name.hasher()
    }

    pub fn topic_id(&self, name: &str) -> Option<Uuid> {
        self.by_name.get(name).map(|topic| topic.id)
    }

    /// The id of a partition's topic (zero where none is known); `None`: no such partition.
    pub fn id_of(&self, name: &str, partition: i32) -> Option<Uuid> {
        match self.by_name.get(name) {
            Some(topic) => (0..topic.partitions).contains(&partition).then_some(topic.id),
            None => self.open.then_some(Uuid::ZERO),
        }
    }

    /// The same for shards, which ask only by name.
    pub fn catalogue(&self) -> Catalogue {
        let topics = self.by_name.values().map(|topic| {
            let partitions = u32::try_from(topic.partitions).unwrap_or(0);
            let end_offsets = topic.end_offsets.iter().copied().collect();
            let racks = topic.racks.clone();
            (topic.name.clone(), CatalogueTopic { id: topic.id, partitions, end_offsets, racks })
        });
        Catalogue::new(topics)
    }

    pub fn name_of(&self, id: Uuid) -> Option<&str> {
        self.name_by_id.get(&id.0).map(|name| &**name)
    }
}
