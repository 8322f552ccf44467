//! Records and batches against the bytes of Kafka's own classes, and what is refused of them.

mod support;

use kcoord_core::record::writer::{write_record, write_varint};
use kcoord_core::record::{
    Attributes, Batch, BatchHeader, Batches, GroupMetadataKey, GroupMetadataMember,
    GroupMetadataValue, GroupType, OffsetCommitKey, OffsetCommitValue, Reader, RecordKey,
    TransactionResult, fields,
};
use kcoord_core::request::Uuid;
use support::{bytes, vectors};

const T1_ID: Uuid = Uuid(0x0000_0000_0000_0001_0000_0000_0000_0002);

fn vector(name: &str) -> Vec<u8> {
    let (_, bytes) =
        vectors(name).into_iter().find(|(rest, _)| rest.is_empty()).expect("an exact name");
    bytes
}

fn only_batch(chunk: &[u8]) -> Batch<'_> {
    let mut batches = Batches::new(chunk);
    let batch = batches.next().expect("one batch").expect("a sound batch");
    assert!(batches.next().is_none());
    batch
}

#[test]
fn offset_commit_keys() {
    for (version, raw) in vectors("OffsetCommitKey v") {
        let key = OffsetCommitKey { group: "g1", topic: "t1", partition: 3 };
        assert_eq!(RecordKey::parse(&raw), Ok(RecordKey::OffsetCommit(key)));
        let mut encoded = Vec::new();
        key.encode(version.parse().unwrap(), &mut encoded);
        assert_eq!(encoded, raw);
    }
}

#[test]
fn offset_commit_values() {
    for (name, raw) in vectors("OffsetCommitValue v") {
        let version = name[..1].parse().unwrap();
        let bare = name.ends_with("empty metadata");
        let expected = OffsetCommitValue {
            offset: if bare { 7 } else { 42 },
            leader_epoch: if version >= 3 && !bare { 5 } else { -1 },
            metadata: if bare { "" } else { "m" },
            commit_timestamp: 1000,
            expire_timestamp: if version == 1 { 2000 } else { -1 },
            topic_id: if name.contains("topicId") { T1_ID } else { Uuid::ZERO },
        };
        assert_eq!(OffsetCommitValue::parse(&raw), Ok(expected), "{name}");
        let mut encoded = Vec::new();
        expected.encode(version, &mut encoded);
        assert_eq!(encoded, raw, "{name}");
    }
}

#[test]
fn group_metadata() {
    let raw = vector("GroupMetadataKey v2");
    let key = GroupMetadataKey { group: "g1" };
    assert_eq!(RecordKey::parse(&raw), Ok(RecordKey::GroupMetadata(key)));
    let mut encoded = Vec::new();
    key.encode(&mut encoded);
    assert_eq!(encoded, raw);

    for (name, raw) in vectors("GroupMetadataValue v") {
        let version: i16 = name[..1].parse().unwrap();
        let full = name.ends_with("one member");
        let member = GroupMetadataMember {
            member_id: "m1",
            group_instance_id: (version >= 3).then_some("i1"),
            client_id: "c1",
            client_host: "/127.0.0.1",
            rebalance_timeout: if version >= 1 { 60_000 } else { -1 },
            session_timeout: 45_000,
            subscription: &[1, 2],
            assignment: &[3],
        };
        let expected = GroupMetadataValue {
            protocol_type: "consumer",
            generation: 4,
            protocol: full.then_some("range"),
            leader: full.then_some("m1"),
            current_state_timestamp: if version >= 2 { 1000 } else { -1 },
            members: if full { vec![member] } else { Vec::new() },
        };
        assert_eq!(GroupMetadataValue::parse(&raw), Ok(expected.clone()), "{name}");
        let mut encoded = Vec::new();
        expected.encode(version, &mut encoded);
        assert_eq!(encoded, raw, "{name}");
    }
}

#[test]
fn other_keys_name_their_group() {
    let mut found = 0;
    for (prefix, group_type) in
        [("ShareGroup", GroupType::Share), ("StreamsGroup", GroupType::Streams)]
    {
        for (name, raw) in vectors(prefix) {
            let Some((_, number)) = name.split_once("Key ") else { continue };
            let RecordKey::Other(key) = RecordKey::parse(&raw).unwrap() else {
                panic!("{name} is a known type")
            };
            assert_eq!((key.group_id, key.group_type), ("g1", group_type), "{name}");
            assert_eq!(key.record_type, number.parse::<i16>().unwrap());
            let mut encoded = Vec::new();
            fields::write_i16(&mut encoded, key.record_type);
            fields::write_string(&mut encoded, key.group_id);
            encoded.extend_from_slice(key.rest);
            assert_eq!(encoded, raw);
            found += 1;
        }
    }
    assert_eq!(found, 6);
}

#[test]
fn unknown_types_are_kept() {
    for record_type in [-1_i16, 9, 18, 24, i16::MAX] {
        let mut raw = record_type.to_be_bytes().to_vec();
        raw.extend_from_slice(b"whatever");
        assert_eq!(RecordKey::parse(&raw), Ok(RecordKey::Unknown { record_type, raw: &raw }));
    }
    assert!(RecordKey::parse(&[0]).is_err(), "half a type");
    assert!(RecordKey::parse(&[]).is_err());
}

#[test]
fn unknown_value_versions_fail() {
    for version in [-1_i16, 5, i16::MAX] {
        let mut raw = version.to_be_bytes().to_vec();
        raw.resize(200, 0);
        assert!(OffsetCommitValue::parse(&raw).is_err());
        assert!(GroupMetadataValue::parse(&raw).is_err());
    }
}

#[test]
fn unknown_tags_are_skipped() {
    let mut raw = vector("OffsetCommitValue v4");
    raw.pop();
    raw.extend_from_slice(&[2, 0, 16]);
    fields::write_uuid(&mut raw, T1_ID);
    raw.extend_from_slice(&[9, 2, 0xff, 0xff]);
    assert_eq!(OffsetCommitValue::parse(&raw).unwrap().topic_id, T1_ID);
    raw.pop();
    assert!(OffsetCommitValue::parse(&raw).is_err());
}

#[test]
fn null_where_it_cannot_be() {
    assert!(RecordKey::parse(&bytes("0002ffff")).is_err());
    let null_metadata = bytes("0003000000000000002a00000005ffff00000000000003e8");
    assert!(OffsetCommitValue::parse(&null_metadata).is_err());
    assert!(RecordKey::parse(&bytes("00020002c328")).is_err(), "not UTF-8");
}

#[test]
fn varints() {
    for (name, raw) in vectors("varint ") {
        let value: i32 = name.parse().unwrap();
        assert_eq!(Reader::new(&raw).varint(), Ok(value));
        let mut encoded = Vec::new();
        write_varint(&mut encoded, i64::from(value));
        assert_eq!(encoded, raw);
    }
    for (name, raw) in vectors("varlong ") {
        let value: i64 = if name == "min" { i64::MIN } else { name.parse().unwrap() };
        assert_eq!(Reader::new(&raw).varlong(), Ok(value));
        let mut encoded = Vec::new();
        write_varint(&mut encoded, value);
        assert_eq!(encoded, raw);
    }
    for (name, raw) in vectors("uvarint ") {
        let value: u32 = name.parse().unwrap();
        assert_eq!(Reader::new(&raw).unsigned_varint(), Ok(value));
        let mut encoded = Vec::new();
        fields::write_unsigned_varint(&mut encoded, value);
        assert_eq!(encoded, raw);
    }
    assert!(Reader::new(&[0x80; 5]).varint().is_err(), "a sixth byte");
    assert!(Reader::new(&[0x80; 10]).varlong().is_err(), "an eleventh byte");
    assert!(Reader::new(&[0x80; 4]).varint().is_err());
}

#[test]
fn batches_round_trip() {
    let mut all = vectors("RecordBatch plain");
    all.extend(vectors("RecordBatch transactional"));
    all.extend(vectors("EndTxn "));
    let handed = vectors("RecordBatch as the coordinator hands it to the log, none");
    all.extend(handed.into_iter().filter(|(name, _)| !name.contains("snappy")));
    assert_eq!(all.len(), 5);
    for (name, raw) in &all {
        let batch = only_batch(raw);
        let mut records = Vec::new();
        for (count, record) in batch.records().enumerate() {
            let record = record.unwrap();
            let timestamp_delta = record.timestamp - batch.header.base_timestamp;
            let key = record.key.unwrap();
            write_record(&mut records, timestamp_delta, count as i32, key, record.value);
        }
        let mut encoded = Vec::new();
        batch.header.encode(&records, &mut encoded);
        assert_eq!(&encoded, raw, "{name}");
    }
    let chunk: Vec<u8> = all.iter().flat_map(|(_, raw)| raw.clone()).collect();
    let positions: Vec<usize> = Batches::new(&chunk).map(|batch| batch.unwrap().position).collect();
    assert_eq!(positions, [0, 120, 227, 305, 383]);
}

#[test]
fn plain_batch() {
    let (_, raw) = vectors("RecordBatch plain").remove(0);
    let batch = only_batch(&raw);
    assert_eq!((batch.header.base_offset, batch.next_offset()), (10, 12));
    assert_eq!((batch.header.partition_leader_epoch, batch.header.crc), (5, 0x6dba_4ec1));
    assert_eq!(batch.producer_id(), None);
    let records: Vec<_> = batch.records().map(Result::unwrap).collect();
    assert_eq!((records[0].offset, records[0].timestamp), (10, 1000));
    assert_eq!((records[1].offset, records[1].timestamp), (11, 1005));
    assert_eq!(records[0].key.unwrap(), vector("OffsetCommitKey v1"));
    assert_eq!(records[1].value, None);
}

#[test]
fn transactional_and_control_batches() {
    let (_, raw) = vectors("RecordBatch transactional").remove(0);
    let data = only_batch(&raw);
    assert!(data.header.attributes.is_transactional() && !data.header.attributes.is_control());
    assert_eq!((data.producer_id(), data.header.producer_epoch), (Some(77), 2));
    assert_eq!(data.header.base_sequence, 0);
    for (prefix, result) in
        [("EndTxn COMMIT", TransactionResult::Commit), ("EndTxn ABORT", TransactionResult::Abort)]
    {
        let (_, raw) = vectors(prefix).remove(0);
        let marker = only_batch(&raw);
        assert!(marker.header.attributes.is_control());
        let record = marker.records().next().unwrap().unwrap();
        assert_eq!(TransactionResult::parse_key(record.key.unwrap()), Ok(Some(result)));
        let (mut key, mut value) = (Vec::new(), Vec::new());
        result.encode_key(&mut key);
        TransactionResult::encode_value(4, &mut value);
        assert_eq!((record.key, record.value), (Some(&key[..]), Some(&value[..])));
    }
}

#[test]
fn control_keys_are_read_leniently() {
    let parse = TransactionResult::parse_key;
    assert_eq!(parse(&[0, 9, 0, 1, 5, 5]), Ok(Some(TransactionResult::Commit)));
    for other in [2, 3, 4, 5, 6, 99] {
        assert_eq!(parse(&[0, 0, 0, other]), Ok(None));
    }
    assert!(parse(&[0xff, 0xff, 0, 1]).is_err(), "negative version");
    assert!(parse(&[0, 0, 0]).is_err());
}

#[test]
fn compressed_batches_are_refused() {
    let name = "RecordBatch as the coordinator hands it to the log, snappy";
    let (_, raw) = vectors(name).remove(0);
    let mut batches = Batches::new(&raw);
    let error = batches.next().unwrap().unwrap_err();
    assert!(error.reason.contains("snappy"), "{error}");
    assert!(batches.next().is_none());
}

#[test]
fn empty_batch_moves_the_offset() {
    let header = BatchHeader { last_offset_delta: 4, base_timestamp: -1, ..header(100, 0) };
    let mut chunk = Vec::new();
    header.encode(&[], &mut chunk);
    let batch = only_batch(&chunk);
    assert_eq!((batch.records().count(), batch.next_offset()), (0, 105));
}

#[test]
fn log_append_time_and_delete_horizon() {
    let mut records = Vec::new();
    write_record(&mut records, 7, 0, b"k", None);
    for (attributes, expected) in [(0, 1007), (1 << 3, 5000), (1 << 6, 1007)] {
        let attributes = Attributes(attributes);
        let mut chunk = Vec::new();
        BatchHeader { attributes, ..header(0, 1) }.encode(&records, &mut chunk);
        let record = only_batch(&chunk).records().next().unwrap().unwrap();
        assert_eq!(record.timestamp, expected);
    }
}

#[test]
fn gaps_and_headers() {
    let mut records = Vec::new();
    write_record(&mut records, 0, 3, b"k", Some(b"v"));
    // The same record again, at delta 5 and with one header (`h` = null).
    records.extend_from_slice(&[0x16, 0, 0, 0x0a, 2, b'k', 2, b'v', 2, 2, b'h', 1]);
    let mut chunk = Vec::new();
    BatchHeader { last_offset_delta: 9, ..header(50, 2) }.encode(&records, &mut chunk);
    let offsets: Vec<_> =
        only_batch(&chunk).records().map(|record| record.unwrap().offset).collect();
    assert_eq!(offsets, [53, 55]);
}

#[test]
fn broken_batches_say_where() {
    let (_, raw) = vectors("RecordBatch plain").remove(0);
    let mut chunk = raw.clone();
    chunk.extend_from_slice(&raw[..raw.len() - 1]);
    let error = Batches::new(&chunk).nth(1).unwrap().unwrap_err();
    assert_eq!((error.offset, error.position), (10, 120));

    let check = |change: fn(&mut BatchHeader), records: &[u8]| {
        let mut header = header(10, 1);
        change(&mut header);
        let mut chunk = Vec::new();
        header.encode(records, &mut chunk);
        let error = Batches::new(&chunk)
            .try_for_each(|batch| batch?.records().try_for_each(|record| record.map(drop)))
            .unwrap_err();
        (error.position, error.reason)
    };
    let mut sound = Vec::new();
    write_record(&mut sound, 0, 0, b"k", None);
    for (reason, change, records) in [
        ("negative", (|header| header.base_offset = -1) as fn(&mut BatchHeader), &sound[..]),
        ("int64", |header| header.base_offset = i64::MAX, &sound),
        ("behind the last", |header| header.records_count = 0, &sound),
        ("ends in the middle", |header| header.records_count = 2, &sound),
        ("outside its batch", |header| header.last_offset_delta = 0, &[12, 0, 0, 2, 1, 1, 0]),
        ("longer than its fields", |_| (), &[14, 0, 0, 0, 1, 1, 0, 9]),
    ] {
        let (position, found) = check(change, records);
        assert!(found.contains(reason) && position == 0, "{reason}: {found}");
    }
    let mut old = raw;
    old[16] = 1;
    assert!(Batches::new(&old).next().unwrap().unwrap_err().reason.contains("magic"));
}

fn header(base_offset: i64, records_count: i32) -> BatchHeader {
    BatchHeader {
        base_offset,
        partition_leader_epoch: 0,
        crc: 0,
        attributes: Attributes(0),
        last_offset_delta: (records_count - 1).max(0),
        base_timestamp: 1000,
        max_timestamp: 5000,
        producer_id: -1,
        producer_epoch: -1,
        base_sequence: 0,
        records_count,
    }
}
