//! What must hold between any two calls, checked by walking everything. For tests.

use super::Machine;
use super::classic::member::{Member, NO_TICKET, flag};
use super::classic::state::State;
use super::registry::GroupType;
use crate::slab::NO_ROW;

impl Machine {
    pub fn assert_consistent(&self) {
        self.wheel.assert_consistent();
        let mut member_count = 0;
        let mut ticket_count = 0;
        for group in self.registry.rows() {
            let of = self.group(group);
            let id = of.id.as_bytes();
            assert_eq!(self.registry.find_hashed(self.registry.hash_bytes(id), id), Some(group));
            let pending = of.rebalance.as_ref().map(|soft| soft.pending.sorted_rows());
            let pending = pending.unwrap_or_default();
            member_count += of.member_rows().len() + pending.len();
            for row in of.member_rows().iter().chain(&pending) {
                let member = &self.registry.members[*row];
                assert_eq!(member.group, group);
                ticket_count += usize::from(member.ticket != NO_TICKET);
                self.assert_timer(*row, member);
            }
            for row in of.member_rows() {
                self.assert_member(group, *row);
            }
            self.assert_group(group);
        }
        assert_eq!(member_count, self.registry.members.len(), "every row is somebody's");
        assert_eq!(ticket_count, self.parked.len(), "every ticket is somebody's");
        for (ticket, member) in &self.parked {
            assert_eq!(self.registry.members[*member].ticket, *ticket);
        }
    }

    fn assert_member(&self, group: u32, row: u32) {
        let member = &self.registry.members[row];
        assert!(!member.has(flag::PENDING));
        assert_eq!(self.registry.find_member(group, member.member_id()), Some(row));
        if let Some(instance_id) = member.group_instance_id() {
            assert_eq!(self.registry.find_static_member(group, instance_id), Some(row));
        }
        let state = self.group(group).state;
        let may_await_join = state == State::PreparingRebalance;
        let may_await_sync = state == State::CompletingRebalance;
        assert!(may_await_join || !member.has(flag::AWAITING_JOIN), "{state:?}");
        assert!(may_await_sync || !member.has(flag::AWAITING_SYNC), "{state:?}");
    }

    /// A timer is armed for the deadline at most; without one somebody is parked.
    fn assert_timer(&self, row: u32, member: &Member) {
        match self.wheel.deadline(member.timer) {
            Some(armed_ms) => {
                assert!(armed_ms <= member.deadline_ms, "row {row} is armed too late")
            }
            None => assert!(member.has(flag::AWAITING_JOIN | flag::AWAITING_SYNC), "row {row}"),
        }
    }

    fn assert_group(&self, group: u32) {
        let of = self.group(group);
        let rows = of.member_rows();
        let with =
            |wanted| rows.iter().filter(|row| self.registry.members[**row].has(wanted)).count();
        let is_at_rest = matches!(of.state, State::Empty | State::Stable);
        assert_eq!(of.state == State::Empty, rows.is_empty() && !self.is_joining(group));
        assert_eq!(of.leader == NO_ROW, rows.is_empty());
        assert!(rows.is_empty() || rows.contains(&of.leader));
        assert!(of.group_type == GroupType::Classic || rows.is_empty());
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
                of.id
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
        self.group(group).state == State::PreparingRebalance
    }
}
