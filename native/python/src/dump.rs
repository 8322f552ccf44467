//! `dump`: the records of a chunk of the log, decoded for people, by the field names of Kafka's
//! schemas. Only for looking: nothing that serves requests or replays a log may use it.

use std::borrow::Cow;

use kcoord_core::ReplayError;
use kcoord_core::consumer_protocol::{Assignment, Subscription, TopicPartitions};
use kcoord_core::record::consumer::ConsumerGroupRecord;
use kcoord_core::record::offset_commit::OFFSET_COMMIT_KEY_TYPE;
use kcoord_core::record::{
    Batch, Batches, GroupMetadataMember, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue,
    Record, RecordKey, TransactionResult,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::dump_consumer::{consumer_group_key, consumer_group_value};
use crate::error::replay_error;

/// Kafka's schema names (without `Key`) by key type, of records of groups that are not classic.
const SCHEMAS: [(i16, &str); 20] = [
    (3, "ConsumerGroupMetadata"),
    (4, "ConsumerGroupPartitionMetadata"),
    (5, "ConsumerGroupMemberMetadata"),
    (6, "ConsumerGroupTargetAssignmentMetadata"),
    (7, "ConsumerGroupTargetAssignmentMember"),
    (8, "ConsumerGroupCurrentMemberAssignment"),
    (9, "ShareGroupPartitionMetadata"),
    (10, "ShareGroupMemberMetadata"),
    (11, "ShareGroupMetadata"),
    (12, "ShareGroupTargetAssignmentMetadata"),
    (13, "ShareGroupTargetAssignmentMember"),
    (14, "ShareGroupCurrentMemberAssignment"),
    (15, "ShareGroupStatePartitionMetadata"),
    (16, "ConsumerGroupRegularExpression"),
    (17, "StreamsGroupMetadata"),
    (19, "StreamsGroupMemberMetadata"),
    (20, "StreamsGroupTargetAssignmentMetadata"),
    (21, "StreamsGroupTargetAssignmentMember"),
    (22, "StreamsGroupCurrentMemberAssignment"),
    (23, "StreamsGroupTopology"),
];

type Kind = String;
/// position, base offset, attributes, leader epoch, producer id, producer epoch, offset, timestamp,
/// kind, key, value
type Row<'py> = (
    usize,
    i64,
    i16,
    i32,
    i64,
    i16,
    i64,
    i64,
    Kind,
    Bound<'py, PyDict>,
    Option<Bound<'py, PyDict>>,
);

/// The records of a chunk: whole uncompressed RecordBatches v2.
#[pyfunction]
pub fn dump<'py>(py: Python<'py>, chunk: &[u8]) -> PyResult<Vec<Row<'py>>> {
    let mut rows = Vec::new();
    for batch in Batches::new(chunk) {
        let batch = batch.map_err(|error| replay_error(py, error))?;
        for record in batch.records() {
            let record = record.map_err(|error| replay_error(py, error))?;
            let (kind, key, value) = decode(py, &batch, &record)?;
            let header = &batch.header;
            rows.push((
                batch.position,
                header.base_offset,
                header.attributes.0,
                header.partition_leader_epoch,
                header.producer_id,
                header.producer_epoch,
                record.offset,
                record.timestamp,
                kind,
                key,
                value,
            ));
        }
    }
    Ok(rows)
}

type Partitions = Vec<(String, Vec<i32>)>;
/// version, topics, user data, owned partitions, generation id, rack id
type PySubscription<'py> =
    (i16, Vec<String>, Option<Bound<'py, PyBytes>>, Partitions, i32, Option<String>);
/// version, assigned partitions, user data
type PyAssignment<'py> = (i16, Partitions, Option<Bound<'py, PyBytes>>);

/// A ConsumerProtocolSubscription, or nothing where the bytes are none.
#[pyfunction]
pub fn decode_subscription<'py>(py: Python<'py>, data: &[u8]) -> Option<PySubscription<'py>> {
    let subscription = Subscription::decode(data).ok()?;
    Some((
        subscription.version,
        subscription.topics.into_iter().map(str::to_owned).collect(),
        subscription.user_data.map(|data| PyBytes::new(py, data)),
        owned(subscription.owned_partitions),
        subscription.generation_id,
        subscription.rack_id.map(str::to_owned),
    ))
}

/// A ConsumerProtocolAssignment, or nothing where the bytes are none.
#[pyfunction]
pub fn decode_assignment<'py>(py: Python<'py>, data: &[u8]) -> Option<PyAssignment<'py>> {
    let assignment = Assignment::decode(data).ok()?;
    let user_data = assignment.user_data.map(|data| PyBytes::new(py, data));
    Some((assignment.version, owned(assignment.assigned_partitions), user_data))
}

fn owned(topics: Vec<TopicPartitions<'_>>) -> Partitions {
    topics.into_iter().map(|(topic, partitions)| (topic.to_owned(), partitions)).collect()
}

type Decoded<'py> = (Kind, Bound<'py, PyDict>, Option<Bound<'py, PyDict>>);

fn decode<'py>(py: Python<'py>, batch: &Batch<'_>, record: &Record<'_>) -> PyResult<Decoded<'py>> {
    let corrupt = |error: kcoord_core::record::DecodeError| {
        let (offset, position) = (record.offset, batch.position);
        replay_error(py, ReplayError { offset, position, reason: error.to_string() })
    };
    let raw_key = record.key.unwrap_or_default();
    if batch.header.attributes.is_control() {
        let kind = match TransactionResult::parse_key(raw_key).map_err(corrupt)? {
            Some(TransactionResult::Commit) => "COMMIT",
            Some(TransactionResult::Abort) => "ABORT",
            None => "control",
        };
        return opaque(py, kind, raw_key, record.value);
    }
    if record.key.is_none() {
        return opaque(py, "null key", raw_key, record.value);
    }
    match RecordKey::parse(raw_key).map_err(corrupt)? {
        RecordKey::OffsetCommit(key) => {
            let written = raw_key[..2] == OFFSET_COMMIT_KEY_TYPE.to_be_bytes();
            let kind = if written { "OffsetCommit" } else { "LegacyOffsetCommit" };
            let value =
                record.value.map(|raw| OffsetCommitValue::parse(raw).map(|value| (raw, value)));
            let value = match value.transpose().map_err(corrupt)? {
                Some((raw, value)) => Some(offset_commit_value(py, version(raw), &value)?),
                None => None,
            };
            Ok((kind.to_owned(), offset_commit_key(py, &key)?, value))
        }
        RecordKey::GroupMetadata(key) => {
            let fields = PyDict::new(py);
            fields.set_item("group", key.group)?;
            let value =
                record.value.map(|raw| GroupMetadataValue::parse(raw).map(|value| (raw, value)));
            let value = match value.transpose().map_err(corrupt)? {
                Some((raw, value)) => Some(group_metadata_value(py, version(raw), &value)?),
                None => None,
            };
            Ok(("GroupMetadata".to_owned(), fields, value))
        }
        RecordKey::ConsumerGroup(key) => {
            let kind = schema_name(key.record_type as i16).into_owned();
            let value = record.value.map(|raw| match ConsumerGroupRecord::parse(&key, Some(raw)) {
                Ok(record) => consumer_group_value(py, &record),
                Err(_) => as_it_is(py, raw),
            });
            let value = value.transpose()?;
            Ok((kind, consumer_group_key(py, &key)?, value))
        }
        RecordKey::Other(key) => {
            let kind = schema_name(key.record_type).into_owned();
            let (_, fields, value) = opaque(py, &kind, raw_key, record.value)?;
            fields.set_item("groupId", key.group_id)?;
            Ok((kind, fields, value))
        }
        RecordKey::Unknown { record_type, .. } => {
            opaque(py, &schema_name(record_type), raw_key, record.value)
        }
    }
}

/// A record that is shown as it is.
fn opaque<'py>(
    py: Python<'py>,
    kind: &str,
    key: &[u8],
    value: Option<&[u8]>,
) -> PyResult<Decoded<'py>> {
    let value = value.map(|value| as_it_is(py, value)).transpose()?;
    Ok((kind.to_owned(), as_it_is(py, key)?, value))
}

/// A key or a value that is shown as it is.
fn as_it_is<'py>(py: Python<'py>, raw: &[u8]) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("version", version(raw))?;
    fields.set_item("raw", PyBytes::new(py, raw))?;
    Ok(fields)
}

fn offset_commit_key<'py>(
    py: Python<'py>,
    key: &OffsetCommitKey<'_>,
) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("group", key.group)?;
    fields.set_item("topic", key.topic)?;
    fields.set_item("partition", key.partition)?;
    Ok(fields)
}

fn offset_commit_value<'py>(
    py: Python<'py>,
    version: i16,
    value: &OffsetCommitValue<'_>,
) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("version", version)?;
    fields.set_item("offset", value.offset)?;
    fields.set_item("leaderEpoch", value.leader_epoch)?;
    fields.set_item("metadata", value.metadata)?;
    fields.set_item("commitTimestamp", value.commit_timestamp)?;
    if version == 1 {
        fields.set_item("expireTimestamp", value.expire_timestamp)?;
    }
    if !value.topic_id.is_zero() {
        fields.set_item("topicId", PyBytes::new(py, &value.topic_id.0.to_be_bytes()))?;
    }
    Ok(fields)
}

fn group_metadata_value<'py>(
    py: Python<'py>,
    version: i16,
    value: &GroupMetadataValue<'_>,
) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("version", version)?;
    fields.set_item("protocolType", value.protocol_type)?;
    fields.set_item("generation", value.generation)?;
    fields.set_item("protocol", value.protocol)?;
    fields.set_item("leader", value.leader)?;
    fields.set_item("currentStateTimestamp", value.current_state_timestamp)?;
    let members = value.members.iter().map(|member| group_metadata_member(py, member));
    let members = PyList::new(py, members.collect::<PyResult<Vec<_>>>()?)?;
    fields.set_item("members", members)?;
    Ok(fields)
}

fn group_metadata_member<'py>(
    py: Python<'py>,
    member: &GroupMetadataMember<'_>,
) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("memberId", member.member_id)?;
    fields.set_item("groupInstanceId", member.group_instance_id)?;
    fields.set_item("clientId", member.client_id)?;
    fields.set_item("clientHost", member.client_host)?;
    fields.set_item("rebalanceTimeout", member.rebalance_timeout)?;
    fields.set_item("sessionTimeout", member.session_timeout)?;
    fields.set_item("subscription", PyBytes::new(py, member.subscription))?;
    fields.set_item("assignment", PyBytes::new(py, member.assignment))?;
    Ok(fields)
}

/// The number that every key and value of this log begins with; -1 where it is too short.
fn version(raw: &[u8]) -> i16 {
    match raw {
        [high, low, ..] => i16::from_be_bytes([*high, *low]),
        _ => -1,
    }
}

/// The name of the type of a record of a group that is not classic.
pub fn schema_name(record_type: i16) -> Cow<'static, str> {
    let known = SCHEMAS.iter().find(|(known, _)| *known == record_type);
    known.map_or_else(|| format!("unknown-{record_type}").into(), |(_, name)| (*name).into())
}
