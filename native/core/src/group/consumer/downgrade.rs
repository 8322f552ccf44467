//! A consumer group becomes a classic group, because its last member of the consumer protocol is gone
//! (`convertToClassicGroup`, consumer-protocol section 8.2). Its classic members keep their ids.
//!
//! What would stop it is found before anything is written: the group stays a consumer group then.

use std::collections::{BTreeMap, BTreeSet};

use kcoord_timer::slab::NO_ROW;

use super::classic_assignment::{encoded_assignment, version_of};
use super::member::Member;
use crate::catalogue::known;
use crate::event::EventMember;
use crate::group::Machine;
use crate::group::classic;
use crate::group::classic::member::Details;
use crate::group::classic::metadata::size_of_member;
use crate::group::classic::protocol::most_voted;
use crate::group::classic::rebalance::Held;
use crate::group::classic::state::State;
use crate::group::classic::subscription::CONSUMER_PROTOCOL_TYPE;
use crate::group::counters::RebalanceCause;
use crate::limits::MAX_GROUP_RECORD_BYTES;
use crate::record::GroupMetadataMember;

/// The classic group that is to be.
pub struct Downgrade {
    group_id: String,
    generation_id: i32,
    protocol_name: Box<str>,
    /// In their order: the first leads.
    members: Vec<(classic::member::Member, Vec<u8>)>,
    held: Held,
}

impl Downgrade {
    pub fn at_generation(self, generation_id: i32) -> Self {
        Downgrade { generation_id, ..self }
    }
}

impl Machine {
    /// Without those who leave, sorted by row, if that leaves classic members alone. `last`: the row of a member that
    /// comes behind all others.
    pub fn plan_downgrade(
        &self,
        group: u32,
        leaving: &[u32],
        last: Option<u32>,
    ) -> Option<Downgrade> {
        let of = self.registry.consumer(group);
        let is_classic = |row: &u32| self.registry.consumer_members[*row].classic.is_some();
        let classic_leaving = leaving.iter().filter(|row| is_classic(row)).count();
        let left = of.members.len() - leaving.len();
        if left == 0
            || of.classic_count() - classic_leaving != left
            || !self.config.consumer.migration_policy.allows_downgrade()
            || left > self.config.group_max_size
        {
            return None;
        }
        let stays = |row: &&u32| leaving.binary_search(row).is_err() && Some(**row) != last;
        let rows = of.members.iter().filter(stays).copied().chain(last);
        let members: Vec<&Member> = rows.map(|row| &self.registry.consumer_members[row]).collect();
        if !has_distinct_instances(&members) {
            return None;
        }
        let protocol_name = voted_protocol(&members)?;
        let mut bytes = 0;
        let mut converted = Vec::with_capacity(members.len());
        let mut held = Held::new();
        for member in members {
            held.insert((*member.id).into(), member.held());
            let (member, assignment, size) = self.classic_again(member, &protocol_name)?;
            bytes += size;
            converted.push((member, assignment));
        }
        (bytes <= MAX_GROUP_RECORD_BYTES).then(|| Downgrade {
            group_id: self.group(group).id.as_str().to_owned(),
            generation_id: of.group_epoch,
            protocol_name,
            members: converted,
            held,
        })
    }

    /// A member, what it is assigned, and their size in a record; nothing if its client says nothing of
    /// how it reads assignments.
    fn classic_again(
        &self,
        member: &Member,
        protocol_name: &str,
    ) -> Option<(classic::member::Member, Vec<u8>, usize)> {
        let of = member.classic.as_deref()?;
        let protocols = of.protocols.iter().map(|(name, metadata)| (&**name, &**metadata));
        let details = Details {
            member_id: &member.id,
            group_instance_id: member.instance_id(),
            client_id: member.client_id(),
            client_host: member.client_host(),
            assignment: &[],
            protocols: protocols.collect(),
        };
        let (session_ms, rebalance_ms) = (of.session_timeout_ms, member.rebalance_timeout_ms);
        let row = classic::member::Member::new(&details, session_ms, rebalance_ms);
        let metadata = row.metadata(protocol_name);
        let version = version_of(metadata)?;
        let assignment = encoded_assignment(known(&self.catalogue), member.target(), version);
        let bytes = size_of_member(&GroupMetadataMember {
            member_id: details.member_id,
            group_instance_id: details.group_instance_id,
            client_id: details.client_id,
            client_host: details.client_host,
            rebalance_timeout: rebalance_ms,
            session_timeout: session_ms,
            subscription: metadata,
            assignment: &assignment,
        });
        Some((row, assignment, bytes))
    }

    /// Returns the row of the classic group. It is Stable with the targets that members had, unless it
    /// has to rebalance at once. `by`: the member whose end as one of the consumer protocol it is.
    pub fn downgrade(
        &mut self,
        now_ms: i64,
        group: u32,
        plan: Downgrade,
        by: Option<EventMember>,
        rebalances: bool,
    ) -> u32 {
        let rows = self.registry.consumer(group).members.to_vec();
        for row in rows {
            self.cancel_consumer_timers(row);
        }
        self.emit_group_tombstone(now_ms, group);
        let found = self.registry.find(&plan.group_id);
        let group = found.unwrap_or_else(|| self.registry.create(&plan.group_id));
        let mut assignments = Vec::with_capacity(plan.members.len());
        for (member, assignment) in plan.members {
            let row = self.registry.members.insert(member);
            self.registry.attach_member(group, row);
            assignments.push((row, assignment));
        }
        self.registry.set_protocol_type(group, CONSUMER_PROTOCOL_TYPE);
        self.registry.set_protocol_name(group, Some(&plan.protocol_name));
        let of = self.classic_mut(group);
        let first = of.member_rows().next();
        of.leader = first.unwrap_or(NO_ROW);
        of.generation_id = plan.generation_id;
        (of.state, of.state_timestamp_ms) = (State::Stable, now_ms);
        let given = assignments.iter().map(|(row, assignment)| (*row, &assignment[..])).collect();
        let emitted = self.emit_stable_group(now_ms, group, given);
        emitted.expect("its record is small enough");
        self.tell_downgraded(group, by, assignments.len());
        for (row, _) in &assignments {
            self.restart_session(*row, now_ms);
        }
        if rebalances {
            self.prepare_rebalance(now_ms, group, RebalanceCause::Downgraded);
            self.rebalance_mut(group).held = plan.held;
        }
        self.settle(group);
        group
    }
}

/// A log may say that two members have one instance id; a classic group has no place for both.
fn has_distinct_instances(members: &[&Member]) -> bool {
    let mut seen = BTreeSet::new();
    members.iter().filter_map(|member| member.instance_id()).all(|id| seen.insert(id))
}

/// The protocol that the members would choose, as those of a classic group do.
fn voted_protocol(members: &[&Member]) -> Option<Box<str>> {
    let names_of = |member: &Member| {
        let protocols = member.classic.as_deref().map(|of| of.protocols.iter());
        let mut names: Vec<Box<str>> =
            protocols.into_iter().flatten().map(|(name, _)| name.clone()).collect();
        names.sort_unstable();
        names.dedup();
        names
    };
    let mut counts: BTreeMap<Box<str>, usize> = BTreeMap::new();
    for name in members.iter().flat_map(|member| names_of(member)) {
        *counts.entry(name).or_default() += 1;
    }
    let mut votes: Vec<&str> = Vec::with_capacity(members.len());
    for member in members {
        let mut names = member.classic.as_deref()?.protocols.iter().map(|(name, _)| &**name);
        votes.push(names.find(|name| counts.get(*name) == Some(&members.len()))?);
    }
    most_voted(votes.into_iter()).map(Into::into)
}
