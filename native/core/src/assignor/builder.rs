//! From names to the numbers of a [`Group`].
//!
//! The catalogue comes first, then the members; a claim on a topic that is not in the catalogue
//! means nothing to any assignor and is dropped here. Nothing here decides anything.

use ahash::RandomState;
use hashbrown::HashMap;

use super::group::{Group, Member, NONE, Subscription};
use super::racks::{RackSets, Racks};
use crate::java_order;

/// More partitions than any cluster has, and few enough for their numbers.
pub const MAX_PARTITIONS: u64 = 1 << 28;

/// A topic while a group is built.
pub type TopicId = u32;

/// The catalogue or the claims do not fit into numbers of 28 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyPartitions;

/// What a member brings beside its topics and claims.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewMember<'a> {
    /// The member id.
    pub id: &'a str,
    /// Of a static member (KIP-345).
    pub instance_id: Option<&'a str>,
    /// Empty: none, as in Kafka.
    pub rack_id: Option<&'a str>,
    /// Of the subscription; below 0: none, as in Kafka.
    pub generation: Option<i32>,
    /// In which the member owned what it claims; see [`super::sticky::claimed`].
    pub claim_generation: Option<i32>,
}

/// Collects a catalogue and the members of a group, in this order.
pub struct GroupBuilder<'a> {
    hasher: RandomState,
    ids: HashMap<&'a str, TopicId, RandomState>,
    names: Vec<&'a str>,
    counts: Vec<u32>,
    rack_ids: HashMap<&'a str, u32, RandomState>,
    rack_sets: RackSets,
    /// Per topic of the catalogue the rack sets of its partitions; empty: not known.
    topic_racks: Vec<Vec<u32>>,
    subscriptions: Vec<Vec<TopicId>>,
    by_topics: HashMap<u64, Vec<u32>, RandomState>,
    members: Vec<Member<'a>>,
    claims: Vec<(TopicId, i32)>,
}

impl<'a> GroupBuilder<'a> {
    /// `hash_seed` protects the tables from names that are made to collide.
    pub fn new(hash_seed: u64) -> Self {
        let hasher = RandomState::with_seeds(hash_seed, !hash_seed, hash_seed.rotate_left(32), 7);
        GroupBuilder {
            ids: HashMap::with_hasher(hasher.clone()),
            names: Vec::new(),
            counts: Vec::new(),
            rack_ids: HashMap::with_hasher(hasher.clone()),
            rack_sets: RackSets::default(),
            topic_racks: Vec::new(),
            subscriptions: Vec::new(),
            by_topics: HashMap::with_hasher(hasher.clone()),
            members: Vec::new(),
            claims: Vec::new(),
            hasher,
        }
    }

    /// Puts a topic with that many partitions, numbered from 0, into the catalogue.
    pub fn add_topic(&mut self, name: &'a str, partitions: u32) -> TopicId {
        let id = self.topic(name);
        self.counts[id as usize] = partitions;
        id
    }

    /// The racks of the replicas of a topic's partitions; a topic that has none is in no rack.
    pub fn set_racks<'b>(&mut self, topic: TopicId, partitions: impl Iterator<Item = &'b [&'a str]>)
    where
        'a: 'b,
    {
        let mut sets = Vec::with_capacity(self.counts[topic as usize] as usize);
        for racks in partitions {
            let racks = racks.iter().filter(|name| !name.is_empty());
            let set = racks.map(|&name| rack_number(&mut self.rack_ids, name)).collect();
            sets.push(self.rack_sets.number(set));
        }
        assert_eq!(sets.len(), self.counts[topic as usize] as usize, "racks of every partition");
        self.topic_racks[topic as usize] = sets;
    }

    /// The number of a topic, whether it is in the catalogue or not.
    pub fn topic(&mut self, name: &'a str) -> TopicId {
        let next = self.names.len() as u32;
        let id = *self.ids.entry(name).or_insert(next);
        if id == next {
            self.names.push(name);
            self.counts.push(0);
            self.topic_racks.push(Vec::new());
        }
        id
    }

    /// The number of a topic of the catalogue that has partitions.
    pub fn existing_topic(&self, name: &str) -> Option<TopicId> {
        self.ids.get(name).copied().filter(|&id| self.counts[id as usize] > 0)
    }

    /// The number of a list of topics; equal lists have the same.
    pub fn subscription(&mut self, topics: &[TopicId]) -> u32 {
        let candidates = self.by_topics.entry(self.hasher.hash_one(topics)).or_default();
        let known = |&&at: &&u32| self.subscriptions[at as usize] == topics;
        if let Some(&known) = candidates.iter().find(known) {
            return known;
        }
        candidates.push(self.subscriptions.len() as u32);
        self.subscriptions.push(topics.to_vec());
        self.subscriptions.len() as u32 - 1
    }

    /// Adds a member without claims. The ids of members must differ.
    pub fn add_member(&mut self, member: NewMember<'a>, subscription: u32) {
        let rack = match member.rack_id {
            None | Some("") => NONE,
            Some(name) => rack_number(&mut self.rack_ids, name),
        };
        let end = self.claims.len() as u32;
        self.members.push(Member {
            id: member.id,
            instance_id: member.instance_id,
            rack,
            subscription,
            generation: member.generation.filter(|&generation| generation >= 0).unwrap_or(-1),
            claim_generation: member.claim_generation,
            claims: end..end,
        });
    }

    /// Adds a claim of the last member: a partition of [`GroupBuilder::existing_topic`].
    pub fn add_claim(&mut self, topic: TopicId, number: i32) {
        self.claims.push((topic, number));
        let member = self.members.last_mut().expect("a member that claims");
        member.claims.end += 1;
    }

    /// # Errors
    /// When the topics with subscribers, or the claims, have too many partitions.
    pub fn build(self) -> Result<Group<'a>, TooManyPartitions> {
        let mut wanted = vec![false; self.names.len()];
        self.subscriptions.iter().flatten().for_each(|&topic| wanted[topic as usize] = true);
        let mut order: Vec<TopicId> = (0..self.names.len() as u32).collect();
        order.sort_unstable_by(|&left, &right| {
            java_order::compare(self.names[left as usize], self.names[right as usize])
        });
        let mut numbers = vec![0; order.len()];
        let mut firsts = Vec::with_capacity(order.len() + 1);
        let mut total = 0u64;
        for (number, &topic) in order.iter().enumerate() {
            numbers[topic as usize] = number as u32;
            firsts.push(total as u32);
            if wanted[topic as usize] {
                total += u64::from(self.counts[topic as usize]);
            }
            if total + self.claims.len() as u64 > MAX_PARTITIONS {
                return Err(TooManyPartitions);
            }
        }
        firsts.push(total as u32);

        let in_racks = self.members.iter().any(|member| member.rack != NONE);
        let racks = in_racks.then(|| {
            let sets = order.iter().map(|&topic| self.topic_racks[topic as usize].as_slice());
            Racks::new(self.rack_sets, self.rack_ids.len(), sets, &firsts)
        });
        let listed = |topics: Vec<TopicId>| -> Vec<u32> {
            topics.into_iter().map(|topic| numbers[topic as usize]).collect()
        };
        let subscriptions =
            self.subscriptions.into_iter().map(|topics| subscription(listed(topics), &firsts));
        let subscriptions = subscriptions.collect();
        let mut group = Group {
            names: order.iter().map(|&topic| self.names[topic as usize]).collect(),
            racks,
            subscriptions,
            members: self.members,
            claims: Vec::new(),
            phantoms: Vec::new(),
            firsts,
        };
        number_claims(&mut group, &self.claims, &numbers, self.hasher);
        Ok(group)
    }
}

fn rack_number<'a>(ids: &mut HashMap<&'a str, u32, RandomState>, name: &'a str) -> u32 {
    let next = ids.len() as u32;
    *ids.entry(name).or_insert(next)
}

fn subscription(listed: Vec<u32>, firsts: &[u32]) -> Subscription {
    let mut topics = listed.clone();
    topics.sort_unstable();
    topics.dedup();
    let distinct = topics.len() as u32;
    topics.retain(|&topic| firsts[topic as usize + 1] > firsts[topic as usize]);
    Subscription { listed, topics, distinct }
}

/// Claims on topics without subscribers are dropped; those on partitions that do not exist
/// get numbers above all others, the same partition always the same.
fn number_claims(
    group: &mut Group<'_>,
    claims: &[(TopicId, i32)],
    numbers: &[u32],
    hasher: RandomState,
) {
    let total = group.partition_count() as u32;
    let mut phantoms: HashMap<(u32, i32), u32, RandomState> = HashMap::with_hasher(hasher);
    let mut numbered = Vec::with_capacity(claims.len());
    for member in &mut group.members {
        let start = numbered.len() as u32;
        for &(topic, number) in &claims[member.claims.start as usize..member.claims.end as usize] {
            let topic = numbers[topic as usize];
            let (first, end) = (group.firsts[topic as usize], group.firsts[topic as usize + 1]);
            if first == end {
                continue;
            }
            let claim = if number >= 0 && (number as u32) < end - first {
                first + number as u32
            } else {
                let next = total + group.phantoms.len() as u32;
                let phantom = *phantoms.entry((topic, number)).or_insert(next);
                if phantom == next {
                    group.phantoms.push((topic, number));
                }
                phantom
            };
            numbered.push(claim);
        }
        member.claims = start..numbered.len() as u32;
    }
    group.claims = numbered;
}
