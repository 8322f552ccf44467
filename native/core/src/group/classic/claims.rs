//! What members had before an assignment by the coordinator, and what of it they still hold.
//!
//! A cooperative client keeps its partitions while it joins, and says which
//! (`owned_partitions`, KIP-429); all others gave everything up, so that the group's stored
//! assignment is only where things would best stay.

use super::group::ClassicGroup;
use super::member::{Member, flag};
use crate::assignor::{Group as AssignorGroup, GroupBuilder, NewMember, TooManyPartitions};
use crate::catalogue::Catalogue;
use crate::consumer_protocol::{Assignment, Subscription, TopicPartitions};
use ahash::RandomState;
use hashbrown::HashMap;

/// A member of the generation that begins.
pub struct Joined<'a> {
    pub row: u32,
    pub member: &'a Member,
    pub subscription: Subscription<'a>,
}

impl Joined<'_> {
    /// False: a static member that is away, and stays one.
    fn is_here(&self) -> bool {
        self.member.has(flag::AWAITING_JOIN)
    }
}

pub struct Claims<'a> {
    members: &'a [Joined<'a>],
    catalogue: &'a Catalogue,
    is_cooperative: bool,
    /// By member: what it had, and when.
    had: Vec<(Vec<TopicPartitions<'a>>, i32)>,
}

impl<'a> Claims<'a> {
    pub fn new(of: &ClassicGroup, members: &'a [Joined<'a>], catalogue: &'a Catalogue) -> Self {
        let is_cooperative = is_cooperative(of.protocol_name().unwrap_or_default());
        let last_generation = of.generation_id.wrapping_sub(1);
        let had = |joined: &Joined<'a>| {
            let owned = &joined.subscription.owned_partitions;
            // Subscriptions v1 do not say since when: it is believed to be the last generation.
            let since = match joined.subscription.version {
                ..2 => last_generation,
                _ => joined.subscription.generation_id,
            };
            if is_cooperative && joined.is_here() && !owned.is_empty() {
                return (owned.clone(), since);
            }
            let stored = Assignment::decode(joined.member.assignment());
            match stored.map(|stored| stored.assigned_partitions).unwrap_or_default() {
                stored if stored.is_empty() => (owned.clone(), since),
                stored => (stored, last_generation),
            }
        };
        let had = members.iter().map(had).collect();
        Claims { members, catalogue, is_cooperative, had }
    }

    /// Of two that had a partition the later one has it; of equals neither.
    pub fn build_group(&self, hash_seed: u64) -> Result<AssignorGroup<'_>, TooManyPartitions> {
        let mut builder = GroupBuilder::new(hash_seed);
        let mut subscriptions = Vec::with_capacity(self.members.len());
        for joined in self.members {
            let topics = joined.subscription.topics.iter();
            let topics: Vec<u32> = topics.map(|name| builder.topic(name)).collect();
            subscriptions.push(builder.subscription(&topics));
        }
        let names = self.members.iter().flat_map(|joined| &joined.subscription.topics);
        for name in names {
            let topic = builder.add_topic(name, self.catalogue.partitions(name));
            let racks = self.catalogue.racks(name);
            if !racks.is_empty() {
                let racks: Vec<Vec<&str>> =
                    racks.iter().map(|racks| racks.iter().map(|rack| &**rack).collect()).collect();
                builder.set_racks(topic, racks.iter().map(Vec::as_slice));
            }
        }
        let mut claims: Vec<(u32, i32, i32, usize)> = Vec::new();
        for (member, (topics, generation)) in self.had.iter().enumerate() {
            for (topic, numbers) in topics {
                let Some(topic) = builder.existing_topic(topic) else { continue };
                claims.extend(numbers.iter().map(|number| (topic, *number, *generation, member)));
            }
        }
        claims.sort_unstable();
        let mut kept: Vec<Vec<(u32, i32)>> = vec![Vec::new(); self.members.len()];
        for same in claims.chunk_by(|left, right| (left.0, left.1) == (right.0, right.1)) {
            let (topic, number, generation, member) = same[same.len() - 1];
            let others = same[..same.len() - 1].iter();
            if others.clone().all(|other| other.2 < generation || other.3 == member) {
                kept[member].push((topic, number));
            }
        }
        for ((joined, subscription), claims) in self.members.iter().zip(subscriptions).zip(kept) {
            let member = NewMember {
                id: joined.member.member_id(),
                instance_id: joined.member.group_instance_id(),
                rack_id: joined.subscription.rack_id,
                generation: Some(0),
                claim_generation: Some(0),
            };
            builder.add_member(member, subscription);
            claims.iter().for_each(|(topic, number)| builder.add_claim(*topic, *number));
        }
        builder.build()
    }

    /// What members of a cooperative group hold at this moment.
    pub fn withheld(&self, built: &AssignorGroup<'_>) -> Withheld {
        let mut held = Vec::new();
        if self.is_cooperative {
            let places = places(built);
            let first = built.first_partitions();
            for (member, joined) in self.members.iter().enumerate() {
                // Who did not come in time has lost what it had: its generation is over.
                if !joined.is_here() {
                    continue;
                }
                for (topic, numbers) in &joined.subscription.owned_partitions {
                    let Some(topic) = places.get(topic) else { continue };
                    let end = first[*topic + 1] - first[*topic];
                    let exists = numbers.iter().filter(|number| (0..end as i32).contains(number));
                    held.extend(
                        exists.map(|number| (first[*topic] + *number as u32, member as u32)),
                    );
                }
            }
        }
        held.sort_unstable();
        Withheld { held }
    }
}

/// Topic name to number. Only looked up.
fn places<'a>(built: &AssignorGroup<'a>) -> HashMap<&'a str, usize, RandomState> {
    let mut places = HashMap::with_hasher(RandomState::with_seeds(1, 2, 3, 4));
    places.extend(built.topic_names().iter().enumerate().map(|(at, name)| (*name, at)));
    places
}

/// Partitions that must not be handed over yet (KIP-429): their holders give them up when they see
/// that they have lost them, and join again.
pub struct Withheld {
    /// Partition and holder, sorted.
    held: Vec<(u32, u32)>,
}

impl Withheld {
    /// Whether another member holds the partition, and this one does not.
    pub fn is_withheld(&self, partition: u32, from: u32) -> bool {
        let start = self.held.partition_point(|(other, _)| *other < partition);
        let holders = self.held[start..].iter().take_while(|(other, _)| *other == partition);
        let mut is_held = false;
        for (_, holder) in holders {
            if *holder == from {
                return false;
            }
            is_held = true;
        }
        is_held
    }
}

/// Whether members that have voted for this protocol keep their partitions while they join. Only
/// the name says so: `cooperative-sticky`, and any other name with `cooperative` in it.
pub fn is_cooperative(protocol: &str) -> bool {
    protocol.to_ascii_lowercase().contains("cooperative")
}
