//! Consumer groups: their commands, and how their answers and records read in a trace.
//!
//! A topic's id is its name, so that a trace can name it: `t1`, and `t1#2` if it was made anew.

use std::fmt::Write;

use kcoord_core::record::consumer::{
    ClassicMemberMetadata, ConsumerGroupRecord, CurrentMemberAssignmentValue, EpochPartitions,
    MemberMetadataValue, RecordChange, TopicPartitions,
};
use kcoord_core::request::*;
use kcoord_core::response::{
    ConsumerGroupDescribeResponse, ConsumerGroupHeartbeatResponse, DescribedTopicPartitions,
    Refusal,
};
use kcoord_core::topic_partition::{AtPartition, TopicPartition, by_topic, into_set};

use crate::command::Command;
use crate::request::Caller;
use crate::trace::{Names, kafka_name};
use crate::world::World;

/// `t1#2` is the second topic of its name.
pub fn topic_id(topic: &str) -> Uuid {
    let mut id = [0; 16];
    id[..topic.len()].copy_from_slice(topic.as_bytes());
    Uuid(u128::from_be_bytes(id))
}

fn topic_of(topic_id: Uuid) -> String {
    let bytes = topic_id.0.to_be_bytes();
    String::from_utf8(bytes.into_iter().take_while(|byte| *byte != 0).collect()).unwrap()
}

/// `t1:0,1 t2:3` as `t1:0,t1:1,t2:3`.
fn partitions(text: &str) -> Vec<TopicPartition> {
    let each = text.split(',').filter_map(|partition| partition.split_once(':'));
    into_set(each.map(|(t, n)| TopicPartition::new(topic_id(t), n.parse().unwrap())).collect())
}

impl World {
    /// `ConsumerGroupHeartbeat a 0 topics=t1`: a member that joins says all that it must; another
    /// says what stands there, with the epoch that it was told last.
    pub fn consumer_heartbeat(&mut self, command: &Command<'_>, caller: &Caller<'_>) {
        let epoch = match command.words.get(1) {
            Some(word) => word.parse().unwrap(),
            None => self.generations.get(caller.name).copied().unwrap_or(0),
        };
        let is_join = epoch == 0;
        let topics = command.option("topics").or(is_join.then_some("t1"));
        let topics = match topics {
            Some("null") => None,
            topics => {
                topics.map(|names| names.split(',').filter(|name| !name.is_empty()).collect())
            }
        };
        let owned = command.option("owned").or(is_join.then_some(""));
        let member_id = match &caller.member_id {
            id if id.is_empty() && command.option("id").is_none() => caller.name,
            id => id,
        };
        let request = ConsumerGroupHeartbeatRequest {
            group_id: caller.group_id,
            member_id,
            member_epoch: epoch,
            instance_id: caller.instance_id,
            rebalance_timeout_ms: command.number("rebalance", if is_join { 60_000 } else { -1 }),
            subscribed_topic_names: topics,
            subscribed_topic_regex: command.option("regex"),
            preferences: Preferences::of(command.option("rack"), command.option("assignor")),
            topic_partitions: owned.map(partitions),
        };
        self.send(caller, Request::ConsumerGroupHeartbeat(request));
    }
}

pub fn beaten(answer: &Result<ConsumerGroupHeartbeatResponse, Refusal>, names: &Names) -> String {
    match answer {
        Ok(response) => {
            let assignment = response.assignment.as_deref().map(set);
            format!(
                "epoch={} member={} assignment={}",
                response.member_epoch,
                names.symbol(&response.member_id),
                assignment.as_deref().unwrap_or("-")
            )
        }
        Err(refusal) => {
            let message = refusal.error_message.as_deref().unwrap_or("-");
            format!("{} {message}", kafka_name(refusal.error_code))
        }
    }
}

pub fn described(group: &ConsumerGroupDescribeResponse, names: &Names) -> String {
    let mut text = kafka_name(group.error_code);
    let _ = write!(text, " {} {}", group.group_id, group.group_state);
    if let Some(message) = &group.error_message {
        return format!("{text} {message}");
    }
    let _ = write!(text, " epochs={}/{}", group.group_epoch, group.assignment_epoch);
    let _ = write!(text, " {}", group.assignor_name);
    for member in &group.members {
        let _ = write!(text, " [{}", names.symbol(&member.member_id));
        if let Some(instance_id) = &member.instance_id {
            let _ = write!(text, "/{instance_id}");
        }
        let _ = write!(text, " {:?} epoch={}", member.member_type, member.member_epoch);
        let _ = write!(text, " topics={}", member.subscribed_topic_names.join(","));
        if !member.subscribed_topic_regex.is_empty() {
            let _ = write!(text, " regex={}", member.subscribed_topic_regex);
        }
        let (has, target) = (by_name(&member.assignment), by_name(&member.target_assignment));
        let _ = write!(text, " {has} -> {target}]");
    }
    text
}

fn by_name(topics: &[DescribedTopicPartitions]) -> String {
    let each = topics.iter().map(|topic| of_topic(&topic.topic_name, topic.partitions.iter()));
    format!("{{{}}}", each.collect::<Vec<_>>().join(" "))
}

fn of_topic(name: &str, numbers: impl Iterator<Item = impl ToString>) -> String {
    let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
    format!("{name}:{}", numbers.join(","))
}

fn set(set: &[TopicPartition]) -> String {
    let each = by_topic(set)
        .map(|(id, part)| of_topic(&topic_of(id), part.iter().map(|at| at.at().partition)));
    format!("{{{}}}", each.collect::<Vec<_>>().join(" "))
}

fn targets(topics: &[TopicPartitions]) -> String {
    let each = topics.iter().map(|of| of_topic(&topic_of(of.topic_id), of.partitions.iter()));
    format!("{{{}}}", each.collect::<Vec<_>>().join(" "))
}

/// Partitions with the epochs at which the member got them: `{t1:0@2,1@3}`.
fn assigned(topics: &[EpochPartitions]) -> String {
    let each = topics.iter().map(|of| {
        let numbers = of.with_epochs(-7).map(|(number, epoch)| format!("{number}@{epoch}"));
        of_topic(&topic_of(of.topic_id), numbers)
    });
    format!("{{{}}}", each.collect::<Vec<_>>().join(" "))
}

/// What follows the offset of a record.
pub fn record(record: &ConsumerGroupRecord<'_>, names: &Names) -> String {
    let group = record.group_id;
    let gone = "tombstone".to_owned();
    match &record.change {
        RecordChange::GroupMetadata(value) => {
            let value = value.as_ref().map(|value| {
                let topics = if value.metadata_hash == 0 { " no-topics" } else { "" };
                format!("epoch={}{topics}", value.epoch)
            });
            format!("GroupEpoch {group} {}", value.unwrap_or(gone))
        }
        RecordChange::PartitionMetadata(value) => {
            format!("PartitionMetadata {group} {}", value.as_ref().map_or("tombstone", |_| "kept"))
        }
        RecordChange::MemberMetadata { member_id, value } => {
            let value = value.as_ref().map(member_metadata);
            format!("Member {group} {} {}", names.symbol(member_id), value.unwrap_or(gone))
        }
        RecordChange::TargetAssignmentMetadata(value) => {
            let value = value.as_ref().map(|value| {
                format!("epoch={} at={}", value.assignment_epoch, value.assignment_timestamp)
            });
            format!("TargetEpoch {group} {}", value.unwrap_or(gone))
        }
        RecordChange::TargetAssignmentMember { member_id, value } => {
            let value = value.as_ref().map(|value| targets(&value.topic_partitions));
            format!("Target {group} {} {}", names.symbol(member_id), value.unwrap_or(gone))
        }
        RecordChange::CurrentMemberAssignment { member_id, value } => {
            let value = value.as_ref().map(current);
            format!("Current {group} {} {}", names.symbol(member_id), value.unwrap_or(gone))
        }
        RecordChange::RegularExpression { regular_expression, value } => {
            let value = value
                .as_ref()
                .map(|value| format!("{{{}}} at={}", value.topics.join(" "), value.timestamp));
            format!("Regex {group} {regular_expression} {}", value.unwrap_or(gone))
        }
    }
}

fn member_metadata(value: &MemberMetadataValue<'_>) -> String {
    let mut text = format!("topics={}", value.subscribed_topic_names.join(","));
    for (key, word) in [
        ("regex", value.subscribed_topic_regex.filter(|regex| !regex.is_empty())),
        ("instance", value.instance_id),
        ("rack", value.rack_id),
        ("assignor", value.server_assignor),
    ] {
        if let Some(word) = word {
            let _ = write!(text, " {key}={word}");
        }
    }
    let _ = write!(text, " rebalance={}", value.rebalance_timeout_ms);
    if let Some(ClassicMemberMetadata { session_timeout_ms, supported_protocols }) = &value.classic
    {
        let protocols = supported_protocols.iter().map(|of| of.name);
        let protocols = protocols.collect::<Vec<_>>().join(",");
        let _ = write!(text, " classic={session_timeout_ms}/{protocols}");
    }
    text
}

fn current(value: &CurrentMemberAssignmentValue) -> String {
    let mut text = format!("{:?}", value.state);
    let _ = write!(text, " epoch={}/{}", value.member_epoch, value.previous_member_epoch);
    let _ = write!(text, " {}", assigned(&value.assigned_partitions));
    if !value.partitions_pending_revocation.is_empty() {
        let _ = write!(text, " revoking={}", assigned(&value.partitions_pending_revocation));
    }
    text
}
