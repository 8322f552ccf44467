//! A log replayed in one go, and the same log with a snapshot in its middle: the same state, to the
//! offset of each record. On the recorded logs of Kafka, cut at every batch, and on random ones.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use kcoord_core::record::offset_commit::OFFSET_COMMIT_KEY_TYPE;
use kcoord_core::record::writer::write_record;
use kcoord_core::record::{
    Attributes, BatchHeader, Batches, GroupMetadataKey, GroupMetadataMember, GroupMetadataValue,
    OffsetCommitKey, OffsetCommitValue, TransactionResult,
};
use kcoord_core::request::Uuid;
use kcoord_core::snapshot::Cursor;
use kcoord_core::views::GroupView;
use kcoord_core::{Config, Shard};
use proptest::prelude::*;

/// A record: producer id, offset, key and value.
type Written = (i64, i64, Vec<u8>, Option<Vec<u8>>);

/// Everything that a shard knows: what people see of it, and every record of its snapshot.
#[derive(Debug, PartialEq)]
struct State {
    groups: Vec<GroupView>,
    offsets: Vec<String>,
    unstable: Vec<(String, String, i32)>,
    unknown: BTreeMap<i16, u64>,
    written: Vec<Written>,
}

fn state(shard: &Shard) -> State {
    let mut offsets = Vec::new();
    for group_id in shard.group_ids() {
        offsets.extend(shard.offsets(group_id).map(|offset| format!("{group_id} {offset:?}")));
    }
    State {
        groups: shard.groups().collect(),
        offsets,
        unstable: shard.unstable(),
        unknown: shard.unknown_records().clone(),
        written: records(&snapshot(shard)),
    }
}

fn snapshot(shard: &Shard) -> Vec<Vec<u8>> {
    let mut cursor = Cursor::default();
    std::iter::from_fn(|| shard.snapshot(&mut cursor)).collect()
}

/// Sorted: what has an order is told by `groups`. The offset counts where there is an offset.
fn records(chunks: &[Vec<u8>]) -> Vec<Written> {
    let mut found = Vec::new();
    for batch in chunks.iter().flat_map(|chunk| Batches::new(chunk)) {
        let batch = batch.unwrap();
        for record in batch.records() {
            let record = record.unwrap();
            let key = record.key.unwrap().to_vec();
            let is_commit = key.starts_with(&OFFSET_COMMIT_KEY_TYPE.to_be_bytes());
            let offset = if is_commit { record.offset } else { 0 };
            found.push((batch.header.producer_id, offset, key, record.value.map(<[u8]>::to_vec)));
        }
    }
    found.sort();
    found
}

fn replayed(batches: &[Vec<u8>]) -> Option<Shard> {
    let mut shard = Shard::new(Config::default());
    batches.iter().all(|batch| shard.replay(batch).is_ok()).then_some(shard)
}

/// The log up to `at` by way of a snapshot, and the rest of it. The seed is another one: nothing
/// may depend on it.
fn by_way_of_a_snapshot(batches: &[Vec<u8>], at: usize) -> Shard {
    let before = replayed(&batches[..at]).expect("a part of a sound log");
    let config = Config { hash_seed: [7, 8], ..Config::default() };
    let mut shard = Shard::new(config);
    for chunk in snapshot(&before) {
        shard.restore(&chunk).expect("a snapshot is sound");
    }
    assert_eq!(state(&shard), state(&before), "restored at batch {at}");
    for batch in &batches[at..] {
        shard.replay(batch).expect("a sound log");
    }
    shard
}

#[test]
fn recorded_logs_of_kafka() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/segments");
    let mut logs = 0;
    for scenario in sorted(&root) {
        for partition in sorted(&scenario).into_iter().filter(|path| path.is_dir()) {
            let segments = sorted(&partition).into_iter();
            let segments = segments.filter(|path| path.extension().is_some_and(|it| it == "log"));
            let bytes: Vec<u8> = segments.flat_map(|path| fs::read(path).unwrap()).collect();
            let batches = split(&bytes);
            let Some(whole) = replayed(&batches) else { continue };
            logs += 1;
            let step = batches.len() / 40 + 1;
            for at in (0..=batches.len()).step_by(step) {
                let shard = by_way_of_a_snapshot(&batches, at);
                assert_eq!(state(&shard), state(&whole), "{} at {at}", partition.display());
            }
        }
    }
    assert!(logs > 30, "{logs} logs");
}

fn sorted(directory: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// Whole batches up to the first that is torn.
fn split(log: &[u8]) -> Vec<Vec<u8>> {
    let mut batches = Vec::new();
    let mut rest = log;
    while rest.len() > 12 {
        let length = i32::from_be_bytes(rest[8..12].try_into().unwrap());
        let Ok(size) = usize::try_from(length).map(|length| length + 12) else { break };
        let Some((batch, behind)) = rest.split_at_checked(size) else { break };
        batches.push(batch.to_vec());
        rest = behind;
    }
    batches
}

#[derive(Clone, Debug)]
enum Step {
    Commit { group: u8, partition: u8, version: i16, extra: u8, producer: Option<u8> },
    Gone { group: u8, partition: u8, producer: Option<u8> },
    Group { group: u8, version: i16, members: Vec<u8>, protocol: u8, extra: u8 },
    GroupGone { group: u8 },
    Foreign { group: u8, record_type: i16, is_tombstone: bool },
    Unknown { record_type: i16 },
    Marker { producer: u8, commits: bool },
}

fn step() -> impl Strategy<Value = Step> {
    let producer = prop_oneof![3 => Just(None), 1 => (0..3u8).prop_map(Some)];
    prop_oneof![
        8 => (0..5u8, 0..5u8, 0..=4i16, 0..4u8, producer.clone()).prop_map(
            |(group, partition, version, extra, producer)| {
                Step::Commit { group, partition, version, extra, producer }
            }
        ),
        3 => (0..5u8, 0..5u8, producer)
            .prop_map(|(group, partition, producer)| Step::Gone { group, partition, producer }),
        4 => (0..5u8, 0..=4i16, prop::collection::btree_set(0..4u8, 0..4), 0..3u8, 0..4u8)
            .prop_flat_map(|(group, version, members, protocol, extra)| {
                let members: Vec<u8> = members.into_iter().collect();
                (Just((group, version, protocol, extra)), Just(members).prop_shuffle())
            })
            .prop_map(|((group, version, protocol, extra), members)| {
                Step::Group { group, version, members, protocol, extra }
            }),
        2 => (0..5u8).prop_map(|group| Step::GroupGone { group }),
        // Groups 5 and 6 are never classic, so that few logs are refused.
        2 => (4..7u8, prop::sample::select(vec![3i16, 8, 11, 17]), any::<bool>()).prop_map(
            |(group, record_type, is_tombstone)| {
                let group = if record_type > 8 { group.max(5) } else { group };
                Step::Foreign { group, record_type, is_tombstone }
            }
        ),
        1 => (100..103i16).prop_map(|record_type| Step::Unknown { record_type }),
        2 => (0..3u8, any::<bool>())
            .prop_map(|(producer, commits)| Step::Marker { producer, commits }),
    ]
}

fn encode(step: &Step, offset: i64) -> Vec<u8> {
    let (mut key, mut value) = (Vec::new(), None);
    let (mut producer_id, mut attributes) = (-1, 0);
    let mut of_producer = |producer: &Option<u8>| {
        if let Some(producer) = producer {
            (producer_id, attributes) = (i64::from(*producer), 1 << 4);
        }
    };
    match step {
        Step::Commit { group, partition, version, extra, producer } => {
            of_producer(producer);
            let metadata = if extra & 1 == 0 { String::new() } else { format!("é{offset}") };
            let commit = OffsetCommitValue {
                offset: offset * 10,
                leader_epoch: i32::from(*extra) - 1,
                metadata: &metadata,
                commit_timestamp: 1_000 + offset,
                expire_timestamp: if extra & 2 == 0 { -1 } else { 2_000 + offset },
                topic_id: Uuid(u128::from(extra & 2)),
            };
            commit_key(*group, *partition).encode(&mut key);
            commit.encode(*version, value.insert(Vec::new()));
        }
        Step::Gone { group, partition, producer } => {
            of_producer(producer);
            commit_key(*group, *partition).encode(&mut key);
        }
        Step::Group { group, version, members, protocol, extra } => {
            GroupMetadataKey { group: &group_id(*group) }.encode(&mut key);
            encode_group(*version, members, *protocol, *extra, offset, value.insert(Vec::new()));
        }
        Step::GroupGone { group } => {
            GroupMetadataKey { group: &group_id(*group) }.encode(&mut key);
        }
        Step::Foreign { group, record_type, is_tombstone } => {
            let id = group_id(*group);
            key.extend(record_type.to_be_bytes());
            key.extend((id.len() as i16).to_be_bytes());
            key.extend(id.as_bytes());
            value = (!is_tombstone).then(|| vec![0, 0]);
        }
        Step::Unknown { record_type } => {
            key.extend(record_type.to_be_bytes());
            value = Some(vec![1]);
        }
        Step::Marker { producer, commits } => {
            (producer_id, attributes) = (i64::from(*producer), 3 << 4);
            let result =
                if *commits { TransactionResult::Commit } else { TransactionResult::Abort };
            result.encode_key(&mut key);
            TransactionResult::encode_value(1, value.insert(Vec::new()));
        }
    }
    batch(offset, producer_id, attributes, &key, value.as_deref())
}

struct CommitKey(String, i32);

impl CommitKey {
    fn encode(&self, out: &mut Vec<u8>) {
        let topic = if self.1 < 3 { "orders" } else { "a" };
        OffsetCommitKey { group: &self.0, topic, partition: self.1 }
            .encode(OFFSET_COMMIT_KEY_TYPE, out);
    }
}

fn commit_key(group: u8, partition: u8) -> CommitKey {
    CommitKey(group_id(group), i32::from(partition))
}

/// The first one is the empty id.
fn group_id(group: u8) -> String {
    "group-of-a-name-longer-than-a-row-".repeat(usize::from(group) / 2) + &"g".repeat(group.into())
}

fn encode_group(
    version: i16,
    members: &[u8],
    protocol: u8,
    extra: u8,
    offset: i64,
    out: &mut Vec<u8>,
) {
    let ids: Vec<String> = members.iter().map(|member| format!("member-{member}")).collect();
    let member = |(id, number): (&String, &u8)| GroupMetadataMember {
        member_id: &id.clone().leak()[..],
        group_instance_id: (number % 2 == 1).then(|| &*format!("static-{number}").leak()),
        client_id: "member",
        client_host: "/127.0.0.1",
        rebalance_timeout: if extra & 1 == 0 { -1 } else { 300 },
        session_timeout: 45_000,
        subscription: if extra == 3 { &[] } else { &[1, 2] },
        assignment: &[3; 9][..usize::from(extra) * 3],
    };
    GroupMetadataValue {
        protocol_type: if protocol == 0 { "" } else { "consumer" },
        generation: offset as i32,
        protocol: [None, Some("range"), Some("sticky")][usize::from(protocol)],
        leader: ids.last().map(|id| &**id),
        current_state_timestamp: 5_000 + offset,
        members: ids.iter().zip(members).map(member).collect(),
    }
    .encode(version, out);
}

fn batch(
    offset: i64,
    producer_id: i64,
    attributes: i16,
    key: &[u8],
    value: Option<&[u8]>,
) -> Vec<u8> {
    let (mut records, mut out) = (Vec::new(), Vec::new());
    write_record(&mut records, 0, 0, key, value);
    let header = BatchHeader {
        base_offset: offset,
        partition_leader_epoch: 0,
        crc: 0,
        attributes: Attributes(attributes),
        last_offset_delta: 0,
        base_timestamp: 0,
        max_timestamp: 0,
        producer_id,
        producer_epoch: 0,
        base_sequence: 0,
        records_count: 1,
    };
    header.encode(&records, &mut out);
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Offsets lie up to 2^31 and more apart, as they may.
    #[test]
    fn random_logs(
        steps in prop::collection::vec(step(), 1..60),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 3),
        stride in prop::sample::select(vec![1, 7, 1_500_000_000i64]),
    ) {
        let encoded: Vec<Vec<u8>> =
            steps.iter().zip(1..).map(|(step, number)| encode(step, number * stride)).collect();
        // Records that contradict each other are refused: the log ends before them.
        let sound = (0..=encoded.len()).rev().find(|end| replayed(&encoded[..*end]).is_some());
        let batches = &encoded[..sound.expect("an empty log is sound")];
        let whole = replayed(batches).expect("it was just sound");
        for cut in cuts {
            let shard = by_way_of_a_snapshot(batches, cut.index(batches.len() + 1));
            prop_assert_eq!(state(&shard), state(&whole));
        }
    }

    /// What is replayed in one chunk, where records are looked up together and commits follow one
    /// another, is the same as record by record.
    #[test]
    fn one_chunk_or_many(steps in prop::collection::vec(step(), 1..200)) {
        let encoded: Vec<Vec<u8>> =
            steps.iter().zip(1..).map(|(step, offset)| encode(step, offset)).collect();
        let sound = (0..=encoded.len()).rev().find(|end| replayed(&encoded[..*end]).is_some());
        let batches = &encoded[..sound.expect("an empty log is sound")];
        let one_by_one = replayed(batches).expect("it was just sound");
        let together = replayed(&[batches.concat()]).expect("the same log");
        prop_assert_eq!(state(&together), state(&one_by_one));
    }
}

#[test]
#[should_panic(expected = "a shard that serves cannot be written down")]
fn a_serving_shard_is_refused() {
    let mut shard = Shard::new(Config::default());
    shard.loaded(0, 0);
    shard.snapshot(&mut Cursor::default());
}

#[test]
fn a_snapshot_comes_in_chunks() {
    let commits = (0..20_000).map(|number| Step::Commit {
        group: 3,
        partition: 1,
        version: 3,
        extra: 1,
        producer: (number % 2 == 0).then_some(1),
    });
    let mut log = Vec::new();
    for (number, commit) in commits.enumerate() {
        let mut one = encode(&commit, number as i64);
        // The partition is what the key ends with.
        let at = one.windows(6).position(|bytes| bytes == b"orders").expect("its topic") + 6;
        one[at..at + 4].copy_from_slice(&(number as i32).to_be_bytes());
        log.push(one);
    }
    let whole = replayed(&log).expect("a sound log");
    assert!(snapshot(&whole).len() > 1);
    assert_eq!(state(&by_way_of_a_snapshot(&log, log.len())), state(&whole));
}
