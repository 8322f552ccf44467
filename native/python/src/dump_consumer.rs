//! `dump` of the records of consumer groups, by the field names of Kafka's schemas
//! (ConsumerGroup*Key.json and ConsumerGroup*Value.json).

use kcoord_core::record::consumer::{
    ClassicMemberMetadata, ConsumerGroupKey, ConsumerGroupRecord, ConsumerRecordType,
    CurrentMemberAssignmentValue, EpochPartitions, MemberMetadataValue, PartitionMetadataValue,
    PartitionRacks, RecordChange, TargetAssignmentMemberValue, TopicMetadata,
};
use kcoord_core::request::Uuid;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

type Fields<'py> = Bound<'py, PyDict>;

pub fn consumer_group_key<'py>(
    py: Python<'py>,
    key: &ConsumerGroupKey<'_>,
) -> PyResult<Fields<'py>> {
    use ConsumerRecordType as T;
    let fields = PyDict::new(py);
    fields.set_item("groupId", key.group_id)?;
    match key.record_type {
        T::MemberMetadata | T::TargetAssignmentMember | T::CurrentMemberAssignment => {
            fields.set_item("memberId", key.rest)?;
        }
        T::RegularExpression => fields.set_item("regularExpression", key.rest)?,
        T::GroupMetadata | T::PartitionMetadata | T::TargetAssignmentMetadata => {}
    }
    Ok(fields)
}

/// The value of a record that is no tombstone.
pub fn consumer_group_value<'py>(
    py: Python<'py>,
    record: &ConsumerGroupRecord<'_>,
) -> PyResult<Fields<'py>> {
    use RecordChange as C;
    let fields = PyDict::new(py);
    fields.set_item("version", 0)?;
    match &record.change {
        C::GroupMetadata(Some(value)) => {
            fields.set_item("epoch", value.epoch)?;
            if value.metadata_hash != 0 {
                fields.set_item("metadataHash", value.metadata_hash)?;
            }
        }
        C::PartitionMetadata(Some(value)) => partition_metadata(&fields, value)?,
        C::MemberMetadata { value: Some(value), .. } => member_metadata(&fields, value)?,
        C::TargetAssignmentMetadata(Some(value)) => {
            fields.set_item("assignmentEpoch", value.assignment_epoch)?;
            if value.assignment_timestamp != 0 {
                fields.set_item("assignmentTimestamp", value.assignment_timestamp)?;
            }
        }
        C::TargetAssignmentMember { value: Some(value), .. } => target(&fields, value)?,
        C::CurrentMemberAssignment { value: Some(value), .. } => current(&fields, value)?,
        C::RegularExpression { value: Some(value), .. } => {
            fields.set_item("topics", &value.topics)?;
            // Kafka calls it version, as the version of the value.
            fields.set_item("imageVersion", value.version)?;
            fields.set_item("timestamp", value.timestamp)?;
        }
        _ => unreachable!("there is a value"),
    }
    Ok(fields)
}

fn partition_metadata(fields: &Fields<'_>, value: &PartitionMetadataValue<'_>) -> PyResult<()> {
    let py = fields.py();
    let racks = |of: &PartitionRacks<'_>| {
        let fields = PyDict::new(py);
        fields.set_item("partition", of.partition)?;
        fields.set_item("racks", &of.racks)?;
        Ok(fields)
    };
    let topic = |topic: &TopicMetadata<'_>| {
        let fields = PyDict::new(py);
        fields.set_item("topicId", uuid(py, topic.topic_id))?;
        fields.set_item("topicName", topic.topic_name)?;
        fields.set_item("numPartitions", topic.num_partitions)?;
        fields.set_item("partitionMetadata", list(py, &topic.partition_racks, racks)?)?;
        Ok(fields)
    };
    fields.set_item("topics", list(py, &value.topics, topic)?)
}

fn member_metadata(fields: &Fields<'_>, value: &MemberMetadataValue<'_>) -> PyResult<()> {
    fields.set_item("instanceId", value.instance_id)?;
    fields.set_item("rackId", value.rack_id)?;
    fields.set_item("clientId", value.client_id)?;
    fields.set_item("clientHost", value.client_host)?;
    fields.set_item("subscribedTopicNames", &value.subscribed_topic_names)?;
    fields.set_item("subscribedTopicRegex", value.subscribed_topic_regex)?;
    fields.set_item("rebalanceTimeoutMs", value.rebalance_timeout_ms)?;
    fields.set_item("serverAssignor", value.server_assignor)?;
    let classic = value.classic.as_ref().map(|classic| classic_member(fields.py(), classic));
    fields.set_item("classicMemberMetadata", classic.transpose()?)
}

fn classic_member<'py>(
    py: Python<'py>,
    classic: &ClassicMemberMetadata<'_>,
) -> PyResult<Fields<'py>> {
    let fields = PyDict::new(py);
    fields.set_item("sessionTimeoutMs", classic.session_timeout_ms)?;
    let protocols = list(py, &classic.supported_protocols, |protocol| {
        let fields = PyDict::new(py);
        fields.set_item("name", protocol.name)?;
        fields.set_item("metadata", PyBytes::new(py, protocol.metadata))?;
        Ok(fields)
    });
    fields.set_item("supportedProtocols", protocols?)?;
    Ok(fields)
}

fn target(fields: &Fields<'_>, value: &TargetAssignmentMemberValue) -> PyResult<()> {
    let py = fields.py();
    let topics = list(py, &value.topic_partitions, |topic| {
        let fields = PyDict::new(py);
        fields.set_item("topicId", uuid(py, topic.topic_id))?;
        fields.set_item("partitions", &topic.partitions)?;
        Ok(fields)
    });
    fields.set_item("topicPartitions", topics?)
}

fn current(fields: &Fields<'_>, value: &CurrentMemberAssignmentValue) -> PyResult<()> {
    let py = fields.py();
    let topic = |topic: &EpochPartitions| {
        let fields = PyDict::new(py);
        fields.set_item("topicId", uuid(py, topic.topic_id))?;
        fields.set_item("partitions", &topic.partitions)?;
        if let Some(epochs) = &topic.assignment_epochs {
            fields.set_item("assignmentEpochs", epochs)?;
        }
        Ok(fields)
    };
    fields.set_item("memberEpoch", value.member_epoch)?;
    fields.set_item("previousMemberEpoch", value.previous_member_epoch)?;
    fields.set_item("state", value.state as i8)?;
    fields.set_item("assignedPartitions", list(py, &value.assigned_partitions, topic)?)?;
    let pending = list(py, &value.partitions_pending_revocation, topic)?;
    fields.set_item("partitionsPendingRevocation", pending)
}

fn uuid<'py>(py: Python<'py>, id: Uuid) -> Bound<'py, PyBytes> {
    PyBytes::new(py, &id.0.to_be_bytes())
}

fn list<'py, T>(
    py: Python<'py>,
    elements: &[T],
    fields: impl Fn(&T) -> PyResult<Fields<'py>>,
) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, elements.iter().map(fields).collect::<PyResult<Vec<_>>>()?)
}
