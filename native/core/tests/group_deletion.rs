//! A group of many offsets is deleted in slices: each offset gets its tombstone, once, whatever the
//! slices are, and a log that ends between two of them has just what is not deleted yet.

use std::collections::BTreeSet;

use kcoord_core::record::RecordKey;
use kcoord_core::record::batch::{BatchHeader, Batches};
use kcoord_core::request::{
    DeleteGroupsRequest, OffsetCommitPartition, OffsetCommitRequest, OffsetCommitTopic,
    OffsetFetchRequest, Request, RequestContext, Uuid,
};
use kcoord_core::response::{OffsetFetchResponseTopic, Response};
use kcoord_core::{Config, ErrorCode, Shard};

const GROUP: &str = "g";
const TOPICS: [&str; 3] = ["a", "b", "c"];
const PARTITIONS: i32 = 20;

type Place = (String, i32);

/// A shard and its log.
struct World {
    shard: Shard,
    log: Vec<u8>,
    /// Of offsets, of all that was written since they were last taken.
    tombstones: Vec<Place>,
}

impl World {
    fn new() -> World {
        let mut world =
            World { shard: Shard::new(Config::default()), log: Vec::new(), tombstones: Vec::new() };
        world.shard.loaded(0, 0);
        world.ask(&Request::OffsetCommit(OffsetCommitRequest {
            group_id: GROUP,
            generation_id_or_member_epoch: -1,
            member_id: "",
            group_instance_id: None,
            retention_time_ms: -1,
            topics: TOPICS.map(of_all_partitions).to_vec(),
        }));
        world
    }

    fn ask(&mut self, request: &Request<'_>) -> Vec<Response> {
        let context = RequestContext {
            ticket: 1,
            api_version: 9,
            client_id: "c",
            client_host: "/127.0.0.1",
            uuid: 0,
        };
        self.shard.handle_request(0, &context, request);
        while let Some(append) = self.shard.poll_append() {
            let start = self.log.len();
            BatchHeader::of(&append).encode(&append.records, &mut self.log);
            for batch in Batches::new(&self.log[start..]) {
                for record in batch.expect("a whole batch").records() {
                    let record = record.expect("a record");
                    let key = RecordKey::parse(record.key.expect("a key")).expect("a known key");
                    if let (RecordKey::OffsetCommit(key), None) = (key, record.value) {
                        self.tombstones.push((key.topic.to_owned(), key.partition));
                    }
                }
            }
            self.shard.handle_committed(0, append.end_offset());
        }
        std::iter::from_fn(|| self.shard.poll_response()).map(|(_, response)| response).collect()
    }

    /// What a shard has that reads the log as it is now.
    fn in_the_log(&self) -> BTreeSet<Place> {
        let mut loaded =
            World { shard: Shard::new(Config::default()), log: Vec::new(), tombstones: Vec::new() };
        loaded.shard.replay(&self.log).expect("a sound log");
        loaded.shard.loaded(0, 1_000);
        let fetched = loaded.ask(&fetch());
        let [Response::OffsetFetch(response)] = &fetched[..] else { panic!("{fetched:?}") };
        let partitions = |topic: OffsetFetchResponseTopic<'_>| {
            let name = topic.name().to_string();
            topic.partitions.map(|at| (name.clone(), at.partition_index)).collect::<Vec<_>>()
        };
        response.topics().flat_map(partitions).collect()
    }
}

fn of_all_partitions(name: &str) -> OffsetCommitTopic<'_> {
    let partition = |partition_index| OffsetCommitPartition {
        partition_index,
        committed_offset: 7,
        committed_leader_epoch: -1,
        committed_metadata: None,
    };
    let partitions = (0..PARTITIONS).map(partition).collect();
    OffsetCommitTopic { name, topic_id: Uuid::ZERO, partitions }
}

fn fetch() -> Request<'static> {
    Request::OffsetFetch(OffsetFetchRequest {
        group_id: GROUP,
        member_id: None,
        member_epoch: -1,
        topics: None,
        require_stable: false,
    })
}

fn deletion() -> Request<'static> {
    Request::DeleteGroups(DeleteGroupsRequest { groups_names: vec![GROUP] })
}

#[test]
fn no_slice_forgets_an_offset() {
    let places = TOPICS.iter().flat_map(|topic| (0..PARTITIONS).map(|at| (topic.to_string(), at)));
    let all: BTreeSet<Place> = places.collect();
    for most in [1, 7, 20, 59, 60, 1_000] {
        let mut world = World::new();
        assert_eq!(world.in_the_log(), all);
        let mut left = all.clone();
        for _ in 0..4 {
            assert!(world.ask(&Request::DeleteGroupOffsets(GROUP, most)).is_empty());
            let gone = std::mem::take(&mut world.tombstones);
            assert_eq!(gone.len(), most.min(left.len()), "a slice of {most}");
            for place in &gone {
                assert!(left.remove(place), "{place:?} goes twice, or was never there");
            }
            assert_eq!(world.in_the_log(), left, "slices of {most}");
            if left.is_empty() {
                continue;
            }
            // Who asks meanwhile sees no half of a group.
            let fetched = world.ask(&fetch());
            let [Response::OffsetFetch(response)] = &fetched[..] else { panic!("{fetched:?}") };
            assert_eq!(response.error_code(), ErrorCode::CoordinatorLoadInProgress);
        }
        let answers = world.ask(&deletion());
        let [Response::DeleteGroups(response)] = &answers[..] else { panic!("{answers:?}") };
        assert_eq!(response.results, [(GROUP.into(), ErrorCode::None)]);
        let gone: BTreeSet<Place> = std::mem::take(&mut world.tombstones).into_iter().collect();
        assert_eq!(gone, left, "the rest goes with the group");
        assert_eq!(world.in_the_log(), BTreeSet::new());
        world.shard.assert_consistent();
    }
}
