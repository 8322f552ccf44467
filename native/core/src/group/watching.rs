//! What events say beyond the moment: who had which partitions, and what happened how often. Soft
//! state, kept only while events are told; nothing is decided by it.

use core::hash::BuildHasherDefault;
use std::collections::BTreeMap;

use ahash::AHasher;
use hashbrown::HashMap;
use kcoord_timer::slab::NO_ROW;

use super::Machine;
use super::classic::member::{Details, flag};
use super::classic::state::State;
use super::classic::subscription::CONSUMER_PROTOCOL_TYPE;
use super::consumer::reconcile::Next;
use crate::consumer_protocol::Subscription;
use crate::error::ErrorCode;
use crate::event::{Event, EventKind, EventMember, GoneCause, Moves, bounded_reason};
use crate::owners::Owners;
use crate::request::{HeartbeatRequest, JoinGroupRequest, RequestContext};
use crate::shared_bytes::SharedBytes;
use crate::topic_partition::{TopicPartition, Walk};

/// Of so many is remembered how often something happened to them; then all begin anew.
const MAX_REPEATS: usize = 4_096;

/// Of what is not a request.
const LATE: &str = "";

/// Group row, hash of the member id, API, error code.
type Repeat = (u32, u64, &'static str, i16);

/// The soft state of a shard.
#[derive(Debug, Default)]
pub struct Watching {
    /// By group. Never iterated: the order of a table is nobody's.
    owners: HashMap<u32, Owners, BuildHasherDefault<AHasher>>,
    repeats: BTreeMap<Repeat, u64>,
    refused_commits: BTreeMap<u32, u64>,
    /// Partitions of consumer groups that nobody owns, and since when, by group.
    released: BTreeMap<u32, BTreeMap<TopicPartition, i64>>,
    /// What members of consumer groups got and gave up on their way to their targets.
    gains: BTreeMap<u32, Gains>,
}

#[derive(Debug, Default, PartialEq)]
struct Gains {
    moves: Moves,
    given_up: u64,
}

impl Watching {
    /// The group is gone, or of another kind.
    pub fn forget(&mut self, group: u32) {
        self.owners.remove(&group);
        self.refused_commits.remove(&group);
        self.released.remove(&group);
        self.forget_repeats(group);
    }

    fn forget_repeats(&mut self, group: u32) {
        if self.repeats.is_empty() {
            return;
        }
        let of_group = (group, 0, "", i16::MIN)..(group.saturating_add(1), 0, "", i16::MIN);
        let rest: Vec<Repeat> = self.repeats.range(of_group).map(|(repeat, _)| *repeat).collect();
        rest.iter().for_each(|repeat| _ = self.repeats.remove(repeat));
    }

    /// How often it happened by now, where that is to be told.
    fn happened(&mut self, repeat: Repeat) -> Option<u64> {
        if self.repeats.len() >= MAX_REPEATS {
            self.repeats.clear();
        }
        let count = self.repeats.entry(repeat).or_default();
        *count += 1;
        count.is_power_of_two().then_some(*count)
    }
}

/// Who asks for something, as it says.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asking<'a> {
    pub group_id: &'a str,
    pub member_id: &'a str,
    pub group_instance_id: Option<&'a str>,
    pub client_id: &'a str,
    pub client_host: &'a str,
}

impl<'a> Asking<'a> {
    pub fn of(
        context: &RequestContext<'a>,
        group_id: &'a str,
        member_id: &'a str,
        group_instance_id: Option<&'a str>,
    ) -> Self {
        let (client_id, client_host) = (context.client_id, context.client_host);
        Asking { group_id, member_id, group_instance_id, client_id, client_host }
    }
}

impl Machine {
    /// Whether events besides findings are told from now on.
    pub fn tell_events(&mut self, on: bool) {
        self.events.turn(on);
        if !on {
            self.watching = Watching::default();
        }
    }

    /// To be called before a member goes or joins again, and where a rebalance starts: what members
    /// have before.
    pub fn watch_owners(&mut self, group: u32) {
        if !self.events.is_on() {
            return;
        }
        let of = self.registry.classic(group);
        if of.state != State::Stable || of.protocol_type() != CONSUMER_PROTOCOL_TYPE {
            return;
        }
        let owners = self.watching.owners.entry(group).or_default();
        if !owners.are_known() {
            let members = &self.registry.members;
            let had = |row: u32| (row, members[row].share(members[row].assignment()));
            owners.had(of.member_rows().map(had));
        }
    }

    /// A member that was there before has joined again; what it says of itself is stored.
    pub fn tell_member_rejoined(&mut self, now_ms: i64, member: u32, reason: Option<&str>) {
        if !self.events.is_on() {
            return;
        }
        let group = self.registry.members[member].group;
        self.watch_owners(group);
        self.watch_giving_up(now_ms, member);
        let member = self.event_member(member, reason);
        self.push_event(group, EventKind::MemberRejoined { member });
    }

    /// A member that joins again without saying that it owns something owns nothing any more.
    pub fn watch_giving_up(&mut self, now_ms: i64, member: u32) {
        let row = &self.registry.members[member];
        let Some(owners) = self.watching.owners.get_mut(&row.group) else { return };
        let of = self.registry.classic(row.group);
        let metadata = row.metadata(of.protocol_name().unwrap_or_default());
        let keeps = Subscription::decode_leniently(metadata);
        if keeps.is_ok_and(|subscription| subscription.owned_partitions.is_empty()) {
            owners.gave_up(member, now_ms);
        }
    }

    /// Another process has a static member's place, and all that it had.
    pub fn watch_kept(&mut self, member: u32) {
        let group = self.registry.members[member].group;
        if let Some(owners) = self.watching.owners.get_mut(&group) {
            owners.kept(member);
        }
    }

    /// To be called while the member is still there.
    pub fn watch_gone(&mut self, now_ms: i64, member: u32, cause: GoneCause) {
        let group = self.registry.members[member].group;
        self.watch_owners(group);
        let Some(owners) = self.watching.owners.get_mut(&group) else { return };
        match cause {
            // Another process has its place, and its row.
            GoneCause::StaticMemberReplaced => owners.gave_up(member, now_ms),
            _ => owners.gone(member, now_ms),
        }
    }

    /// Every member can have its assignment. Takes what was known of those before.
    pub fn settled_moves(&mut self, now_ms: i64, group: u32) -> Option<Box<Moves>> {
        self.watching.forget_repeats(group);
        let refused_commits = self.watching.refused_commits.remove(&group).unwrap_or_default();
        let owners = self.watching.owners.get_mut(&group)?;
        let members = &self.registry.members;
        let has = |row: u32| (row, members[row].share(members[row].assignment()));
        let of = self.registry.classic(group);
        let now: Vec<(u32, SharedBytes)> = of.member_rows().map(has).collect();
        let moves = owners.settled(now_ms, &now);
        if owners.is_empty() {
            self.watching.owners.remove(&group);
        }
        moves.map(|moves| Box::new(Moves { refused_commits, ..moves }))
    }

    /// What of a member's metadata a JoinGroup changes; nothing while events are off.
    pub fn changed_metadata(
        &self,
        member: u32,
        request: &JoinGroupRequest<'_>,
    ) -> Option<Box<str>> {
        if !self.events.is_on() {
            return None;
        }
        let row = &self.registry.members[member];
        let had: Vec<&str> = row.protocols().map(|(name, _)| name).collect();
        let has: Vec<&str> = request.protocols.iter().map(|protocol| protocol.name).collect();
        if had != has {
            let text = format!("protocols: {} instead of {}", has.join(", "), had.join(", "));
            return Some(bounded_reason(&text));
        }
        let name = self.registry.classic(row.group).protocol_name().unwrap_or_default();
        let metadata = request.protocols.iter().find(|protocol| protocol.name == name);
        let new = Subscription::decode_leniently(metadata.map_or(&[], |of| of.metadata));
        let old = Subscription::decode_leniently(row.metadata(name));
        let (Ok(old), Ok(new)) = (old, new) else { return Some("user data".into()) };
        let mut topics: Vec<String> = Vec::new();
        topics.extend(
            new.topics.iter().filter(|of| !old.topics.contains(of)).map(|of| format!("+{of}")),
        );
        topics.extend(
            old.topics.iter().filter(|of| !new.topics.contains(of)).map(|of| format!("-{of}")),
        );
        let text = match () {
            () if !topics.is_empty() => format!("topics: {}", topics.join(" ")),
            () if old.owned_partitions != new.owned_partitions => "owned partitions".into(),
            () if old.rack_id != new.rack_id => "rack".into(),
            () => "user data".into(),
        };
        Some(bounded_reason(&text))
    }

    /// The topics that a group reads, for a leader that asks again; nothing while events are off.
    pub fn subscribed_for_event(&self, group: u32) -> Option<Box<str>> {
        if !self.events.is_on() {
            return None;
        }
        let topics: Vec<Box<str>> = self.subscribed_topics(group)?.into_iter().collect();
        Some(bounded_reason(&format!("reads: {}", topics.join(" "))))
    }

    /// A member of a classic group that is heard of late.
    #[cold]
    #[inline(never)]
    pub fn heard_late(&mut self, member: u32, silent_ms: i64) {
        if !self.events.is_on() {
            return;
        }
        let row = &self.registry.members[member];
        if row.has(flag::PENDING) {
            return;
        }
        let hash = self.registry.hash(row.member_id());
        let group = row.group;
        if let Some(count) = self.watching.happened((group, hash, LATE, 0)) {
            let member = self.event_member(member, None);
            self.push_event(group, EventKind::HeartbeatLate { member, silent_ms, count });
        }
    }

    /// The same of a consumer group.
    #[cold]
    #[inline(never)]
    pub fn consumer_heard_late(&mut self, now_ms: i64, row: u32, timeout_ms: i32) {
        if !self.events.is_on() {
            return;
        }
        let member = &self.registry.consumer_members[row];
        let silent_ms = now_ms - member.deadline_ms + i64::from(timeout_ms);
        let (group, hash) = (member.group, self.registry.hash(&member.id));
        if let Some(count) = self.watching.happened((group, hash, LATE, 0)) {
            let (group, member) = self.described(row, None);
            self.push_event(group, EventKind::HeartbeatLate { member, silent_ms, count });
        }
    }

    /// A Heartbeat that is refused.
    #[cold]
    #[inline(never)]
    pub fn heartbeat_refused(
        &mut self,
        request: &HeartbeatRequest<'_>,
        error_code: ErrorCode,
    ) -> ErrorCode {
        let asking = Asking {
            group_id: request.group_id,
            member_id: request.member_id,
            group_instance_id: request.group_instance_id,
            ..Asking::default()
        };
        self.tell_refused("Heartbeat", asking, error_code);
        error_code
    }

    /// A request that is refused. Of groups that are not there nothing is told: anybody may ask.
    #[cold]
    pub fn tell_refused(&mut self, api: &'static str, asking: Asking<'_>, error_code: ErrorCode) {
        if !self.events.is_on() {
            return;
        }
        let Some(group) = self.registry.find(asking.group_id) else { return };
        if api == "OffsetCommit" {
            *self.watching.refused_commits.entry(group).or_default() += 1;
        }
        let hash = self.registry.hash(asking.group_instance_id.unwrap_or(asking.member_id));
        let Some(count) = self.watching.happened((group, hash, api, error_code.code())) else {
            return;
        };
        let member_id = bounded_reason(asking.member_id);
        let group_instance_id = asking.group_instance_id.map(bounded_reason);
        let client_id = bounded_reason(asking.client_id);
        let client_host = bounded_reason(asking.client_host);
        let details = Details {
            member_id: &member_id,
            group_instance_id: group_instance_id.as_deref(),
            client_id: &client_id,
            client_host: &client_host,
            ..Details::default()
        };
        let member = EventMember::said(&details, None);
        let kind = EventKind::RequestRefused { api, error_code, member, count };
        let of = &self.registry.groups[group];
        let (group_id, generation_id) = (of.id.clone(), of.generation_id());
        let was_taken = self.events.push(Event { group_id, timestamp_ms: 0, generation_id, kind });
        self.counters.events_dropped += u64::from(!was_taken);
    }

    /// A member of a consumer group takes a step: to be called before it is written.
    pub fn watch_step(&mut self, now_ms: i64, row: u32, next: &Next) {
        if !self.events.is_on() {
            return;
        }
        let member = &self.registry.consumer_members[row];
        let released = self.watching.released.entry(member.group).or_default();
        let gains = self.watching.gains.entry(row).or_default();
        for set in [&member.assigned, &member.revoking] {
            let (mut assigned, mut revoking) = (Walk::of(&next.assigned), Walk::of(&next.revoking));
            let mut has = |at| assigned.holds(at) || revoking.holds(at);
            for at in set.iter().map(|had| had.at).filter(|at| !has(*at)) {
                released.insert(at, now_ms);
                gains.given_up += 1;
            }
        }
        let mut had = Walk::of(&member.assigned);
        let gained = next.assigned.iter().filter(|has| !had.holds(has.at));
        let moves = &mut gains.moves;
        for got in gained {
            moves.partitions += 1;
            let Some(since_ms) = released.remove(&got.at) else { continue };
            let unowned_ms = (now_ms - since_ms).max(0) as u64;
            moves.moved += 1;
            moves.unowned += u64::from(unowned_ms > 0);
            moves.unowned_ms += unowned_ms;
            moves.longest_ms = moves.longest_ms.max(unowned_ms);
        }
        if released.is_empty() {
            self.watching.released.remove(&member.group);
        }
        if *gains == Gains::default() {
            self.watching.gains.remove(&row);
        }
    }

    /// What a member got until it came to its target. What it had before it could have kept: so
    /// many more as it got than it gave up had to move to it.
    pub fn take_gains(&mut self, row: u32) -> Option<Box<Moves>> {
        let Gains { moves, given_up } = self.watching.gains.remove(&row)?;
        if moves == Moves::default() {
            return None;
        }
        let least = moves.moved.saturating_sub(given_up);
        let group = self.registry.consumer_members[row].group;
        let refused_commits = self.watching.refused_commits.remove(&group).unwrap_or_default();
        Some(Box::new(Moves { least, refused_commits, ..moves }))
    }

    /// To be called while the member of a consumer group is still there.
    pub fn watch_consumer_gone(&mut self, now_ms: i64, row: u32, cause: GoneCause) {
        self.watching.gains.remove(&row);
        if cause == GoneCause::StaticMemberReplaced {
            return; // What it had goes over to its successor.
        }
        let member = &self.registry.consumer_members[row];
        let had = member.assigned.iter().chain(&member.revoking).map(|had| (had.at, now_ms));
        self.watching.released.entry(member.group).or_default().extend(had);
    }

    /// The member that led when the group was assigned.
    pub fn told_leader(&self, group: u32) -> Option<EventMember> {
        let of = self.registry.classic(group);
        let is_client = !of.is_assigned_here() && of.leader != NO_ROW;
        is_client.then(|| self.event_member(of.leader, None))
    }
}
