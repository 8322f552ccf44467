//! What groups cost in memory: heartbeats allocate nothing, and a group and an offset are small.
//!
//! The counting allocator counts by thread, so that tests do not see each other.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use kcoord_core::catalogue::CatalogueTopic;
use kcoord_core::request::*;
use kcoord_core::response::Response;
use kcoord_core::{Catalogue, Config, ErrorCode, Shard};
use std::sync::Arc;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    static LIVE_BYTES: Cell<usize> = const { Cell::new(0) };
}

/// What glibc takes for an allocation on a 64-bit machine: a header, and a multiple of 16.
fn footprint(layout: Layout) -> usize {
    (layout.size() + 8).next_multiple_of(16).max(32)
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        LIVE_BYTES.set(LIVE_BYTES.get().wrapping_add(footprint(layout)));
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE_BYTES.set(LIVE_BYTES.get().wrapping_sub(footprint(layout)));
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const START_MS: i64 = 1_700_000_000_000;
/// A subscription of 64 bytes.
const TOPIC: &str = "orders-placed-by-customers-of-the-shop-in-all-countries-served-1";

fn context(index: usize) -> RequestContext<'static> {
    RequestContext {
        ticket: index as Ticket,
        api_version: 3,
        client_id: "orders-service-1",
        client_host: "/127.0.0.1",
        uuid: index as u128,
    }
}

fn group_id(index: usize) -> String {
    format!("orders-app-{index:07}")
}

fn commit(shard: &mut Shard) {
    let append = shard.poll_append().expect("groups were written");
    shard.handle_committed(START_MS, append.end_offset());
}

/// Members of one-member Stable groups.
fn make_groups(shard: &mut Shard, count: usize) -> Vec<Box<str>> {
    let mut member_ids = Vec::with_capacity(count);
    for index in 0..count {
        let group_id = &group_id(index);
        let join = JoinGroupRequest {
            group_id,
            session_timeout_ms: 45_000,
            rebalance_timeout_ms: 300_000,
            member_id: "",
            group_instance_id: None,
            protocol_type: "consumer",
            protocols: vec![JoinGroupProtocol { name: "range", metadata: &[1; 64] }],
            reason: None,
        };
        shard.handle_request(START_MS, &context(index), &Request::JoinGroup(join));
        commit(shard);
        shard.handle_timeout(START_MS);
        let Some((_, Response::JoinGroup(joined))) = shard.poll_response() else {
            panic!("group {index} has not joined");
        };
        let member_id = joined.member_id;
        let sync = SyncGroupRequest {
            group_id,
            generation_id: 1,
            member_id: &member_id,
            group_instance_id: None,
            protocol_type: Some("consumer"),
            protocol_name: Some("range"),
            assignments: vec![SyncGroupAssignment { member_id: &member_id, assignment: &[7; 48] }],
        };
        shard.handle_request(START_MS, &context(index), &Request::SyncGroup(sync));
        commit(shard);
        shard.poll_response().expect("an answer to the SyncGroup");
        member_ids.push(member_id);
    }
    member_ids
}

fn new_shard() -> Shard {
    let mut shard = Shard::new(Config { group_initial_rebalance_delay_ms: 0, ..Config::default() });
    shard.loaded(START_MS, 0);
    shard
}

#[test]
fn heartbeats_allocate_nothing() {
    let mut shard = new_shard();
    let member_ids = make_groups(&mut shard, 1_000);
    let group_ids: Vec<String> = (0..1_000).map(group_id).collect();
    let heartbeats: Vec<_> = (0..1_000)
        .map(|index| {
            let request = HeartbeatRequest {
                group_id: &group_ids[index],
                generation_id: if index % 10 == 0 { 2 } else { 1 },
                member_id: if index % 10 == 1 { "nobody" } else { &member_ids[index] },
                group_instance_id: None,
            };
            (context(index), Request::Heartbeat(request))
        })
        .collect();
    let mut answer_all = |now_ms| {
        shard.handle_batch(now_ms, &heartbeats);
        for (context, request) in &heartbeats {
            shard.handle_request(now_ms, context, request);
        }
        let mut refused = 0;
        while let Some((_, response)) = shard.poll_response() {
            refused += usize::from(response != Response::Heartbeat(ErrorCode::None));
        }
        assert_eq!(refused, 400);
    };
    // The first turn makes room for the responses; later ones find it.
    answer_all(START_MS);
    let before = ALLOCATIONS.get();
    for turn in 1..10 {
        answer_all(START_MS + turn * 3_000);
    }
    assert_eq!(ALLOCATIONS.get() - before, 0);
}

/// A shard that knows of a topic of ten partitions, for consumer groups.
fn new_consumer_shard() -> Shard {
    let mut shard = Shard::new(Config::default());
    let topic = CatalogueTopic { id: Uuid(7), partitions: 10, ..CatalogueTopic::default() };
    shard.handle_topics(START_MS, &Arc::new(Catalogue::new([(TOPIC.into(), topic)])));
    shard.loaded(START_MS, 0);
    shard
}

/// Members of Stable consumer groups of one or more.
fn make_consumer_groups(shard: &mut Shard, group_ids: &[String], members: usize) {
    for (index, group_id) in group_ids.iter().enumerate() {
        for member in 0..members {
            let member_id = &member_id(index, member);
            let joins = ConsumerGroupHeartbeatRequest {
                group_id,
                member_id,
                rebalance_timeout_ms: 300_000,
                subscribed_topic_names: Some(vec![TOPIC]),
                topic_partitions: Some(Vec::new()),
                ..Default::default()
            };
            let joins = Request::ConsumerGroupHeartbeat(joins);
            shard.handle_request(START_MS, &context(index), &joins);
            commit(shard);
            shard.poll_response().expect("it has joined");
        }
    }
}

fn member_id(group: usize, member: usize) -> String {
    format!("XyAbCdEfGhIjKlMn-{member:02}-{group:04}")
}

/// What members say at rest; their epochs are those that the last answers told.
fn at_rest<'a>(
    group_ids: &'a [String],
    member_ids: &'a [Vec<String>],
    epoch: i32,
) -> Vec<(RequestContext<'static>, Request<'a>)> {
    let of_group = |(index, group_id): (usize, &'a String)| {
        member_ids[index].iter().map(move |member_id| {
            let beat = ConsumerGroupHeartbeatRequest {
                group_id,
                member_id,
                member_epoch: epoch,
                rebalance_timeout_ms: -1,
                ..Default::default()
            };
            (context(index), Request::ConsumerGroupHeartbeat(beat))
        })
    };
    group_ids.iter().enumerate().flat_map(of_group).collect()
}

#[test]
fn heartbeats_of_consumer_groups_allocate_nothing() {
    for members in [1, 3] {
        let mut shard = new_consumer_shard();
        let group_ids: Vec<String> = (0..300).map(group_id).collect();
        make_consumer_groups(&mut shard, &group_ids, members);
        let ids: Vec<Vec<String>> = (0..group_ids.len())
            .map(|group| (0..members).map(|member| member_id(group, member)).collect())
            .collect();
        // The second and third wait for the interval: their epoch is still the first target's.
        let heartbeats = at_rest(&group_ids, &ids, 2);
        let mut answer_all = |now_ms| {
            shard.handle_batch(now_ms, &heartbeats);
            for (context, request) in &heartbeats {
                shard.handle_request(now_ms, context, request);
            }
            let mut answered = 0;
            while let Some((_, response)) = shard.poll_response() {
                assert!(
                    matches!(response, Response::ConsumerGroupHeartbeat(Ok(_))),
                    "{response:?}"
                );
                answered += 1;
            }
            assert_eq!(answered, 2 * heartbeats.len());
        };
        // The first turn makes room for the responses; later ones find it.
        answer_all(START_MS);
        let before = ALLOCATIONS.get();
        for turn in 1..10 {
            answer_all(START_MS + turn * 100);
        }
        assert_eq!(ALLOCATIONS.get() - before, 0, "groups of {members}");
    }
}

#[test]
fn a_consumer_group_of_one_takes_at_most_1250_bytes() {
    let group_ids: Vec<String> = (0..10_000).map(group_id).collect();
    let before = LIVE_BYTES.get();
    let mut shard = new_consumer_shard();
    make_consumer_groups(&mut shard, &group_ids, 1);
    let bytes = LIVE_BYTES.get().wrapping_sub(before) / group_ids.len();
    assert!(bytes <= 1_250, "{bytes} bytes each");
    assert!(bytes >= 500, "{bytes} bytes each: they are not there");
}

#[test]
fn a_group_of_one_takes_at_most_450_bytes() {
    // One more than the table holds at its largest load: the worst case for its share.
    for count in [10_000, 14_337] {
        let before = LIVE_BYTES.get();
        let mut shard = new_shard();
        drop(make_groups(&mut shard, count));
        let bytes = LIVE_BYTES.get().wrapping_sub(before) / count;
        assert!(bytes <= 450, "{bytes} bytes each for {count} groups");
        assert_eq!(shard.group_count(), count);
    }
}

#[test]
fn an_offset_of_a_hundred_takes_at_most_48_bytes() {
    let mut shard = new_shard();
    let member_ids = make_groups(&mut shard, 1_100);
    let mut bytes = 0;
    for (index, member_id) in member_ids.iter().enumerate() {
        if index == 100 {
            bytes = LIVE_BYTES.get(); // what the first of all need is no offset's
        }
        let partition = |partition_index| OffsetCommitPartition {
            partition_index,
            committed_offset: 1_000_000,
            committed_leader_epoch: 3,
            committed_metadata: Some(""),
        };
        let request = OffsetCommitRequest {
            group_id: &group_id(index),
            generation_id_or_member_epoch: 1,
            member_id,
            group_instance_id: None,
            retention_time_ms: -1,
            topics: vec![OffsetCommitTopic {
                name: "orders-placed",
                topic_id: Uuid(7),
                partitions: (0..100).map(partition).collect(),
            }],
        };
        shard.handle_request(START_MS, &context(index), &Request::OffsetCommit(request));
        commit(&mut shard);
        let answer = shard.poll_response();
        assert!(matches!(answer, Some((_, Response::OffsetCommit(_)))), "{answer:?}");
    }
    let each = LIVE_BYTES.get().wrapping_sub(bytes) as f64 / 100_000.0;
    assert!(each <= 48.0, "{each} bytes each");
    assert!(each >= 20.0, "{each} bytes each: they are not there");
}
