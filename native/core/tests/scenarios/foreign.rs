//! The commands that write what another part of a broker, or another version, would have written:
//! straight into the log, and then the shard is loaded again.

use kcoord_core::record::batch::Attributes;
use kcoord_core::record::fields::{write_i16, write_string};
use kcoord_core::record::writer::write_record;
use kcoord_core::record::{
    GroupMetadataKey, GroupMetadataMember, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue,
    TransactionResult,
};
use kcoord_core::request::Uuid;

use crate::command::Command;
use crate::request::assignment;
use crate::request::partition_and_offset;
use crate::trace;
use crate::world::{World, header};

const TRANSACTIONAL: i16 = 1 << 4;
const CONTROL: i16 = 1 << 5;

impl World {
    /// `LogOffset producer=7 t1:0=5`: a transactional commit.
    pub fn log_offset(&mut self, command: &Command<'_>) {
        let group = command.option("group").unwrap_or("g");
        let mut records = Vec::new();
        for (index, word) in command.words.iter().enumerate() {
            let (topic, partition, offset) = partition_and_offset(word);
            let (mut key, mut value) = (Vec::new(), Vec::new());
            OffsetCommitKey { group, topic, partition }.encode(1, &mut key);
            let commit = OffsetCommitValue {
                offset,
                leader_epoch: -1,
                metadata: "",
                commit_timestamp: self.now_ms,
                expire_timestamp: -1,
                topic_id: Uuid::ZERO,
            };
            commit.encode(4, &mut value);
            write_record(&mut records, 0, index as i32, &key, Some(&value));
        }
        let producer_id = command.number("producer", -1);
        self.append_to_log(command.words.len() as i32, producer_id, TRANSACTIONAL, &records);
    }

    /// `LogMarker COMMIT producer=7`: the end of a transaction.
    pub fn log_marker(&mut self, command: &Command<'_>) {
        let result = match command.words[0] {
            "COMMIT" => TransactionResult::Commit,
            _ => TransactionResult::Abort,
        };
        let (mut key, mut value, mut records) = (Vec::new(), Vec::new(), Vec::new());
        result.encode_key(&mut key);
        TransactionResult::encode_value(0, &mut value);
        write_record(&mut records, 0, 0, &key, Some(&value));
        let producer_id = command.number("producer", -1);
        self.append_to_log(1, producer_id, TRANSACTIONAL | CONTROL, &records);
    }

    /// `LogRecord type=3 group=g [tombstone]`: of a group that is not classic, or of no known type.
    pub fn log_record(&mut self, command: &Command<'_>) {
        let record_type: i16 = command.number("type", 3);
        let group = command.option("group").unwrap_or("g");
        let mut key = Vec::new();
        write_i16(&mut key, record_type);
        write_string(&mut key, group);
        if let 5 | 7 | 8 | 16 = record_type {
            write_string(&mut key, "m");
        }
        let is_tombstone = command.words.contains(&"tombstone");
        let mut records = Vec::new();
        write_record(&mut records, 0, 0, &key, (!is_tombstone).then_some(&[0, 0, 0, 0, 0, 1, 0]));
        self.append_to_log(1, -1, 0, &records);
    }

    /// `LogGroup v=0 members=a,b`: a group as an older version wrote it.
    pub fn log_group(&mut self, command: &Command<'_>) {
        let group = command.option("group").unwrap_or("g");
        let ids = command.option("members").unwrap_or_default();
        let topics = command.option("topics");
        let subscription = match topics {
            Some(topics) => trace::subscription(&topics.split(',').collect::<Vec<_>>()),
            None => b"s".to_vec(),
        };
        let ids: Vec<&str> = ids.split(',').filter(|id| !id.is_empty()).collect();
        let assignments: Vec<Vec<u8>> = ids
            .iter()
            .map(|id| match command.option(&format!("@{id}")) {
                Some(partitions) => assignment(partitions),
                None => b"x".to_vec(),
            })
            .collect();
        let members = ids.iter().zip(&assignments).map(|(id, assignment)| GroupMetadataMember {
            member_id: id,
            group_instance_id: None,
            client_id: id,
            client_host: "/127.0.0.1",
            rebalance_timeout: command.number("rebalance", -1),
            session_timeout: 10_000,
            subscription: &subscription,
            assignment,
        });
        let members: Vec<GroupMetadataMember<'_>> = members.collect();
        let value = GroupMetadataValue {
            protocol_type: command.option("type").unwrap_or("consumer"),
            generation: command.number("generation", 3),
            protocol: (!members.is_empty()).then_some("range"),
            leader: members.first().map(|member| member.member_id),
            current_state_timestamp: self.now_ms,
            members,
        };
        let (mut key, mut encoded, mut records) = (Vec::new(), Vec::new(), Vec::new());
        GroupMetadataKey { group }.encode(&mut key);
        value.encode(command.number("v", 3), &mut encoded);
        write_record(&mut records, 0, 0, &key, Some(&encoded));
        self.append_to_log(1, -1, 0, &records);
    }

    fn append_to_log(&mut self, count: i32, producer_id: i64, attributes: i16, records: &[u8]) {
        let mut header = header(self.next_offset, count, self.now_ms);
        header.producer_id = producer_id;
        header.attributes = Attributes(attributes);
        header.encode(records, &mut self.log);
        self.next_offset += i64::from(count);
        self.restart();
    }
}
