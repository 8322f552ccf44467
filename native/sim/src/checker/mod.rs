//! What must hold, by a model of its own that is much simpler than what it checks: it gets
//! what the node was asked, what it appended, what is durable and what it answered, in that order,
//! and reports what is wrong. It never looks into the node to learn what to expect of it.

mod groups;
mod mixed;
pub mod native;
mod offsets;
pub mod replay;
mod transactions;

use std::rc::Rc;

use kcoord_core::ErrorCode;
use kcoord_core::outbox::Append;
use kcoord_core::record::batch::{BatchHeader, Batches};
use kcoord_core::record::{GroupMetadataValue, OffsetCommitValue, RecordKey, TransactionResult};
use kcoord_node::routing::shard_of;
use kcoord_wire::api::ResponseBody;

use crate::ask::{Ask, Body};
use crate::breaks::{Check, Invariant, check};
use crate::catalogue::{Catalogue, Topic};
use crate::disk::Log;
use crate::plan::{GROUPS, Plan, TOPICS};
use crate::tickets::Tickets;
use groups::GroupModel;
use mixed::Kind;
use native::NativeModel;
use offsets::{Cell, Expected, Key};
use transactions::Transactions;

pub struct Checker {
    /// By group.
    shards: [usize; GROUPS.len()],
    retention_ms: i64,
    /// By group: whether the coordinator assigns it.
    coordinated: [bool; GROUPS.len()],
    /// By topic: how many there are now.
    partitions: [i32; TOPICS.len()],
    /// And when the last turn ended: what its timers do, a turn does before it hears of topics.
    known_partitions: [i32; TOPICS.len()],
    groups: Vec<GroupModel>,
    /// By group, those of the consumer protocol.
    pub natives: Vec<NativeModel>,
    /// By group, topic and partition.
    cells: Vec<Cell>,
    /// By shard.
    transactions: Vec<Transactions>,
    /// Next offset of each shard's log when the turn began.
    turn_start: Vec<i64>,
    /// What was asked in this turn.
    asked: Vec<(u64, Rc<Ask>)>,
    /// What the answers that are owed are held against.
    owed: Tickets<Owed>,
    /// Topics that were deleted, and of which a shard has not heard.
    deleted_topics: Vec<[bool; TOPICS.len()]>,
    /// Offsets that went because their time was over, and groups that went: for the summary.
    pub offsets_expired: u64,
    pub groups_deleted: u64,
    /// Assignments of the coordinator.
    pub assigned: u64,
    /// Groups with members that became consumer groups, and those that became classic groups.
    pub upgraded: u64,
    pub downgraded: u64,
    /// Memory of the framing of appends, reused.
    scratch: Vec<u8>,
}

/// What was known of a request in the turn in which it was decided.
#[derive(Default)]
struct Owed {
    /// What the answer to a fetch may be.
    expected: Vec<Expected>,
    /// Partitions that a transaction holds all through the turn.
    unstable: Vec<Key>,
    /// Its member was one.
    by_member: bool,
    /// Partitions of a deletion that had no offset to delete.
    absent: Vec<i32>,
    /// Which of the groups of one id, created one after the other, a join or sync meant.
    meant: Option<u32>,
    /// That was a consumer group.
    meant_consumer_group: bool,
}

/// Where the node stands, for what is checked.
pub struct Now<'a> {
    /// The node's clock.
    pub node_ms: i64,
    pub logs: &'a [Log],
    /// Shards that serve.
    pub is_active: &'a [bool],
}

impl Checker {
    pub fn new(plan: &Plan) -> Checker {
        Checker {
            shards: GROUPS.map(|group| shard_of(group, plan.shards)),
            retention_ms: plan.config.offsets_retention_ms,
            coordinated: GROUPS.map(|id| plan.config.assignment.strategy_of(id).is_some()),
            partitions: [0; TOPICS.len()],
            known_partitions: [0; TOPICS.len()],
            groups: GROUPS.iter().map(|_| GroupModel::default()).collect(),
            natives: GROUPS.iter().map(|_| NativeModel::default()).collect(),
            cells: vec![Cell::default(); GROUPS.len() * offsets::CELLS],
            transactions: vec![Transactions::default(); plan.shards],
            turn_start: vec![0; plan.shards],
            asked: Vec::new(),
            owed: Tickets::default(),
            deleted_topics: vec![[false; TOPICS.len()]; plan.shards],
            offsets_expired: 0,
            groups_deleted: 0,
            assigned: 0,
            upgraded: 0,
            downgraded: 0,
            scratch: Vec::new(),
        }
    }

    pub fn shard_of(&self, group: usize) -> usize {
        self.shards[group]
    }

    /// Whether the coordinator assigns this group.
    pub fn is_coordinated(&self, group: usize) -> bool {
        self.coordinated[group]
    }

    pub fn topics_are(&mut self, catalogue: &Catalogue) {
        let partitions = |topic: Option<Topic>| topic.map_or(0, |it| it.partitions);
        self.partitions = catalogue.topics.map(partitions);
    }

    pub fn topic_deleted(&mut self, topic: usize) {
        self.deleted_topics.iter_mut().for_each(|of_shard| of_shard[topic] = true);
    }

    pub fn begin_turn(&mut self, now: &Now<'_>) {
        for (start, log) in self.turn_start.iter_mut().zip(now.logs) {
            *start = log.written_end();
        }
        self.asked.clear();
    }

    pub fn asked(&mut self, ticket: u64, ask: &Rc<Ask>, now: &Now<'_>) {
        self.note_member(ticket, ask, now);
        if matches!(ask.body, Body::Join { .. } | Body::Sync { .. }) {
            let owed = self.owed.entry(ticket);
            owed.meant = Some(self.groups[ask.group].incarnation);
            owed.meant_consumer_group = self.natives[ask.group].is_there();
        }
        if let Body::DeleteOffsets(named) = &ask.body {
            self.owed.entry(ticket).absent = self.absent_offsets(ask.group, named);
        }
        let shard = self.shards[ask.group];
        self.transactions[shard].asked(ask);
        self.asked.push((ticket, Rc::clone(ask)));
    }

    /// Who asks may be a member before its turn, or from then on: the answer may come long after,
    /// and what the turn writes may come first.
    fn note_member(&mut self, ticket: u64, ask: &Ask, now: &Now<'_>) {
        let (group, native) = (&self.groups[ask.group], &self.natives[ask.group]);
        let is_member = match ask.body {
            Body::Commit { .. } => {
                group.has_member(&ask.member_id) || native.has_member(&ask.member_id)
            }
            Body::Heartbeat => {
                group.check_member(ask, now).is_ok()
                    || native.has_member_at(&ask.member_id, ask.generation_id)
            }
            _ => false,
        };
        if is_member {
            self.owed.entry(ticket).by_member = true;
        }
    }

    /// Records that the node wants written: what they say is the state from now on.
    pub fn appended(&mut self, shard: usize, append: &Append, now: &Now<'_>) -> Check {
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        BatchHeader::of(append).encode(&append.records, &mut bytes);
        let checked = self.read_batch(shard, &bytes, now);
        self.scratch = bytes;
        checked
    }

    fn read_batch(&mut self, shard: usize, bytes: &[u8], now: &Now<'_>) -> Check {
        let broken = |what: &str| format!("the shard appends {what}");
        let made = mixed::made(bytes)?;
        self.natives.iter_mut().for_each(NativeModel::begin_batch);
        for batch in Batches::new(bytes) {
            let batch = batch.map_err(|error| unreadable(&error.to_string()))?;
            for record in batch.records() {
                let record = record.map_err(|error| unreadable(&error.to_string()))?;
                let producer_id = batch.header.producer_id;
                if batch.header.attributes.is_control() {
                    let result = TransactionResult::parse_key(record.key.unwrap_or_default());
                    let result = result.map_err(|error| unreadable(&error.to_string()))?;
                    let commits = result == Some(TransactionResult::Commit);
                    self.marker_written(shard, producer_id, record.offset, commits);
                    continue;
                }
                let key = RecordKey::parse(record.key.unwrap_or_default());
                match key.map_err(|error| unreadable(&error.to_string()))? {
                    RecordKey::OffsetCommit(key) => {
                        let value = record.value.map(OffsetCommitValue::parse).transpose();
                        let value = value.map_err(|error| unreadable(&error.to_string()))?;
                        let cell = (number(&GROUPS, key.group), number(&TOPICS, key.topic));
                        let at = (cell.0, cell.1, key.partition);
                        match &value {
                            Some(value) if producer_id >= 0 => {
                                self.pending_written(shard, at, record.offset, value, producer_id)?;
                            }
                            value => {
                                let value = value.as_ref();
                                self.offset_written(shard, at, record.offset, value, now)?;
                            }
                        }
                    }
                    RecordKey::GroupMetadata(key) => {
                        let group = number(&GROUPS, key.group);
                        let value = record.value.map(GroupMetadataValue::parse).transpose();
                        match value.map_err(|error| unreadable(&error.to_string()))? {
                            Some(value) => {
                                self.check_assignment(group, &value)?;
                                self.check_downgrade(group, &value)?;
                                self.groups[group].written(group, record.offset, &value, now)?;
                            }
                            None if made.contains(&(group, Kind::Consumer)) => {
                                self.upgraded(group, record.offset, now);
                            }
                            None => self.group_deleted(group, record.offset, now)?,
                        }
                    }
                    RecordKey::ConsumerGroup(key) => {
                        let group = number(&GROUPS, key.group_id);
                        if !self.natives[group].written(group, &key, record.value)? {
                            continue;
                        }
                        if made.contains(&(group, Kind::Classic)) {
                            self.groups[group].tombstone_of_kind(record.offset, now);
                        } else {
                            self.group_deleted(group, record.offset, now)?;
                        }
                    }
                    other => return Err(unreadable(&broken(&format!("{other:?}")))),
                }
            }
        }
        Ok(())
    }

    /// What the coordinator gives to the members of a new generation exists when it does so.
    fn check_assignment(&mut self, group: usize, value: &GroupMetadataValue<'_>) -> Check {
        let is_new = self.groups[group].last_generation_id() != Some(value.generation);
        if !self.coordinated[group] || !is_new || value.members.is_empty() {
            return Ok(());
        }
        self.assigned += 1;
        for member in &value.members {
            for (topic, partition) in groups::partitions(member.assignment) {
                let at = number(&TOPICS, &topic);
                let count = self.partitions[at].max(self.known_partitions[at]);
                check((0..count).contains(&partition), Invariant::Exists, || {
                    format!(
                        "{}, generation {}: {topic}-{partition} is assigned, and {topic} has \
                         {count} partitions",
                        GROUPS[group], value.generation
                    )
                })?;
            }
        }
        Ok(())
    }

    /// All that was asked in this turn was decided: what may be answered later is known now.
    pub fn end_turn(&mut self, now: &Now<'_>) {
        let asked = std::mem::take(&mut self.asked);
        for (ticket, ask) in &asked {
            if let Body::Fetch { topics, .. } = &ask.body {
                let expected = self.expect_fetch(ask, topics.as_deref());
                let shards = ask.groups().into_iter().map(|group| self.shards[group]);
                let unstable = shards
                    .flat_map(|shard| self.transactions[shard].open_before(self.turn_start[shard]));
                let unstable = unstable.collect();
                let owed = self.owed.entry(*ticket);
                (owed.expected, owed.unstable) = (expected, unstable);
            }
            self.note_member(*ticket, ask, now);
        }
        self.asked = asked;
        self.known_partitions = self.partitions;
        for (shard, deleted) in self.deleted_topics.iter_mut().enumerate() {
            if now.is_active[shard] {
                *deleted = Default::default();
            }
        }
    }

    pub fn answered(
        &mut self,
        ticket: u64,
        ask: &Ask,
        answer: &ResponseBody,
        now: &Now<'_>,
    ) -> Check {
        let Owed { expected, unstable, by_member, absent, meant, meant_consumer_group } =
            self.owed.remove(ticket).unwrap_or_default();
        let shard = self.shard_of(ask.group);
        let log = &now.logs[shard];
        let group = &mut self.groups[ask.group];
        // Else the answer is of a group that was deleted meanwhile, and may have been made anew.
        let is_meant = meant == Some(group.incarnation);
        let native = &mut self.natives[ask.group];
        match answer {
            ResponseBody::JoinGroup(joined) if is_meant && meant_consumer_group => {
                native.joined(ask, joined)
            }
            // Whether it was answered before the group became another or after it is not known.
            ResponseBody::SyncGroup(_) if meant_consumer_group || native.is_there() => Ok(()),
            ResponseBody::JoinGroup(joined) if is_meant => group.joined(ask, joined, now),
            ResponseBody::JoinGroup(_) => Ok(()),
            ResponseBody::SyncGroup(synced) => {
                group.synced(ask, synced, log, now)?;
                if is_meant { group.own(ask, synced) } else { Ok(()) }
            }
            ResponseBody::ConsumerGroupHeartbeat(Ok(beaten)) => {
                native.told(ask, beaten)?;
                native.tell_epoch(ask, beaten.member_epoch)
            }
            // While its shard loads, a member's heartbeat is always welcome, as in Kafka.
            ResponseBody::Heartbeat(_) if !now.is_active[shard] => Ok(()),
            ResponseBody::Heartbeat(code) => group.heartbeat(ask, *code, by_member, now),
            ResponseBody::LeaveGroup(left) => {
                group.left(ask, left);
                Ok(())
            }
            ResponseBody::OffsetCommit(committed) => self.committed(ask, committed, by_member, now),
            ResponseBody::TxnOffsetCommit(answer) => {
                self.committed_in_transaction(ask, answer, now)
            }
            ResponseBody::WriteTxnMarkers(written) => self.transaction_ended(ask, written, now),
            ResponseBody::OffsetFetch(groups) => {
                self.fetched_stable(ask, groups, &unstable)?;
                self.fetched(ask, groups, &expected, now)
            }
            ResponseBody::OffsetDelete(deleted) => self.offsets_deleted(ask, deleted, &absent, now),
            ResponseBody::DeleteGroups(deleted) => {
                for (name, code) in &deleted.results {
                    let group = number(&GROUPS, name);
                    let log = &now.logs[self.shard_of(group)];
                    self.groups[group].deleted(group, *code, log)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The client waits for this no more. A commit that waits for the disk has restarted a session.
    pub fn abandoned(&mut self, ticket: u64, ask: &Ask, now: &Now<'_>) {
        let owed = self.owed.remove(ticket).unwrap_or_default();
        if owed.by_member && matches!(ask.body, Body::Commit { .. }) {
            self.groups[ask.group].contact(ask, ErrorCode::None, now);
        }
    }

    /// A group goes: with its offsets, and for a reason.
    fn group_deleted(&mut self, group: usize, offset: i64, now: &Now<'_>) -> Check {
        let left = self.cells_of(group).find(|(_, cell)| cell.value().is_some());
        check(left.is_none(), Invariant::Acknowledged, || {
            let (key, cell) = left.expect("just looked at");
            format!("{} is deleted, but not its offset {key:?}: {:?}", GROUPS[group], cell.value())
        })?;
        let is_asked = self.asked.iter().any(|(_, ask)| match &ask.body {
            Body::DeleteGroups(groups) => groups.contains(&group),
            _ => false,
        });
        self.groups_deleted += 1;
        self.groups[group].tombstone(group, offset, is_asked, now)
    }

    /// A shard was loaded again: what it has is what its log said, and nothing acknowledged is
    /// missing.
    pub fn reloaded(
        &mut self,
        shard: usize,
        next_offset: i64,
        loaded: &kcoord_core::Shard,
        now: &Now<'_>,
    ) -> Check {
        for group in 0..GROUPS.len() {
            if self.shards[group] != shard {
                continue;
            }
            self.groups[group].reloaded(group, next_offset, loaded, now)?;
            self.natives[group].reloaded(group, loaded)?;
            self.offsets_reloaded(group, next_offset, loaded)?;
        }
        self.transactions_reloaded(shard, next_offset, loaded)
    }

    /// All requests in flight are lost with the node.
    pub fn crashed(&mut self) {
        self.owed.clear();
        self.asked.clear();
        // A new process has the catalogue as it is, and hears of no topic that is gone.
        self.deleted_topics.iter_mut().for_each(|of_shard| *of_shard = Default::default());
    }

    /// The generation that a group is in, as clients have seen it.
    pub fn generation(&self, group: usize) -> i32 {
        self.groups[group].generation_id
    }
}

fn unreadable(what: &str) -> crate::breaks::Violation {
    let message = format!("a shard appends what cannot be read: {what}");
    crate::breaks::Violation { invariant: Invariant::Replay, message }
}

fn number(names: &[&str], name: &str) -> usize {
    names.iter().position(|known| *known == name).expect("nobody asks for other names")
}
