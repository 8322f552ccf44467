//! Long answers leave in parts, and many answers in several turns: no turn is long because of them.

use kcoord_core::ErrorCode;
use kcoord_core::request::{JoinGroupProtocol, JoinGroupRequest};
use kcoord_wire::api::{RequestBody, ResponseBody};

use crate::ask::*;
use crate::host::{Host, frame};

/// A turn gives no more of long replies than this.
const MOST_BYTES: usize = 600 << 10;
/// Nor answers to those who waited.
const MOST_ANSWERS: usize = 256;

fn join_as<'a>(member_id: &'a str, metadata: &'a [u8]) -> RequestBody<'a> {
    RequestBody::JoinGroup(JoinGroupRequest {
        group_id: "g",
        session_timeout_ms: 30_000,
        rebalance_timeout_ms: 20_000,
        member_id,
        group_instance_id: None,
        protocol_type: "consumer",
        protocols: vec![JoinGroupProtocol { name: "range", metadata }],
        reason: None,
    })
}

/// A group that waits for its first member, and the frame of that one.
fn waiting(host: &mut Host, version: i16, members: usize, bytes: usize) -> (Vec<u64>, Vec<u8>) {
    let ResponseBody::JoinGroup(first) = host.ask(3, &join_as("", &vec![7; bytes])) else {
        panic!()
    };
    let metadata = |n: usize| vec![n as u8; bytes];
    let frames: Vec<Vec<u8>> = (1..members).map(|n| frame(3, &join_as("", &metadata(n)))).collect();
    let tickets = host.send_frames(&frames);
    (tickets, frame(version, &join_as(&first.member_id, &metadata(0))))
}

fn turns_until(host: &mut Host, ticket: u64) -> usize {
    let mut turns = 1;
    while host.waits(ticket) {
        assert!(host.next_timeout_ms.is_some_and(|due_ms| due_ms <= host.now_ms), "it goes on");
        host.sleep(0);
        assert!(host.turn_bytes <= MOST_BYTES, "{} bytes in a turn", host.turn_bytes);
        turns += 1;
    }
    turns
}

#[test]
fn a_leaders_answer_in_parts_is_the_one_of_one_piece() {
    for version in 2..=9 {
        let mut answers = Vec::new();
        for in_parts in [false, true] {
            let mut host = Host::new(1);
            if in_parts {
                host.node.send_in_parts();
            }
            let (_, last) = waiting(&mut host, version, 40, 100 << 10);
            let ticket = host.send_frames(&[last])[0];
            let turns = turns_until(&mut host, ticket);
            assert_eq!(turns > 5, in_parts, "{turns} turns");
            answers.push(host.take(ticket));
        }
        let ResponseBody::JoinGroup(leader) = &answers[0] else { panic!() };
        assert_eq!(leader.members.len(), 40);
        assert_eq!(answers[0], answers[1], "version {version}");
    }
}

#[test]
fn an_answer_that_has_begun_to_leave_is_of_its_generation_whatever_happens_then() {
    let mut host = Host::new(1);
    host.node.send_in_parts();
    let (_, last) = waiting(&mut host, 5, 40, 100 << 10);
    let ticket = host.send_frames(&[last])[0];
    // All sessions end, and the members with what they subscribed to.
    host.sleep(400_000);
    assert!(host.waits(ticket));
    turns_until(&mut host, ticket);
    let ResponseBody::JoinGroup(leader) = host.take(ticket) else { panic!() };
    assert_eq!((leader.generation_id, leader.members.len()), (2, 40));
    for (number, member) in leader.members.iter().enumerate() {
        assert!(member.metadata.iter().all(|byte| *byte == number as u8));
    }
}

#[test]
fn a_heartbeat_is_answered_in_its_turn_while_long_answers_leave() {
    let mut host = Host::new(1);
    host.node.send_in_parts();
    let (_, last) = waiting(&mut host, 5, 40, 100 << 10);
    let long = host.send_frames(&[last])[0];
    while host.waits(long) {
        let beat = host.send(4, &heartbeat("g", "nobody", 1));
        assert!(!host.waits(beat));
    }
}

#[test]
fn the_rest_of_a_long_answer_is_forgotten_with_its_client() {
    let mut host = Host::new(1);
    host.node.send_in_parts();
    let (_, last) = waiting(&mut host, 5, 40, 100 << 10);
    let ticket = host.send_frames(&[last])[0];
    assert!(host.partial.contains_key(&ticket));
    host.node.abandon(ticket);
    let before = host.partial[&ticket].len();
    host.sleep(0);
    assert_eq!((host.partial[&ticket].len(), host.turn_bytes), (before, 0));
    assert!(host.next_timeout_ms.is_some_and(|due_ms| due_ms > host.now_ms));
}

#[test]
fn a_description_of_many_mib_leaves_in_parts_and_gives_its_memory_back() {
    let mut host = Host::new(1);
    let metadata = vec![7; 3 << 20];
    let ResponseBody::JoinGroup(joined) = host.ask(3, &join_as("", &metadata)) else { panic!() };
    host.ask(3, &sync("g", &joined.member_id, 1));
    host.node.send_in_parts();
    // More than what answers may take in all, one after the other.
    for _ in 0..30 {
        let ticket = host.send(5, &describe(&["g"; 8]));
        turns_until(&mut host, ticket);
        let ResponseBody::DescribeGroups(described) = host.take(ticket) else { panic!() };
        let groups = described.groups;
        assert_eq!(groups.len(), 8);
        assert!(groups.iter().all(|group| *group.members[0].member_metadata == *metadata));
    }
}

/// A group with offsets in four topics.
fn with_offsets(host: &mut Host) -> [(&'static str, u128, i32); 4] {
    let topics = [("a", 7, 30_000), ("b", 8, 1), ("c", 9, 30_000), ("d", 10, 3)];
    host.topics(&topics);
    for (name, id, partitions) in topics {
        let indexes: Vec<i32> = (0..partitions).collect();
        host.ask(9, &commit("g", &[(name, id, &indexes)]));
    }
    topics
}

#[test]
fn offsets_in_parts_are_those_of_one_piece() {
    for version in 2..=10 {
        let mut answers = Vec::new();
        for in_parts in [false, true] {
            let mut host = Host::new(1);
            with_offsets(&mut host);
            if in_parts {
                host.node.send_in_parts();
            }
            let ticket = host.send(version, &fetch(&[("g", None)]));
            let turns = turns_until(&mut host, ticket);
            assert!(turns > 1 || !in_parts, "{turns} turns");
            answers.push(fetched(host.take(ticket)));
        }
        assert_eq!(answers[0], answers[1], "version {version}");
        let (_, code, topics) = &answers[0][0];
        let found: Vec<(u128, usize)> =
            topics.iter().map(|topic| (topic.topic_id, topic.partitions.len())).collect();
        let id = |id| if version < 10 { 0 } else { id };
        let expected = [(id(7), 30_000), (id(8), 1), (id(9), 30_000), (id(10), 3)];
        assert_eq!((*code, &found[..]), (ErrorCode::None, &expected[..]));
    }
}

#[test]
fn offsets_that_have_begun_to_leave_are_those_of_one_time() {
    let mut host = Host::new(1);
    let [first, .., last] = with_offsets(&mut host);
    host.node.send_in_parts();
    let ticket = host.send(8, &fetch(&[("g", None)]));
    while !host.partial.contains_key(&ticket) {
        host.sleep(0);
    }
    assert!(host.waits(ticket));
    // What is committed, and what goes, while it leaves.
    for (name, id, _) in [first, last] {
        let RequestBody::OffsetCommit(mut request) = commit("g", &[(name, id, &[0, 1, 2])]) else {
            panic!()
        };
        request.topics[0].partitions.iter_mut().for_each(|of| of.committed_offset = 77);
        host.ask(9, &RequestBody::OffsetCommit(request));
    }
    host.topics(&[first]);
    turns_until(&mut host, ticket);
    let answer = fetched(host.take(ticket));
    let topics = &answer[0].2;
    assert_eq!(topics.iter().map(|topic| &*topic.name).collect::<Vec<_>>(), ["a", "b", "c", "d"]);
    let offsets = topics.iter().flat_map(|topic| &topic.partitions);
    assert!(offsets.clone().count() == 60_004);
    assert!(offsets.clone().all(|(at, offset, ..)| *offset == i64::from(*at) * 10));
}

#[test]
fn the_answers_of_a_rebalance_of_thousands_leave_in_several_turns() {
    let mut host = Host::new(1);
    host.node.send_in_parts();
    let (tickets, last) = waiting(&mut host, 5, 5_000, 10);
    host.send_frames(&[last]);
    let mut left = tickets.len();
    while left > 0 {
        let waiting = tickets.iter().filter(|ticket| host.waits(**ticket)).count();
        assert!((1..=MOST_ANSWERS).contains(&(left - waiting)), "{left} to {waiting}");
        left = waiting;
        // Who asks meanwhile does not wait behind them.
        let beat = host.send(4, &heartbeat("g", "nobody", 1));
        assert!(!host.waits(beat));
    }
    for ticket in tickets {
        let ResponseBody::JoinGroup(joined) = host.take(ticket) else { panic!() };
        assert_eq!((joined.generation_id, joined.members.len()), (2, 0));
    }
}
