//! What must hold of a consumer group between any two calls. For tests.

use std::collections::{BTreeMap, BTreeSet};

use super::member::Member;
use crate::group::Machine;
use crate::record::consumer::MemberState;

impl Machine {
    pub fn assert_consumer_group(&self, group: u32) {
        let of = self.registry.consumer(group);
        let members: Vec<(u32, &Member)> =
            of.members.iter().map(|row| (*row, &self.registry.consumer_members[*row])).collect();
        assert!(members.is_sorted_by(|left, right| left.1.id < right.1.id), "by id, each once");
        assert!(of.group_epoch >= of.assignment_epoch);
        let mut owned = BTreeSet::new();
        let mut regexes: BTreeMap<&str, u32> = BTreeMap::new();
        for (row, member) in &members {
            assert_eq!(member.group, group);
            for had in member.assigned.iter().chain(&member.revoking) {
                assert!(owned.insert(had.at), "{:?} of {:?} has two owners", had.at, of);
            }
            assert!(member.member_epoch <= of.assignment_epoch, "{member:?}");
            if !member.regex().is_empty() {
                *regexes.entry(member.regex()).or_default() += 1;
            }
            let subscribed = of.subscriptions.iter().find(|(names, _)| *names == member.names);
            assert!(subscribed.is_some(), "its topics are counted");
            if self.is_loading() {
                continue;
            }
            assert!(member.is_there);
            let armed_ms = self.wheel.deadline(member.session_timer);
            assert!(armed_ms.is_some_and(|armed_ms| armed_ms <= member.deadline_ms), "row {row}");
            let must_revoke = member.state == MemberState::UnrevokedPartitions;
            let must_revoke = must_revoke && member.classic.is_none();
            let is_armed = self.wheel.deadline(member.rebalance_timer).is_some();
            assert!(is_armed || !must_revoke || member.has_left_for_a_while(), "row {row}");
            let classic_timers = self.classic_timers_of(*row);
            for timer in [classic_timers.join, classic_timers.sync] {
                assert!(timer.is_none() || self.wheel.deadline(timer).is_some(), "row {row}");
                assert!(timer.is_none() || member.classic.is_some(), "row {row} is no classic one");
            }
        }
        let classic = members.iter().filter(|(_, member)| member.classic.is_some()).count();
        assert_eq!(of.classic_count(), classic);
        let counts = of.regexes.names().map(|regex| (regex, of.regexes.members(regex)));
        assert!(counts.eq(regexes), "expressions are counted: {of:?}");
        let voters =
            members.iter().filter(|(_, member)| member.server_assignor().is_some()).count();
        let votes: u32 = of.assignor_votes.iter().map(|(_, count)| *count).sum();
        assert_eq!(votes as usize, voters);
        let counted: u32 = of.subscriptions.iter().map(|(_, count)| *count).sum();
        assert_eq!(counted as usize, members.len());
        for (instance_id, row) in &of.static_members {
            assert!(of.members.contains(row), "{instance_id} is a member's");
        }
        if let Some(known) = &of.owned {
            assert_eq!(known.count(), owned.len());
            assert!(owned.iter().all(|at| known.contains(*at)), "it is known who has what");
        }
    }
}
