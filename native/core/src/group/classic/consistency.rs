//! What must hold of a classic group between any two calls. For tests.

use kcoord_timer::slab::NO_ROW;

use super::member::{Member, flag};
use super::state::State;
use crate::group::Machine;

impl Machine {
    fn assert_member(&self, group: u32, row: u32) {
        let member = &self.registry.members[row];
        assert!(!member.has(flag::PENDING));
        assert_eq!(self.registry.find_member(group, member.member_id()), Some(row));
        if let Some(instance_id) = member.group_instance_id() {
            assert_eq!(self.registry.find_static_member(group, instance_id), Some(row));
        }
        let state = self.classic(group).state;
        let may_await_join = state == State::PreparingRebalance;
        let may_await_sync = state == State::CompletingRebalance;
        assert!(may_await_join || !member.has(flag::AWAITING_JOIN), "{state:?}");
        assert!(may_await_sync || !member.has(flag::AWAITING_SYNC), "{state:?}");
    }

    /// A timer is armed for the deadline or before; without one a request is parked.
    pub(in crate::group) fn assert_timer(&self, row: u32, member: &Member) {
        match self.wheel.deadline(member.timer) {
            Some(armed_ms) => {
                assert!(armed_ms <= member.deadline_ms, "row {row} is armed too late")
            }
            None => assert!(member.has(flag::AWAITING_JOIN | flag::AWAITING_SYNC), "row {row}"),
        }
    }

    pub fn assert_classic_group(&self, group: u32) {
        let of = self.classic(group);
        let rows: Vec<u32> = of.member_rows().collect();
        rows.iter().for_each(|row| self.assert_member(group, *row));
        assert_eq!(rows.len(), of.member_count());
        let with =
            |wanted| rows.iter().filter(|row| self.registry.members[**row].has(wanted)).count();
        let is_at_rest = matches!(of.state, State::Empty | State::Stable);
        assert_eq!(of.state == State::Empty, rows.is_empty() && !self.is_joining(group));
        assert_eq!(of.leader == NO_ROW, rows.is_empty());
        assert!(rows.is_empty() || rows.contains(&of.leader));
        assert_eq!(of.roster.is_some(), rows.len() > 1);
        let Some(soft) = &of.rebalance else {
            assert!(is_at_rest && with(flag::PENDING_SYNC | flag::AWAITING_JOIN) == 0);
            return;
        };
        assert_eq!(soft.awaiting_join, with(flag::AWAITING_JOIN));
        assert_eq!(soft.pending_sync, with(flag::PENDING_SYNC));
        assert_eq!(self.wheel.deadline(soft.join_timer).is_some(), self.is_joining(group));
        assert!(soft.pending_sync == 0 || self.wheel.deadline(soft.sync_timer).is_some());
        if is_at_rest {
            let keeps_topics = self.remembers_other_topics(group);
            assert!(
                !soft.pending.is_empty() || soft.pending_sync > 0 || keeps_topics,
                "{:?} is not at rest",
                self.group(group).id
            );
        }
        if let Some(counts) = &soft.protocol_counts {
            for (name, count) in counts {
                let lists = |row: &&u32| {
                    self.registry.members[**row].protocols().any(|(other, _)| other == &**name)
                };
                assert_eq!(rows.iter().filter(lists).count(), *count, "{name}");
            }
        }
    }

    fn is_joining(&self, group: u32) -> bool {
        self.classic(group).state == State::PreparingRebalance
    }
}
