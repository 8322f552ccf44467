//! Logs that Kafka 4.3.1 wrote (`tests/segments`): every key and value is written back byte for
//! byte, and the offsets that result are those that Kafka itself answered.
//!
//! Compressed and damaged logs are left to the log layer, which unpacks and cuts before replay.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use kcoord_core::offset::{GroupOffsets, GroupScope, OffsetTables};
use kcoord_core::record::consumer::ConsumerGroupRecord;
use kcoord_core::record::group_metadata::GROUP_METADATA_WRITTEN_VERSION;
use kcoord_core::record::{
    Batch, Batches, GroupMetadataValue, OffsetCommitValue, Record, RecordKey, TransactionResult,
};
use proptest::prelude::*;
use serde_json::Value;

const SCENARIOS: [&str; 17] = [
    "classic-1",
    "classic-2",
    "compacted-1",
    "compacted-2",
    "consumer-1",
    "consumer-2",
    "expiry-1",
    "migration-1",
    "migration-3",
    "offsets-1",
    "offsets-2",
    "restarts-1",
    "share-1",
    "streams-1",
    "torn-base-1",
    "transactions-1",
    "transactions-2",
];

/// Group, topic, partition.
type Slot = (String, String, i32);

/// One partition of `__consumer_offsets`, offsets only.
struct Shard {
    tables: OffsetTables,
    groups: BTreeMap<String, GroupOffsets>,
    records_by_key_type: BTreeMap<i16, i64>,
    next_offset: i64,
}

impl Shard {
    fn replay(log: &[PathBuf]) -> Shard {
        let mut shard = Shard {
            tables: OffsetTables::new([1, 2]),
            groups: BTreeMap::new(),
            records_by_key_type: BTreeMap::new(),
            next_offset: 0,
        };
        for segment in log {
            let chunk = fs::read(segment).unwrap();
            for batch in Batches::new(&chunk) {
                let batch = batch.unwrap_or_else(|error| panic!("{}: {error}", segment.display()));
                for record in batch.records() {
                    shard.apply(&batch, &record.unwrap());
                }
                shard.next_offset = batch.next_offset();
            }
        }
        shard
    }

    fn apply(&mut self, batch: &Batch<'_>, record: &Record<'_>) {
        let raw = record.key.unwrap();
        if batch.header.attributes.is_control() {
            if let Some(result) = TransactionResult::parse_key(raw).unwrap() {
                self.end_transaction(batch.header.producer_id, result);
            }
            return;
        }
        let record_type = i16::from_be_bytes([raw[0], raw[1]]);
        *self.records_by_key_type.entry(record_type).or_default() += 1;
        match RecordKey::parse(raw).unwrap() {
            RecordKey::OffsetCommit(key) => {
                let value = record.value.map(read_offset_commit);
                let offsets = self.groups.entry(key.group.into()).or_default();
                let tables = &mut self.tables;
                let mut scope = GroupScope { group_id: key.group, offsets, tables };
                let producer_id = batch.producer_id();
                scope.apply(key.topic, key.partition, value.as_ref(), record.offset, producer_id);
            }
            RecordKey::GroupMetadata(_) => {
                if let Some(value) = record.value {
                    let mut encoded = Vec::new();
                    let metadata = GroupMetadataValue::parse(value).unwrap();
                    metadata.encode(GROUP_METADATA_WRITTEN_VERSION, &mut encoded);
                    assert_eq!(encoded, value);
                }
            }
            RecordKey::ConsumerGroup(key) => {
                let found = ConsumerGroupRecord::parse(&key, record.value).unwrap();
                let (mut key, mut value) = (Vec::new(), Vec::new());
                found.key().encode(&mut key);
                assert_eq!(key, raw);
                let encoded = found.encode_value(&mut value).then_some(&*value);
                assert_eq!(encoded, record.value, "{found:?}");
            }
            RecordKey::Other(key) => assert!(!key.group_id.is_empty()),
            RecordKey::Unknown { record_type, .. } => panic!("Kafka wrote type {record_type}"),
        }
    }

    fn end_transaction(&mut self, producer_id: i64, result: TransactionResult) {
        for group_id in self.tables.transactions.close(producer_id) {
            let offsets = self.groups.get_mut(&*group_id).unwrap();
            let mut scope = GroupScope { group_id: &group_id, offsets, tables: &mut self.tables };
            scope.apply_marker(producer_id, result);
        }
    }
}

fn read_offset_commit(raw: &[u8]) -> OffsetCommitValue<'_> {
    let value = OffsetCommitValue::parse(raw).unwrap();
    let mut encoded = Vec::new();
    value.encode(value.written_version(), &mut encoded);
    assert_eq!(encoded, raw);
    value
}

#[test]
fn offsets_are_those_that_kafka_answered() {
    for scenario in SCENARIOS {
        let folder = segments_folder(scenario);
        let expected = fs::read_to_string(folder.join("expected.json")).unwrap();
        let expected: Value = serde_json::from_str(&expected).unwrap();
        let (mut committed, mut unstable) = (BTreeMap::new(), Vec::new());
        for (partition, extent) in expected["logs"].as_object().unwrap() {
            let shard = Shard::replay(&segments(&folder.join(partition)));
            check_extent(&shard, extent, &format!("{scenario} {partition}"));
            for (group, offsets) in &shard.groups {
                for (topic, partition, found) in offsets.iter(&shard.tables.topics) {
                    let slot = (group.clone(), topic.to_owned(), partition);
                    let found = (found.offset, found.leader_epoch, found.metadata.to_owned());
                    committed.insert(slot, found);
                }
                let pending = |(topic, partition): &(String, i32)| {
                    offsets.has_pending(&shard.tables.topics, topic, *partition)
                };
                let found = topic_partitions(&expected["topics"]).into_iter().filter(pending);
                unstable.extend(found.map(|(topic, at)| (group.clone(), topic, at)));
            }
        }
        assert_eq!(committed, expected_offsets(&expected["offsets"]), "{scenario}");
        unstable.sort();
        assert_eq!(unstable, expected_unstable(&expected["unstable"]), "{scenario}");
    }
}

fn check_extent(shard: &Shard, extent: &Value, name: &str) {
    let found: BTreeMap<String, i64> = shard
        .records_by_key_type
        .iter()
        .map(|(record_type, count)| (record_type.to_string(), *count))
        .collect();
    let expected: BTreeMap<String, i64> = entries(&extent["recordsByKeyType"])
        .map(|(record_type, count)| (record_type.clone(), count.as_i64().unwrap()))
        .collect();
    assert_eq!(found, expected, "{name}");
    assert_eq!(Some(shard.next_offset), extent["endOffset"].as_i64(), "{name}");
}

fn expected_offsets(groups: &Value) -> BTreeMap<Slot, (i64, i32, String)> {
    let mut offsets = BTreeMap::new();
    for (group, topics) in entries(groups) {
        for (topic, partitions) in entries(topics) {
            for (partition, at) in entries(partitions) {
                let slot = (group.clone(), topic.clone(), partition.parse().unwrap());
                let number = |name: &str| at[name].as_i64().unwrap();
                let metadata = at["metadata"].as_str().unwrap().to_owned();
                offsets.insert(slot, (number("offset"), number("leaderEpoch") as i32, metadata));
            }
        }
    }
    offsets
}

fn expected_unstable(groups: &Value) -> Vec<Slot> {
    let mut unstable = Vec::new();
    for (group, topics) in entries(groups) {
        for (topic, partitions) in entries(topics) {
            for partition in partitions.as_array().unwrap() {
                let partition = partition.as_i64().unwrap() as i32;
                unstable.push((group.clone(), topic.clone(), partition));
            }
        }
    }
    unstable.sort();
    unstable
}

/// All partitions that a pending offset could be of.
fn topic_partitions(topics: &Value) -> Vec<(String, i32)> {
    let of = |(topic, about): (&String, &Value)| {
        let count = about["partitions"].as_i64().expect("topics say how many") as i32;
        let topic = topic.clone();
        (0..count).map(move |partition| (topic.clone(), partition)).collect::<Vec<_>>()
    };
    entries(topics).flat_map(of).collect()
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().expect("an object").iter()
}

fn segments(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_segment = |path: &PathBuf| path.extension().is_some_and(|found| found == "log");
    let mut paths: Vec<_> = paths.filter(is_segment).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} has no segment", folder.display());
    paths
}

/// What a sound log contains, with bytes changed that no CRC protects here.
fn replay_whatever_can_be_read(chunk: &[u8]) {
    let mut tables = OffsetTables::new([1, 2]);
    let mut groups: BTreeMap<String, GroupOffsets> = BTreeMap::new();
    for batch in Batches::new(chunk).flatten() {
        for record in batch.records().flatten() {
            let Some(raw) = record.key else { continue };
            if let Ok(Some(result)) = TransactionResult::parse_key(raw)
                && batch.header.attributes.is_control()
            {
                for group_id in tables.transactions.close(batch.header.producer_id) {
                    let offsets = groups.get_mut(&*group_id).unwrap();
                    GroupScope { group_id: &group_id, offsets, tables: &mut tables }
                        .apply_marker(batch.header.producer_id, result);
                }
            } else if let Ok(RecordKey::OffsetCommit(key)) = RecordKey::parse(raw)
                && let Ok(value) = record.value.map(OffsetCommitValue::parse).transpose()
            {
                let offsets = groups.entry(key.group.into()).or_default();
                let mut scope = GroupScope { group_id: key.group, offsets, tables: &mut tables };
                let producer_id = batch.producer_id();
                scope.apply(key.topic, key.partition, value.as_ref(), record.offset, producer_id);
            }
        }
    }
    let listed: usize = groups.values().map(|offsets| offsets.iter(&tables.topics).count()).sum();
    assert_eq!(listed, tables.committed_count);
}

proptest! {
    #[test]
    fn damaged_logs_never_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..40),
        end in any::<prop::sample::Index>(),
    ) {
        for scenario in ["transactions-1", "offsets-1"] {
            let mut chunk = whole_log(scenario);
            chunk.truncate(chunk.len() / 2 + end.index(chunk.len() / 2));
            for (at, byte) in &changes {
                let at = at.index(chunk.len());
                chunk[at] = *byte;
            }
            replay_whatever_can_be_read(&chunk);
        }
    }
}

/// All partitions of a scenario in one chunk; offsets start anew, which replay does not mind.
fn whole_log(scenario: &str) -> Vec<u8> {
    let folder = segments_folder(scenario);
    let partitions = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let partitions = partitions.filter(|path| path.is_dir());
    partitions.flat_map(|path| segments(&path)).flat_map(|log| fs::read(log).unwrap()).collect()
}

fn segments_folder(scenario: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/segments").join(scenario)
}
