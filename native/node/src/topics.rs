//! The API layer's view of the topic catalogue: what exists, and under which id.

use ahash::RandomState;
use hashbrown::HashMap;
use std::sync::Arc;

use kcoord_core::catalogue::{Catalogue, CatalogueChange, CatalogueTopic};
use kcoord_core::request::Uuid;
use kcoord_core::shard::Sweep;

use crate::{Node, Status};

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

impl Topic {
    /// The same for shards, which ask only by name.
    pub(crate) fn of_shards(&self) -> CatalogueTopic {
        CatalogueTopic {
            id: self.id,
            partitions: u32::try_from(self.partitions).unwrap_or(0),
            end_offsets: self.end_offsets.iter().copied().collect(),
            racks: self.racks.clone(),
        }
    }
}

/// Its order never shows: what is listed is sorted.
#[derive(Clone)]
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

    /// A topic is new, has changed, or is gone. Returns it if it was there under another id, or is
    /// gone.
    pub fn change(&mut self, name: &str, now: Option<Topic>) -> Option<Topic> {
        let before = self.by_name.remove(name);
        if let Some(before) = &before {
            self.name_by_id.remove(&before.id.0);
        }
        let id = now.as_ref().map(|topic| topic.id);
        if let Some(topic) = now {
            if !topic.id.is_zero() {
                self.name_by_id.insert(topic.id.0, topic.name.clone());
            }
            self.by_name.insert(topic.name.clone(), topic);
        }
        before.filter(|before| Some(before.id) != id)
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
        let topics = self.by_name.values();
        Catalogue::new(topics.map(|topic| (topic.name.clone(), topic.of_shards())))
    }

    pub fn name_of(&self, id: Uuid) -> Option<&str> {
        self.name_by_id.get(&id.0).map(|name| &**name)
    }
}

impl Node {
    /// The whole catalogue, at each change of it. Until the first call every topic passes. Offsets
    /// of topics that are gone are deleted in the next turn, and groups that are assigned here
    /// start to rebalance then if their topics changed.
    pub fn set_topics(&mut self, topics: impl IntoIterator<Item = Topic>) {
        let next = Topics::of(self.config.hash_seed, topics);
        self.delete_from_shards(self.topics.missing_in(&next));
        self.catalogue = Some(Arc::new(next.catalogue()));
        self.topics = Arc::new(next);
        self.tell_in_next_turn();
    }

    /// The same for topics that are new or have changed, and names of those that are gone: of a
    /// large catalogue this costs a fraction.
    pub fn change_topics(
        &mut self,
        changed: impl IntoIterator<Item = Topic>,
        gone: impl IntoIterator<Item = Box<str>>,
    ) {
        let Some(catalogue) = &self.catalogue else { return self.set_topics(changed) };
        let topics = Arc::make_mut(&mut self.topics);
        let mut missing = Vec::new();
        let gone = gone.into_iter().map(|name| (name, None));
        let changed = changed.into_iter().map(|topic| (topic.name.clone(), Some(topic)));
        let changes = gone.chain(changed).map(|(name, topic)| {
            let now = topic.as_ref().map(Topic::of_shards);
            missing.extend(topics.change(&name, topic));
            (name, now)
        });
        self.catalogue = Some(Arc::new(catalogue.with(changes)));
        missing.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        self.delete_from_shards(missing);
        self.tell_in_next_turn();
    }

    /// Offsets of these topics.
    fn delete_from_shards(&mut self, topics: Vec<Topic>) {
        for topic in topics.into_iter().map(Arc::new) {
            let shards = 0..self.shards.len();
            let of = |shard| (shard, Arc::clone(&topic), Sweep::default());
            self.deleted.extend(shards.map(of));
        }
    }

    fn tell_in_next_turn(&mut self) {
        self.status.iter_mut().for_each(|status| status.behind = true);
        self.has_news = true;
    }

    pub(crate) fn tell_topics(&mut self, now_ms: i64) {
        let Some(catalogue) = &self.catalogue else { return };
        let is_behind = |status: &Status| status.active && status.behind;
        if !self.status.iter().any(is_behind) {
            return;
        }
        let change = CatalogueChange::between(self.told.as_ref(), catalogue);
        self.told = Some(Arc::clone(catalogue));
        for (shard, status) in self.shards.iter_mut().zip(&mut self.status) {
            if is_behind(status) {
                shard.handle_topics_change(now_ms, &change);
                *status = Status { behind: false, touched: true, ..*status };
            }
        }
    }
}
