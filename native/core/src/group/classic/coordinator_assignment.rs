//! Assignment by the coordinator (`group.assignment=coordinator`): when the join phase of a group
//! that matches ends, the assignment is computed from subscriptions, the catalogue and what members
//! had, and the group is Stable at once. No member leads; each is handed its part by SyncGroup.
//!
//! Clients need not know: any that speaks the consumer protocol can be a member. What cannot be
//! assigned here is left to a leader, as everywhere else. The computation is part of the turn.

use super::claims::{Claims, Joined};
use super::group::Assigner;
use super::subscription::CONSUMER_PROTOCOL_TYPE;
use crate::assignment_rules::GroupStrategy;
use crate::assignor::{self, Compat, Group, Strategy, lag_aware, weighted};
use crate::catalogue::Catalogue;
use crate::consumer_protocol::{Assignment, Subscription};
use crate::finding::FindingKind;
use crate::group::Machine;

/// The assignor of Kafka Streams puts more into an assignment than partitions.
const STREAMS_PROTOCOL: &str = "stream";

/// Members whose user data does not say otherwise, and that no pattern matches.
const DEFAULT_CAPACITY: u32 = 1;

/// Largest capacity: what is above counts as this.
const MAX_CAPACITY: u32 = 1_000_000;

/// Why a group that matches is left to its leader.
type Reason = String;

impl Machine {
    /// How this group is to be assigned here, if it is.
    pub fn strategy_of(&self, group: u32) -> Option<GroupStrategy> {
        let of = self.classic(group);
        let rules = &self.config.assignment;
        if rules.groups.is_empty() || of.protocol_type() != CONSUMER_PROTOCOL_TYPE {
            return None;
        }
        rules.strategy_of(self.group(group).id.as_str())
    }

    /// To be called in CompletingRebalance, while members that have joined are still parked. True:
    /// the group is Stable, and its record emitted.
    pub fn assign_as_coordinator(&mut self, now_ms: i64, group: u32) -> bool {
        self.classic_mut(group).assigner = Assigner::Leader;
        let Some(strategy) = self.strategy_of(group) else { return false };
        let emitted = self.compute_assignment(group, strategy).and_then(|assignments| {
            let given: Vec<(u32, &[u8])> =
                assignments.iter().map(|(row, bytes)| (*row, bytes.as_slice())).collect();
            let emitted = self.emit_stable_group(now_ms, group, given);
            emitted.map_err(|_| "its record would be too large".into())
        });
        match emitted {
            Ok(()) => {
                self.classic_mut(group).assigner = Assigner::Coordinator;
                self.counters.assigned(strategy);
                self.tell_group_stable(now_ms, group);
                true
            }
            Err(reason) => {
                self.found(group, FindingKind::LeftToLeader, 1, reason);
                false
            }
        }
    }

    /// A client has sent an assignment all the same: it counts for nothing.
    pub fn replace_assignments(&mut self, group: u32, member: u32) {
        match self.classic(group).assigner {
            Assigner::Leader => unreachable!("only what the coordinator assigned is replaced"),
            Assigner::Coordinator => {
                self.classic_mut(group).assigner = Assigner::CoordinatorDisputed;
                let detail = format!("sent by {}", self.registry.members[member].member_id());
                self.found(group, FindingKind::AssignmentReplaced, 1, detail);
            }
            Assigner::CoordinatorDisputed => {
                self.counters.found(FindingKind::AssignmentReplaced, 1);
            }
        }
    }

    /// What a member of a group that is assigned here subscribes to, sorted. Only the
    /// coordinator notices if a static member comes back with other topics.
    pub fn topics_assigned_here(&self, member: u32) -> Vec<Box<str>> {
        let member = &self.registry.members[member];
        let of = self.classic(member.group);
        if !of.is_assigned_here() {
            return Vec::new();
        }
        let metadata = member.metadata(of.protocol_name().unwrap_or_default());
        let subscription = Subscription::decode_leniently(metadata);
        let topics = subscription.map(|subscription| subscription.topics).unwrap_or_default();
        let mut topics: Vec<Box<str>> = topics.into_iter().map(Into::into).collect();
        topics.sort_unstable();
        topics
    }

    /// The members with their subscriptions, or who has none that can be read.
    pub fn joined_subscriptions(&self, group: u32) -> Result<Vec<Joined<'_>>, Reason> {
        let of = self.classic(group);
        let protocol = of.protocol_name().unwrap_or_default();
        if protocol == STREAMS_PROTOCOL {
            return Err("Kafka Streams assigns more than partitions".into());
        }
        let joined = |row: u32| {
            let member = &self.registry.members[row];
            let subscription = Subscription::decode_leniently(member.metadata(protocol));
            let subscription = subscription.map_err(|error| {
                format!("the subscription of {} cannot be read: {error}", member.member_id())
            })?;
            Ok(Joined { row, member, subscription })
        };
        of.member_rows().map(joined).collect()
    }

    fn compute_assignment(
        &self,
        group: u32,
        strategy: GroupStrategy,
    ) -> Result<Vec<(u32, Vec<u8>)>, Reason> {
        let Some(catalogue) = self.catalogue.as_deref() else {
            return Err("the topics are not known".into());
        };
        let members = self.joined_subscriptions(group)?;
        let of = self.classic(group);
        let claims = Claims::new(of, &members, catalogue);
        let built = claims
            .build_group(self.config.hash_seed[0])
            .map_err(|_| "there are too many partitions".to_owned())?;
        let assignment = match strategy {
            // What is withheld from a cooperative group is decided below, for all strategies.
            GroupStrategy::Kafka(Strategy::CooperativeSticky) => {
                assignor::assign(Strategy::Sticky, &built, Compat::Correct)
            }
            GroupStrategy::Kafka(strategy) => assignor::assign(strategy, &built, Compat::Correct),
            GroupStrategy::Weighted => Ok(weighted::assign(&built, &self.capacities(&members))),
            GroupStrategy::LagAware => {
                Ok(lag_aware::assign(&built, &self.lags(group, &built, catalogue)))
            }
        };
        let assignment = assignment.expect("only Java's ways fail");
        let withheld = claims.withheld(&built);
        let encoded = members.iter().enumerate().map(|(at, joined)| {
            let mut partitions = assignment.of(at).to_vec();
            partitions.retain(|partition| !withheld.is_withheld(*partition, at as u32));
            (joined.row, encode(&built, &partitions))
        });
        Ok(encoded.collect())
    }

    fn capacities(&self, members: &[Joined<'_>]) -> Vec<u32> {
        let capacity = |joined: &Joined<'_>| {
            let details = joined.member.details();
            let said = joined.subscription.user_data.and_then(weighted::read_capacity);
            let configured = || {
                let rules = &self.config.assignment;
                rules.capacity_of(details.client_id, details.group_instance_id)
            };
            said.or_else(configured).unwrap_or(DEFAULT_CAPACITY).clamp(1, MAX_CAPACITY)
        };
        members.iter().map(capacity).collect()
    }

    /// What the group has still to read of each partition. Without a committed offset: everything.
    fn lags(&self, group: u32, built: &Group<'_>, catalogue: &Catalogue) -> Vec<u64> {
        let offsets = self.group(group).offsets.as_deref();
        let lag = |partition: u32| {
            let (topic, number) = built.partition(partition);
            let committed = offsets
                .and_then(|offsets| offsets.committed(&self.offsets.topics, topic, number))
                .map_or(0, |committed| committed.offset.max(0));
            catalogue.end_offset(topic, number).saturating_sub(committed).max(0) as u64
        };
        (0..built.partition_count() as u32).map(lag).collect()
    }
}

/// Version 0: the oldest client reads it, and newer ones have no more fields.
fn encode(built: &Group<'_>, partitions: &[u32]) -> Vec<u8> {
    let mut places: Vec<(u32, i32)> =
        partitions.iter().map(|partition| built.place(*partition)).collect();
    places.sort_by_key(|(topic, _)| *topic);
    let of_topics = places.chunk_by(|left, right| left.0 == right.0).map(|of_topic| {
        let name = built.topic_names()[of_topic[0].0 as usize];
        (name, of_topic.iter().map(|(_, number)| *number).collect())
    });
    let mut out = Vec::new();
    Assignment { version: 0, assigned_partitions: of_topics.collect(), user_data: None }
        .encode(&mut out);
    out
}
