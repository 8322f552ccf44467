//! Who is to read what: the target assignment of a group (consumer-protocol section 4, steps 2 and 3).
//!
//! A group's epoch rises when its subscriptions change or topics do; the heartbeat that finds it
//! above the targets' epoch has new ones computed, at most once in an interval: at once, or aside
//! (`computing.rs`).

use super::ConsumerGroup;
use super::member::Member;
use crate::assignor::Shape;
use crate::catalogue::known;
use crate::config::ServerAssignor;
use crate::event::EpochCause;
use crate::group::Machine;
use crate::record::consumer::{ConsumerGroupMetadataValue, RecordChange};
use crate::request::Uuid;
use crate::targets::{TargetInput, TargetMember};
use crate::topic_partition::TopicPartition;
use kcoord_timer::slab::Slab;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Members whom no pattern matches.
const DEFAULT_CAPACITY: u32 = 1;

/// Largest capacity: what is above counts as this.
const MAX_CAPACITY: u32 = 1_000_000;

/// What members, partitions and subscriptions that differ cost more than those that are alike.
const DIFFERENT: usize = 4;

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

    /// Whether new targets are due: the group's epoch is above that of the present ones, the last are
    /// old enough, and none are being computed. A time that is still to come says nothing: the clock
    /// was set back since.
    #[inline]
    pub fn is_target_due(&self, now_ms: i64, group: u32) -> bool {
        let of = self.registry.consumer(group);
        if of.group_epoch <= of.assignment_epoch || of.is_computing() {
            return false;
        }
        let last_ms = of.assignment_timestamp_ms;
        let due_ms = last_ms.saturating_add(self.assignment_interval_ms_of(group).into());
        last_ms == 0 || now_ms >= due_ms || now_ms < last_ms
    }

    /// Step 3: new targets, if they are due. Only members whose target changes get a record.
    pub fn update_target(&mut self, now_ms: i64, group: u32) {
        if !self.is_target_due(now_ms, group) {
            return;
        }
        let assignor = self.preferred_assignor(group).clone();
        self.start_target(now_ms, group, assignor);
    }

    /// All that the targets of a group depend on, but for lags.
    pub fn target_input(&self, group: u32, assignor: ServerAssignor) -> TargetInput {
        let of = self.registry.consumer(group);
        let members = &self.registry.consumer_members;
        let rows = || of.members.iter().map(|row| &members[*row]);
        let capacities = match assignor {
            ServerAssignor::Weighted => rows().map(|member| self.capacity_of(member)).collect(),
            _ => Vec::new(),
        };
        let is_own = matches!(assignor, ServerAssignor::Own(_));
        let member = |member: &Member| TargetMember {
            id: member.id.clone(),
            instance_id: member.instance_id().map(Into::into),
            rack_id: member.rack_id().filter(|_| is_own).map(Into::into),
            names: Arc::clone(&member.names),
            matched: of.regexes.get(member.regex()).map(|resolved| Arc::clone(&resolved.topics)),
            target: member.target.clone(),
        };
        TargetInput {
            shape: if of.is_homogeneous(members) {
                Shape::Homogeneous
            } else {
                Shape::Heterogeneous
            },
            members: rows().map(member).collect(),
            catalogue: self.catalogue.clone(),
            capacities,
            lags: Vec::new(),
            hash_seed: self.config.hash_seed[0],
            assignor,
        }
    }

    /// Whether a partition of the topics that members name is nobody's target.
    pub fn has_unassigned(&self, group: u32) -> bool {
        let of = self.registry.consumer(group);
        let catalogue = known(&self.catalogue);
        let names: BTreeSet<&str> = of
            .subscriptions
            .iter()
            .flat_map(|(names, _)| names.iter())
            .map(|name| &**name)
            .collect();
        let topics: BTreeMap<Uuid, u32> =
            names.into_iter().filter_map(|name| catalogue.topic(name)).collect();
        let exists = |at: &&TopicPartition| {
            topics.get(&at.topic_id()).is_some_and(|count| (at.partition as u32) < *count)
        };
        let targets =
            of.members.iter().flat_map(|row| self.registry.consumer_members[*row].target());
        let all: u64 = topics.values().map(|count| u64::from(*count)).sum();
        (targets.filter(exists).count() as u64) < all
    }

    fn capacity_of(&self, member: &Member) -> u32 {
        let rules = &self.config.assignment;
        let configured = rules.capacity_of(member.client_id(), member.instance_id());
        configured.unwrap_or(DEFAULT_CAPACITY).clamp(1, MAX_CAPACITY)
    }

    /// What new targets cost, in members, partitions and subscriptions; if it is more than `most`,
    /// anything above that.
    pub fn target_cost(&self, group: u32, most: usize) -> usize {
        let of = self.registry.consumer(group);
        let catalogue = known(&self.catalogue);
        let mut cost = of.members.len();
        let by_name = of.subscriptions.iter().map(|(names, count)| (names, *count));
        let by_regex = of.regexes.resolved();
        let by_regex =
            by_regex.map(|(regex, resolved)| (&resolved.topics, of.regexes.members(regex)));
        let mut lists = 0;
        for (names, members) in by_name.chain(by_regex) {
            lists += usize::from(!names.is_empty());
            for name in names.iter() {
                let partitions = catalogue.topic(name).map_or(0, |(_, partitions)| partitions);
                cost += 1 + partitions as usize;
                if cost > most {
                    return cost;
                }
            }
            if lists > 1 {
                cost += names.len() * members as usize;
            }
        }
        if lists > 1 { cost * DIFFERENT } else { cost }
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
