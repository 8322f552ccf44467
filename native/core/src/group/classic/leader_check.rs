//! A look at what a leading client assigns (`group.assignment.check`): findings are made of
//! it, and it is never changed. Bytes that are no assignment are not looked at.

use std::collections::BTreeMap;

use super::subscription::CONSUMER_PROTOCOL_TYPE;
use crate::consumer_protocol::{Assignment, Subscription};
use crate::finding::FindingKind;
use crate::group::Machine;
use crate::request::SyncGroupRequest;

/// How many of each kind, and the first.
#[derive(Default)]
struct Findings {
    found: BTreeMap<usize, (u64, String)>,
}

impl Findings {
    fn add(&mut self, kind: FindingKind, detail: impl FnOnce() -> String) {
        let (count, first) = self.found.entry(kind as usize).or_default();
        if *count == 0 {
            *first = detail();
        }
        *count += 1;
    }
}

impl Machine {
    /// The leader's SyncGroup, before it is written. Costs what decoding it costs, once for each
    /// generation.
    pub fn check_leader(&mut self, group: u32, request: &SyncGroupRequest<'_>) {
        if !self.config.checks_leaders
            || request.assignments.is_empty()
            || self.classic(group).protocol_type() != CONSUMER_PROTOCOL_TYPE
        {
            return;
        }
        for (kind, (count, detail)) in self.findings_in(group, request).found {
            self.found(group, FindingKind::ALL[kind], count, detail);
        }
    }

    fn findings_in(&self, group: u32, request: &SyncGroupRequest<'_>) -> Findings {
        let mut findings = Findings::default();
        let Some(catalogue) = self.catalogue.as_deref() else { return findings };
        let protocol = self.classic(group).protocol_name().unwrap_or_default();
        // By topic: whether each of its partitions was given to somebody.
        let mut given: BTreeMap<&str, Vec<bool>> = BTreeMap::new();
        for of_member in &request.assignments {
            let member_id = of_member.member_id;
            let Ok(assignment) = Assignment::decode(of_member.assignment) else { continue };
            let member = self.registry.find_member(group, member_id);
            if member.is_none() && !assignment.assigned_partitions.is_empty() {
                findings.add(FindingKind::UnknownMember, || format!("to {member_id}"));
            }
            let metadata = member.map(|row| self.registry.members[row].metadata(protocol));
            let subscription = metadata.map(Subscription::decode_leniently).and_then(Result::ok);
            for (topic, numbers) in assignment.assigned_partitions {
                let topics = subscription.as_ref().map(|subscription| &subscription.topics);
                if !numbers.is_empty() && topics.is_some_and(|topics| !topics.contains(&topic)) {
                    let detail = || format!("{topic} to {member_id}");
                    findings.add(FindingKind::NotSubscribed, detail);
                }
                let seen = given
                    .entry(topic)
                    .or_insert_with(|| vec![false; catalogue.partitions(topic) as usize]);
                for number in numbers {
                    let detail = || format!("{topic}-{number} to {member_id}");
                    match usize::try_from(number).ok().and_then(|at| seen.get_mut(at)) {
                        None => findings.add(FindingKind::UnknownPartition, detail),
                        Some(true) => findings.add(FindingKind::DuplicatePartition, detail),
                        Some(is_given) => *is_given = true,
                    }
                }
            }
        }
        findings
    }
}
