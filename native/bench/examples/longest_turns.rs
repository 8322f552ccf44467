//! Prints how long the longest turn of a node is for each request that costs more than others, in
//! milliseconds: `cargo run --release -p kcoord-bench --example longest_turns`. The host of the node
//! appends to nothing.

#![allow(clippy::print_stdout)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use kcoord_core::Config;
use kcoord_core::request::*;
use kcoord_node::{Frame, Node, Session, Turn};
use kcoord_wire::api::describing::DescribeGroupsRequest;
use kcoord_wire::api::{self, RequestBody, ResponseBody};
use kcoord_wire::header::{ApiKey, begin_request, finish_response, open_response};

const SHARDS: usize = 50;
const ROUNDS: usize = 5;
/// Partitions that a commit here has.
const COMMITTED_AT_ONCE: i32 = 10_000;

fn main() {
    println!("{:<58} {:>9} {:>6} {:>9}", "", "longest", "turns", "in all");
    for (what, prepare) in ROWS {
        if std::env::args().nth(1).is_none_or(|word| what.contains(&word)) {
            report(what, *prepare);
        }
    }
}

type Prepare = fn(&mut Host) -> Vec<Vec<u8>>;

/// The least of some rounds: others of this machine make it longer.
fn report(what: &str, prepare: Prepare) {
    let round = |_| {
        let mut host = Host::new();
        let frames = prepare(&mut host);
        host.longest = Duration::ZERO;
        (host.turns, host.in_all) = (0, Duration::ZERO);
        host.send(&frames);
        (host.longest, host.turns, host.in_all)
    };
    let rounds: Vec<_> = (0..ROUNDS).map(round).collect();
    let longest = rounds.iter().map(|of| of.0).min().expect("some rounds");
    let in_all = rounds.iter().map(|of| of.2).min().expect("some rounds");
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!("{what:<58} {:>9.2} {:>6} {:>9.2}", ms(longest), rounds[0].1, ms(in_all));
}

const ROWS: &[(&str, Prepare)] = &[
    ("OffsetFetch, 256 frames of 1,000 partitions each", |host| {
        host.commit("g", 1_000);
        vec![fetch(&[("g", Some(0..1_000))]); 256]
    }),
    ("OffsetFetch, 131,000 partitions of a group", |host| {
        host.commit("g", 131_000);
        vec![fetch(&[("g", Some(0..131_000))])]
    }),
    ("OffsetFetch, 131,000 partitions of no group", |_| vec![fetch(&[("g", Some(0..131_000))])]),
    ("OffsetFetch, all 131,000 offsets of a group", |host| {
        host.commit("g", 131_000);
        vec![fetch(&[("g", None)])]
    }),
    ("OffsetFetch, all 1,000,000 offsets of a group", |host| {
        host.commit("g", 1_000_000);
        vec![fetch(&[("g", None)])]
    }),
    ("OffsetFetch, all 10,000 offsets of a group 100 times", |host| {
        host.commit("g", 10_000);
        vec![fetch(&vec![("g", None); 100])]
    }),
    ("OffsetCommit, 10,000 partitions", |_| vec![commit("g", 0..10_000)]),
    ("OffsetCommit, 32,000 partitions", |_| vec![commit("g", 0..32_000)]),
    ("OffsetCommit, 131,000 partitions", |_| vec![commit("g", 0..131_000)]),
    ("OffsetCommit, 3,000,000 partitions", |_| vec![commit("g", 0..3_000_000)]),
    ("OffsetDelete, 32,000 partitions", |host| {
        host.commit("g", 32_000);
        vec![delete_offsets("g", 0..32_000)]
    }),
    ("OffsetDelete, 131,000 partitions", |host| {
        host.commit("g", 131_000);
        vec![delete_offsets("g", 0..131_000)]
    }),
    ("OffsetDelete, 1,000,000 partitions that have none", |host| {
        host.commit("g", 1);
        vec![delete_offsets("g", 0..1_000_000)]
    }),
    ("DeleteGroups, a group of 131,000 offsets", |host| {
        host.commit("g", 131_000);
        vec![delete(&["g"])]
    }),
    ("DeleteGroups, a group of 1,000,000 offsets", |host| {
        host.commit("g", 1_000_000);
        vec![delete(&["g"])]
    }),
    ("DeleteGroups, 100 groups of 10,000 offsets", |host| {
        let names = names(100);
        names.iter().for_each(|group| host.commit(group, 10_000));
        vec![delete(&borrowed(&names))]
    }),
    ("DeleteGroups, 131,000 groups that are not there", |_| {
        vec![delete(&borrowed(&names(131_000)))]
    }),
    ("DescribeGroups, 131,000 groups that are not there", |_| {
        vec![describe(&borrowed(&names(131_000)))]
    }),
    ("DescribeGroups, a group of 10,000 members, 31 MiB", |host| {
        host.members("g", 10_000, 3_000);
        vec![describe(&["g"])]
    }),
    ("DescribeGroups, a group of 2 members, 31 MiB", |host| {
        host.members("g", 2, 15 << 20);
        vec![describe(&["g"])]
    }),
    ("DescribeGroups, 100 groups of 300 KB", |host| {
        let names = names(100);
        names.iter().for_each(|group| _ = host.members(group, 1, 300 << 10));
        vec![describe(&borrowed(&names))]
    }),
    ("ListGroups, 100,000 groups", |host| {
        let frames: Vec<_> = names(100_000).iter().map(|group| commit(group, 0..1)).collect();
        frames.chunks(1_000).for_each(|some| host.send(some));
        vec![framed(ApiKey::ListGroups, 4, &RequestBody::ListGroups(ListGroupsRequest::default()))]
    }),
    ("LeaveGroup, 131,000 members that are not there", |_| {
        vec![leave("g", &borrowed(&names(131_000)))]
    }),
    ("LeaveGroup, 20,000 members", |host| {
        let ids = host.members("g", 20_000, 10);
        vec![leave("g", &borrowed(&ids))]
    }),
    ("SyncGroup, 131,000 assignments for no member", |host| {
        let joined = host.join(&[join("g", "", 10)]);
        let names = names(131_000);
        let assigned: Vec<&str> = borrowed(&names);
        vec![sync("g", &joined[0].0, joined[0].1, &assigned)]
    }),
    ("SyncGroup, 5,000,000 assignments for no member", |host| {
        let joined = host.join(&[join("g", "", 10)]);
        vec![sync("g", &joined[0].0, joined[0].1, &vec!["m"; 5_000_000])]
    }),
    ("SyncGroup of a leader, 10,000 members who wait", |host| host.waiting_syncs(10_000)),
    ("SyncGroup of a leader, 100,000 members who wait", |host| host.waiting_syncs(100_000)),
    ("JoinGroup, 5,000,000 protocols", |_| vec![join_with("g", &vec![("m", &[][..]); 5_000_000])]),
    ("JoinGroup that ends a rebalance of 10,000 members", |host| host.waiting_joins(10_000, 10)),
    ("JoinGroup that ends a rebalance of 100,000 members", |host| host.waiting_joins(100_000, 10)),
    ("the same, of 10,000 members with 3 KB each", |host| host.waiting_joins(10_000, 3_000)),
];

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("group-{number:06}")).collect()
}

fn borrowed(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

/// A node that serves, and what it answered last.
struct Host {
    node: Node,
    now_ms: i64,
    tickets: u64,
    committed: Vec<(usize, i64)>,
    longest: Duration,
    in_all: Duration,
    turns: usize,
    replies: Vec<Vec<u8>>,
}

impl Host {
    fn new() -> Self {
        let config = Config {
            group_initial_rebalance_delay_ms: 0,
            group_max_session_timeout_ms: i32::MAX,
            ..Config::default()
        };
        let mut node = Node::new(config, SHARDS, &[7; 32]);
        (0..SHARDS).for_each(|shard| node.loaded(shard, 1_000, 0));
        Host {
            node,
            now_ms: 1_000,
            tickets: 0,
            committed: Vec::new(),
            longest: Duration::ZERO,
            in_all: Duration::ZERO,
            turns: 0,
            replies: Vec::new(),
        }
    }

    /// Turns until nothing is left to do, without waiting. What was answered stands in `replies`.
    fn send(&mut self, frames: &[Vec<u8>]) {
        self.replies.clear();
        let session = Arc::new(Session::anonymous("/127.0.0.1", "PLAINTEXT"));
        let numbered = (self.tickets..).zip(frames);
        let frames: Vec<Frame<'_>> =
            numbered.map(|(ticket, bytes)| Frame { ticket, session: &session, bytes }).collect();
        self.tickets += frames.len() as u64;
        let mut frames = &frames[..];
        loop {
            let since = Instant::now();
            let turn = self.node.step(self.now_ms, frames, &self.committed);
            let took = since.elapsed();
            self.longest = self.longest.max(took);
            self.in_all += took;
            self.turns += 1;
            frames = &[];
            if !self.goes_on(&turn) {
                return;
            }
        }
    }

    fn goes_on(&mut self, turn: &Turn) -> bool {
        assert!(turn.foreign.is_empty());
        turn.invalid.iter().for_each(|(_, reason)| println!("refused: {reason}"));
        self.replies.extend(turn.frames().map(|(_, frame)| frame.into_owned()));
        let end =
            |(shard, append): &(usize, kcoord_core::outbox::Append)| (*shard, append.end_offset());
        self.committed = turn.appends.iter().map(end).collect();
        !self.committed.is_empty() || turn.next_timeout_ms.is_some_and(|due| due <= self.now_ms)
    }

    fn commit(&mut self, group_id: &str, count: i32) {
        for first in (0..count).step_by(COMMITTED_AT_ONCE as usize) {
            let end = count.min(first + COMMITTED_AT_ONCE);
            self.send(&[commit(group_id, first..end)]);
        }
    }

    /// Member ids and generations of those that were answered.
    fn join(&mut self, frames: &[Vec<u8>]) -> Vec<(String, i32)> {
        self.send(frames);
        let joined = |frame: &Vec<u8>| {
            let (_, mut body) =
                open_response(ApiKey::JoinGroup, 3, &frame[4..]).expect("a sound header");
            match api::decode_response(ApiKey::JoinGroup, 3, &mut body).expect("a sound body") {
                ResponseBody::JoinGroup(joined) => {
                    (String::from(joined.member_id), joined.generation_id)
                }
                other => panic!("{other:?}"),
            }
        };
        self.replies.iter().map(joined).collect()
    }

    /// A stable group; the ids of its members, that of the leader first.
    fn members(&mut self, group_id: &str, count: usize, metadata_bytes: usize) -> Vec<String> {
        let (ids, generation_id) = self.joined(group_id, count, metadata_bytes);
        self.send(&[sync(group_id, &ids[0], generation_id, &borrowed(&ids))]);
        ids
    }

    /// A group whose members have joined.
    fn joined(&mut self, group_id: &str, count: usize, bytes: usize) -> (Vec<String>, i32) {
        let first = self.join(&[join(group_id, "", bytes)]).remove(0);
        if count == 1 {
            return (vec![first.0], first.1);
        }
        let others = vec![join(group_id, "", bytes); count - 1];
        others.chunks(1_000).for_each(|some| self.send(some));
        let joined = self.join(&[join(group_id, &first.0, bytes)]);
        let (mut ids, generation_id) = (vec![first.0.clone()], joined[0].1);
        ids.extend(joined.into_iter().map(|(id, _)| id).filter(|id| *id != first.0));
        assert_eq!(ids.len(), count);
        (ids, generation_id)
    }

    /// What ends a rebalance whose other members have joined.
    fn waiting_joins(&mut self, count: usize, bytes: usize) -> Vec<Vec<u8>> {
        let first = self.join(&[join("g", "", bytes)]).remove(0);
        let others = vec![join("g", "", bytes); count - 1];
        others.chunks(1_000).for_each(|some| self.send(some));
        vec![join("g", &first.0, bytes)]
    }

    /// What ends a generation's wait for its assignment.
    fn waiting_syncs(&mut self, count: usize) -> Vec<Vec<u8>> {
        let (ids, generation_id) = self.joined("g", count, 10);
        let others: Vec<_> = ids[1..].iter().map(|id| sync("g", id, generation_id, &[])).collect();
        others.chunks(1_000).for_each(|some| self.send(some));
        vec![sync("g", &ids[0], generation_id, &borrowed(&ids))]
    }
}

fn framed(api: ApiKey, version: i16, body: &RequestBody<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let start = begin_request(&mut out, api, version, 7, Some("client"));
    api::encode_request(&mut out, version, body);
    finish_response(&mut out, start);
    out.split_off(4)
}

fn fetch(groups: &[(&str, Option<std::ops::Range<i32>>)]) -> Vec<u8> {
    let topic = |partitions: &std::ops::Range<i32>| OffsetFetchTopic {
        name: "orders",
        topic_id: Uuid::ZERO,
        partition_indexes: partitions.clone().collect(),
    };
    let group = |(group_id, partitions): &(&'static str, Option<std::ops::Range<i32>>)| {
        OffsetFetchRequest {
            group_id,
            member_id: None,
            member_epoch: -1,
            topics: partitions.as_ref().map(|partitions| vec![topic(partitions)]),
            require_stable: false,
        }
    };
    let groups = groups.iter().map(|(id, of)| (&*String::from(*id).leak(), of.clone()));
    let groups: Vec<_> = groups.collect();
    framed(ApiKey::OffsetFetch, 8, &RequestBody::OffsetFetch(groups.iter().map(group).collect()))
}

fn commit(group_id: &str, partitions: std::ops::Range<i32>) -> Vec<u8> {
    let partition = |partition_index| OffsetCommitPartition {
        partition_index,
        committed_offset: 1_000_000,
        committed_leader_epoch: 3,
        committed_metadata: Some(""),
    };
    framed(
        ApiKey::OffsetCommit,
        7,
        &RequestBody::OffsetCommit(OffsetCommitRequest {
            group_id,
            generation_id_or_member_epoch: -1,
            member_id: "",
            group_instance_id: None,
            retention_time_ms: -1,
            topics: vec![OffsetCommitTopic {
                name: "orders",
                topic_id: Uuid::ZERO,
                partitions: partitions.map(partition).collect(),
            }],
        }),
    )
}

fn delete_offsets(group_id: &str, partitions: std::ops::Range<i32>) -> Vec<u8> {
    let topics = vec![OffsetDeleteTopic { name: "orders", partitions: partitions.collect() }];
    framed(
        ApiKey::OffsetDelete,
        0,
        &RequestBody::OffsetDelete(OffsetDeleteRequest { group_id, topics }),
    )
}

fn delete(names: &[&str]) -> Vec<u8> {
    framed(
        ApiKey::DeleteGroups,
        1,
        &RequestBody::DeleteGroups(DeleteGroupsRequest { groups_names: names.to_vec() }),
    )
}

fn describe(names: &[&str]) -> Vec<u8> {
    let request =
        DescribeGroupsRequest { groups: names.to_vec(), include_authorized_operations: false };
    framed(ApiKey::DescribeGroups, 5, &RequestBody::DescribeGroups(request))
}

fn leave(group_id: &str, ids: &[&str]) -> Vec<u8> {
    let member = |member_id: &&'static str| LeaveGroupMember {
        member_id,
        group_instance_id: None,
        reason: None,
    };
    let ids: Vec<&'static str> = ids.iter().map(|id| &*String::from(*id).leak()).collect();
    let members = ids.iter().map(member).collect();
    framed(ApiKey::LeaveGroup, 3, &RequestBody::LeaveGroup(LeaveGroupRequest { group_id, members }))
}

fn join(group_id: &str, member_id: &str, metadata_bytes: usize) -> Vec<u8> {
    let metadata = vec![7; metadata_bytes];
    join_as(group_id, member_id, &[("range", &metadata)])
}

fn join_with(group_id: &str, protocols: &[(&str, &[u8])]) -> Vec<u8> {
    join_as(group_id, "", protocols)
}

fn join_as(group_id: &str, member_id: &str, protocols: &[(&str, &[u8])]) -> Vec<u8> {
    let protocols = protocols.iter().map(|(name, metadata)| JoinGroupProtocol { name, metadata });
    framed(
        ApiKey::JoinGroup,
        3,
        &RequestBody::JoinGroup(JoinGroupRequest {
            group_id,
            session_timeout_ms: 1_000_000_000,
            rebalance_timeout_ms: 1_000_000_000,
            member_id,
            group_instance_id: None,
            protocol_type: "consumer",
            protocols: protocols.collect(),
            reason: None,
        }),
    )
}

fn sync(group_id: &str, member_id: &str, generation_id: i32, assigned: &[&str]) -> Vec<u8> {
    let assignment: &[u8] = &[7; 48];
    let assigned = assigned.iter();
    framed(
        ApiKey::SyncGroup,
        3,
        &RequestBody::SyncGroup(SyncGroupRequest {
            group_id,
            generation_id,
            member_id,
            group_instance_id: None,
            protocol_type: None,
            protocol_name: None,
            assignments: assigned
                .map(|member_id| SyncGroupAssignment { member_id, assignment })
                .collect(),
        }),
    )
}
