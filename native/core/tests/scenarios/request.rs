//! The commands that are requests.

use kcoord_core::consumer_protocol::{Assignment, Subscription, TopicPartitions};
use kcoord_core::record::{Producer, TransactionResult};
use kcoord_core::request::*;

use crate::command::Command;
use crate::trace;
use crate::world::World;

/// Who sends a request, and what nearly every request carries.
pub struct Caller<'a> {
    pub name: &'a str,
    context: RequestContext<'a>,
    pub group_id: &'a str,
    pub member_id: String,
    generation_id: i32,
    pub instance_id: Option<&'a str>,
}

impl World {
    pub fn request(&mut self, command: &Command<'_>) {
        let caller = self.caller(command);
        match command.verb {
            "JoinGroup" => self.join_group(command, &caller),
            "SyncGroup" => self.sync_group(command, &caller),
            "Heartbeat" => self.heartbeat(&caller),
            "LeaveGroup" => self.leave_group(command, &caller),
            "ConsumerGroupHeartbeat" => self.consumer_heartbeat(command, &caller),
            "ConsumerGroupDescribe" => {
                let request = ConsumerGroupDescribeRequest { group_id: caller.group_id };
                self.send(&caller, Request::ConsumerGroupDescribe(request));
            }
            "OffsetCommit" => self.offset_commit(command, &caller),
            "TxnOffsetCommit" => self.offset_commit(command, &caller),
            "WriteTxnMarker" => self.write_marker(command, &caller),
            "OffsetFetch" => self.offset_fetch(command, &caller),
            "OffsetDelete" => self.offset_delete(command, &caller),
            "DescribeGroup" => {
                let request = DescribeGroupRequest { group_id: caller.group_id };
                self.send(&caller, Request::DescribeGroups(request));
            }
            "DeleteGroups" => {
                let groups_names =
                    command.words.iter().map(|word| if *word == "''" { "" } else { word });
                let request = DeleteGroupsRequest { groups_names: groups_names.collect() };
                self.send(&caller, Request::DeleteGroups(request));
            }
            "ListGroups" => {
                let names = |key| -> Vec<&str> {
                    command.option(key).map_or(Vec::new(), |of| of.split(',').collect())
                };
                let (states_filter, types_filter) = (names("states"), names("types"));
                let request = ListGroupsRequest { states_filter, types_filter };
                self.send(&caller, Request::ListGroups(request));
            }
            other => panic!("{other} is no command"),
        }
    }

    fn caller<'a>(&mut self, command: &Command<'a>) -> Caller<'a> {
        let name = match command.verb {
            "JoinGroup" | "SyncGroup" | "Heartbeat" | "ConsumerGroupHeartbeat" => command.words[0],
            "OffsetCommit" | "TxnOffsetCommit" if !command.words[0].contains(':') => {
                command.words[0]
            }
            _ => "admin",
        };
        let member_id = match command.option("id") {
            Some(id) => self.names.resolve(id),
            None => self.names.current(name),
        };
        let generation_id = self.generations.get(name).copied().unwrap_or(-1);
        self.tickets += 1;
        Caller {
            name,
            context: RequestContext {
                ticket: self.tickets,
                api_version: command.number("v", 9),
                client_id: command.option("client").unwrap_or(name),
                client_host: "/127.0.0.1",
                uuid: self.tickets.into(),
            },
            group_id: command.option("group").unwrap_or("g"),
            member_id,
            generation_id: command.number("generation", generation_id),
            instance_id: command.option("instance"),
        }
    }

    fn join_group(&mut self, command: &Command<'_>, caller: &Caller<'_>) {
        let (names, metadata) = offered(command);
        let protocols = names.iter().map(|name| JoinGroupProtocol { name, metadata: &metadata });
        let request = JoinGroupRequest {
            group_id: caller.group_id,
            session_timeout_ms: command.number("session", 10_000),
            rebalance_timeout_ms: command.number("rebalance", 60_000),
            member_id: &caller.member_id,
            group_instance_id: caller.instance_id,
            protocol_type: command.option("type").unwrap_or("consumer"),
            protocols: protocols.collect(),
            reason: command.option("reason"),
        };
        self.send(caller, Request::JoinGroup(request));
        if caller.member_id.is_empty() {
            self.learn_waiting_member(caller);
        }
    }

    /// Whoever waits for a first answer has its id already, though it does not know it.
    fn learn_waiting_member(&mut self, caller: &Caller<'_>) {
        let prefix = caller.instance_id.unwrap_or(caller.context.client_id);
        let id = format!("{prefix}-00000000-0000-4000-8000-{:012x}", caller.context.ticket);
        let group = self.shard.group(caller.group_id);
        let is_member = |id: &str| group?.members.into_iter().find(|one| *one.member_id == *id);
        if is_member(&id).is_some() {
            self.names.learn(caller.name, &id);
        }
    }

    fn sync_group(&mut self, command: &Command<'_>, caller: &Caller<'_>) {
        let given = command.option("assign").unwrap_or_default().split(',');
        let mut given: Vec<(String, Vec<u8>)> = given
            .filter_map(|entry| entry.split_once(':'))
            .map(|(who, what)| (self.names.any(who), what.into()))
            .collect();
        for (who, partitions) in command.pairs().iter().filter(|(key, _)| key.starts_with('@')) {
            command.option(who);
            given.push((self.names.any(&who[1..]), assignment(partitions)));
        }
        let assignments = given
            .iter()
            .map(|(member_id, what)| SyncGroupAssignment { member_id, assignment: what });
        let request = SyncGroupRequest {
            group_id: caller.group_id,
            generation_id: caller.generation_id,
            member_id: &caller.member_id,
            group_instance_id: caller.instance_id,
            protocol_type: command.option("type"),
            protocol_name: command.option("protocol"),
            assignments: assignments.collect(),
        };
        self.send(caller, Request::SyncGroup(request));
    }

    fn heartbeat(&mut self, caller: &Caller<'_>) {
        let request = HeartbeatRequest {
            group_id: caller.group_id,
            generation_id: caller.generation_id,
            member_id: &caller.member_id,
            group_instance_id: caller.instance_id,
        };
        self.send(caller, Request::Heartbeat(request));
    }

    fn leave_group(&mut self, command: &Command<'_>, caller: &Caller<'_>) {
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
            reason: command.option("reason"),
        });
        let request = LeaveGroupRequest { group_id: caller.group_id, members: members.collect() };
        self.send(caller, Request::LeaveGroup(request));
    }

    fn offset_commit(&mut self, command: &Command<'_>, caller: &Caller<'_>) {
        let long = command.option("metadata_units").map(|n| "я".repeat(n.parse().unwrap()));
        let metadata = long.as_deref().or(command.option("metadata"));
        let epoch = command.number("epoch", -1);
        let partitions = partitions(command);
        let topics = partitions.iter().map(|(name, index, offset)| OffsetCommitTopic {
            name,
            topic_id: self.topic_id(name),
            partitions: vec![OffsetCommitPartition {
                partition_index: *index,
                committed_offset: *offset,
                committed_leader_epoch: epoch,
                committed_metadata: metadata,
            }],
        });
        let request = OffsetCommitRequest {
            group_id: caller.group_id,
            generation_id_or_member_epoch: caller.generation_id,
            member_id: &caller.member_id,
            group_instance_id: caller.instance_id,
            retention_time_ms: command.number("retention", -1),
            topics: topics.collect(),
        };
        if command.verb == "OffsetCommit" {
            return self.send(caller, Request::OffsetCommit(request));
        }
        let producer = producer(command);
        let request = TxnOffsetCommitRequest { transactional_id: "", producer, commit: request };
        self.send(caller, Request::TxnOffsetCommit(request));
    }

    /// `WriteTxnMarker COMMIT producer=7/0 coordinator=3 version=2`.
    fn write_marker(&mut self, command: &Command<'_>, caller: &Caller<'_>) {
        let result = match command.words[0] {
            "COMMIT" => TransactionResult::Commit,
            _ => TransactionResult::Abort,
        };
        let marker = TransactionMarker {
            producer: producer(command),
            result,
            coordinator_epoch: command.number("coordinator", 0),
            transaction_version: command.number("version", 0),
        };
        self.send(caller, Request::WriteTxnMarkers(marker));
    }

    fn offset_fetch(&mut self, command: &Command<'_>, caller: &Caller<'_>) {
        let partitions = partitions(command);
        let topics = partitions.iter().map(|(name, index, _)| OffsetFetchTopic {
            name,
            topic_id: Uuid::ZERO,
            partition_indexes: vec![*index],
        });
        let request = OffsetFetchRequest {
            group_id: caller.group_id,
            member_id: command.option("id"),
            member_epoch: command.number("generation", -1),
            topics: (!command.words.contains(&"all")).then(|| topics.collect()),
            require_stable: command.words.contains(&"stable"),
        };
        self.send(caller, Request::OffsetFetch(request));
    }

    fn offset_delete(&mut self, command: &Command<'_>, caller: &Caller<'_>) {
        let partitions = partitions(command);
        let topics = partitions
            .iter()
            .map(|(name, index, _)| OffsetDeleteTopic { name, partitions: vec![*index] });
        let request = OffsetDeleteRequest { group_id: caller.group_id, topics: topics.collect() };
        self.send(caller, Request::OffsetDelete(request));
    }

    pub fn send(&mut self, caller: &Caller<'_>, request: Request<'_>) {
        let context = &caller.context;
        self.waiting.insert(context.ticket, (caller.name.into(), api_name(&request)));
        self.shard.handle_request(self.now_ms, context, &request);
    }
}

/// `producer=7/1`: id and epoch.
fn producer(command: &Command<'_>) -> Producer {
    let text = command.option("producer").expect("a producer");
    let (id, epoch) = text.split_once('/').expect("an id and an epoch");
    Producer { id: id.parse().expect("a number"), epoch: epoch.parse().expect("a number") }
}

fn api_name(request: &Request<'_>) -> &'static str {
    match request {
        Request::JoinGroup(_) => "JoinGroup",
        Request::SyncGroup(_) => "SyncGroup",
        Request::Heartbeat(_) => "Heartbeat",
        Request::LeaveGroup(_) => "LeaveGroup",
        Request::OffsetCommit(_) => "OffsetCommit",
        Request::TxnOffsetCommit(_) => "TxnOffsetCommit",
        Request::WriteTxnMarkers(_) => "WriteTxnMarker",
        Request::OffsetFetch(_) => "OffsetFetch",
        Request::OffsetDelete(_) => "OffsetDelete",
        Request::DescribeGroups(_) => "DescribeGroup",
        Request::DeleteGroups(_) => "DeleteGroups",
        Request::ConsumerGroupHeartbeat(_) => "ConsumerGroupHeartbeat",
        Request::ConsumerGroupDescribe(_) => "ConsumerGroupDescribe",
        Request::DeleteGroupOffsets(..) => "DeleteGroups",
        Request::ListGroups(_) | Request::ListGroupRows(..) => "ListGroups",
    }
}

/// Names and metadata of the protocols in `protocols=range,sticky topics=t1,t2`.
fn offered<'a>(command: &Command<'a>) -> (Vec<&'a str>, Vec<u8>) {
    let names: Vec<&str> = match command.option("protocols") {
        Some("") => Vec::new(),
        Some(names) => names.split(',').collect(),
        None => vec!["range"],
    };
    let topics = command.option("topics").unwrap_or("t1");
    let metadata = match command.option("metadata") {
        Some(raw) => raw.as_bytes().to_vec(),
        None => subscription(command, &topics.split(',').collect::<Vec<_>>()),
    };
    (names, metadata)
}

/// Version 3 with `rack=a`, 2 with `owned=t1:0,t1:1`, of `since=3`; else version 0. `user_data=` is
/// for all.
fn subscription(command: &Command<'_>, topics: &[&str]) -> Vec<u8> {
    let (owned, user_data) = (command.option("owned"), command.option("user_data"));
    let rack_id = command.option("rack");
    if owned.is_none() && user_data.is_none() && rack_id.is_none() {
        return trace::subscription(topics);
    }
    let mut bytes = Vec::new();
    let subscription = Subscription {
        version: match (rack_id, owned) {
            (Some(_), _) => 3,
            (None, Some(_)) => 2,
            (None, None) => 0,
        },
        topics: topics.to_vec(),
        user_data: user_data.map(str::as_bytes),
        owned_partitions: by_topic(owned.unwrap_or_default().split(',')),
        generation_id: command.number("since", -1),
        rack_id,
    };
    subscription.encode(&mut bytes);
    bytes
}

/// `t1:0,t1:1` as an assignment of version 0.
pub fn assignment(partitions: &str) -> Vec<u8> {
    let assigned_partitions = by_topic(partitions.split(','));
    let mut bytes = Vec::new();
    Assignment { version: 0, assigned_partitions, user_data: None }.encode(&mut bytes);
    bytes
}

/// `t1:0` and `t1:1` as `t1: [0, 1]`.
fn by_topic<'a>(partitions: impl Iterator<Item = &'a str>) -> Vec<TopicPartitions<'a>> {
    let mut topics: Vec<TopicPartitions<'_>> = Vec::new();
    for (topic, number) in partitions.filter_map(|partition| partition.rsplit_once(':')) {
        let number = number.parse().unwrap();
        match topics.iter_mut().find(|(name, _)| *name == topic) {
            Some((_, numbers)) => numbers.push(number),
            None => topics.push((topic, vec![number])),
        }
    }
    topics
}

/// The words of the form `t1:0=5`.
fn partitions<'a>(command: &Command<'a>) -> Vec<(&'a str, i32, i64)> {
    let words = command.words.iter().filter(|word| word.contains(':'));
    words.map(|word| partition_and_offset(word)).collect()
}

/// `t1:0=5`; without an offset it is 0.
pub fn partition_and_offset(word: &str) -> (&str, i32, i64) {
    let (partition, offset) = word.split_once('=').unwrap_or((word, "0"));
    let (topic, index) = partition.split_once(':').expect("topic:partition");
    (topic, index.parse().unwrap(), offset.parse().unwrap())
}
