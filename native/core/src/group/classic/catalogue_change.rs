//! Topics came, went, grew, or moved to other racks: groups that the coordinator assigns rebalance, since no leading
//! client watches for them.

use std::collections::BTreeMap;

use super::group::Assigner;
use super::state::State;
use crate::catalogue::Catalogue;
use crate::consumer_protocol::Assignment;
use crate::group::Machine;
use crate::group::counters::RebalanceCause;

impl Machine {
    /// The first catalogue after a load also finds the groups that are assigned here, and whose
    /// partitions changed before the load.
    pub fn assigned_topics_changed(
        &mut self,
        now_ms: i64,
        old: Option<&Catalogue>,
        catalogue: &Catalogue,
    ) {
        if self.config.assignment.groups.is_empty() {
            return;
        }
        for group in self.registry.sorted_groups() {
            if self.group(group).as_classic().is_none_or(|of| of.state != State::Stable) {
                continue;
            }
            let is_stale = match old {
                Some(old) => self.subscribes_to_change(group, old, catalogue),
                None => self.takes_up(group) && !self.is_wholly_assigned(group, catalogue),
            };
            if is_stale {
                self.prepare_rebalance(now_ms, group, RebalanceCause::TopicsChanged);
            }
        }
    }

    /// Whether a loaded group is one that is assigned here. It stays as its record has it.
    fn takes_up(&mut self, group: u32) -> bool {
        let is_ours = self.strategy_of(group).is_some() && self.joined_subscriptions(group).is_ok();
        if is_ours {
            self.classic_mut(group).assigner = Assigner::Coordinator;
        }
        is_ours
    }

    fn subscribes_to_change(&self, group: u32, old: &Catalogue, new: &Catalogue) -> bool {
        if !self.classic(group).is_assigned_here() {
            return false;
        }
        let members = self.joined_subscriptions(group).unwrap_or_default();
        let mut topics = members.iter().flat_map(|joined| &joined.subscription.topics);
        topics.any(|topic| !old.agrees_with(new, topic))
    }

    /// Whether exactly the partitions of subscribed topics are assigned. Between the
    /// two phases of a cooperative rebalance it is not; another rebalance does no harm.
    fn is_wholly_assigned(&self, group: u32, catalogue: &Catalogue) -> bool {
        let members = self.joined_subscriptions(group).unwrap_or_default();
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for joined in &members {
            let Ok(assignment) = Assignment::decode(joined.member.assignment()) else {
                return false;
            };
            for (topic, numbers) in assignment.assigned_partitions {
                *counts.entry(topic).or_default() += numbers.len();
            }
        }
        let subscribed = members.iter().flat_map(|joined| joined.subscription.topics.iter());
        for topic in subscribed {
            counts.entry(topic).or_default();
        }
        counts.iter().all(|(topic, count)| *count == catalogue.partitions(topic) as usize)
    }
}
