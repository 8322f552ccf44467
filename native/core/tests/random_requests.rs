//! Random histories: requests of confused clients, time, crashes. Whatever they do,
//!
//! * the same inputs give the same bytes: for another hash seed, and in batches or one by one;
//! * what was committed is what a shard that replays it has;
//! * nothing is told before it is durable, nobody is answered twice, and in the end nobody waits.

use std::collections::{BTreeMap, BTreeSet};

use kcoord_core::record::batch::{Attributes, BatchHeader};
use kcoord_core::request::*;
use kcoord_core::response::Response;
use kcoord_core::views::GroupView;
use kcoord_core::{Config, ErrorCode, Shard};
use proptest::prelude::*;

const GROUPS: [&str; 3] = ["g", "h", "a group id that is too long to be kept in its row"];
const MEMBERS: usize = 4;
const START_MS: i64 = 1_700_000_000_000;

#[derive(Clone, Debug)]
enum Step {
    /// Sent in one turn, in this order.
    Turn(Vec<Call>),
    Sleep(i64),
    /// All that was appended is durable.
    Commit,
    Abandon(prop::sample::Index),
    Crash,
}

#[derive(Clone, Debug)]
struct Call {
    api: Api,
    group: usize,
    member: usize,
    identity: Identity,
    /// Added to the generation that the member believes in.
    generation_off: i32,
    /// Which of some protocol lists, topics, timeouts and versions.
    variant: u8,
}

#[derive(Clone, Copy, Debug)]
enum Api {
    Join,
    Sync,
    Heartbeat,
    Leave,
    Commit,
    Fetch,
    DeleteOffsets,
    Describe,
    List,
    DeleteGroup,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Identity {
    Own,
    /// Under its instance id too.
    Static,
    /// As a static member that starts again.
    Restarted,
    Unknown,
    Nobody,
}

fn call() -> impl Strategy<Value = Call> {
    let api = prop_oneof![
        9 => Just(Api::Join),
        8 => Just(Api::Sync),
        4 => Just(Api::Heartbeat),
        2 => Just(Api::Leave),
        3 => Just(Api::Commit),
        2 => Just(Api::Fetch),
        1 => Just(Api::DeleteOffsets),
        1 => Just(Api::Describe),
        1 => Just(Api::List),
        1 => Just(Api::DeleteGroup),
    ];
    let identity = prop_oneof![
        12 => Just(Identity::Own),
        3 => Just(Identity::Static),
        2 => Just(Identity::Restarted),
        1 => Just(Identity::Unknown),
        1 => Just(Identity::Nobody),
    ];
    let group = prop_oneof![6 => Just(0usize), 1 => Just(1), 1 => Just(2)];
    let off = prop_oneof![10 => Just(0), 1 => -1..2i32];
    (api, group, 0..MEMBERS, identity, off, 0..8u8).prop_map(
        |(api, group, member, identity, generation_off, variant)| Call {
            api,
            group,
            member,
            identity,
            generation_off,
            variant,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => prop::collection::vec(call(), 1..6).prop_map(Step::Turn),
        3 => prop_oneof![0..20i64, 0..12_000i64].prop_map(Step::Sleep),
        4 => Just(Step::Commit),
        1 => any::<prop::sample::Index>().prop_map(Step::Abandon),
        1 => Just(Step::Crash),
    ]
}

/// What a client knows.
#[derive(Clone, Default)]
struct Client {
    member_id: String,
    generation_id: i32,
}

struct World {
    /// The same shard twice: one by one, and in batches with another hash seed.
    shards: [Shard; 2],
    now_ms: i64,
    tickets: Ticket,
    waiting: BTreeMap<Ticket, (usize, usize)>,
    clients: BTreeMap<(usize, usize), Client>,
    log: Vec<u8>,
    written_offset: i64,
    committed_offset: i64,
    uncommitted: Vec<(i64, Vec<u8>)>,
}

fn config(hash_seed: [u64; 2]) -> Config {
    Config {
        group_initial_rebalance_delay_ms: 50,
        group_max_size: 3,
        offsets_retention_ms: 20_000,
        offsets_retention_check_interval_ms: 3_000,
        hash_seed,
        ..Config::default()
    }
}

impl World {
    fn new() -> World {
        let mut world = World {
            shards: [Shard::new(config([1, 2])), Shard::new(config([77, 78]))],
            now_ms: START_MS,
            tickets: 0,
            waiting: BTreeMap::new(),
            clients: BTreeMap::new(),
            log: Vec::new(),
            written_offset: 0,
            committed_offset: 0,
            uncommitted: Vec::new(),
        };
        world.load();
        world
    }

    fn load(&mut self) {
        for (shard, seed) in self.shards.iter_mut().zip([[1, 2], [77, 78]]) {
            *shard = Shard::new(config(seed));
            shard.replay(&self.log).unwrap();
            shard.loaded(self.now_ms, self.committed_offset);
        }
    }

    fn run(&mut self, step: &Step) {
        match step {
            Step::Turn(calls) => self.turn(calls),
            Step::Sleep(duration_ms) => self.sleep(*duration_ms),
            Step::Commit => self.commit(),
            Step::Abandon(index) => {
                if !self.waiting.is_empty() {
                    let ticket = *index.get(&self.waiting.keys().copied().collect::<Vec<_>>());
                    self.waiting.remove(&ticket);
                    self.shards.iter_mut().for_each(|shard| shard.abandon(ticket));
                }
            }
            Step::Crash => {
                // Requests that were replaced by later ones of the same member are never answered.
                let [one, two] = self.shards.each_mut().map(Shard::drop_parked);
                assert_eq!(one, two);
                assert!(one.iter().all(|(ticket, _)| self.waiting.contains_key(ticket)));
                self.waiting.clear();
                self.uncommitted.clear();
                self.written_offset = self.committed_offset;
                self.load();
            }
        }
        self.shards.iter().for_each(Shard::assert_consistent);
    }

    fn turn(&mut self, calls: &[Call]) {
        let known: Vec<Client> = calls
            .iter()
            .map(|call| self.clients.get(&(call.group, call.member)).cloned().unwrap_or_default())
            .collect();
        let mut requests = Vec::new();
        for (call, client) in calls.iter().zip(&known) {
            self.tickets += 1;
            self.waiting.insert(self.tickets, (call.group, call.member));
            requests.push(request(self.tickets, call, client));
        }
        for (context, request) in &requests {
            self.shards[0].handle_request(self.now_ms, context, request);
        }
        self.shards[1].handle_batch(self.now_ms, &requests);
        self.drain();
    }

    fn sleep(&mut self, duration_ms: i64) {
        let end_ms = self.now_ms + duration_ms;
        loop {
            let wake_ms = self.shards[0].poll_timeout().unwrap();
            assert_eq!(self.shards[1].poll_timeout(), Some(wake_ms));
            if wake_ms > end_ms {
                break;
            }
            self.now_ms = wake_ms.max(self.now_ms);
            self.shards.iter_mut().for_each(|shard| shard.handle_timeout(self.now_ms));
            self.drain();
        }
        self.now_ms = end_ms;
    }

    /// Takes out what there is; both shards must have the same.
    fn drain(&mut self) {
        let [one, two] = self.shards.each_mut().map(Shard::poll_append);
        assert_eq!(one, two, "appends differ");
        if let Some(append) = one {
            assert_eq!(append.base_offset, self.written_offset);
            self.written_offset = append.end_offset();
            let header = BatchHeader {
                base_offset: append.base_offset,
                partition_leader_epoch: 0,
                crc: 0,
                attributes: Attributes(0),
                last_offset_delta: append.record_count - 1,
                base_timestamp: append.base_timestamp,
                max_timestamp: append.max_timestamp,
                producer_id: -1,
                producer_epoch: -1,
                base_sequence: 0,
                records_count: append.record_count,
            };
            let mut batch = Vec::new();
            header.encode(&append.records, &mut batch);
            self.uncommitted.push((append.end_offset(), batch));
        }
        loop {
            let [one, two] = self.shards.each_mut().map(Shard::poll_response);
            assert_eq!(one, two, "responses differ");
            let Some((ticket, response)) = one else { return };
            let client = self.waiting.remove(&ticket).expect("one answer for each request");
            self.learn(client, &response);
        }
    }

    fn learn(&mut self, client: (usize, usize), response: &Response) {
        let Response::JoinGroup(joined) = response else { return };
        let client = self.clients.entry(client).or_default();
        if matches!(joined.error_code, ErrorCode::None | ErrorCode::MemberIdRequired) {
            client.member_id = joined.member_id.clone().into();
            client.generation_id = joined.generation_id;
        } else if joined.error_code == ErrorCode::UnknownMemberId {
            *client = Client::default();
        }
    }

    fn commit(&mut self) {
        for (end_offset, batch) in std::mem::take(&mut self.uncommitted) {
            self.log.extend(batch);
            self.committed_offset = end_offset;
            self.shards
                .iter_mut()
                .for_each(|shard| shard.handle_committed(self.now_ms, end_offset));
            self.drain();
        }
        self.check_replay();
    }

    /// A fresh shard with the log has the groups that are at rest, and all offsets.
    fn check_replay(&self) {
        let mut loaded = Shard::new(config([5, 6]));
        loaded.replay(&self.log).unwrap();
        let shard = &self.shards[0];
        for group in shard.groups().filter(|group| matches!(group.state, "Empty" | "Stable")) {
            if group.current_state_timestamp_ms != -1 {
                assert_eq!(loaded.group(&group.group_id).as_ref(), Some(&group));
            }
        }
        let ids = |shard: &Shard| -> BTreeSet<Box<str>> {
            let is_there = |group: &GroupView| {
                group.current_state_timestamp_ms != -1 || shard.offsets(&group.group_id).count() > 0
            };
            shard.groups().filter(is_there).map(|group| group.group_id).collect()
        };
        let in_memory_only: Vec<_> = ids(shard).difference(&ids(&loaded)).cloned().collect();
        for id in in_memory_only {
            // Joined where only offsets were, which are gone by now: written with its first members.
            let state = shard.group(&id).unwrap().state;
            assert!(state.ends_with("Rebalance"), "{id} is {state} and not durable");
        }
        assert!(ids(&loaded).is_subset(&ids(shard)));
        for id in GROUPS {
            let offsets = |shard: &Shard| format!("{:?}", shard.offsets(id).collect::<Vec<_>>());
            assert_eq!(offsets(&loaded), offsets(shard));
        }
    }

    /// All clients are gone and all writes succeed: nobody may be left.
    fn end(&mut self) {
        for _ in 0..40 {
            self.sleep(30_000);
            self.commit();
        }
        assert_eq!(self.shards[0].drop_parked(), []);
        assert_eq!(self.shards[0].member_count(), 0);
        assert_eq!(self.shards[0].group_count(), 0, "{:?}", self.shards[0].groups().next());
    }
}

fn request<'a>(
    ticket: Ticket,
    call: &Call,
    client: &'a Client,
) -> (RequestContext<'a>, Request<'a>) {
    let context = RequestContext {
        ticket,
        api_version: if call.variant & 1 == 0 { 9 } else { 3 },
        client_id: ["app", "consumer"][usize::from(call.variant / 4)],
        client_host: "/127.0.0.1",
        uuid: ticket.into(),
    };
    let group_id = GROUPS[call.group];
    let member_id = match call.identity {
        Identity::Own | Identity::Static => client.member_id.as_str(),
        Identity::Restarted | Identity::Nobody => "",
        Identity::Unknown => "whoever",
    };
    let instance_id = matches!(call.identity, Identity::Static | Identity::Restarted)
        .then_some(["i", "j", "k", "l"][call.member]);
    let generation_id = client.generation_id + call.generation_off;
    let request = match call.api {
        Api::Join => Request::JoinGroup(join(call, group_id, member_id, instance_id)),
        Api::Sync => Request::SyncGroup(SyncGroupRequest {
            group_id,
            generation_id,
            member_id,
            group_instance_id: instance_id,
            protocol_type: (call.variant == 3).then_some("consumer"),
            protocol_name: (call.variant == 4).then_some("sticky"),
            assignments: vec![SyncGroupAssignment { member_id, assignment: b"assigned" }],
        }),
        Api::Heartbeat => Request::Heartbeat(HeartbeatRequest {
            group_id,
            generation_id,
            member_id,
            group_instance_id: instance_id,
        }),
        Api::Leave => Request::LeaveGroup(LeaveGroupRequest {
            group_id,
            members: vec![LeaveGroupMember {
                member_id,
                group_instance_id: instance_id,
                reason: None,
            }],
        }),
        Api::Describe => Request::DescribeGroup(DescribeGroupRequest { group_id }),
        Api::List => Request::ListGroups(ListGroupsRequest::default()),
        Api::DeleteGroup => {
            Request::DeleteGroups(DeleteGroupsRequest { groups_names: vec![group_id] })
        }
        Api::Commit | Api::Fetch | Api::DeleteOffsets => {
            offset_request(call, group_id, member_id, instance_id, generation_id)
        }
    };
    (context, request)
}

fn join<'a>(
    call: &Call,
    group_id: &'a str,
    member_id: &'a str,
    group_instance_id: Option<&'a str>,
) -> JoinGroupRequest<'a> {
    let lists: [&[&str]; 4] = [&["range"], &["range", "sticky"], &["sticky", "range"], &["other"]];
    let metadata: &[u8] = match call.variant {
        0..5 => b"\0\0\0\0\0\x01\0\x01t\xff\xff\xff\xff",
        5..7 => b"\0\0\0\0\0\x01\0\x01u\xff\xff\xff\xff",
        _ => b"poison",
    };
    let names = lists[[0, 1, 1, 2, 1, 0, 2, 3][usize::from(call.variant)]];
    JoinGroupRequest {
        group_id,
        session_timeout_ms: 6_000 + i32::from(call.variant) * 3_000,
        rebalance_timeout_ms: [5_000, 60_000, 0, 100, -1][usize::from(call.variant % 5)],
        member_id,
        group_instance_id,
        protocol_type: if call.variant == 6 { "connect" } else { "consumer" },
        protocols: names.iter().map(|name| JoinGroupProtocol { name, metadata }).collect(),
        reason: None,
    }
}

fn offset_request<'a>(
    call: &Call,
    group_id: &'a str,
    member_id: &'a str,
    group_instance_id: Option<&'a str>,
    generation_id: i32,
) -> Request<'a> {
    let topic = ["t", "u"][usize::from(call.variant % 2)];
    match call.api {
        Api::Commit => Request::OffsetCommit(OffsetCommitRequest {
            group_id,
            generation_id_or_member_epoch: if member_id.is_empty() { -1 } else { generation_id },
            member_id,
            group_instance_id,
            retention_time_ms: if call.variant == 7 { 500 } else { -1 },
            topics: vec![OffsetCommitTopic {
                name: topic,
                topic_id: Uuid::ZERO,
                partitions: vec![OffsetCommitPartition {
                    partition_index: call.variant.into(),
                    committed_offset: call.generation_off.into(),
                    committed_leader_epoch: -1,
                    committed_metadata: Some(if call.variant == 5 { "a note" } else { "" }),
                }],
            }],
        }),
        Api::Fetch => Request::OffsetFetch(OffsetFetchRequest {
            group_id,
            member_id: None,
            member_epoch: -1,
            topics: None,
            require_stable: call.variant == 1,
        }),
        _ => Request::OffsetDelete(OffsetDeleteRequest {
            group_id,
            topics: vec![OffsetDeleteTopic { name: topic, partitions: vec![call.variant.into()] }],
        }),
    }
}

proptest! {
    #[test]
    fn random_histories(steps in prop::collection::vec(step(), 1..80)) {
        let mut world = World::new();
        for step in &steps {
            world.run(step);
        }
        world.end();
    }
}
