//! A shard and its host: a clock, a log, connections, and the names that a scenario gives members.

use std::collections::BTreeMap;

use kcoord_core::record::batch::{Attributes, BatchHeader};
use kcoord_core::record::writer::write_record;
use kcoord_core::record::{OffsetCommitKey, OffsetCommitValue, TransactionResult};
use kcoord_core::request::*;
use kcoord_core::response::Response;
use kcoord_core::views::GroupView;
use kcoord_core::{Config, Shard};

use crate::command::Command;
use crate::script::Scenario;
use crate::trace::{self, Names};

#[derive(Clone, Copy, PartialEq)]
pub enum Restarts {
    Never,
    /// After each commit, where no soft state would be lost.
    WhereNobodyNotices,
}

/// Everything durable, to be compared.
#[derive(Debug, PartialEq)]
pub struct Durable {
    groups: Vec<GroupView>,
    offsets: BTreeMap<Box<str>, Vec<String>>,
}

pub struct World {
    title: String,
    config: Config,
    shard: Shard,
    now_ms: i64,
    log: Vec<u8>,
    next_offset: i64,
    /// Appended and not committed yet: the log grows, its committed part does not.
    is_held: bool,
    restarts: Restarts,
    tickets: u64,
    waiting: BTreeMap<Ticket, (String, &'static str)>,
    names: Names,
    generations: BTreeMap<String, i32>,
    trace: String,
}

impl World {
    pub fn new(scenario: &Scenario, restarts: Restarts) -> Self {
        let mut world = World {
            title: scenario.title.clone(),
            config: Config::default(),
            shard: Shard::new(Config::default()),
            now_ms: 0,
            log: Vec::new(),
            next_offset: 0,
            is_held: false,
            restarts,
            tickets: 0,
            waiting: BTreeMap::new(),
            names: Names::default(),
            generations: BTreeMap::new(),
            trace: String::new(),
        };
        for line in &scenario.config {
            world.configure(&Command::parse(line));
        }
        world.restart();
        world
    }

    pub fn take_trace(&mut self) -> String {
        let wake = match self.shard.poll_timeout() {
            Some(time_ms) => format!("wake {time_ms}\n"),
            None => String::new(),
        };
        std::mem::take(&mut self.trace) + &wake
    }

    pub fn run(&mut self, line: &str) {
        let command = Command::parse(line);
        match command.verb {
            "sleep" => self.sleep(command.words[0].parse().unwrap()),
            "hold" => self.is_held = true,
            "commit" => self.is_held = false,
            "restart" => self.restart(),
            "abandon" => self.abandon(command.words[0]),
            "drop" => self.drop_shard(),
            "LogOffset" => self.log_offset(&command),
            "LogMarker" => self.log_marker(&command),
            _ => self.request(&command),
        }
        command.done();
        self.settle();
    }

    fn configure(&mut self, command: &Command<'_>) {
        if command.words == ["no-restarts"] {
            self.restarts = Restarts::Never;
        }
        for (key, _) in command.pairs() {
            let config = &mut self.config;
            match *key {
                "initial_delay" => {
                    config.group_initial_rebalance_delay_ms = command.number(key, 0);
                }
                "max_size" => config.group_max_size = command.number(key, 0),
                "retention" => config.offsets_retention_ms = command.number(key, 0),
                "check_interval" => {
                    config.offsets_retention_check_interval_ms = command.number(key, 0);
                }
                "min_session" => config.group_min_session_timeout_ms = command.number(key, 0),
                "metadata_max" => config.offset_metadata_max_bytes = command.number(key, 0),
                _ => panic!("config knows no {key}"),
            }
        }
    }

    /// Time passes; the shard is woken whenever it asked to be.
    fn sleep(&mut self, duration_ms: i64) {
        let end_ms = self.now_ms + duration_ms;
        while let Some(wake_ms) = self.shard.poll_timeout().filter(|wake_ms| *wake_ms <= end_ms) {
            self.now_ms = wake_ms.max(self.now_ms);
            self.shard.handle_timeout(self.now_ms);
            let before = self.trace.len();
            self.settle();
            if self.trace.len() > before {
                self.trace.insert_str(before, &format!("at {}\n", self.now_ms));
            }
        }
        self.now_ms = end_ms;
    }

    fn abandon(&mut self, name: &str) {
        let ticket = *self.waiting.iter().find(|(_, (who, _))| who == name).expect("waits").0;
        self.waiting.remove(&ticket);
        self.shard.abandon(ticket);
    }

    fn drop_shard(&mut self) {
        let dropped = self.shard.drop_parked();
        assert_eq!(dropped.len(), self.waiting.len(), "{}: who waits is told", self.title);
        self.answered(dropped);
        self.restart();
    }

    fn restart(&mut self) {
        self.waiting.clear();
        self.shard = self.load();
    }

    fn load(&self) -> Shard {
        let mut shard = Shard::new(self.config.clone());
        shard.replay(&self.log).unwrap_or_else(|error| panic!("{}: {error}", self.title));
        shard.loaded(self.now_ms, self.next_offset);
        shard
    }

    /// Takes out what the shard has, until it has nothing more.
    fn settle(&mut self) {
        self.drain_responses();
        if self.is_held {
            return;
        }
        if let Some(append) = self.shard.poll_append() {
            let header = header(append.base_offset, append.record_count, append.base_timestamp, -1);
            let header = BatchHeader { max_timestamp: append.max_timestamp, ..header };
            let start = self.log.len();
            header.encode(&append.records, &mut self.log);
            self.trace.push_str(&trace::records(&self.log[start..], &self.names));
            self.next_offset = append.end_offset();
            self.shard.handle_committed(self.now_ms, self.next_offset);
            self.drain_responses();
            self.check_replay();
            if self.restarts == Restarts::WhereNobodyNotices && self.is_at_rest() {
                self.shard = self.load();
            }
        }
    }

    fn drain_responses(&mut self) {
        let shard = &mut self.shard;
        let responses: Vec<_> = std::iter::from_fn(|| shard.poll_response()).collect();
        self.answered(responses);
    }

    /// Names first: a response may name a member whose own answer comes after it.
    fn answered(&mut self, responses: Vec<(Ticket, Response)>) {
        for (ticket, response) in &responses {
            let Response::JoinGroup(joined) = response else { continue };
            let name = &self.waiting[ticket].0;
            if !joined.member_id.is_empty() {
                self.names.learn(name, &joined.member_id);
            }
            if joined.generation_id >= 0 {
                self.generations.insert(name.clone(), joined.generation_id);
            }
        }
        for (ticket, response) in responses {
            let (name, api) = self.waiting.remove(&ticket).expect("one answer for each request");
            let text = trace::response(&response, &self.names);
            self.trace.push_str(&format!("{name} {api}: {text}\n"));
        }
    }

    /// Nobody waits, no group is in a rebalance, no id was handed out.
    fn is_at_rest(&self) -> bool {
        let members: usize = self.shard.groups().map(|group| group.members.len()).sum();
        self.waiting.is_empty()
            && members == self.shard.member_count()
            && self.shard.groups().all(|group| is_durable(&group) || has_no_record(&group))
            && !self
                .shard
                .groups()
                .any(|group| has_no_record(&group) && self.offsets_of(&group).is_empty())
    }

    /// A shard that replays the log has the same groups and offsets.
    fn check_replay(&self) {
        let loaded = self.load();
        for group in self.shard.groups() {
            let title = &self.title;
            if is_durable(&group) && !has_no_record(&group) {
                let found = loaded.group(&group.group_id);
                assert_eq!(found.as_ref(), Some(&group), "{title}: after replay");
            }
            assert_eq!(
                offsets(&loaded, &group.group_id),
                self.offsets_of(&group),
                "{title}: offsets after replay"
            );
        }
        let ids = |shard: &Shard| -> Vec<Box<str>> {
            let there = shard.groups().filter(|group| {
                !has_no_record(group) || !offsets(shard, &group.group_id).is_empty()
            });
            there.map(|group| group.group_id).collect()
        };
        assert_eq!(ids(&loaded), ids(&self.shard), "{}: groups after replay", self.title);
    }

    pub fn durable(&self) -> Durable {
        let groups: Vec<GroupView> = self.shard.groups().collect();
        let offsets =
            groups.iter().map(|group| (group.group_id.clone(), self.offsets_of(group))).collect();
        // When a group reached its state may differ by what a restart delays.
        let timeless = |group| GroupView { current_state_timestamp_ms: 0, ..group };
        Durable { groups: groups.into_iter().map(timeless).collect(), offsets }
    }

    fn offsets_of(&self, group: &GroupView) -> Vec<String> {
        offsets(&self.shard, &group.group_id)
    }
}

/// Whether what is seen is what the group's last record says.
fn is_durable(group: &GroupView) -> bool {
    matches!(group.state, "Empty" | "Stable")
}

/// A group that only offsets made, or nothing that was written.
fn has_no_record(group: &GroupView) -> bool {
    group.state == "Empty"
        && group.protocol_type.is_empty()
        && group.current_state_timestamp_ms == -1
}

fn offsets(shard: &Shard, group_id: &str) -> Vec<String> {
    shard.offsets(group_id).map(|found| format!("{found:?}")).collect()
}

fn header(base_offset: i64, count: i32, timestamp: i64, producer_id: i64) -> BatchHeader {
    BatchHeader {
        base_offset,
        partition_leader_epoch: 0,
        crc: 0,
        attributes: Attributes(if producer_id < 0 { 0 } else { 1 << 4 }),
        last_offset_delta: count - 1,
        base_timestamp: timestamp,
        max_timestamp: timestamp,
        producer_id,
        producer_epoch: -1,
        base_sequence: 0,
        records_count: count,
    }
}

/// Records of transactions, which only another part of a broker would write.
impl World {
    /// `LogOffset producer=7 t1:0=5`: a transactional commit straight into the log.
    fn log_offset(&mut self, command: &Command<'_>) {
        let group = command.option("group").unwrap_or("g");
        let mut records = Vec::new();
        for (index, word) in command.words.iter().enumerate() {
            let (topic, partition, offset) = partition_and_offset(word);
            let (mut key, mut value) = (Vec::new(), Vec::new());
            OffsetCommitKey { group, topic, partition }.encode(1, &mut key);
            let commit = OffsetCommitValue {
                offset,
                leader_epoch: -1,
                metadata: "",
                commit_timestamp: self.now_ms,
                expire_timestamp: -1,
                topic_id: Uuid::ZERO,
            };
            commit.encode(4, &mut value);
            write_record(&mut records, 0, index as i32, &key, Some(&value));
        }
        self.append_to_log(command.words.len() as i32, command.number("producer", -1), 0, &records);
    }

    /// `LogMarker COMMIT producer=7`
    fn log_marker(&mut self, command: &Command<'_>) {
        let result = match command.words[0] {
            "COMMIT" => TransactionResult::Commit,
            _ => TransactionResult::Abort,
        };
        let (mut key, mut value, mut records) = (Vec::new(), Vec::new(), Vec::new());
        result.encode_key(&mut key);
        TransactionResult::encode_value(0, &mut value);
        write_record(&mut records, 0, 0, &key, Some(&value));
        self.append_to_log(1, command.number("producer", -1), 1 << 5, &records);
    }

    fn append_to_log(&mut self, count: i32, producer_id: i64, attributes: i16, records: &[u8]) {
        let header = header(self.next_offset, count, self.now_ms, producer_id);
        let attributes = Attributes(header.attributes.0 | attributes);
        BatchHeader { attributes, ..header }.encode(records, &mut self.log);
        self.next_offset += i64::from(count);
        self.restart();
    }
}

/// `t1:0=5`; without an offset it is 0.
fn partition_and_offset(word: &str) -> (&str, i32, i64) {
    let (partition, offset) = word.split_once('=').unwrap_or((word, "0"));
    let (topic, index) = partition.split_once(':').expect("topic:partition");
    (topic, index.parse().unwrap(), offset.parse().unwrap())
}

/// Requests, built from their words.
impl World {
    fn request(&mut self, command: &Command<'_>) {
        let name = match command.verb {
            "JoinGroup" | "SyncGroup" | "Heartbeat" => command.words[0],
            "OffsetCommit" if !command.words[0].contains(':') => command.words[0],
            _ => "admin",
        };
        self.tickets += 1;
        let client_id = command.option("client").unwrap_or(name);
        let context = RequestContext {
            ticket: self.tickets,
            api_version: command.number("v", 9),
            client_id,
            client_host: "/127.0.0.1",
            uuid: self.tickets.into(),
        };
        let member_id = match command.option("id") {
            Some(id) => self.names.resolve(id),
            None => self.names.current(name),
        };
        let instance_id = command.option("instance");
        let group_id = command.option("group").unwrap_or("g");
        let generation_id =
            command.number("generation", self.generations.get(name).copied().unwrap_or(-1));
        let (api, request) = match command.verb {
            "Heartbeat" => (
                "Heartbeat",
                Request::Heartbeat(HeartbeatRequest {
                    group_id,
                    generation_id,
                    member_id: &member_id,
                    group_instance_id: instance_id,
                }),
            ),
            "JoinGroup" => {
                let (bytes, names) = offered(command);
                let protocols = names.iter().zip(&bytes);
                let request = JoinGroupRequest {
                    group_id,
                    session_timeout_ms: command.number("session", 10_000),
                    rebalance_timeout_ms: command.number("rebalance", 60_000),
                    member_id: &member_id,
                    group_instance_id: instance_id,
                    protocol_type: command.option("type").unwrap_or("consumer"),
                    protocols: protocols
                        .map(|(name, metadata)| JoinGroupProtocol { name, metadata })
                        .collect(),
                    reason: None,
                };
                return self.send(name, "JoinGroup", &context, &Request::JoinGroup(request));
            }
            "SyncGroup" => {
                let given = command.option("assign").unwrap_or_default();
                let given: Vec<(String, &str)> = given
                    .split(',')
                    .filter_map(|entry| entry.split_once(':'))
                    .map(|(who, what)| (self.names.current(who), what))
                    .collect();
                let assignments = given.iter().map(|(member_id, what)| SyncGroupAssignment {
                    member_id,
                    assignment: what.as_bytes(),
                });
                let request = SyncGroupRequest {
                    group_id,
                    generation_id,
                    member_id: &member_id,
                    group_instance_id: instance_id,
                    protocol_type: command.option("type"),
                    protocol_name: command.option("protocol"),
                    assignments: assignments.collect(),
                };
                return self.send(name, "SyncGroup", &context, &Request::SyncGroup(request));
            }
            _ => return self.other_request(command, name, &context, &member_id, generation_id),
        };
        self.send(name, api, &context, &request);
    }

    fn other_request(
        &mut self,
        command: &Command<'_>,
        name: &str,
        context: &RequestContext<'_>,
        member_id: &str,
        generation_id: i32,
    ) {
        let group_id = command.option("group").unwrap_or("g");
        let partitions: Vec<(&str, i32, i64)> = command
            .words
            .iter()
            .filter(|word| word.contains(':'))
            .map(|word| partition_and_offset(word))
            .collect();
        match command.verb {
            "LeaveGroup" => {
                let leaving: Vec<(String, Option<&str>)> = command
                    .words
                    .iter()
                    .map(|word| match word.split_once('/') {
                        Some((who, instance_id)) => (self.names.any(who), Some(instance_id)),
                        None => (self.names.any(word), None),
                    })
                    .collect();
                let members = leaving.iter().map(|(member_id, instance_id)| LeaveGroupMember {
                    member_id,
                    group_instance_id: *instance_id,
                    reason: None,
                });
                let request = LeaveGroupRequest { group_id, members: members.collect() };
                self.send(name, "LeaveGroup", context, &Request::LeaveGroup(request));
            }
            "OffsetCommit" => {
                let metadata = command.option("metadata");
                let long = command.option("metadata_units").map(|n| "я".repeat(n.parse().unwrap()));
                let topics = partitions.iter().map(|(topic, index, offset)| OffsetCommitTopic {
                    name: topic,
                    topic_id: Uuid::ZERO,
                    partitions: vec![OffsetCommitPartition {
                        partition_index: *index,
                        committed_offset: *offset,
                        committed_leader_epoch: command.number("epoch", -1),
                        committed_metadata: long.as_deref().or(metadata),
                    }],
                });
                let request = OffsetCommitRequest {
                    group_id,
                    generation_id_or_member_epoch: generation_id,
                    member_id,
                    group_instance_id: command.option("instance"),
                    retention_time_ms: command.number("retention", -1),
                    topics: topics.collect(),
                };
                self.send(name, "OffsetCommit", context, &Request::OffsetCommit(request));
            }
            "OffsetFetch" => {
                let topics = partitions.iter().map(|(topic, index, _)| OffsetFetchTopic {
                    name: topic,
                    topic_id: Uuid::ZERO,
                    partition_indexes: vec![*index],
                });
                let request = OffsetFetchRequest {
                    group_id,
                    member_id: None,
                    member_epoch: -1,
                    topics: (!command.words.contains(&"all")).then(|| topics.collect()),
                    require_stable: command.words.contains(&"stable"),
                };
                self.send(name, "OffsetFetch", context, &Request::OffsetFetch(request));
            }
            "OffsetDelete" => {
                let topics = partitions
                    .iter()
                    .map(|(name, index, _)| OffsetDeleteTopic { name, partitions: vec![*index] });
                let request = OffsetDeleteRequest { group_id, topics: topics.collect() };
                self.send(name, "OffsetDelete", context, &Request::OffsetDelete(request));
            }
            "DescribeGroup" => {
                let request = DescribeGroupRequest { group_id };
                self.send(name, "DescribeGroup", context, &Request::DescribeGroup(request));
            }
            "DeleteGroups" => {
                let request = DeleteGroupsRequest { groups_names: command.words.clone() };
                self.send(name, "DeleteGroups", context, &Request::DeleteGroups(request));
            }
            "ListGroups" => {
                let filter =
                    |key| command.option(key).map_or(Vec::new(), |of| of.split(',').collect());
                let request = ListGroupsRequest {
                    states_filter: filter("states"),
                    types_filter: filter("types"),
                };
                self.send(name, "ListGroups", context, &Request::ListGroups(request));
            }
            other => panic!("{other} is no command"),
        }
    }

    fn send(
        &mut self,
        name: &str,
        api: &'static str,
        context: &RequestContext<'_>,
        request: &Request<'_>,
    ) {
        self.waiting.insert(context.ticket, (name.into(), api));
        self.shard.handle_request(self.now_ms, context, request);
        if let Request::JoinGroup(join) = request
            && join.member_id.is_empty()
        {
            // Whoever waits for a first answer has its id already, though it does not know it.
            let prefix = join.group_instance_id.unwrap_or(context.client_id);
            let id = format!("{prefix}-00000000-0000-4000-8000-{:012x}", context.ticket);
            if self
                .shard
                .group(join.group_id)
                .is_some_and(|group| group.members.iter().any(|member| *member.member_id == *id))
            {
                self.names.learn(name, &id);
            }
        }
    }
}

/// Metadata and names of the protocols in `protocols=range,sticky topics=t1,t2`.
fn offered<'a>(command: &Command<'a>) -> (Vec<Vec<u8>>, Vec<&'a str>) {
    let names: Vec<&str> = match command.option("protocols") {
        Some("") => Vec::new(),
        Some(names) => names.split(',').collect(),
        None => vec!["range"],
    };
    let topics = command.option("topics").unwrap_or("t1");
    let metadata = match command.option("metadata") {
        Some(raw) => raw.as_bytes().to_vec(),
        None => trace::subscription(&topics.split(',').collect::<Vec<_>>()),
    };
    (vec![metadata; names.len()], names)
}
