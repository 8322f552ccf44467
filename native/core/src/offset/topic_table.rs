//! Topic names and ids, once per shard however many groups have offsets in them.
//!
//! Every stored offset holds one reference; a name or id without references is forgotten, so
//! the table is never larger than the offsets that are stored.

use ahash::RandomState;
use hashbrown::HashTable;

use super::furthest::Furthest;
use crate::request::Uuid;

/// A topic's place in the table: valid as long as something refers to the topic.
pub type TopicIndex = u32;
/// Place of one of the topic's ids: a topic deleted and created again has offsets of both.
pub type TopicIdIndex = u32;

/// Topic names and ids, each kept once for all groups of a shard.
#[derive(Debug)]
pub struct TopicTable {
    slots: Vec<Slot>,
    free: Vec<TopicIndex>,
    index: HashTable<TopicIndex>,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Slot {
    name: Box<str>,
    references: usize,
    /// With the references to each; one or two in practice.
    ids: Vec<(Uuid, usize)>,
    furthest: Furthest,
}

impl TopicTable {
    /// An empty one; `hash_seed` is entropy.
    pub fn new(hash_seed: [u64; 2]) -> Self {
        let [first, second] = hash_seed;
        TopicTable {
            slots: Vec::new(),
            free: Vec::new(),
            index: HashTable::new(),
            hasher: RandomState::with_seeds(first, second, !first, !second),
        }
    }

    /// Number of topics that something refers to.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether no offset names a topic.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// The number of a name, if some offset has it.
    #[inline]
    pub fn find(&self, name: &str) -> Option<TopicIndex> {
        self.find_bytes(name.as_bytes())
    }

    /// The same, where it is not known yet whether the name is UTF-8: a topic's name is.
    #[inline]
    pub fn find_bytes(&self, name: &[u8]) -> Option<TopicIndex> {
        let is_it = |topic: &TopicIndex| self.slots[*topic as usize].name.as_bytes() == name;
        self.index.find(self.hasher.hash_one(name), is_it).copied()
    }

    /// The name of a number.
    pub fn name(&self, topic: TopicIndex) -> &str {
        &self.slots[topic as usize].name
    }

    /// The id of a number.
    #[inline]
    pub fn topic_id(&self, topic: TopicIndex, id: TopicIdIndex) -> Uuid {
        self.slots[topic as usize].ids[id as usize].0
    }

    /// The highest offset that a group ever committed for a partition, since the topic came into
    /// the table; 0: none.
    pub fn furthest(&self, topic: TopicIndex, partition: i32) -> i64 {
        self.slots[topic as usize].furthest.get(partition)
    }

    /// A commit that was applied.
    #[inline]
    pub(super) fn raise(&mut self, topic: TopicIndex, partition: i32, offset: i64) {
        self.slots[topic as usize].furthest.raise(partition, offset);
    }

    /// Adds a reference to a topic, and the topic where it is new. `found` is what `find` says.
    pub(super) fn acquire(
        &mut self,
        found: Option<TopicIndex>,
        name: &str,
        id: Uuid,
    ) -> (TopicIndex, TopicIdIndex) {
        let topic = found.unwrap_or_else(|| self.add(name));
        (topic, self.acquire_id(topic, id))
    }

    /// Adds a reference to a topic that is in the table.
    pub(super) fn acquire_id(&mut self, topic: TopicIndex, id: Uuid) -> TopicIdIndex {
        let slot = &mut self.slots[topic as usize];
        slot.references += 1;
        let known = slot.ids.iter().position(|(known, references)| *references > 0 && *known == id);
        let at =
            match known.or_else(|| slot.ids.iter().position(|(_, references)| *references == 0)) {
                Some(at) => at,
                None => {
                    slot.ids.push((id, 0));
                    slot.ids.len() - 1
                }
            };
        slot.ids[at].0 = id;
        slot.ids[at].1 += 1;
        at as TopicIdIndex
    }

    /// Takes a reference back; the last one takes the topic with it.
    pub(super) fn release(&mut self, topic: TopicIndex, id: TopicIdIndex) {
        let slot = &mut self.slots[topic as usize];
        slot.ids[id as usize].1 -= 1;
        slot.references -= 1;
        if slot.references > 0 {
            return;
        }
        let slot = core::mem::take(slot);
        let hash = self.hasher.hash_one(slot.name.as_bytes());
        let entry = self.index.find_entry(hash, |known| *known == topic);
        entry.expect("a topic with references is in the index").remove();
        self.free.push(topic);
    }

    fn add(&mut self, name: &str) -> TopicIndex {
        let slot = Slot { name: name.into(), ..Slot::default() };
        let topic = match self.free.pop() {
            Some(topic) => {
                self.slots[topic as usize] = slot;
                topic
            }
            None => {
                self.slots.push(slot);
                TopicIndex::try_from(self.slots.len() - 1).expect("fewer than 2^32 topics")
            }
        };
        let TopicTable { slots, index, hasher, .. } = self;
        let rehash = |topic: &TopicIndex| hasher.hash_one(slots[*topic as usize].name.as_bytes());
        index.insert_unique(hasher.hash_one(name.as_bytes()), topic, rehash);
        topic
    }
}
