//! One group of a shard, and short words for what happens to its offsets.

use kcoord_core::config::Config;
use kcoord_core::error::ErrorCode;
use kcoord_core::offset::expiration::{ExpirationBase, expire};
use kcoord_core::offset::{GroupOffsets, GroupScope, OffsetTables, commit, fetch};
use kcoord_core::outbox::{Append, Outbox};
use kcoord_core::record::Plain;
use kcoord_core::record::{BatchHeader, Batches, OffsetCommitValue, RecordKey, TransactionResult};
use kcoord_core::request::{
    OffsetCommitPartition, OffsetCommitRequest, OffsetCommitTopic, OffsetFetchRequest,
    OffsetFetchTopic, Uuid,
};

pub const NOW_MS: i64 = 1_700_000_000_000;
pub const DAY_MS: i64 = 86_400_000;
pub const WEEK_MS: i64 = 7 * DAY_MS;
pub const ID: Uuid = Uuid(77);
pub const OTHER_ID: Uuid = Uuid(78);
/// A record type that was never used.
const UNKNOWN_KEY: [u8; 2] = [0, 18];
pub const NONE: ErrorCode = ErrorCode::None;

/// One group `g` of a shard, its outbox, and the story told about it.
pub struct Story {
    pub offsets: GroupOffsets,
    pub tables: OffsetTables,
    pub outbox: Outbox,
    pub config: Config,
    pub now_ms: i64,
    pub log: Vec<Append>,
}

/// (record type, topic, partition, value) of a written record.
pub type Written = (i16, String, i32, Option<Value>);

/// (topic, its (partition, offset, error) in the order of the answer).
pub type Fetched = (String, Vec<(i32, i64, ErrorCode)>);

#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    pub version: i16,
    pub offset: i64,
    pub leader_epoch: i32,
    pub metadata: String,
    pub commit_timestamp: i64,
    pub expire_timestamp: i64,
    pub topic_id: Uuid,
}

impl Story {
    pub fn new() -> Self {
        Story {
            offsets: GroupOffsets::default(),
            tables: OffsetTables::new([1, 2]),
            outbox: Outbox::default(),
            config: Config::default(),
            now_ms: NOW_MS,
            log: Vec::new(),
        }
    }

    pub fn with<T>(&mut self, act: impl FnOnce(&mut GroupScope<'_>, i64, &mut Outbox) -> T) -> T {
        let mut scope =
            GroupScope { group_id: "g", offsets: &mut self.offsets, tables: &mut self.tables };
        act(&mut scope, self.now_ms, &mut self.outbox)
    }

    pub fn commit(&mut self, request: &OffsetCommitRequest<'_>) -> Vec<(i32, ErrorCode)> {
        let config = self.config.clone();
        let response = self
            .with(|scope, now_ms, out| commit::commit(scope, &config, request, Plain, now_ms, out));
        assert_eq!(response.topics.len(), request.topics.len());
        response.topics.into_iter().flat_map(|topic| topic.partitions).collect()
    }

    /// Commits `t`-0 and so on, by name and id.
    pub fn committed(&mut self, topic: &'static str, partitions: &[(i32, i64)]) {
        let partitions = partitions.iter().map(|&(at, offset)| partition(at, offset)).collect();
        let results = self.commit(&request(vec![(topic, ID, partitions)]));
        assert!(results.iter().all(|(_, error)| *error == NONE));
    }

    /// As a replayed TxnOffsetCommit: takes an offset in the log, and is not looked at again.
    pub fn pending(&mut self, producer_id: i64, topic: &str, partition: i32, offset: i64) {
        let value = value(offset);
        let at = self.outbox.emit(self.now_ms, &UNKNOWN_KEY, None);
        self.with(|scope, _, _| scope.apply(topic, partition, Some(&value), at, Some(producer_id)));
    }

    pub fn marker(&mut self, producer_id: i64, result: TransactionResult) {
        for group_id in self.tables.transactions.close(producer_id) {
            assert_eq!(&*group_id, "g");
            self.with(|scope, _, _| scope.apply_marker(producer_id, result));
        }
    }

    pub fn fetch(&self, request: &OffsetFetchRequest<'_>) -> Vec<Fetched> {
        let response = fetch::fetch(Some(&self.offsets), &self.tables.topics, request, usize::MAX);
        assert_eq!((response.group_id(), response.error_code()), ("g", NONE));
        let answer = |topic: kcoord_core::response::OffsetFetchResponseTopic<'_>| {
            let name = topic.name().to_string();
            let partition = |at: kcoord_core::response::OffsetFetchResponsePartition<'_>| {
                (at.partition_index, at.committed_offset, at.error_code)
            };
            (name, topic.partitions.map(partition).collect())
        };
        response.topics().map(answer).collect()
    }

    pub fn furthest(&self, topic: &str, partition: i32) -> i64 {
        let topics = &self.tables.topics;
        topics.find(topic).map_or(0, |topic| topics.furthest(topic, partition))
    }

    pub fn fetch_all(&self) -> Vec<Fetched> {
        self.fetch(&fetch_request(None, false))
    }

    pub fn expire(&mut self, base: ExpirationBase, subscribed: &[&str]) -> bool {
        let subscribed = |topic: &str| subscribed.contains(&topic);
        self.with(|scope, now_ms, outbox| expire(scope, base, WEEK_MS, subscribed, now_ms, outbox))
    }

    /// What was written since the last look.
    pub fn written(&mut self) -> Vec<Written> {
        let Some(append) = self.outbox.poll_append() else { return Vec::new() };
        let chunk = chunk(&append);
        self.log.push(append);
        let batch = Batches::new(&chunk).next().unwrap().unwrap();
        let records = batch.records().map(Result::unwrap);
        records.filter(|record| record.key != Some(&UNKNOWN_KEY)).map(read).collect()
    }

    pub fn tombstones(&mut self) -> Vec<(String, i32)> {
        let tombstone = |(record_type, topic, partition, value): Written| {
            assert_eq!((record_type, value), (1, None));
            (topic, partition)
        };
        self.written().into_iter().map(tombstone).collect()
    }

    /// Replays all that was written, and compares what that gives with the live state.
    pub fn check_replay(&mut self) {
        self.written();
        let mut replayed = Story::new();
        for append in &self.log {
            let chunk = chunk(append);
            let batch = Batches::new(&chunk).next().unwrap().unwrap();
            for record in batch.records() {
                let record = record.unwrap();
                if record.key == Some(&UNKNOWN_KEY) {
                    continue;
                }
                let RecordKey::OffsetCommit(key) = RecordKey::parse(record.key.unwrap()).unwrap()
                else {
                    panic!("only offsets are written here")
                };
                let value = record.value.map(|value| OffsetCommitValue::parse(value).unwrap());
                replayed.with(|scope, _, _| {
                    scope.apply(key.topic, key.partition, value.as_ref(), record.offset, None);
                });
            }
        }
        let live: Vec<_> = self.offsets.iter(&self.tables.topics).collect();
        assert_eq!(replayed.offsets.iter(&replayed.tables.topics).collect::<Vec<_>>(), live);
    }
}

pub fn read(record: kcoord_core::record::Record<'_>) -> Written {
    let raw = record.key.unwrap();
    let RecordKey::OffsetCommit(key) = RecordKey::parse(raw).unwrap() else {
        panic!("not an offset")
    };
    assert_eq!(key.group, "g");
    let value = record.value.map(|raw| {
        let value = OffsetCommitValue::parse(raw).unwrap();
        Value {
            version: i16::from_be_bytes([raw[0], raw[1]]),
            offset: value.offset,
            leader_epoch: value.leader_epoch,
            metadata: value.metadata.into(),
            commit_timestamp: value.commit_timestamp,
            expire_timestamp: value.expire_timestamp,
            topic_id: value.topic_id,
        }
    });
    (i16::from_be_bytes([raw[0], raw[1]]), key.topic.into(), key.partition, value)
}

pub fn chunk(append: &Append) -> Vec<u8> {
    let mut chunk = Vec::new();
    BatchHeader::of(append).encode(&append.records, &mut chunk);
    chunk
}

pub fn value(offset: i64) -> OffsetCommitValue<'static> {
    OffsetCommitValue {
        offset,
        leader_epoch: -1,
        metadata: "",
        commit_timestamp: NOW_MS,
        expire_timestamp: -1,
        topic_id: Uuid::ZERO,
    }
}

pub fn partition(partition_index: i32, committed_offset: i64) -> OffsetCommitPartition<'static> {
    OffsetCommitPartition {
        partition_index,
        committed_offset,
        committed_leader_epoch: 5,
        committed_metadata: None,
    }
}

pub type Topics<'a> = Vec<(&'a str, Uuid, Vec<OffsetCommitPartition<'a>>)>;

pub fn request(topics: Topics<'_>) -> OffsetCommitRequest<'_> {
    let topic = |(name, topic_id, partitions)| OffsetCommitTopic { name, topic_id, partitions };
    OffsetCommitRequest {
        group_id: "g",
        generation_id_or_member_epoch: -1,
        member_id: "",
        group_instance_id: None,
        retention_time_ms: -1,
        topics: topics.into_iter().map(topic).collect(),
    }
}

pub fn fetch_request(
    topics: Option<Vec<(&'static str, Uuid, Vec<i32>)>>,
    require_stable: bool,
) -> OffsetFetchRequest<'static> {
    let topic = |(name, topic_id, partition_indexes)| OffsetFetchTopic {
        name,
        topic_id,
        partition_indexes,
    };
    OffsetFetchRequest {
        group_id: "g",
        member_id: None,
        member_epoch: -1,
        topics: topics.map(|topics| topics.into_iter().map(topic).collect()),
        require_stable,
    }
}
