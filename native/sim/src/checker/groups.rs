//! Groups: who is a member of which generation, and owns what.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use kcoord_core::consumer_protocol::Assignment;
use kcoord_core::record::GroupMetadataValue;
use kcoord_core::response::{JoinGroupResponse, LeaveGroupResponse, SyncGroupResponse};
use kcoord_core::{ErrorCode, Shard};

use super::Now;
use crate::ask::{Ask, Body, short};
use crate::breaks::{Check, Invariant, check};
use crate::disk::Log;
use crate::plan::GROUPS;

/// Records of a group that are kept: more than can be on their way to the disk.
const RECORDS_KEPT: usize = 64;

/// A record of a group; a tombstone has no generation.
struct Written {
    log_offset: i64,
    generation_id: Option<i32>,
    timestamp_ms: i64,
    /// Ids, and what each was assigned.
    members: Vec<(Rc<str>, Vec<u8>)>,
}

struct Member {
    instance_id: Option<Rc<str>>,
    /// What its session may last until it is heard again: a static member that comes back goes on
    /// with the session of the one before.
    session_timeout_ms: i64,
    own_timeout_ms: i64,
    /// When something last restarted its session, by the node's clock.
    heard_ms: i64,
}

/// Who owns a partition in a generation: a static member may have come back under another id.
type Owner = (Rc<str>, Option<&'static str>);

#[derive(Default)]
pub struct GroupModel {
    /// The newest that was sent to a client, or that is in the log.
    pub generation_id: i32,
    /// The newest that was sent to a client: answers may wait for the disk while the group goes on.
    told_generation_id: i32,
    /// One more with each tombstone.
    pub incarnation: u32,
    written: VecDeque<Written>,
    members: BTreeMap<Rc<str>, Member>,
    /// Topic and partition to owner, of the generation that was last synced.
    owners: BTreeMap<(String, i32), Owner>,
    owned_generation_id: i32,
}

impl GroupModel {
    fn last(&self) -> Option<&Written> {
        self.written.back().filter(|written| written.generation_id.is_some())
    }

    /// Of its last record, if that is no tombstone.
    pub fn last_generation_id(&self) -> Option<i32> {
        self.last().and_then(|last| last.generation_id)
    }

    /// Since when the group has no members, if it has none. A group that only holds offsets, or
    /// never had a type, counts from its commits.
    pub fn empty_since_ms(&self) -> Option<i64> {
        self.last().filter(|last| last.members.is_empty()).map(|last| last.timestamp_ms)
    }

    pub fn written(
        &mut self,
        group: usize,
        log_offset: i64,
        value: &GroupMetadataValue<'_>,
        now: &Now<'_>,
    ) -> Check {
        let last = self.last().and_then(|last| last.generation_id);
        check(last.is_none_or(|last| last <= value.generation), Invariant::Generation, || {
            let next = value.generation;
            format!("{} goes from generation {last:?} to {next} in the log", GROUPS[group])
        })?;
        let mut owners = BTreeMap::new();
        for member in &value.members {
            for (topic, partition) in partitions(member.assignment) {
                let before = owners.insert((topic, partition), member.member_id);
                check(before.is_none(), Invariant::OneOwner, || {
                    format!(
                        "{}, generation {}: partition {partition} is given to {} and to {}",
                        GROUPS[group],
                        value.generation,
                        before.map(short).unwrap_or_default(),
                        short(member.member_id)
                    )
                })?;
            }
        }
        let assigned = value.members.iter().map(|m| (Rc::from(m.member_id), m.assignment.to_vec()));
        self.written.push_back(Written {
            log_offset,
            generation_id: Some(value.generation),
            timestamp_ms: value.current_state_timestamp,
            members: assigned.collect(),
        });
        if self.written.len() > RECORDS_KEPT {
            self.written.pop_front();
        }
        for member in &value.members {
            self.heard(member.member_id, member.group_instance_id, member.session_timeout, now);
        }
        self.members.retain(|id, _| value.members.iter().any(|member| *member.member_id == **id));
        self.generation_id = self.generation_id.max(value.generation);
        Ok(())
    }

    fn heard(&mut self, id: &str, instance_id: Option<&str>, timeout_ms: i32, now: &Now<'_>) {
        let own_timeout_ms = i64::from(timeout_ms);
        let replaced = self.members.values().filter(|of| of.instance_id.as_deref() == instance_id);
        let before_ms = replaced.map(|of| of.session_timeout_ms).max();
        let before_ms = before_ms.filter(|_| instance_id.is_some()).unwrap_or(0);
        let member = Member {
            instance_id: instance_id.map(Rc::from),
            session_timeout_ms: own_timeout_ms.max(before_ms),
            own_timeout_ms,
            heard_ms: now.node_ms,
        };
        self.members.insert(id.into(), member);
    }

    pub fn tombstone(
        &mut self,
        group: usize,
        log_offset: i64,
        is_asked: bool,
        now: &Now<'_>,
    ) -> Check {
        let is_empty = self.last().is_none_or(|last| last.members.is_empty());
        check(is_empty || is_asked, Invariant::Member, || {
            let members = self.last().map_or(0, |last| last.members.len());
            format!("{} goes by itself, with {members} members", GROUPS[group])
        })?;
        self.tombstone_of_kind(log_offset, now);
        Ok(())
    }

    /// The classic group is gone. Whether anything comes in its place is not said.
    pub fn tombstone_of_kind(&mut self, log_offset: i64, now: &Now<'_>) {
        let timestamp_ms = now.node_ms;
        let members = Vec::new();
        let generation_id = None;
        self.written.push_back(Written { log_offset, generation_id, timestamp_ms, members });
        self.begin_anew();
    }

    /// The next group of this id has nothing to do with what was before.
    fn begin_anew(&mut self) {
        self.members.clear();
        self.owners.clear();
        self.owned_generation_id = 0;
        self.generation_id = 0;
        self.told_generation_id = 0;
        self.incarnation += 1;
    }

    /// Its last record has members.
    pub fn has_members(&self) -> bool {
        self.last().is_some_and(|last| !last.members.is_empty())
    }

    pub fn joined(&mut self, ask: &Ask, joined: &JoinGroupResponse, now: &Now<'_>) -> Check {
        self.contact(ask, joined.error_code, now);
        if joined.error_code != ErrorCode::None {
            return Ok(());
        }
        let told = joined.generation_id;
        check(told >= self.told_generation_id, Invariant::Generation, || {
            let known = self.told_generation_id;
            format!("{known} was told, and now {ask} is told {told}")
        })?;
        self.told_generation_id = told;
        if told < self.generation_id {
            return Ok(());
        }
        if told > self.generation_id {
            // A generation starts the sessions of all of its members anew.
            self.members.values_mut().for_each(|member| member.heard_ms = now.node_ms);
        }
        self.generation_id = told;
        let timeout_ms = match ask.body {
            Body::Join { session_timeout_ms, .. } => session_timeout_ms,
            _ => unreachable!("no join: {ask}"),
        };
        self.heard(&joined.member_id, ask.instance_id, timeout_ms, now);
        self.fence(&joined.member_id, ask.instance_id);
        Ok(())
    }

    /// An instance id has one member: all others of it are no members any more.
    fn fence(&mut self, member_id: &str, instance_id: Option<&str>) {
        if instance_id.is_some() {
            self.members
                .retain(|id, of| **id == *member_id || of.instance_id.as_deref() != instance_id);
        }
    }

    pub fn synced(
        &mut self,
        ask: &Ask,
        synced: &SyncGroupResponse,
        log: &Log,
        now: &Now<'_>,
    ) -> Check {
        self.contact(ask, synced.error_code, now);
        if synced.error_code != ErrorCode::None {
            return Ok(());
        }
        let is_of_record = |written: &&Written| {
            written.generation_id == Some(ask.generation_id)
                && written.members.iter().any(|(id, assignment)| {
                    **id == *ask.member_id && **assignment == *synced.assignment
                })
        };
        let found = self.written.iter().find(is_of_record);
        check(found.is_some(), Invariant::Durable, || {
            format!("{} {ask}: no record has the assignment that it got", GROUPS[ask.group])
        })?;
        let log_offset = found.map_or(0, |written| written.log_offset);
        check(log_offset < log.synced_end(), Invariant::Durable, || {
            let end = log.synced_end();
            format!(
                "{ask}: answered; its record has offset {log_offset}, and the log is durable below \
                 {end}"
            )
        })
    }

    /// A member's partitions were given to no other member in the same generation.
    pub fn own(&mut self, ask: &Ask, synced: &SyncGroupResponse) -> Check {
        if ask.generation_id > self.owned_generation_id {
            self.owners.clear();
            self.owned_generation_id = ask.generation_id;
        } else if ask.generation_id < self.owned_generation_id {
            return Ok(());
        }
        for key in partitions(&synced.assignment) {
            let owner = (ask.member_id.clone(), ask.instance_id);
            let partition = key.1;
            let Some((before, instance_id)) = self.owners.insert(key, owner) else { continue };
            let is_same = before == ask.member_id
                || (instance_id.is_some() && instance_id == ask.instance_id);
            check(is_same, Invariant::OneOwner, || {
                format!(
                    "{}, generation {}: partition {partition} was given to {}, now to {}",
                    GROUPS[ask.group],
                    ask.generation_id,
                    short(&before),
                    short(&ask.member_id)
                )
            })?;
        }
        Ok(())
    }

    pub fn heartbeat(
        &mut self,
        ask: &Ask,
        code: ErrorCode,
        by_member: bool,
        now: &Now<'_>,
    ) -> Check {
        if code == ErrorCode::None && !by_member {
            self.check_member(ask, now)?;
        }
        self.contact(ask, code, now);
        Ok(())
    }

    pub fn has_member(&self, member_id: &str) -> bool {
        self.members.contains_key(member_id)
    }

    /// The node took a client for a member: then it is of this generation, not fenced, and not
    /// silent for longer than its session.
    pub fn check_member(&self, ask: &Ask, now: &Now<'_>) -> Check {
        let member = self.members.get(&ask.member_id);
        check(member.is_some(), Invariant::Member, || {
            let members: Vec<&str> = self.members.keys().map(|id| short(id)).collect();
            format!("{ask} succeeds; the members are {members:?}")
        })?;
        let member = member.expect("just looked at");
        let silent_ms = now.node_ms - member.heard_ms;
        check(silent_ms <= member.session_timeout_ms, Invariant::Member, || {
            let timeout_ms = member.session_timeout_ms;
            format!(
                "{ask} succeeds after {silent_ms} ms of silence: its session is {timeout_ms} ms"
            )
        })?;
        check(ask.generation_id >= self.generation_id, Invariant::Member, || {
            format!("{ask} succeeds, and the group is in generation {}", self.generation_id)
        })
    }

    /// An answer that renews a session.
    pub fn contact(&mut self, ask: &Ask, code: ErrorCode, now: &Now<'_>) {
        if matches!(code, ErrorCode::None | ErrorCode::RebalanceInProgress)
            && let Some(member) = self.members.get_mut(&ask.member_id)
        {
            member.heard_ms = now.node_ms;
            if matches!(ask.body, Body::Heartbeat | Body::Commit { .. }) {
                member.session_timeout_ms = member.own_timeout_ms;
            }
        }
    }

    pub fn left(&mut self, ask: &Ask, left: &LeaveGroupResponse) {
        let refused = left.members.iter().any(|member| member.error_code.is_error());
        if left.error_code.is_error() || refused {
            return;
        }
        // Below v3 the request carries no instance id.
        let instance_id = ask.instance_id.filter(|_| ask.version >= 3);
        if ask.member_id.is_empty() && instance_id.is_some() {
            self.members.retain(|_, of| of.instance_id.as_deref() != instance_id);
        }
        self.members.remove(&ask.member_id);
    }

    pub fn deleted(&self, group: usize, code: ErrorCode, log: &Log) -> Check {
        if code != ErrorCode::None {
            return Ok(());
        }
        let mut written = self.written.iter();
        let is_durable =
            written.any(|one| one.generation_id.is_none() && one.log_offset < log.synced_end());
        check(is_durable, Invariant::Durable, || {
            format!("{} is said to be deleted, and no tombstone is durable", GROUPS[group])
        })
    }

    /// The shard was loaded: the log is the truth, and sessions start anew.
    pub fn reloaded(
        &mut self,
        group: usize,
        next_offset: i64,
        loaded: &Shard,
        now: &Now<'_>,
    ) -> Check {
        self.written.retain(|written| written.log_offset < next_offset);
        let view = loaded.group(GROUPS[group]);
        let found = view.as_ref().filter(|view| view.current_state_timestamp_ms != -1);
        let last = self.last();
        check(last.is_some() == found.is_some(), Invariant::Replay, || {
            let is_there = if found.is_some() { "is there" } else { "is not there" };
            format!("{} {is_there} after a load, and its log says otherwise", GROUPS[group])
        })?;
        self.members.clear();
        let Some(view) = found else {
            (self.generation_id, self.told_generation_id) = (0, 0);
            self.owners.clear();
            self.owned_generation_id = 0;
            return Ok(());
        };
        let generation_id = self.last().and_then(|last| last.generation_id).unwrap_or(0);
        check(view.generation_id == generation_id, Invariant::Generation, || {
            let found = view.generation_id;
            format!("{} is loaded in generation {found}, and was in {generation_id}", GROUPS[group])
        })?;
        (self.generation_id, self.told_generation_id) = (generation_id, generation_id);
        for member in &view.members {
            let instance_id = member.group_instance_id.as_deref();
            self.heard(&member.member_id, instance_id, member.session_timeout_ms, now);
        }
        Ok(())
    }
}

pub fn partitions(assignment: &[u8]) -> Vec<(String, i32)> {
    let Ok(decoded) = Assignment::decode(assignment) else { return Vec::new() };
    let topics = decoded.assigned_partitions.into_iter();
    topics.flat_map(|(topic, of)| of.into_iter().map(move |p| (topic.to_owned(), p))).collect()
}
