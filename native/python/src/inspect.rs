//! What a node holds, as rows: for `log state`, Arrow tables and metrics.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};

use kcoord_core::Shard;
use kcoord_core::views::{
    ConsumerGroupView, ConsumerMemberView, GroupView, MemberView, TopicPartitionsView,
};
use kcoord_node::Node;

pub fn groups<'py>(py: Python<'py>, shard: &Shard) -> PyResult<Bound<'py, PyList>> {
    let rows: PyResult<Vec<_>> = shard.groups().map(|group| group_row(py, &group)).collect();
    PyList::new(py, rows?)
}

pub fn offsets<'py>(py: Python<'py>, shard: &Shard) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for group_id in shard.group_ids() {
        for (topic, partition, value) in shard.offsets(group_id) {
            list.append((
                group_id,
                topic,
                partition,
                value.offset,
                value.leader_epoch,
                value.metadata,
                value.commit_timestamp,
                value.expire_timestamp.unwrap_or(-1),
                PyBytes::new(py, &value.topic_id.0.to_be_bytes()),
            ))?;
        }
    }
    Ok(list)
}

/// Counts of the whole node: `groups_<state>` in snake case, `consumer_groups_<state>`, `members`, `offsets`,
/// `rebalances_total` by cause, `coordinator_assignments_total` by strategy, `findings_total` by
/// kind, and `members_expired_total`.
pub fn stats<'py>(py: Python<'py>, node: &Node) -> PyResult<Bound<'py, PyDict>> {
    let stats = node.stats();
    let dict = PyDict::new(py);
    let states = ["empty", "preparing_rebalance", "completing_rebalance", "stable", "dead"];
    for (state, (_, count)) in states.iter().zip(stats.counts.groups) {
        dict.set_item(format!("groups_{state}"), count)?;
    }
    for (state, count) in stats.counts.consumer_groups {
        dict.set_item(format!("consumer_groups_{}", state.to_ascii_lowercase()), count)?;
    }
    dict.set_item("consumer_rebalances_total", stats.counters.consumer_rebalances)?;
    dict.set_item("members_fenced_total", stats.counters.members_fenced)?;
    dict.set_item("members", stats.counts.members)?;
    dict.set_item("offsets", stats.counts.offsets)?;
    let causes = PyDict::new(py);
    for (cause, count) in stats.counters.rebalances() {
        causes.set_item(cause, count)?;
    }
    dict.set_item("rebalances_total", causes)?;
    let strategies = PyDict::new(py);
    for (strategy, count) in stats.counters.coordinator_assignments() {
        strategies.set_item(strategy, count)?;
    }
    dict.set_item("coordinator_assignments_total", strategies)?;
    let kinds = PyDict::new(py);
    for (kind, count) in stats.counters.findings() {
        kinds.set_item(kind, count)?;
    }
    dict.set_item("findings_total", kinds)?;
    let held = PyDict::new(py);
    for (cause, count) in stats.counters.joins_held() {
        held.set_item(cause, count)?;
    }
    dict.set_item("joins_held_total", held)?;
    dict.set_item("removals_put_off_total", stats.counters.removals_put_off)?;
    dict.set_item("members_expired_total", stats.counters.members_expired)?;
    dict.set_item("events_dropped_total", stats.counters.events_dropped)?;
    Ok(dict)
}

fn group_row<'py>(py: Python<'py>, group: &GroupView) -> PyResult<Bound<'py, PyTuple>> {
    let members: PyResult<Vec<_>> =
        group.members.iter().map(|member| member_row(py, member)).collect();
    let group_type = if group.is_simple { "simple" } else { group.group_type };
    let protocol_type = (!group.protocol_type.is_empty()).then_some(&*group.protocol_type);
    (
        &*group.group_id,
        group_type,
        group.state,
        protocol_type,
        group.generation_id,
        group.protocol_name.as_deref(),
        group.leader.as_deref(),
        group.current_state_timestamp_ms,
        members?,
        group.consumer.as_ref().map(|of| consumer_group(py, of)).transpose()?,
    )
        .into_pyobject(py)
}

fn member_row<'py>(py: Python<'py>, member: &MemberView) -> PyResult<Bound<'py, PyTuple>> {
    (
        &*member.member_id,
        member.group_instance_id.as_deref(),
        &*member.client_id,
        &*member.client_host,
        member.rebalance_timeout_ms,
        member.session_timeout_ms,
        PyBytes::new(py, &member.subscription),
        PyBytes::new(py, &member.assignment),
        member.consumer.as_ref().map(|of| consumer_member(py, of)).transpose()?,
    )
        .into_pyobject(py)
}

/// What only a consumer group has, by name.
fn consumer_group<'py>(py: Python<'py>, group: &ConsumerGroupView) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("group_epoch", group.group_epoch)?;
    fields.set_item("assignment_epoch", group.assignment_epoch)?;
    fields.set_item("assignment_timestamp_ms", group.assignment_timestamp_ms)?;
    fields.set_item("assignor_name", &*group.assignor_name)?;
    let regular_expressions = PyDict::new(py);
    for of in &group.regular_expressions {
        let topics = of.topics.as_ref().map(|topics| texts(topics));
        regular_expressions.set_item(&*of.regular_expression, (topics, of.timestamp_ms))?;
    }
    fields.set_item("regular_expressions", regular_expressions)?;
    Ok(fields)
}

/// What only a member of a consumer group has, by name.
fn consumer_member<'py>(
    py: Python<'py>,
    member: &ConsumerMemberView,
) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("member_epoch", member.member_epoch)?;
    fields.set_item("previous_member_epoch", member.previous_member_epoch)?;
    fields.set_item("state", member.state)?;
    fields.set_item("member_type", member.member_type as i8)?;
    fields.set_item("rack_id", member.rack_id.as_deref())?;
    fields.set_item("subscribed_topic_names", texts(&member.subscribed_topic_names))?;
    fields.set_item("subscribed_topic_regex", &*member.subscribed_topic_regex)?;
    fields.set_item("server_assignor", member.server_assignor.as_deref())?;
    fields.set_item("assigned", topic_partitions(py, &member.assigned)?)?;
    fields.set_item("pending_revocation", topic_partitions(py, &member.pending_revocation)?)?;
    fields.set_item("target", topic_partitions(py, &member.target)?)?;
    Ok(fields)
}

fn texts(texts: &[Box<str>]) -> Vec<&str> {
    texts.iter().map(|text| &**text).collect()
}

/// Topic ids and partitions, ascending.
fn topic_partitions<'py>(
    py: Python<'py>,
    topics: &[TopicPartitionsView],
) -> PyResult<Bound<'py, PyList>> {
    let row = |of: &TopicPartitionsView| {
        (PyBytes::new(py, &of.topic_id.0.to_be_bytes()), of.partitions.clone())
    };
    PyList::new(py, topics.iter().map(row))
}
