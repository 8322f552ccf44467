//! What members say they own, made consistent: conflicting claims, generations, and whether all
//! subscriptions are equal (`AbstractStickyAssignor.allSubscriptionsEqual`, assignors section
//! 5.2).

use super::super::Compat;
use super::super::group::{Group, NONE};
use super::super::order::hash_order;

/// Claims after all conflicts are settled.
#[derive(Debug)]
pub struct Claims {
    /// Members in the order in which Java meets them.
    pub order: Vec<u32>,
    /// Whether the constrained way is open.
    pub subscriptions_equal: bool,
    /// Whether a member still owns a partition that does not exist (Compat::Java only).
    pub holds_phantoms: bool,
    /// Per partition, phantoms included: claimed twice in the same generation.
    pub disputed: Vec<bool>,
    /// What is owned, member after member in `order`; NONE: lost to another claim.
    owned: Vec<u32>,
    /// Per place in `order` the end of its part of `owned`.
    ends: Vec<u32>,
}

impl Claims {
    pub fn resolve(group: &Group<'_>, compat: Compat) -> Claims {
        let order = hash_order(group);
        let partitions = group.partition_count() as u32;
        let known = group.partition_count() + group.phantoms.len();
        let subscriptions_equal = subscriptions_equal(group, &order, compat);
        let mut disputed = vec![false; known];
        // Two members seldom claim the same partition, and few are lost to a newer claim.
        let mut owned = Vec::with_capacity(group.claims.len().min(known));
        let mut ends = Vec::with_capacity(order.len());
        // Who claimed a partition last with success, and where it stands in `owned`.
        let mut owners = vec![NONE; known];
        let mut places = vec![NONE; known];
        for &member in &order {
            let generation = group.members()[member as usize].claim_generation.unwrap_or(-1);
            for &partition in group.claims_of(member) {
                let at = partition as usize;
                // Java keeps partitions beyond the topic's end and trips over them later.
                if partition >= partitions && compat == Compat::Correct {
                    continue;
                }
                if owners[at] != NONE {
                    // Java compares with the other's subscription, even if its claim carried a
                    // generation of its own.
                    let other = group.members()[owners[at] as usize].generation;
                    if generation < other {
                        continue;
                    }
                    if places[at] != NONE {
                        owned[places[at] as usize] = NONE;
                    }
                    // Java adds before it removes, so a member that repeats a claim which it lost
                    // in a dispute does not get it back.
                    let repeats = owners[at] == member && places[at] == NONE;
                    if generation == other || repeats {
                        disputed[at] |= generation == other;
                        owners[at] = member;
                        places[at] = NONE;
                        continue;
                    }
                }
                owners[at] = member;
                places[at] = owned.len() as u32;
                owned.push(partition);
            }
            ends.push(owned.len() as u32);
        }
        let holds_phantoms = owned.iter().any(|&held| held != NONE && held >= partitions);
        Claims { order, subscriptions_equal, holds_phantoms, disputed, owned, ends }
    }

    /// The members in `order`, each with what it owns in the order in which it claimed it.
    pub fn owned(&self) -> impl Iterator<Item = (u32, impl Iterator<Item = u32> + '_)> {
        self.order.iter().enumerate().map(|(place, &member)| {
            let start = if place == 0 { 0 } else { self.ends[place - 1] };
            let owned = &self.owned[start as usize..self.ends[place] as usize];
            (member, owned.iter().copied().filter(|&partition| partition != NONE))
        })
    }
}

/// Java takes the first list that is not empty and compares the later ones with it. So members
/// with no topics at all that come before it do not count, and are then given partitions of
/// topics that they never subscribed to; `Compat::Correct` counts them.
fn subscriptions_equal(group: &Group<'_>, order: &[u32], compat: Compat) -> bool {
    let lists = order.iter().map(|&member| group.members()[member as usize].subscription);
    let empty = |list: u32| group.subscriptions[list as usize].listed.is_empty();
    let mut lists = lists.skip_while(|&list| compat == Compat::Java && empty(list));
    let Some(first) = lists.next() else { return true };
    let reference = &group.subscriptions[first as usize];
    let mut known: Vec<bool> = vec![false; group.topic_count()];
    reference.listed.iter().for_each(|&topic| known[topic as usize] = true);
    let equals = |list: u32| {
        let listed = &group.subscriptions[list as usize].listed;
        listed.len() == reference.distinct as usize
            && listed.iter().all(|&topic| known[topic as usize])
    };
    let mut compared: Vec<Option<bool>> = vec![None; group.subscriptions.len()];
    lists.all(|list| *compared[list as usize].get_or_insert_with(|| equals(list)))
}

/// Per partition who claims to have owned it in an older generation than the newest.
#[derive(Debug)]
pub struct Prior {
    /// NONE or the member; empty if there is no such claim.
    owners: Vec<u32>,
}

impl Prior {
    pub fn new(group: &Group<'_>, order: &[u32]) -> Prior {
        let members = group.members();
        let generation = |member: u32| members[member as usize].claim_generation;
        let newest = order.iter().map(|&m| generation(m).unwrap_or(-1)).max().unwrap_or(-1);
        let mut owners = Vec::new();
        let mut generations = Vec::new();
        for &member in order {
            let generation = match generation(member) {
                Some(generation) if generation < newest => generation,
                None if newest > -1 => -1,
                _ => continue,
            };
            let claims = group.claims_of(member);
            if owners.is_empty() && !claims.is_empty() {
                owners = vec![NONE; group.partition_count()];
                generations = vec![0; group.partition_count()];
            }
            for &partition in claims {
                let at = partition as usize;
                if at < owners.len() && (owners[at] == NONE || generation > generations[at]) {
                    owners[at] = member;
                    generations[at] = generation;
                }
            }
        }
        Prior { owners }
    }

    pub fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }

    /// The member that held the partition before, if one says so.
    pub fn of(&self, partition: u32) -> Option<u32> {
        self.owners.get(partition as usize).copied().filter(|&owner| owner != NONE)
    }

    /// Whether a member claims a partition of a topic to which it no longer subscribes.
    pub fn has_strangers(&self, group: &Group<'_>) -> bool {
        let topics = if self.is_empty() { Vec::new() } else { group.topic_table() };
        let claims = self.owners.iter().zip(topics);
        claims.filter(|&(&o, _)| o != NONE).any(|(&o, topic)| !group.is_subscribed(o, topic))
    }
}
