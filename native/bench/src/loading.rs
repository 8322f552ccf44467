//! A log is read into a new shard: commits of five partitions, or records of groups of one member, classic or consumer groups.

use kcoord_core::record::batch::BATCH_OVERHEAD;
use kcoord_core::record::offset_commit::OFFSET_COMMIT_KEY_TYPE;
use kcoord_core::record::writer::write_record;
use kcoord_core::record::{
    Attributes, BatchHeader, GroupMetadataKey, GroupMetadataMember, GroupMetadataValue,
    OffsetCommitKey, OffsetCommitValue,
};
use kcoord_core::request::Uuid;
use kcoord_core::{Config, Shard};

use crate::consumers;
use crate::requests::{NOW_MS, TOPIC, group_id};
use crate::work::Work;

const PARTITIONS: usize = 100;
const COMMITTED: usize = 5;
/// Records of a batch: of those that a broker writes for 2,000 clients, half have more.
const RECORDS_A_BATCH: usize = 65;
/// As the log hands them over.
const CHUNK_BYTES: usize = 512 << 10;

/// What a consumer of one topic sends (version 0, with 39 bytes of user data): Kafka's loader reads
/// it.
fn subscription() -> Vec<u8> {
    let mut bytes = vec![0, 0, 0, 0, 0, 1, 0, TOPIC.len() as u8];
    bytes.extend_from_slice(TOPIC.as_bytes());
    bytes.extend_from_slice(&[0, 0, 0, 39]);
    bytes.extend_from_slice(&[7; 39]);
    bytes
}

#[derive(Clone, Copy)]
pub enum Kind {
    Commits,
    Groups,
    Consumers,
}

pub struct Loading {
    log: Log,
    shard: Shard,
}

impl Loading {
    pub fn new(records: usize, kind: Kind) -> Self {
        Loading { log: Log::new(records, kind), shard: Shard::new(Config::default()) }
    }
}

impl Work for Loading {
    fn prepare(&mut self) {
        self.shard = Shard::new(Config::default());
    }

    fn round(&mut self) -> u64 {
        for chunk in &self.log.chunks {
            self.shard.replay(chunk).expect("a sound log");
        }
        self.log.records as u64
    }
}

/// Chunks of whole batches.
pub struct Log {
    pub chunks: Vec<Vec<u8>>,
    records: usize,
    /// Of the batch that is not whole yet.
    open: Vec<u8>,
    open_count: usize,
}

impl Log {
    /// Commits of all partitions of groups in turns; or groups, each in five generations; or what a
    /// shard wrote for consumer groups.
    pub fn new(records: usize, kind: Kind) -> Self {
        let mut log = Log { chunks: Vec::new(), records: 0, open: Vec::new(), open_count: 0 };
        let groups = match kind {
            Kind::Commits => (records / PARTITIONS / 2).max(1),
            Kind::Groups => (records / 5).max(1),
            Kind::Consumers => {
                (log.chunks, log.records) = consumers::log(records, CHUNK_BYTES);
                return log;
            }
        };
        for number in 0.. {
            if log.records >= records {
                break;
            }
            let group = group_id(number % groups);
            match kind {
                Kind::Commits => {
                    let first = number / groups * COMMITTED % PARTITIONS;
                    log.commit(&group, first as i32);
                }
                Kind::Groups => log.group(&group, 1 + (number / groups) as i32),
                Kind::Consumers => unreachable!("a shard has written them"),
            }
        }
        log.end_batch();
        log
    }

    fn commit(&mut self, group: &str, first: i32) {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for partition in first..first + COMMITTED as i32 {
            key.clear();
            value.clear();
            OffsetCommitKey { group, topic: TOPIC, partition }
                .encode(OFFSET_COMMIT_KEY_TYPE, &mut key);
            OffsetCommitValue {
                offset: self.records as i64,
                leader_epoch: 3,
                metadata: "",
                commit_timestamp: NOW_MS,
                expire_timestamp: -1,
                topic_id: Uuid(0x1234_5678_9abc_def0_1234_5678_9abc_def0),
            }
            .encode(4, &mut value);
            self.record(&key, &value);
        }
    }

    fn group(&mut self, group: &str, generation: i32) {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let member_id = format!("consumer-{group}-1-6f1c1d6a-0b54-4c5c-9d0b-7e1f0f3f7f0a");
        GroupMetadataKey { group }.encode(&mut key);
        GroupMetadataValue {
            protocol_type: "consumer",
            generation,
            protocol: Some("range"),
            leader: Some(&member_id),
            current_state_timestamp: NOW_MS,
            members: vec![GroupMetadataMember {
                member_id: &member_id,
                group_instance_id: None,
                client_id: "consumer-billing-1",
                client_host: "/127.0.0.1",
                rebalance_timeout: 300_000,
                session_timeout: 45_000,
                subscription: &subscription(),
                assignment: &[generation as u8; 48],
            }],
        }
        .encode(3, &mut value);
        self.record(&key, &value);
    }

    fn record(&mut self, key: &[u8], value: &[u8]) {
        write_record(&mut self.open, 0, self.open_count as i32, key, Some(value));
        self.open_count += 1;
        self.records += 1;
        if self.open_count == RECORDS_A_BATCH {
            self.end_batch();
        }
    }

    fn end_batch(&mut self) {
        if self.open_count == 0 {
            return;
        }
        let header = BatchHeader {
            base_offset: (self.records - self.open_count) as i64,
            partition_leader_epoch: 0,
            crc: 0,
            attributes: Attributes(0),
            last_offset_delta: self.open_count as i32 - 1,
            base_timestamp: NOW_MS,
            max_timestamp: NOW_MS,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: 0,
            records_count: self.open_count as i32,
        };
        let length = BATCH_OVERHEAD + self.open.len();
        if self.chunks.last().is_none_or(|chunk| chunk.len() + length > CHUNK_BYTES) {
            self.chunks.push(Vec::with_capacity(CHUNK_BYTES));
        }
        header.encode(&self.open, self.chunks.last_mut().expect("a chunk was just made"));
        self.open.clear();
        self.open_count = 0;
    }
}
