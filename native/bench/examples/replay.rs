//! How fast a shard is loaded: commits of known groups, first commits, and records of groups.
//!
//! `cargo run --release -p kcoord-bench --example replay [GROUPS]`. Kafka 4.3's loader, in a warm JVM
//! on one core, was measured at 1.9 M commits/s and 0.25 M records of groups/s.

#![expect(clippy::print_stdout, reason = "a report is what it is for")]

use kcoord_core::record::offset_commit::OFFSET_COMMIT_KEY_TYPE;
use kcoord_core::record::writer::write_record;
use kcoord_core::record::{
    Attributes, BatchHeader, GroupMetadataKey, GroupMetadataMember, GroupMetadataValue,
    OffsetCommitKey, OffsetCommitValue,
};
use kcoord_core::request::Uuid;
use kcoord_core::{Config, Shard};

const PARTITIONS: i32 = 100;
const COMMITTED: i32 = 5;
const TIME_MS: i64 = 1_700_000_000_000;
/// As the log hands them over.
const CHUNK_BYTES: usize = 512 << 10;
const RUNS: usize = 3;

fn main() {
    let groups: usize =
        std::env::args().nth(1).map_or(20_000, |text| text.parse().expect("a number"));
    let few = (groups / 20).max(1);
    let commits = Log::of(|log| {
        for first in (0..PARTITIONS).step_by(COMMITTED as usize).cycle().take(groups / few * 5) {
            (0..few).for_each(|group| log.commit(&name(group), first, COMMITTED));
        }
    });
    let first_commits = Log::of(|log| (0..groups).for_each(|group| log.commit(&name(group), 0, 1)));
    let first_records = Log::of(|log| (0..groups).for_each(|group| log.group(&name(group), 1)));
    let more_records = Log::of(|log| {
        (1..=5).for_each(|generation| {
            (0..groups).for_each(|group| log.group(&name(group), generation));
        });
    });
    report("commits of 5, 100 partitions a group", &commits);
    report("first commits of groups, one each", &first_commits);
    report("first records of groups of one member", &first_records);
    report("the same in five generations", &more_records);
}

/// A group's id.
fn name(group: usize) -> String {
    format!("consumer-group-{group}")
}

fn report(what: &str, log: &Log) {
    let mut best_ns = u64::MAX;
    for _ in 0..RUNS {
        let mut shard = Shard::new(Config::default());
        let (start, start_ns) = (std::time::Instant::now(), processor_ns());
        log.chunks.iter().for_each(|chunk| shard.replay(chunk).expect("a sound log"));
        let wall_ns = start.elapsed().as_nanos() as u64;
        let used_ns = processor_ns().zip(start_ns).map_or(wall_ns, |(end, start)| end - start);
        best_ns = best_ns.min(used_ns);
        assert!(shard.group_count() > 0);
    }
    let each_ns = best_ns as f64 / log.records as f64;
    let bytes: usize = log.chunks.iter().map(Vec::len).sum();
    println!(
        "{what}: {:.2} M records/s, {each_ns:.0} ns each ({} records, {} MB)",
        1_000.0 / each_ns,
        log.records,
        bytes / 1_000_000,
    );
}

/// Nanoseconds that this thread has had of a processor, where the system tells.
fn processor_ns() -> Option<u64> {
    let account = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    account.split_whitespace().next()?.parse().ok()
}

/// A log in chunks of whole batches.
#[derive(Default)]
struct Log {
    chunks: Vec<Vec<u8>>,
    records: i64,
}

impl Log {
    fn of(fill: impl Fn(&mut Log)) -> Log {
        let mut log = Log::default();
        fill(&mut log);
        log
    }

    fn commit(&mut self, group: &str, first: i32, count: i32) {
        let (mut key, mut value, mut records) = (Vec::new(), Vec::new(), Vec::new());
        for delta in 0..count {
            key.clear();
            value.clear();
            OffsetCommitKey { group, topic: "orders-placed", partition: first + delta }
                .encode(OFFSET_COMMIT_KEY_TYPE, &mut key);
            OffsetCommitValue {
                offset: self.records,
                leader_epoch: 3,
                metadata: "",
                commit_timestamp: TIME_MS,
                expire_timestamp: -1,
                topic_id: Uuid(0x1234_5678_9abc_def0_1234_5678_9abc_def0),
            }
            .encode(4, &mut value);
            write_record(&mut records, 0, delta, &key, Some(&value));
        }
        self.batch(&records, count);
    }

    fn group(&mut self, group: &str, generation: i32) {
        let (mut key, mut value, mut records) = (Vec::new(), Vec::new(), Vec::new());
        let member_id = format!("consumer-{group}-1-6f1c1d6a-0b54-4c5c-9d0b-7e1f0f3f7f0a");
        GroupMetadataKey { group }.encode(&mut key);
        GroupMetadataValue {
            protocol_type: "consumer",
            generation,
            protocol: Some("range"),
            leader: Some(&member_id),
            current_state_timestamp: TIME_MS,
            members: vec![GroupMetadataMember {
                member_id: &member_id,
                group_instance_id: None,
                client_id: "consumer-billing-1",
                client_host: "/127.0.0.1",
                rebalance_timeout: 300_000,
                session_timeout: 45_000,
                subscription: &[7; 64],
                assignment: &[generation as u8; 48],
            }],
        }
        .encode(3, &mut value);
        write_record(&mut records, 0, 0, &key, Some(&value));
        self.batch(&records, 1);
    }

    fn batch(&mut self, records: &[u8], count: i32) {
        let header = BatchHeader {
            base_offset: self.records,
            partition_leader_epoch: 0,
            crc: 0,
            attributes: Attributes(0),
            last_offset_delta: count - 1,
            base_timestamp: TIME_MS,
            max_timestamp: TIME_MS,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: 0,
            records_count: count,
        };
        if self.chunks.last().is_none_or(|chunk| chunk.len() > CHUNK_BYTES - 4096) {
            self.chunks.push(Vec::with_capacity(CHUNK_BYTES));
        }
        header.encode(records, self.chunks.last_mut().expect("a chunk was just made"));
        self.records += i64::from(count);
    }
}
