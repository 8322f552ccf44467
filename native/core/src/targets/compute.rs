//! From a group's copy to the members whose target is another.

use std::sync::Arc;

use ahash::RandomState;
use hashbrown::HashMap;

use super::{NewTarget, NewTargets, TargetInput, TargetMember};
use crate::assignor::{
    self, Assignment, Compat, Group, GroupBuilder, NewMember, TopicId, lag_aware, weighted,
};
use crate::config::ServerAssignor;
use crate::request::Uuid;
use crate::topic_partition::{TopicPartition, by_topic};

impl TargetInput {
    /// The new targets. Pure: the same every time, on every thread.
    ///
    /// # Panics
    /// If the assignor is the host's own.
    pub fn compute(&self) -> NewTargets {
        let mut builder = GroupBuilder::new(self.hash_seed);
        let hasher = RandomState::with_seeds(self.hash_seed, 1, 2, 3);
        let mut by_id = HashMap::with_hasher(hasher.clone());
        for name in self.subscribed() {
            if let Some((topic_id, partitions)) = self.catalogue().topic(name) {
                by_id.insert(topic_id, builder.add_topic(name, partitions));
            }
        }
        self.add_members(&mut builder, &by_id, hasher);
        let Ok(built) = builder.build() else {
            // More than all assignors can count: no cluster has them. Targets stay.
            return NewTargets::default();
        };
        self.changed(&built, &self.assignment(&built))
    }

    fn add_members<'a>(
        &'a self,
        builder: &mut GroupBuilder<'a>,
        by_id: &HashMap<Uuid, TopicId, RandomState>,
        hasher: RandomState,
    ) {
        let mut lists = HashMap::with_hasher(hasher);
        for member in &self.members {
            let address = |names: &Arc<[Box<str>]>| names.as_ptr();
            let key = (address(&member.names), member.matched.as_ref().map(address));
            let subscription = *lists.entry(key).or_insert_with(|| number(member, builder));
            let instance_id = member.instance_id.as_deref();
            let new = NewMember { id: &member.id, instance_id, ..NewMember::default() };
            builder.add_member(new, subscription);
            for (topic_id, partitions) in by_topic(member.target.as_deref().unwrap_or_default()) {
                // One without partitions takes no claims.
                let Some(topic) = by_id.get(&topic_id) else { continue };
                for partition in partitions {
                    builder.add_claim(*topic, partition.partition);
                }
            }
        }
    }

    fn assignment(&self, built: &Group<'_>) -> Assignment {
        match &self.assignor {
            ServerAssignor::Weighted => weighted::assign(built, &self.capacities),
            ServerAssignor::LagAware => lag_aware::assign(built, &self.lags_of(built)),
            other => {
                let strategy = other.strategy().expect("the host's own are asked, not computed");
                let assigned =
                    assignor::assign_shaped(strategy, built, self.shape, Compat::Correct);
                assigned.expect("only Java's ways fail")
            }
        }
    }

    /// By partition of the group; 0 where it is not known.
    fn lags_of(&self, built: &Group<'_>) -> Vec<u64> {
        let mut all = Vec::with_capacity(built.partition_count());
        for (name, ends) in built.topic_names().iter().zip(built.first_partitions().windows(2)) {
            let at = self.lags.binary_search_by(|(known, _)| (**known).cmp(name));
            let known = at.map_or(&[][..], |at| &self.lags[at].1);
            let count = (ends[1] - ends[0]) as usize;
            all.extend((0..count).map(|number| known.get(number).copied().unwrap_or_default()));
        }
        all
    }

    fn changed(&self, built: &Group<'_>, assignment: &Assignment) -> NewTargets {
        let ids: Vec<Uuid> = built
            .topic_names()
            .iter()
            .map(|name| self.catalogue().topic(name).map_or(Uuid::ZERO, |topic| topic.0))
            .collect();
        let mut by_id: Vec<u32> = (0..ids.len() as u32).collect();
        by_id.sort_unstable_by_key(|topic| ids[*topic as usize]);
        let mut ranks = vec![0u32; ids.len()];
        by_id.iter().zip(0..).for_each(|(topic, rank)| ranks[*topic as usize] = rank);
        let mut places: Vec<u64> = Vec::new();
        let mut target = Vec::new();
        let mut changed = Vec::new();
        for (at, member) in self.members.iter().enumerate() {
            places.clear();
            places.extend(assignment.of(at).iter().map(|partition| {
                let (topic, number) = built.place(*partition);
                u64::from(ranks[topic as usize]) << 32 | number as u64
            }));
            places.sort_unstable();
            target.clear();
            target.extend(places.iter().map(|place| {
                let topic = by_id[(place >> 32) as usize];
                TopicPartition::new(ids[topic as usize], *place as u32 as i32)
            }));
            if member.target.as_deref() != Some(&target[..]) {
                let member_id = member.id.clone();
                changed.push(NewTarget { member_id, partitions: target.as_slice().into() });
            }
        }
        NewTargets(changed)
    }
}

/// The number of a member's topics, of those that have partitions.
fn number<'a>(member: &'a TargetMember, builder: &mut GroupBuilder<'a>) -> u32 {
    let existing = member.topics().filter_map(|name| builder.existing_topic(name));
    let mut topics: Vec<TopicId> = existing.collect();
    topics.sort_unstable();
    topics.dedup();
    builder.subscription(&topics)
}
