//! Records of consumer groups against the bytes of Kafka's own classes, from there and back, and
//! what is refused of them. Whole logs of Kafka: kafka_segments.rs.

mod support;

use kcoord_core::record::consumer::{
    ClassicMemberMetadata, ClassicProtocol, ConsumerGroupKey, ConsumerGroupMetadataValue,
    ConsumerGroupRecord, ConsumerRecordType, CurrentMemberAssignmentValue, EpochPartitions,
    MemberMetadataValue, MemberState, PartitionMetadataValue, PartitionRacks, RecordChange,
    RegularExpressionValue, TargetAssignmentMemberValue, TargetAssignmentMetadataValue,
    TopicMetadata, TopicPartitions,
};
use kcoord_core::record::{DecodeError, RecordKey, fields};
use kcoord_core::request::Uuid;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use support::{bytes, vectors};

const T1_ID: Uuid = Uuid(0x0000_0000_0000_0001_0000_0000_0000_0002);

fn vector(name: &str) -> Vec<u8> {
    let (_, bytes) =
        vectors(name).into_iter().find(|(rest, _)| rest.is_empty()).expect("an exact name");
    bytes
}

fn encoded(change: RecordChange<'_>) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    ConsumerGroupRecord { group_id: "g1", change }.encode_value(&mut value).then_some(value)
}

/// The vector of that name reads as `value`, and is what is written.
fn check(name: &str, change: RecordChange<'_>) {
    let raw = vector(name);
    let record = ConsumerGroupRecord { group_id: "g1", change };
    let found = ConsumerGroupRecord::parse(&record.key(), Some(&raw));
    assert_eq!(found.as_ref(), Ok(&record), "{name}");
    assert_eq!(encoded(record.change).as_ref(), Some(&raw), "{name}");
}

#[test]
fn keys() {
    let names = vectors("ConsumerGroup").into_iter().filter(|(name, _)| name.contains("Key "));
    let mut types = Vec::new();
    for (name, raw) in names {
        let RecordKey::ConsumerGroup(key) = RecordKey::parse(&raw).unwrap() else {
            panic!("{name} is a key of a consumer group")
        };
        let rest = match key.record_type as i16 {
            5 | 7 | 8 => "m1",
            16 => "t.*",
            _ => "",
        };
        assert_eq!((key.group_id, key.rest), ("g1", rest), "{name}");
        assert!(name.ends_with(&format!(" {}", key.record_type as i16)), "{name}");
        let mut encoded = Vec::new();
        key.encode(&mut encoded);
        assert_eq!(encoded, raw, "{name}");
        for length in 0..raw.len() {
            assert!(RecordKey::parse(&raw[..length]).is_err(), "{name} cut to {length}");
        }
        types.push(key.record_type as i16);
    }
    assert_eq!(types, [3, 4, 5, 6, 7, 8, 16]);
}

#[test]
fn epochs_of_group_and_target() {
    for (name, metadata_hash) in [("", 0), (" metadataHash", 0x0123_4567_89ab_cdef)] {
        let value = ConsumerGroupMetadataValue { epoch: 9, metadata_hash };
        let name = format!("ConsumerGroupMetadataValue{name}");
        check(&name, RecordChange::GroupMetadata(Some(value)));
    }
    for (name, assignment_timestamp) in [("", 0), (" assignmentTimestamp", 1000)] {
        let value = TargetAssignmentMetadataValue { assignment_epoch: 9, assignment_timestamp };
        let name = format!("ConsumerGroupTargetAssignmentMetadataValue{name}");
        check(&name, RecordChange::TargetAssignmentMetadata(Some(value)));
    }
}

#[test]
fn partition_metadata() {
    let topic = TopicMetadata {
        topic_id: T1_ID,
        topic_name: "t1",
        num_partitions: 6,
        partition_racks: Vec::new(),
    };
    let value = PartitionMetadataValue { topics: vec![topic.clone()] };
    let change = RecordChange::PartitionMetadata(Some(value));
    check("ConsumerGroupPartitionMetadataValue", change);
    let racks = PartitionRacks { partition: 3, racks: vec!["a", "b"] };
    let topic = TopicMetadata { partition_racks: vec![racks], ..topic };
    let value = PartitionMetadataValue { topics: vec![topic] };
    let mut raw = Vec::new();
    value.encode(&mut raw);
    assert_eq!(PartitionMetadataValue::parse(&raw), Ok(value));
}

#[test]
fn member_metadata() {
    // Without the tag, as these vectors are, it is a classic member to Kafka.
    let bare = MemberMetadataValue {
        instance_id: None,
        rack_id: Some("r"),
        client_id: "c1",
        client_host: "/127.0.0.1",
        subscribed_topic_names: vec!["a", "b"],
        subscribed_topic_regex: Some(""),
        rebalance_timeout_ms: 300_000,
        server_assignor: Some("uniform"),
        classic: Some(ClassicMemberMetadata::default()),
    };
    let protocol = ClassicProtocol { name: "range", metadata: &[1] };
    let classic = MemberMetadataValue {
        classic: Some(ClassicMemberMetadata {
            session_timeout_ms: 45_000,
            supported_protocols: vec![protocol],
        }),
        ..bare.clone()
    };
    let regex = MemberMetadataValue {
        rack_id: None,
        subscribed_topic_names: Vec::new(),
        subscribed_topic_regex: Some("t.*"),
        server_assignor: None,
        ..bare.clone()
    };
    for (name, value) in [("native", bare.clone()), ("classic", classic), ("regex", regex)] {
        let change = RecordChange::MemberMetadata { member_id: "m1", value: Some(value) };
        check(&format!("ConsumerGroupMemberMetadataValue {name}"), change);
    }
    let native = MemberMetadataValue { classic: None, ..bare };
    let mut raw = vector("ConsumerGroupMemberMetadataValue native");
    raw.pop();
    raw.extend_from_slice(&[1, 0, 1, 0]);
    assert_eq!(MemberMetadataValue::parse(&raw), Ok(native.clone()));
    let change = RecordChange::MemberMetadata { member_id: "m1", value: Some(native) };
    assert_eq!(encoded(change), Some(raw));
}

#[test]
fn assignments() {
    let target = TargetAssignmentMemberValue {
        topic_partitions: vec![TopicPartitions { topic_id: T1_ID, partitions: vec![0, 2] }],
    };
    let change = RecordChange::TargetAssignmentMember { member_id: "m1", value: Some(target) };
    check("ConsumerGroupTargetAssignmentMemberValue", change);

    let of = |partitions: &[i32], assignment_epochs: Option<&[i32]>| EpochPartitions {
        topic_id: T1_ID,
        partitions: partitions.to_vec(),
        assignment_epochs: assignment_epochs.map(<[i32]>::to_vec),
    };
    let bare = CurrentMemberAssignmentValue {
        member_epoch: 9,
        previous_member_epoch: 8,
        state: MemberState::UnrevokedPartitions,
        assigned_partitions: vec![of(&[0], None)],
        partitions_pending_revocation: vec![of(&[2], None)],
    };
    let with_epochs = CurrentMemberAssignmentValue {
        assigned_partitions: vec![of(&[0, 1], Some(&[8, 9]))],
        partitions_pending_revocation: vec![of(&[2], Some(&[8]))],
        ..bare.clone()
    };
    for (name, value) in [("", bare), (" assignmentEpochs", with_epochs)] {
        let change = RecordChange::CurrentMemberAssignment { member_id: "m1", value: Some(value) };
        check(&format!("ConsumerGroupCurrentMemberAssignmentValue{name}"), change);
    }
}

#[test]
fn regular_expressions() {
    let value = RegularExpressionValue { topics: vec!["t1", "t2"], version: 253, timestamp: 1000 };
    let change = RecordChange::RegularExpression { regular_expression: "t.*", value: Some(value) };
    check("ConsumerGroupRegularExpressionValue", change);
}

/// Kafka's `Utils.assignmentFromTopicPartitions`.
#[test]
fn epochs_that_the_record_does_not_say_are_the_members() {
    let of = |epochs: Option<&[i32]>| EpochPartitions {
        topic_id: T1_ID,
        partitions: vec![4, 5],
        assignment_epochs: epochs.map(<[i32]>::to_vec),
    };
    let found = |of: EpochPartitions, epoch| of.with_epochs(epoch).collect::<Vec<_>>();
    assert_eq!(found(of(Some(&[1, 2])), 7), [(4, 1), (5, 2)]);
    assert_eq!(found(of(Some(&[1])), 7), [(4, 7), (5, 7)]);
    assert_eq!(found(of(None), 7), [(4, 7), (5, 7)]);
    assert_eq!(found(of(None), -2), [(4, 0), (5, 0)]);
}

#[test]
fn tombstones_have_a_key_and_no_value() {
    for (name, raw) in vectors("ConsumerGroup") {
        if !name.contains("Key ") {
            continue;
        }
        let RecordKey::ConsumerGroup(key) = RecordKey::parse(&raw).unwrap() else {
            panic!("{name}")
        };
        let record = ConsumerGroupRecord::parse(&key, None).unwrap();
        assert_eq!(record.key(), key);
        assert_eq!(encoded(record.change), None);
    }
}

/// Every value, with the type that reads it.
fn values() -> impl Iterator<Item = (ConsumerRecordType, Vec<u8>)> {
    use ConsumerRecordType as T;
    let types = [
        ("MetadataValue", T::GroupMetadata),
        ("PartitionMetadataValue", T::PartitionMetadata),
        ("MemberMetadataValue", T::MemberMetadata),
        ("TargetAssignmentMetadataValue", T::TargetAssignmentMetadata),
        ("TargetAssignmentMemberValue", T::TargetAssignmentMember),
        ("CurrentMemberAssignmentValue", T::CurrentMemberAssignment),
        ("RegularExpressionValue", T::RegularExpression),
    ];
    types.into_iter().flat_map(|(name, record_type)| {
        let found = vectors(&format!("ConsumerGroup{name}"));
        found.into_iter().map(move |(_, raw)| (record_type, raw))
    })
}

fn parse(
    record_type: ConsumerRecordType,
    value: &[u8],
) -> Result<ConsumerGroupRecord<'_>, DecodeError> {
    let key = ConsumerGroupKey { record_type, group_id: "g1", rest: "" };
    ConsumerGroupRecord::parse(&key, Some(value))
}

#[test]
fn values_cut_short_are_errors() {
    assert_eq!(values().count(), 12);
    for (record_type, raw) in values() {
        for length in 0..raw.len() {
            assert!(parse(record_type, &raw[..length]).is_err(), "{record_type:?} to {length}");
        }
    }
}

#[test]
fn unknown_versions_fail() {
    for (record_type, mut raw) in values() {
        raw[1] = 1;
        assert!(parse(record_type, &raw).is_err(), "{record_type:?}");
    }
}

#[test]
fn unknown_tags_are_skipped() {
    for (record_type, raw) in values() {
        let Some(bare) = raw.strip_suffix(&[0]) else { continue };
        let mut tagged = bare.to_vec();
        tagged.extend_from_slice(&[1, 9, 2, 0xff, 0xff]);
        // The last byte may be a part of a tagged field instead.
        if let Ok(found) = parse(record_type, &tagged) {
            assert_eq!(found, parse(record_type, &raw).unwrap());
        }
    }
    let tagged = bytes("00000000000901090100");
    let value = ConsumerGroupMetadataValue::parse(&tagged);
    assert_eq!(value, Ok(ConsumerGroupMetadataValue { epoch: 9, metadata_hash: 0 }));
}

#[test]
fn a_count_is_not_believed() {
    let mut raw = vec![0, 0];
    fields::write_unsigned_varint(&mut raw, u32::MAX);
    raw.extend_from_slice(&[0; 64]);
    for record_type in [4, 7, 16] {
        let record_type = ConsumerRecordType::of(record_type).unwrap();
        assert!(parse(record_type, &raw).is_err(), "{record_type:?}");
    }
}

#[test]
fn states_of_a_newer_kafka_are_unknown() {
    let mut raw = vector("ConsumerGroupCurrentMemberAssignmentValue");
    raw[10] = 3;
    let value = CurrentMemberAssignmentValue::parse(&raw).unwrap();
    assert_eq!(value.state, MemberState::Unknown);
}

fn epoch_partitions() -> impl Strategy<Value = Vec<EpochPartitions>> {
    let of = (any::<u128>(), vec(any::<i32>(), 0..5), option::of(vec(any::<i32>(), 0..5)));
    let of = of.prop_map(|(topic_id, partitions, assignment_epochs)| EpochPartitions {
        topic_id: Uuid(topic_id),
        partitions,
        assignment_epochs,
    });
    vec(of, 0..4)
}

proptest! {
    #[test]
    fn any_member_reads_back(
        instance_id in option::of("\\PC{0,9}"), rack_id in option::of("\\PC{0,9}"),
        client_id in "\\PC{0,200}", topics in vec("\\PC{0,9}", 0..5),
        regex in option::of("\\PC{0,9}"), rebalance_timeout_ms: i32,
        server_assignor in option::of("\\PC{0,9}"),
        classic in option::of((any::<i32>(), vec(("\\PC{0,9}", vec(any::<u8>(), 0..300)), 0..4))),
    ) {
        let value = MemberMetadataValue {
            instance_id: instance_id.as_deref(),
            rack_id: rack_id.as_deref(),
            client_id: &client_id,
            client_host: "/127.0.0.1",
            subscribed_topic_names: topics.iter().map(String::as_str).collect(),
            subscribed_topic_regex: regex.as_deref(),
            rebalance_timeout_ms,
            server_assignor: server_assignor.as_deref(),
            classic: classic.as_ref().map(|(session_timeout_ms, protocols)| ClassicMemberMetadata {
                session_timeout_ms: *session_timeout_ms,
                supported_protocols: protocols
                    .iter()
                    .map(|(name, metadata)| ClassicProtocol { name, metadata })
                    .collect(),
            }),
        };
        let mut raw = Vec::new();
        value.encode(&mut raw);
        prop_assert_eq!(MemberMetadataValue::parse(&raw), Ok(value));
    }

    #[test]
    fn any_assignment_reads_back(
        member_epoch: i32, previous_member_epoch: i32, state in 0_i8..4,
        assigned_partitions in epoch_partitions(),
        partitions_pending_revocation in epoch_partitions(),
    ) {
        let topics = assigned_partitions.iter();
        let topic_partitions = topics
            .map(|of| TopicPartitions { topic_id: of.topic_id, partitions: of.partitions.clone() })
            .collect();
        let target = TargetAssignmentMemberValue { topic_partitions };
        let mut raw = Vec::new();
        target.encode(&mut raw);
        prop_assert_eq!(TargetAssignmentMemberValue::parse(&raw), Ok(target));

        let value = CurrentMemberAssignmentValue {
            member_epoch,
            previous_member_epoch,
            state: MemberState::of(state),
            assigned_partitions,
            partitions_pending_revocation,
        };
        let mut raw = Vec::new();
        value.encode(&mut raw);
        prop_assert_eq!(CurrentMemberAssignmentValue::parse(&raw), Ok(value));
    }

    #[test]
    fn any_epoch_and_any_resolution_read_back(
        epoch: i32, number: i64, timestamp: i64, topics in vec("\\PC{0,9}", 0..5),
    ) {
        let group = ConsumerGroupMetadataValue { epoch, metadata_hash: number };
        let mut raw = Vec::new();
        group.encode(&mut raw);
        prop_assert_eq!(ConsumerGroupMetadataValue::parse(&raw), Ok(group));

        let target = TargetAssignmentMetadataValue {
            assignment_epoch: epoch,
            assignment_timestamp: timestamp,
        };
        let mut raw = Vec::new();
        target.encode(&mut raw);
        prop_assert_eq!(TargetAssignmentMetadataValue::parse(&raw), Ok(target));

        let topics = topics.iter().map(String::as_str).collect();
        let resolved = RegularExpressionValue { topics, version: number, timestamp };
        let mut raw = Vec::new();
        resolved.encode(&mut raw);
        prop_assert_eq!(RegularExpressionValue::parse(&raw), Ok(resolved));
    }

    #[test]
    fn changed_bytes_never_panic(
        line in any::<prop::sample::Index>(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let all: Vec<_> = values().collect();
        let (record_type, mut raw) = all[line.index(all.len())].clone();
        for (at, byte) in changes {
            let at = at.index(raw.len());
            raw[at] = byte;
        }
        if let Ok(record) = parse(record_type, &raw) {
            // What can be read can be written, and reads the same again.
            let mut again = Vec::new();
            record.encode_value(&mut again);
            prop_assert_eq!(parse(record_type, &again), Ok(record));
        }
    }
}
