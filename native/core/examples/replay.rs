//! How fast a log of commits is replayed: walk of the batches, decoding, and the stores.
//!
//! `cargo run --release --example replay [ROUNDS]`. Each round commits 5 partitions a batch, until
//! each of 1,000 groups has committed its 100 partitions once.

#![expect(clippy::print_stdout, reason = "a report is what it is for")]

use ahash::RandomState;
use hashbrown::HashMap;
use kcoord_core::offset::{GroupOffsets, GroupScope, OffsetTables};
use kcoord_core::record::offset_commit::OFFSET_COMMIT_KEY_TYPE;
use kcoord_core::record::writer::write_record;
use kcoord_core::record::{
    Attributes, BatchHeader, Batches, OffsetCommitKey, OffsetCommitValue, RecordKey,
};
use kcoord_core::request::Uuid;

const GROUPS: usize = 1_000;
const PARTITIONS: i32 = 100;
const BATCH: i32 = 5;

type Groups = HashMap<Box<str>, GroupOffsets, RandomState>;

fn main() {
    let rounds = std::env::args().nth(1).map_or(20, |rounds| rounds.parse().expect("a number"));
    let log = log(rounds);
    let records = rounds as usize * GROUPS * PARTITIONS as usize;
    println!("{records} records, {} MB", log.len() / 1_000_000);
    for _ in 0..3 {
        let (took, groups, offsets) = replay(&log);
        println!(
            "{:.2} M records/s, {:.0} ns each: {groups} groups, {offsets} offsets",
            records as f64 / took / 1e6,
            took * 1e9 / records as f64
        );
    }
}

#[expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "it measures")]
fn replay(log: &[u8]) -> (f64, usize, usize) {
    let mut groups = Groups::with_hasher(RandomState::with_seeds(1, 2, 3, 4));
    let mut tables = OffsetTables::new([1, 2]);
    let start = std::time::Instant::now();
    for batch in Batches::new(log) {
        let batch = batch.expect("a sound batch");
        let producer_id = batch.producer_id();
        for record in batch.records() {
            let record = record.expect("a sound record");
            let key = RecordKey::parse(record.key.expect("a key")).expect("a sound key");
            let RecordKey::OffsetCommit(key) = key else { panic!("a log of commits") };
            let value = record.value.map(|value| OffsetCommitValue::parse(value).expect("sound"));
            if !groups.contains_key(key.group) {
                groups.insert(key.group.into(), GroupOffsets::default());
            }
            let offsets = groups.get_mut(key.group).expect("it is there now");
            let mut scope = GroupScope { group_id: key.group, offsets, tables: &mut tables };
            scope.apply(key.topic, key.partition, value.as_ref(), record.offset, producer_id);
        }
    }
    (start.elapsed().as_secs_f64(), groups.len(), tables.committed_count)
}

fn log(rounds: i32) -> Vec<u8> {
    let (mut log, mut base_offset) = (Vec::new(), 0);
    for round in 0..rounds {
        for first in (0..PARTITIONS).step_by(BATCH as usize) {
            for group in 0..GROUPS {
                batch(&mut log, base_offset, &format!("consumer-group-{group}"), first, round);
                base_offset += i64::from(BATCH);
            }
        }
    }
    log
}

fn batch(log: &mut Vec<u8>, base_offset: i64, group: &str, first: i32, round: i32) {
    let (mut key, mut value, mut records) = (Vec::new(), Vec::new(), Vec::new());
    for delta in 0..BATCH {
        key.clear();
        value.clear();
        OffsetCommitKey { group, topic: "orders-placed", partition: first + delta }
            .encode(OFFSET_COMMIT_KEY_TYPE, &mut key);
        OffsetCommitValue {
            offset: i64::from(round),
            leader_epoch: 3,
            metadata: "",
            commit_timestamp: 1_700_000_000_000,
            expire_timestamp: -1,
            topic_id: Uuid(0x1234_5678_9abc_def0_1234_5678_9abc_def0),
        }
        .encode(4, &mut value);
        write_record(&mut records, 0, delta, &key, Some(&value));
    }
    let header = BatchHeader {
        base_offset,
        partition_leader_epoch: 0,
        crc: 0,
        attributes: Attributes(0),
        last_offset_delta: BATCH - 1,
        base_timestamp: 1_700_000_000_000,
        max_timestamp: 1_700_000_000_000,
        producer_id: -1,
        producer_epoch: -1,
        base_sequence: 0,
        records_count: BATCH,
    };
    header.encode(&records, log);
}
