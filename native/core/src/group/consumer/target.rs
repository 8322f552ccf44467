//! Who is to read what: the target assignment of a group (consumer-protocol section 4, steps 2 and 3).
//!
//! A group's epoch rises when its subscriptions change or topics do; the heartbeat that finds it
//! above the targets' epoch computes new ones, at most once in an interval.

use std::sync::Arc;

use hashbrown::HashMap;
use kcoord_timer::slab::Slab;

use super::member::Member;
use super::subscription::TopicNames;
use super::{ConsumerGroup, flat};
use crate::assignor::{self, Compat, GroupBuilder, NewMember, Shape};
use crate::catalogue::known;
use crate::event::EpochCause;
use crate::group::Machine;
use crate::record::consumer::{
    ConsumerGroupMetadataValue, RecordChange, TargetAssignmentMemberValue,
    TargetAssignmentMetadataValue,
};
use crate::request::Uuid;
use crate::topic_partition::{TopicPartition, by_topic};

impl Machine {
    /// Step 2: raises the group's epoch where that is due, with the hash of the topics as they are.
    /// `cause`: why it must rise; it may rise for the topics alone. `by`: the member of this heartbeat.
    pub fn update_group_epoch(
        &mut self,
        now_ms: i64,
        group: u32,
        cause: Option<EpochCause>,
        by: Option<u32>,
    ) {
        let of = self.registry.consumer(group);
        if cause.is_none() && of.seen_topics == self.topics_version {
            return;
        }
        let metadata_hash = self.metadata_hash(group);
        let of = self.registry.consumer_mut(group);
        of.seen_topics = self.topics_version;
        if cause.is_none() && of.metadata_hash == metadata_hash {
            return;
        }
        let epoch = of.group_epoch.saturating_add(1);
        let had_partition_metadata = of.has_partition_metadata;
        let value = ConsumerGroupMetadataValue { epoch, metadata_hash };
        self.emit_consumer(now_ms, group, &RecordChange::GroupMetadata(Some(value)));
        if had_partition_metadata {
            let record = RecordChange::PartitionMetadata(None);
            self.emit_consumer(now_ms, group, &record);
        }
        self.tell_group_epoch_bumped(group, cause.unwrap_or(EpochCause::TopicsChanged), by);
    }

    /// Step 3: new targets, if the group's epoch is above that of the present ones and the last are old
    /// enough. Only members whose target changes get a record.
    pub fn update_target(&mut self, now_ms: i64, group: u32) {
        let of = self.registry.consumer(group);
        let last_ms = of.assignment_timestamp_ms;
        let due_ms = last_ms.saturating_add(self.assignment_interval_ms_of(group).into());
        if of.group_epoch <= of.assignment_epoch || (last_ms != 0 && now_ms < due_ms) {
            return;
        }
        let epoch = of.group_epoch;
        let targets = self.new_targets(group);
        let changed = targets.len();
        for (row, partitions) in targets {
            let member_id = Arc::clone(&self.registry.consumer_members[row].id);
            let topic_partitions = flat::of_targets(&partitions);
            let value = Some(TargetAssignmentMemberValue { topic_partitions });
            let record = RecordChange::TargetAssignmentMember { member_id: &member_id, value };
            self.emit_consumer(now_ms, group, &record);
        }
        let value =
            TargetAssignmentMetadataValue { assignment_epoch: epoch, assignment_timestamp: now_ms };
        self.emit_consumer(now_ms, group, &RecordChange::TargetAssignmentMetadata(Some(value)));
        self.tell_target_computed(group, changed);
    }

    /// The members whose target is another, and what it is.
    fn new_targets(&self, group: u32) -> Vec<(u32, Vec<TopicPartition>)> {
        let of = self.registry.consumer(group);
        let members = &self.registry.consumer_members;
        let subscribed = of.subscribed_topics();
        let mut builder = GroupBuilder::new(self.config.hash_seed[0]);
        let mut ids: HashMap<&str, Uuid, ahash::RandomState> =
            HashMap::with_hasher(self.registry.hasher.clone());
        for name in &subscribed {
            if let Some((topic_id, partitions)) = known(&self.catalogue).topic(name) {
                builder.add_topic(name, partitions);
                ids.insert(name, topic_id);
            }
        }
        let known_lists = HashMap::with_hasher(self.registry.hasher.clone());
        let mut lists = SubscriptionLists { known: known_lists };
        for row in &of.members {
            let member = &members[*row];
            let subscription = lists.number(of, &member.names, member.regex(), &mut builder);
            let is_static = member.instance_id();
            let new = NewMember { id: &member.id, instance_id: is_static, ..NewMember::default() };
            builder.add_member(new, subscription);
            for (topic_id, partitions) in by_topic(member.target()) {
                let name = known(&self.catalogue).name_of(topic_id);
                let Some(topic) = name.and_then(|name| builder.existing_topic(name)) else {
                    continue;
                };
                for partition in partitions {
                    builder.add_claim(topic, partition.partition);
                }
            }
        }
        let Ok(built) = builder.build() else {
            // More than all assignors can count: no cluster has them. Targets stay.
            return Vec::new();
        };
        let shape =
            if of.is_homogeneous(members) { Shape::Homogeneous } else { Shape::Heterogeneous };
        let strategy = self.preferred_assignor(group);
        let assignment = assignor::assign_shaped(strategy, &built, shape, Compat::Correct);
        let assignment = assignment.expect("only Java's ways fail");
        let topic_ids: Vec<Uuid> = built
            .topic_names()
            .iter()
            .map(|name| ids.get(name).copied().unwrap_or_default())
            .collect();
        let mut changed = Vec::new();
        for (at, row) in of.members.iter().enumerate() {
            let places = assignment.of(at).iter().map(|partition| built.place(*partition));
            let mut target: Vec<TopicPartition> = places
                .map(|(topic, number)| TopicPartition::new(topic_ids[topic as usize], number))
                .collect();
            target.sort_unstable();
            if members[*row].target.as_deref() != Some(&target[..]) {
                changed.push((*row, target));
            }
        }
        changed
    }
}

/// Lists of topics under the numbers that the assignors' group has for them. Each list of names is
/// there once, so that its address tells it apart.
struct SubscriptionLists<'a> {
    known: HashMap<(*const Box<str>, &'a str), u32, ahash::RandomState>,
}

impl<'a> SubscriptionLists<'a> {
    fn number(
        &mut self,
        of: &'a ConsumerGroup,
        names: &'a TopicNames,
        regex: &'a str,
        builder: &mut GroupBuilder<'a>,
    ) -> u32 {
        if let Some(number) = self.known.get(&(names.as_ptr(), regex)) {
            return *number;
        }
        let matched = of.regexes.get(regex).map(|resolved| &resolved.topics);
        let topics = names.iter().chain(matched.into_iter().flat_map(|topics| topics.iter()));
        let existing = topics.filter_map(|name| builder.existing_topic(name));
        let mut topics: Vec<assignor::TopicId> = existing.collect();
        topics.sort_unstable();
        topics.dedup();
        let number = builder.subscription(&topics);
        self.known.insert((names.as_ptr(), regex), number);
        number
    }
}

impl ConsumerGroup {
    /// Whether all members subscribe to the same, in Kafka's view (`subscriptionType`): to the same
    /// names, or all to one regular expression and to no names.
    fn is_homogeneous(&self, members: &Slab<Member>) -> bool {
        let mut all = self.members.iter().map(|row| &members[*row]);
        let Some(first) = all.next() else { return true };
        let is_like_first = |member: &Member| {
            Arc::ptr_eq(&member.names, &first.names) && member.regex() == first.regex()
        };
        (first.regex().is_empty() || first.names.is_empty()) && all.all(is_like_first)
    }
}
