//! Records from a log that cannot be trusted: truncated, mutated and random bytes are errors and
//! never panics, and whatever is written reads back.

mod support;

use kcoord_core::record::offset_commit::OFFSET_COMMIT_KEY_TYPE;
use kcoord_core::record::writer::write_varint;
use kcoord_core::record::{
    Batches, GroupMetadataMember, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue, Reader,
    RecordKey, TransactionResult, fields,
};
use kcoord_core::request::Uuid;
use proptest::prelude::*;
use support::vectors;

const RECORDS: [&str; 5] =
    ["OffsetCommit", "GroupMetadata", "RecordBatch", "EndTxn", "ConsumerGroup"];

/// Reads all there is to read; what matters is that it comes back.
fn read_everything(raw: &[u8]) {
    let _ = RecordKey::parse(raw);
    let _ = OffsetCommitValue::parse(raw);
    let _ = GroupMetadataValue::parse(raw);
    let _ = TransactionResult::parse_key(raw);
    for batch in Batches::new(raw).flatten() {
        for record in batch.records().flatten() {
            record.key.map(RecordKey::parse);
            record.value.map(GroupMetadataValue::parse);
        }
    }
}

#[test]
fn truncated_vectors_are_errors_not_panics() {
    for prefix in RECORDS {
        for (name, raw) in vectors(prefix) {
            for length in 0..raw.len() {
                let cut = &raw[..length];
                read_everything(cut);
                match prefix {
                    "RecordBatch" | "EndTxn" if length > 0 => {
                        assert!(Batches::new(cut).next().unwrap().is_err(), "{name} cut");
                    }
                    "OffsetCommit" if name.starts_with("Value") => {
                        assert!(OffsetCommitValue::parse(cut).is_err(), "{name} cut");
                    }
                    "GroupMetadata" if name.starts_with("Value") => {
                        assert!(GroupMetadataValue::parse(cut).is_err(), "{name} cut");
                    }
                    _ => {}
                }
            }
        }
    }
}

/// Nothing that could not be answered over the wire is let in.
#[test]
fn strings_longer_than_kafkas_are_refused() {
    for (length, fits) in [(0x7fff, true), (0x8000, false)] {
        let metadata = "m".repeat(length);
        let value = OffsetCommitValue {
            offset: 1,
            leader_epoch: -1,
            metadata: &metadata,
            commit_timestamp: 0,
            expire_timestamp: -1,
            topic_id: Uuid::ZERO,
        };
        let mut raw = Vec::new();
        value.encode(4, &mut raw);
        assert_eq!(OffsetCommitValue::parse(&raw).is_ok(), fits, "{length}");
    }
}

proptest! {
    #[test]
    fn mutated_vectors_never_panic(
        line in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let all: Vec<_> = RECORDS.into_iter().flat_map(vectors).collect();
        let (_, mut raw) = all[line.index(all.len())].clone();
        for (at, byte) in changes {
            if !raw.is_empty() {
                let at = at.index(raw.len());
                raw[at] = byte;
            }
        }
        read_everything(&raw);
    }

    #[test]
    fn any_bytes_never_panic(raw in prop::collection::vec(any::<u8>(), 0..300)) {
        read_everything(&raw);
    }

    #[test]
    fn offset_commit_round_trip(
        group in "\\PC{0,20}", topic in "\\PC{0,20}", partition: i32, offset: i64,
        leader_epoch: i32, metadata in "\\PC{0,200}", commit_timestamp: i64,
        expire_timestamp: i64, topic_id: u128,
    ) {
        let key = OffsetCommitKey { group: &group, topic: &topic, partition };
        let mut raw = Vec::new();
        key.encode(OFFSET_COMMIT_KEY_TYPE, &mut raw);
        prop_assert_eq!(RecordKey::parse(&raw), Ok(RecordKey::OffsetCommit(key)));
        for version in 0..=4 {
            let value = OffsetCommitValue {
                offset,
                leader_epoch: if version >= 3 { leader_epoch } else { -1 },
                metadata: &metadata,
                commit_timestamp,
                expire_timestamp: if version == 1 { expire_timestamp } else { -1 },
                topic_id: Uuid(if version == 4 { topic_id } else { 0 }),
            };
            let mut raw = Vec::new();
            value.encode(version, &mut raw);
            prop_assert_eq!(OffsetCommitValue::parse(&raw), Ok(value));
        }
    }

    #[test]
    fn group_metadata_round_trip(
        protocol_type in "\\PC{0,12}", generation: i32, protocol in prop::option::of("\\PC{0,12}"),
        leader in prop::option::of("\\PC{0,40}"), timestamp: i64,
        members in prop::collection::vec(
            ("\\PC{0,40}", prop::option::of("\\PC{0,9}"), any::<(i32, i32)>(),
             prop::collection::vec(any::<u8>(), 0..300)),
            0..9,
        ),
    ) {
        for version in 0..=4 {
            let value = GroupMetadataValue {
                protocol_type: &protocol_type,
                generation,
                protocol: protocol.as_deref(),
                leader: leader.as_deref(),
                current_state_timestamp: if version >= 2 { timestamp } else { -1 },
                members: members.iter().map(|(id, instance, timeouts, subscription)| {
                    GroupMetadataMember {
                        member_id: id,
                        group_instance_id: instance.as_deref().filter(|_| version >= 3),
                        client_id: id,
                        client_host: "/127.0.0.1",
                        rebalance_timeout: if version >= 1 { timeouts.0 } else { -1 },
                        session_timeout: timeouts.1,
                        subscription,
                        assignment: subscription,
                    }
                }).collect(),
            };
            let mut raw = Vec::new();
            value.encode(version, &mut raw);
            prop_assert_eq!(GroupMetadataValue::parse(&raw), Ok(value));
        }
    }

    #[test]
    fn varint_round_trip(small: i32, large: i64, unsigned: u32) {
        let mut raw = Vec::new();
        write_varint(&mut raw, i64::from(small));
        write_varint(&mut raw, large);
        fields::write_unsigned_varint(&mut raw, unsigned);
        let mut reader = Reader::new(&raw);
        prop_assert_eq!(reader.varint(), Ok(small));
        prop_assert_eq!(reader.varlong(), Ok(large));
        prop_assert_eq!(reader.unsigned_varint(), Ok(unsigned));
        prop_assert!(reader.rest().is_empty());
    }
}
