//! A consumer: joins, syncs, heartbeats, commits, fetches and leaves as the clients of Kafka do,
//! and does with each error code what they do. Its quirks are in what it sends, never in what it
//! makes of an answer.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use kcoord_core::ErrorCode;
use kcoord_core::consumer_protocol::{Assignment, Subscription};
use kcoord_core::response::{JoinGroupResponse, OffsetCommitResponse};
use kcoord_wire::api::ResponseBody;
use rand::RngExt;
use rand_xorshift::XorShiftRng;

use super::native::Place;
use super::{Around, Client};
use crate::ask::{Ask, Body, Commit, Named};
use crate::breaks::Break;
use crate::catalogue::Catalogue;
use crate::plan::{Quirk, Role, TOPICS, is_cooperative, protocol_of};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Joining,
    Syncing,
    /// In a generation: heartbeats, commits and fetches.
    Assigned,
    /// Another one has its instance id: it never sends again.
    Fenced,
}

pub struct Consumer {
    phase: Phase,
    pub member_id: Rc<str>,
    pub generation_id: i32,
    /// It leads: what it will hand in.
    assignments: Vec<(Rc<str>, Vec<u8>)>,
    pub assignment: Vec<Named>,
    pub topics: Vec<usize>,
    /// If it has assigned: by which catalogue, and which topics were wanted. A leader joins again
    /// when the catalogue changes.
    leads: Option<(u32, Vec<usize>)>,
    has_fetched: bool,
    pub committed_ms: i64,
    /// What it reads: more than it is assigned while it has partitions to give up.
    pub reads: BTreeSet<Place>,
    /// When it gives up what it is not assigned any more.
    pub gives_up_ms: Option<i64>,
    /// Ids of the topics when it asked for its assignment, which has names.
    pub known_ids: [Option<u128>; TOPICS.len()],
    /// Ids and generations of before.
    past: Vec<(Rc<str>, i32)>,
}

impl Consumer {
    pub fn new(rng: &mut XorShiftRng, quirk: Quirk) -> Consumer {
        let topics = (0..TOPICS.len()).filter(|_| rng.random_ratio(2, 3)).collect();
        Consumer {
            phase: Phase::Joining,
            member_id: "".into(),
            generation_id: -1,
            assignments: Vec::new(),
            assignment: Vec::new(),
            topics: if quirk == Quirk::Odd { vec![0] } else { topics },
            leads: None,
            has_fetched: false,
            committed_ms: -1,
            reads: BTreeSet::new(),
            gives_up_ms: None,
            known_ids: [None; TOPICS.len()],
            past: Vec::new(),
        }
    }

    pub fn assignment(&self) -> Option<(i32, &[Named])> {
        (self.phase == Phase::Assigned).then_some((self.generation_id, &self.assignment))
    }

    pub fn is_fenced(&self) -> bool {
        self.phase == Phase::Fenced
    }

    /// It is in a generation, and knows what it is assigned there.
    pub fn is_assigned(&self) -> bool {
        self.phase == Phase::Assigned
    }

    /// If it leads, by this catalogue: the topics that its members subscribe to.
    pub fn wanted(&self, catalogue_version: u32) -> &[usize] {
        match &self.leads {
            Some((version, topics)) if *version == catalogue_version => topics,
            _ => &[],
        }
    }

    /// It is no member any more, as far as it knows.
    pub fn forget(&mut self) {
        self.remember();
        self.stop_reading();
        self.member_id = "".into();
        self.generation_id = -1;
        self.phase = Phase::Joining;
    }

    /// Its partitions may be another one's by now.
    pub fn stop_reading(&mut self) {
        self.reads.clear();
        self.gives_up_ms = None;
    }

    fn rejoin(&mut self) {
        self.remember();
        self.phase = Phase::Joining;
    }

    fn remember(&mut self) {
        self.leads = None;
        if self.past.len() < 8 && !self.member_id.is_empty() {
            self.past.push((self.member_id.clone(), self.generation_id));
        }
    }
}

impl Client {
    /// What a consumer sends now.
    pub(super) fn consume(&mut self, around: &mut Around<'_>) -> Option<Body> {
        if self.spec.quirk == Quirk::Garbled && self.rng.random_ratio(1, 20) {
            return Some(Body::Garbled);
        }
        match self.consumer.phase {
            Phase::Fenced => {
                self.wake_ms = i64::MAX;
                None
            }
            Phase::Joining => Some(self.join(around)),
            Phase::Syncing => {
                self.consumer.known_ids = around.catalogue.ids();
                Some(Body::Sync { assignments: self.consumer.assignments.clone() })
            }
            Phase::Assigned => self.work(around),
        }
    }

    /// Before it joins, it gives up what it will not say that it owns.
    fn join(&mut self, around: &Around<'_>) -> Body {
        let keeps = is_cooperative(self.spec.group);
        let owned = match keeps {
            true => self.consumer.owned(around),
            false => Vec::new(),
        };
        if !keeps {
            self.consumer.stop_reading();
        }
        let is_odd = self.spec.quirk == Quirk::Odd && self.rng.random_ratio(1, 2);
        Body::Join {
            session_timeout_ms: match is_odd && self.rng.random_ratio(1, 3) {
                true => 1,
                false => self.spec.session_timeout_ms,
            },
            rebalance_timeout_ms: self.spec.rebalance_timeout_ms,
            protocol: if is_odd { "other" } else { protocol_of(self.spec.group) },
            topics: self.consumer.topics.clone(),
            owned,
        }
    }

    /// In a generation.
    fn work(&mut self, around: &mut Around<'_>) -> Option<Body> {
        let leads = self.consumer.leads.as_ref();
        if leads.is_some_and(|(version, _)| *version != around.catalogue.version) {
            self.consumer.rejoin();
            return Some(self.join(around));
        }
        if self.consumer.gives_up_ms.is_some_and(|at_ms| at_ms <= around.now_ms) {
            // Others wait for what it gives up.
            self.consumer.give_up(around);
            self.consumer.rejoin();
            return Some(self.join(around));
        }
        if !around.is_calm {
            match self.rng.random_range(0..160) {
                0 => return self.go_away(around),
                // A migrant leaves when it changes its protocol.
                1 if self.spec.role != Role::Migrant => return Some(Body::Leave),
                2 => {
                    let topic = self.rng.random_range(0..TOPICS.len());
                    self.consumer.topics = vec![topic];
                    self.consumer.rejoin();
                    return Some(self.join(around));
                }
                _ => {}
            }
        }
        if !std::mem::replace(&mut self.consumer.has_fetched, true) {
            let topics = self.consumer.assignment.clone();
            let other_group = self.rng.random_ratio(1, 4).then_some(self.spec.group ^ 1);
            let all = self.rng.random_ratio(1, 4);
            return Some(Body::Fetch { topics: (!all).then_some(topics), other_group });
        }
        if self.rng.random_ratio(1, 4) {
            let offsets = self.own_offsets(around);
            if !offsets.is_empty() {
                let retention_ms = if self.rng.random_ratio(1, 8) { 3_000 } else { -1 };
                let is_long = !around.is_calm && self.rng.random_ratio(1, 30);
                let metadata = if is_long { "a note that is too long" } else { "note" };
                return Some(Body::Commit { offsets, retention_ms, metadata });
            }
            self.consumer.committed_ms = around.now_ms;
        }
        Some(Body::Heartbeat)
    }

    /// Is gone without a word: a static member comes back as the same, another one as a new one.
    fn go_away(&mut self, around: &Around<'_>) -> Option<Body> {
        self.consumer.forget();
        self.wake_ms = around.now_ms + self.rng.random_range(100..12_000);
        None
    }

    fn own_offsets(&mut self, around: &mut Around<'_>) -> Vec<Commit> {
        let mut offsets = Vec::new();
        for (topic, partitions) in &self.consumer.assignment {
            if around.catalogue.topics[*topic].is_none() {
                continue;
            }
            for partition in partitions.iter().take(2) {
                *around.next_value += 1;
                offsets.push((*topic, *partition, *around.next_value));
            }
        }
        offsets
    }

    /// Now and then: who it was before.
    pub(super) fn go_back(&mut self, ask: &mut Ask) {
        if self.consumer.past.is_empty() || !self.rng.random_ratio(1, 4) {
            return;
        }
        let at = self.rng.random_range(0..self.consumer.past.len());
        let (member_id, generation_id) = self.consumer.past[at].clone();
        if self.rng.random_ratio(1, 2) {
            ask.member_id = member_id;
        }
        if matches!(ask.body, Body::Heartbeat | Body::Sync { .. } | Body::Commit { .. }) {
            ask.generation_id = generation_id;
        }
    }

    /// What it makes of an answer.
    pub(super) fn learn(&mut self, around: &mut Around<'_>, ask: &Ask, answer: &ResponseBody) {
        match answer {
            ResponseBody::JoinGroup(joined) => self.joined(around, joined),
            ResponseBody::SyncGroup(synced) if synced.error_code == ErrorCode::None => {
                self.consumer.assignment = decode(&synced.assignment);
                self.consumer.phase = Phase::Assigned;
                self.consumer.has_fetched = false;
                self.begin_to_read(around);
            }
            ResponseBody::SyncGroup(synced) => self.refused(around, synced.error_code),
            ResponseBody::Heartbeat(code) => self.refused(around, *code),
            ResponseBody::LeaveGroup(_) => {
                self.consumer.forget();
                self.wake_ms = around.now_ms + self.rng.random_range(100..8_000);
            }
            ResponseBody::OffsetCommit(committed) => self.committed(around, ask, committed),
            _ => {}
        }
    }

    fn joined(&mut self, around: &mut Around<'_>, joined: &JoinGroupResponse) {
        match joined.error_code {
            ErrorCode::None => {
                self.consumer.member_id = joined.member_id.as_ref().into();
                self.consumer.generation_id = joined.generation_id;
                self.consumer.phase = Phase::Syncing;
                let leads = joined.leader == joined.member_id && !joined.skip_assignment;
                self.consumer.assignments.clear();
                if leads {
                    let two_owners = around.broken == Some(Break::TwoOwners);
                    let keeps = is_cooperative(self.spec.group);
                    self.consumer.assignments = assign(joined, around.catalogue, keeps, two_owners);
                    self.consumer.leads = Some((around.catalogue.version, wanted(joined)));
                }
                self.soon(around);
            }
            ErrorCode::MemberIdRequired => {
                self.consumer.member_id = joined.member_id.as_ref().into();
                self.soon(around);
            }
            ErrorCode::GroupMaxSizeReached => {
                self.consumer.forget();
                self.wake_ms = around.now_ms + 1_000;
            }
            code => self.refused(around, code),
        }
    }

    fn soon(&mut self, around: &Around<'_>) {
        if self.spec.quirk != Quirk::Slow {
            self.wake_ms = around.now_ms + self.rng.random_range(0..20);
        }
    }

    /// An error, by what Kafka's clients do on it.
    fn refused(&mut self, around: &Around<'_>, code: ErrorCode) {
        match code {
            ErrorCode::UnknownMemberId => self.consumer.forget(),
            ErrorCode::IllegalGeneration | ErrorCode::RebalanceInProgress => {
                if code == ErrorCode::IllegalGeneration {
                    self.consumer.stop_reading();
                }
                self.consumer.rejoin();
                self.soon(around);
            }
            ErrorCode::FencedInstanceId => {
                self.consumer.remember();
                self.consumer.stop_reading();
                self.consumer.phase = Phase::Fenced;
                if !around.is_calm && self.rng.random_ratio(1, 2) {
                    // It is started again, under the same instance id.
                    self.consumer.forget();
                    self.wake_ms = around.now_ms + self.rng.random_range(1_000..10_000);
                }
            }
            ErrorCode::InconsistentGroupProtocol | ErrorCode::InvalidSessionTimeout => {
                self.wake_ms = around.now_ms + 500;
            }
            // Not there, or loading: the same again, later.
            _ => {}
        }
    }

    fn committed(&mut self, around: &Around<'_>, ask: &Ask, committed: &OffsetCommitResponse) {
        let codes = committed.topics.iter().flat_map(|topic| &topic.partitions);
        let mut worst = ErrorCode::None;
        for (_, code) in codes {
            if code.is_error() {
                worst = *code;
            }
        }
        match worst {
            ErrorCode::None => self.consumer.committed_ms = around.now_ms,
            // Its phase is another by now if the group went back in time.
            _ if ask.generation_id != self.consumer.generation_id => {}
            ErrorCode::GroupIdNotFound => self.consumer.forget(),
            ErrorCode::UnknownTopicOrPartition if is_of_the_past(around.catalogue, ask) => {
                self.consumer.committed_ms = around.now_ms;
            }
            code => self.refused(around, code),
        }
    }
}

/// What a member was assigned. Topics that are not known here any more are left out.
fn decode(assignment: &[u8]) -> Vec<Named> {
    let Ok(decoded) = Assignment::decode(assignment) else { return Vec::new() };
    let known = |(name, partitions): (&str, Vec<i32>)| {
        let topic = TOPICS.iter().position(|topic| *topic == name)?;
        Some((topic, partitions))
    };
    decoded.assigned_partitions.into_iter().filter_map(known).collect()
}

/// Whether it commits a partition that is gone: its topic was made again with fewer. A leader joins
/// again then, unless it was replaced under its instance id: before JoinGroup v9 nobody watches the
/// topics of such a group until its next rebalance (KIP-814).
fn is_of_the_past(catalogue: &Catalogue, ask: &Ask) -> bool {
    let Body::Commit { offsets, .. } = &ask.body else { return false };
    let is_gone = |topic: usize, partition: i32| {
        catalogue.topics[topic].is_some_and(|found| partition >= found.partitions)
    };
    offsets.iter().any(|(topic, partition, _)| is_gone(*topic, *partition))
}

fn subscribes(metadata: &[u8], topic: &str) -> bool {
    Subscription::decode(metadata).is_ok_and(|decoded| decoded.topics.contains(&topic))
}

/// Topics with a subscriber.
fn wanted(joined: &JoinGroupResponse) -> Vec<usize> {
    let is_wanted = |topic: &usize| {
        joined.members.iter().any(|member| subscribes(&member.metadata, TOPICS[*topic]))
    };
    (0..TOPICS.len()).filter(is_wanted).collect()
}

/// Who says that it reads what.
fn claims(joined: &JoinGroupResponse) -> BTreeMap<(&str, i32), &str> {
    let mut claims = BTreeMap::new();
    for member in &joined.members {
        let Ok(said) = Subscription::decode(&member.metadata) else { continue };
        for (topic, partitions) in said.owned_partitions {
            claims.extend(partitions.into_iter().map(|at| ((topic, at), &*member.member_id)));
        }
    }
    claims
}

/// Each partition goes to one of its subscribers, in turn; or to nobody as long as another one claims it,
/// which then gives it up and joins again.
fn assign(
    joined: &JoinGroupResponse,
    catalogue: &Catalogue,
    keeps: bool,
    two_owners: bool,
) -> Vec<(Rc<str>, Vec<u8>)> {
    let claims = if keeps { claims(joined) } else { BTreeMap::new() };
    let mut given: BTreeMap<&str, Vec<(&str, Vec<i32>)>> = BTreeMap::new();
    for member in &joined.members {
        given.insert(&member.member_id, Vec::new());
    }
    for (name, topic) in TOPICS.into_iter().zip(catalogue.topics) {
        let subscribers = joined.members.iter().filter(|m| subscribes(&m.metadata, name));
        let mut subscribers: Vec<&str> = subscribers.map(|member| &*member.member_id).collect();
        if keeps {
            // So that the next round wants the same.
            subscribers.sort_unstable();
        }
        let Some(topic) = topic.filter(|_| !subscribers.is_empty()) else { continue };
        for partition in 0..topic.partitions {
            let first = partition as usize % subscribers.len();
            let more = usize::from(two_owners && partition == 0 && subscribers.len() > 1);
            for member in (first..=first + more).map(|at| subscribers[at % subscribers.len()]) {
                if claims.get(&(name, partition)).is_some_and(|owner| *owner != member) {
                    continue;
                }
                let topics = given.get_mut(member).expect("a member");
                match topics.last_mut().filter(|(last, _)| *last == name) {
                    Some((_, partitions)) => partitions.push(partition),
                    None => topics.push((name, vec![partition])),
                }
            }
        }
    }
    let encode = |(member, assigned_partitions): (&str, Vec<(&str, Vec<i32>)>)| {
        let mut out = Vec::with_capacity(48);
        Assignment { version: 1, assigned_partitions, user_data: None }.encode(&mut out);
        (member.into(), out)
    };
    given.into_iter().map(encode).collect()
}
