//! The general way word by word (assignors section 7), at Java's own pace: for groups in which
//! Java's defects can show, and to compare the fast way with.
//!
//! `Compat::Java` asks for the defects. Nothing else should come here: the cost is that of all
//! partitions times all members, and more.

use std::collections::BTreeSet;

use super::super::group::{Assignment, Group, NONE};
use super::super::order::{id_order, ranks};
use super::super::racks::Racks;
use super::super::{Compat, JavaError};
use super::claims::{Claims, Prior};
use super::general::{listings, most_by_subscription, racks_that_matter, topic_order};
use super::movements::{Movements, partition_hash};

/// # Errors
/// With `Compat::Java`, where the Java class throws.
pub fn assign(
    group: &Group<'_>,
    claims: &Claims,
    prior: &Prior,
    compat: Compat,
) -> Result<Assignment, JavaError> {
    let mut builder = Builder::new(group, claims, prior, compat);
    let (kept, revocation_required) = builder.keep_subscribed();
    let mut unassigned = builder.unassigned(&kept);
    let initializing = builder.consumers.last().is_none_or(|&(size, _)| size == 0);
    builder.assign_unassigned(&unassigned);
    let aside = builder.set_aside();
    unassigned.retain(|&partition| builder.is_shared(partition));
    let mut all = builder.partitions.clone();
    all.retain(|&partition| builder.is_shared(partition));
    let before = (builder.current.clone(), builder.owners.clone(), builder.score());
    if !revocation_required {
        builder.reassign(&unassigned)?;
    }
    let performed = builder.reassign(&all)?;
    if !initializing && performed && builder.no_better_than(before.2) {
        (builder.current, builder.owners) = (before.0, before.1);
    }
    for (member, list) in aside {
        builder.current[member as usize] = Some(list);
    }
    let lists = builder.current.into_iter().map(Option::unwrap_or_default);
    Ok(Assignment::from_lists(&lists.collect::<Vec<_>>()))
}

struct Builder<'a> {
    group: &'a Group<'a>,
    order: &'a [u32],
    prior: &'a Prior,
    compat: Compat,
    racks: Option<&'a Racks>,
    listings: Vec<u32>,
    most: Vec<u64>,
    /// All that exist, in Java's order.
    partitions: Vec<u32>,
    topics: Vec<u32>,
    ranks: Vec<u32>,
    by_rank: Vec<u32>,
    /// Lists of the members; None for those that are set aside.
    current: Vec<Option<Vec<u32>>>,
    owners: Vec<u32>,
    /// By size and place by member id.
    consumers: BTreeSet<(usize, u32)>,
    movements: Movements,
}

impl<'a> Builder<'a> {
    fn new(group: &'a Group<'a>, claims: &'a Claims, prior: &'a Prior, compat: Compat) -> Self {
        let listings = listings(group);
        let topics = topic_order(group, &listings);
        let by_rank = id_order(group);
        let known = group.partition_count() + group.phantoms.len();
        let mut current = vec![None; group.members().len()];
        let mut owners = vec![NONE; known];
        for (member, owned) in claims.owned() {
            let owned: Vec<u32> = owned.collect();
            owned.iter().for_each(|&partition| owners[partition as usize] = member);
            current[member as usize] = Some(owned);
        }
        let ranks = ranks(&by_rank);
        Builder {
            group,
            order: &claims.order,
            prior,
            compat,
            racks: racks_that_matter(group),
            most: most_by_subscription(group),
            partitions: topics.iter().flat_map(|&topic| group.partitions_of(topic)).collect(),
            topics: (0..known as u32).map(|p| group.place(p).0).collect(),
            listings,
            ranks,
            by_rank,
            current,
            owners,
            consumers: BTreeSet::new(),
            movements: Movements::new(known),
        }
    }

    fn topic(&self, partition: u32) -> u32 {
        self.topics[partition as usize]
    }

    fn is_shared(&self, partition: u32) -> bool {
        self.listings[self.topic(partition) as usize] >= 2
    }

    fn subscribes(&self, member: u32, partition: u32) -> bool {
        self.group.is_subscribed(member, self.topic(partition))
    }

    fn matches(&self, member: u32, partition: u32) -> bool {
        let rack = self.group.members()[member as usize].rack;
        self.racks.is_none_or(|racks| racks.match_rack(rack, partition))
    }

    fn size(&self, member: u32) -> Option<usize> {
        self.current[member as usize].as_ref().map(Vec::len)
    }

    fn most(&self, member: u32) -> u64 {
        self.most[self.group.members()[member as usize].subscription as usize]
    }

    /// Step 1: what is kept, in Java's order of partitions; whether something was revoked.
    fn keep_subscribed(&mut self) -> (Vec<u32>, bool) {
        let mut revocation_required = false;
        let mut kept = Vec::new();
        for &member in self.order {
            let list = self.current[member as usize].take().unwrap_or_default();
            let owned = list.len();
            let fits = |&p: &u32| self.subscribes(member, p) && self.matches(member, p);
            let list: Vec<u32> = list.into_iter().filter(fits).collect();
            revocation_required |= list.len() < owned;
            kept.extend_from_slice(&list);
            self.consumers.insert((list.len(), self.ranks[member as usize]));
            self.current[member as usize] = Some(list);
        }
        kept.sort_by_key(|&partition| {
            let (topic, number) = self.group.place(partition);
            (self.listings[topic as usize], topic, number)
        });
        (kept, revocation_required)
    }

    /// Step 2, in lock step: a kept partition that does not exist stalls it for good.
    fn unassigned(&self, kept: &[u32]) -> Vec<u32> {
        let mut kept = kept.iter().peekable();
        let free = |&partition: &u32| kept.next_if_eq(&&partition).is_none();
        self.partitions.iter().copied().filter(free).collect()
    }

    /// Step 4.
    fn assign_unassigned(&mut self, unassigned: &[u32]) {
        let mut left = Vec::new();
        for &partition in unassigned {
            if !self
                .assign_to_first(partition, |builder, member| builder.matches(member, partition))
            {
                left.push(partition);
            }
        }
        for partition in left {
            self.assign_to_first(partition, |_, _| true);
        }
    }

    fn assign_to_first(&mut self, partition: u32, fits: impl Fn(&Self, u32) -> bool) -> bool {
        let members = self.consumers.iter().map(|&(_, rank)| self.by_rank[rank as usize]);
        let subscribes = |&m: &u32| self.subscribes(m, partition) && fits(self, m);
        let first = members.into_iter().find(subscribes);
        if let Some(member) = first {
            self.append(partition, member);
        }
        first.is_some()
    }

    fn append(&mut self, partition: u32, member: u32) {
        let list = self.current[member as usize].as_mut().expect("a member that takes part");
        let rank = self.ranks[member as usize];
        self.consumers.remove(&(list.len(), rank));
        list.push(partition);
        self.consumers.insert((list.len(), rank));
        self.owners[partition as usize] = member;
    }

    /// Step 5.
    fn set_aside(&mut self) -> Vec<(u32, Vec<u32>)> {
        let mut aside = Vec::new();
        for &member in self.order {
            let list = self.current[member as usize].as_ref().expect("nobody is set aside yet");
            let takes_part = (list.len() as u64) < self.most(member)
                || list.iter().any(|&partition| self.is_shared(partition));
            if !takes_part {
                self.consumers.remove(&(list.len(), self.ranks[member as usize]));
                let list = self.current[member as usize].take();
                aside.push((member, list.expect("just seen")));
            }
        }
        aside
    }

    fn score(&self) -> i64 {
        let sizes: Vec<i64> = self.consumers.iter().map(|&(size, _)| size as i64).collect();
        let last = sizes.len() as i64 - 1;
        sizes.iter().zip(0..).map(|(&size, at)| size * (2 * at - last)).sum()
    }

    fn no_better_than(&self, before: i64) -> bool {
        match self.compat {
            Compat::Correct => self.score() >= before,
            Compat::Java => self.score() as i32 >= before as i32,
        }
    }

    /// Step 7.
    fn reassign(&mut self, partitions: &[u32]) -> Result<bool, JavaError> {
        let mut budget = 64 * (self.partitions.len() + self.current.len()) as u64;
        let mut performed = false;
        loop {
            let mut modified = false;
            for &partition in partitions {
                if self.is_balanced()? {
                    break;
                }
                if let Some(new) = self.better_owner(partition)? {
                    self.move_partition(partition, new)?;
                    modified = true;
                    budget = budget.checked_sub(1).ok_or(JavaError::Endless)?;
                }
            }
            performed |= modified;
            if !modified {
                return Ok(performed);
            }
        }
    }

    fn better_owner(&self, partition: u32) -> Result<Option<u32>, JavaError> {
        let owner = self.owners[partition as usize];
        let size = self.size(owner).ok_or(JavaError::NullPointer)?;
        if let Some(prior) = self.prior.of(partition) {
            let skipped = self.compat == Compat::Correct
                && (self.size(prior).is_none() || !self.subscribes(prior, partition));
            if !skipped && size > self.size(prior).ok_or(JavaError::NullPointer)? + 1 {
                return Ok(Some(prior));
            }
        }
        let members = (0..self.current.len() as u32).filter(|&m| self.subscribes(m, partition));
        for other in members {
            if size > self.size(other).ok_or(JavaError::NullPointer)? + 1 {
                return Ok(self.best(partition));
            }
        }
        Ok(None)
    }

    /// Not necessarily near, and not necessarily the one that gave the reason.
    fn best(&self, partition: u32) -> Option<u32> {
        let mut members = self.consumers.iter().map(|&(_, rank)| self.by_rank[rank as usize]);
        members.find(|&member| self.subscribes(member, partition))
    }

    fn is_balanced(&self) -> Result<bool, JavaError> {
        let (Some(least), Some(most)) = (self.consumers.first(), self.consumers.last()) else {
            return Ok(true);
        };
        if least.0 + 1 >= most.0 {
            return Ok(true);
        }
        let mut owners = vec![NONE; self.owners.len()];
        for &member in self.order {
            let list = self.current[member as usize].iter().flatten();
            list.for_each(|&partition| owners[partition as usize] = member);
        }
        for &(size, rank) in &self.consumers {
            let member = self.by_rank[rank as usize];
            if size as u64 == self.most(member) {
                continue;
            }
            let list = self.current[member as usize].as_ref().expect("it takes part");
            let topics = self.group.subscription_of(member).topics.iter();
            for partition in topics.flat_map(|&topic| self.group.partitions_of(topic)) {
                if list.contains(&partition) {
                    continue;
                }
                let owner = owners[partition as usize];
                if owner == NONE {
                    return Err(JavaError::NullPointer);
                }
                if size + 1 < self.size(owner).ok_or(JavaError::NullPointer)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn move_partition(&mut self, partition: u32, new: u32) -> Result<(), JavaError> {
        let topic = self.topic(partition);
        let owner = self.owners[partition as usize];
        let actual = self.movements.actual(topic, partition, owner, new);
        let owner = self.owners[actual as usize];
        let number = actual - self.group.partitions_of(topic).start;
        let hash = partition_hash(self.group.names[topic as usize], number);
        self.movements.record(topic, actual, hash, owner, new);
        let list = self.current[owner as usize].as_mut().ok_or(JavaError::NullPointer)?;
        self.consumers.remove(&(list.len(), self.ranks[owner as usize]));
        if let Some(at) = list.iter().position(|&held| held == actual) {
            list.remove(at);
        }
        self.consumers.insert((list.len(), self.ranks[owner as usize]));
        self.append(actual, new);
        Ok(())
    }
}
