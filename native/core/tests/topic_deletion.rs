//! A deleted topic takes its offsets along, in every group, and no others (offsets section 6).

use kcoord_core::request::{
    OffsetCommitPartition, OffsetCommitRequest, OffsetCommitTopic, OffsetFetchRequest, Request,
    RequestContext, Uuid,
};
use kcoord_core::response::Response;
use kcoord_core::shard::{Sweep, Swept};
use kcoord_core::{Config, Shard};

const OLD: Uuid = Uuid(1);
const NEW: Uuid = Uuid(2);

fn context(ticket: u64) -> RequestContext<'static> {
    RequestContext { ticket, api_version: 9, client_id: "c", client_host: "/127.0.0.1", uuid: 0 }
}

fn commit(shard: &mut Shard, group_id: &str, name: &str, topic_id: Uuid, partition_index: i32) {
    let partition = OffsetCommitPartition {
        partition_index,
        committed_offset: 7,
        committed_leader_epoch: -1,
        committed_metadata: None,
    };
    let request = Request::OffsetCommit(OffsetCommitRequest {
        group_id,
        generation_id_or_member_epoch: -1,
        member_id: "",
        group_instance_id: None,
        retention_time_ms: -1,
        topics: vec![OffsetCommitTopic { name, topic_id, partitions: vec![partition] }],
    });
    shard.handle_request(0, &context(1), &request);
    settle(shard);
}

/// Commits what was written; the responses.
fn settle(shard: &mut Shard) -> Vec<Response> {
    while let Some(append) = shard.poll_append() {
        shard.handle_committed(0, append.end_offset());
    }
    std::iter::from_fn(|| shard.poll_response()).map(|(_, response)| response).collect()
}

fn stored(shard: &mut Shard, group_id: &str) -> Vec<(String, i32)> {
    let request = Request::OffsetFetch(OffsetFetchRequest {
        group_id,
        member_id: None,
        member_epoch: -1,
        topics: None,
        require_stable: false,
    });
    shard.handle_request(0, &context(2), &request);
    let responses = settle(shard);
    let [Response::OffsetFetch(response)] = &responses[..] else { panic!("{responses:?}") };
    let partitions = |topic: kcoord_core::response::OffsetFetchResponseTopic<'_>| {
        let name = topic.name().to_string();
        let of = topic.partitions.map(|partition| partition.partition_index);
        of.map(move |index| (name.clone(), index)).collect::<Vec<_>>()
    };
    response.topics().flat_map(partitions).collect()
}

#[test]
fn offsets_of_that_topic_go_and_others_stay() {
    let mut shard = Shard::new(Config::default());
    shard.loaded(0, 0);
    commit(&mut shard, "a", "orders", OLD, 0);
    commit(&mut shard, "a", "orders", NEW, 1);
    commit(&mut shard, "a", "orders", Uuid::ZERO, 2);
    commit(&mut shard, "a", "other", Uuid(3), 0);
    commit(&mut shard, "b", "orders", OLD, 5);

    shard.handle_topic_deleted(0, "orders", OLD);
    let tombstones = shard.poll_append().expect("tombstones are written");
    assert_eq!(tombstones.record_count, 3);
    shard.handle_committed(0, tombstones.end_offset());

    assert_eq!(stored(&mut shard, "a"), [("orders".into(), 1), ("other".into(), 0)]);
    assert_eq!(stored(&mut shard, "b"), []);
}

#[test]
fn a_topic_that_nobody_committed_to_writes_nothing() {
    let mut shard = Shard::new(Config::default());
    shard.loaded(0, 0);
    commit(&mut shard, "a", "orders", OLD, 0);
    shard.handle_topic_deleted(0, "nowhere", OLD);
    assert_eq!(shard.poll_append(), None);
}

#[test]
fn some_at_a_time_are_all_in_the_end() {
    let mut shard = Shard::new(Config::default());
    shard.loaded(0, 0);
    for partition in 0..2_000 {
        commit(&mut shard, "a", "orders", if partition % 2 == 0 { OLD } else { NEW }, partition);
    }
    commit(&mut shard, "b", "orders", OLD, 5);
    let (mut from, mut turns) = (Sweep::default(), 0);
    loop {
        let Swept { cost, left } = shard.delete_some_of_topic(0, "orders", OLD, from);
        assert!((1..1_000).contains(&cost), "{cost}");
        settle(&mut shard);
        turns += 1;
        match left {
            Some(left) => from = left,
            None => break,
        }
        // What was committed meanwhile to a topic of the same name stays.
        commit(&mut shard, "a", "orders", NEW, 0);
    }
    assert!(turns > 1);
    assert_eq!(stored(&mut shard, "a").len(), 1_001);
    assert_eq!(stored(&mut shard, "b"), []);
    shard.assert_consistent();
}
