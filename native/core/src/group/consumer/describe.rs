//! ConsumerGroupDescribe (consumer-protocol section 10): one group, its members, what they have, and what they
//! are to have.

use std::sync::Arc;

use crate::catalogue::{Catalogue, known};
use crate::error::ErrorCode;
use crate::group::Machine;
use crate::request::{ConsumerGroupDescribeRequest, RequestContext};
use crate::response::{
    ConsumerGroupDescribeResponse, ConsumerGroupDescribedMember, DescribedTopicPartitions, Refusal,
    Response,
};
use crate::topic_partition::{AssignedPartition, AtPartition, by_topic};

use super::member::Member;

/// Memory that a member of a description takes besides its strings and partitions.
const MEMBER_BYTES: usize = 384;
/// The same of a topic, in what a member has or is to have.
const TOPIC_BYTES: usize = 88;
/// The same of a partition.
const PARTITION_BYTES: usize = 8;

impl Machine {
    pub fn describe_consumer_group(
        &mut self,
        context: &RequestContext<'_>,
        request: &ConsumerGroupDescribeRequest<'_>,
    ) {
        let group_id = request.group_id;
        let answer = |response| Response::ConsumerGroupDescribe(Box::new(response));
        let refused = |refusal| answer(ConsumerGroupDescribeResponse::refused(group_id, refusal));
        if !self.config.consumer.is_enabled {
            let refusal = Refusal::from(ErrorCode::UnsupportedVersion);
            return self.outbox.respond(context.ticket, refused(refusal));
        }
        if group_id.is_empty() {
            let refusal = Refusal::from(ErrorCode::InvalidGroupId);
            return self.outbox.respond(context.ticket, refused(refusal));
        }
        let Some(group) = self.registry.find(group_id) else {
            let reason = format!("Group {group_id} not found.");
            let refusal = Refusal::new(ErrorCode::GroupIdNotFound, reason);
            return self.respond_for_absent(context.ticket, refused(refusal));
        };
        if !self.registry.is_consumer(group) {
            let reason = format!("Group {group_id} is not a consumer group.");
            let refusal = Refusal::new(ErrorCode::GroupIdNotFound, reason);
            return self.respond_for_group(group, context.ticket, refused(refusal));
        }
        let left = self.budget.left(context.ticket);
        let bytes = self.consumer_description_bytes(group, left);
        let response = match self.budget.take(context.ticket, bytes) {
            Ok(()) => answer(self.described_consumer_group(group)),
            Err(error_code) => refused(error_code.into()),
        };
        self.respond_for_group(group, context.ticket, response);
    }

    /// Memory that a description takes; if it is more than `most`, anything above that.
    pub fn consumer_description_bytes(&self, group: u32, most: usize) -> usize {
        let of = self.registry.consumer(group);
        let least = MEMBER_BYTES * (1 + of.members.len());
        if least > most {
            return least;
        }
        let catalogue = known(&self.catalogue);
        let bytes = |row: &u32| {
            let member = &self.registry.consumer_members[*row];
            let names: usize = member.names.iter().map(|name| name.len() + 16).sum();
            let partitions = bytes_by_name(&member.assigned, catalogue)
                + bytes_by_name(&member.revoking, catalogue)
                + bytes_by_name(member.target(), catalogue);
            MEMBER_BYTES + member.id.len() + member.text_bytes() + names + partitions
        };
        let mut sum = MEMBER_BYTES;
        for row in of.members.iter() {
            sum += bytes(row);
            if sum > most {
                break;
            }
        }
        sum
    }

    fn described_consumer_group(&self, group: u32) -> ConsumerGroupDescribeResponse {
        let of = self.registry.consumer(group);
        let members = &self.registry.consumer_members;
        let catalogue = known(&self.catalogue);
        ConsumerGroupDescribeResponse {
            error_code: ErrorCode::None,
            error_message: None,
            group_id: self.group(group).id.as_str().into(),
            group_state: of.state(members).name(),
            group_epoch: of.group_epoch,
            assignment_epoch: of.assignment_epoch,
            assignor_name: self.preferred_assignor(group).name().into(),
            members: of.members.iter().map(|row| described(&members[*row], catalogue)).collect(),
        }
    }
}

fn described(member: &Member, catalogue: &Catalogue) -> ConsumerGroupDescribedMember {
    let assignment = if member.revoking.is_empty() {
        by_name(&member.assigned, catalogue)
    } else {
        // What it has to give up is still its own, and stands behind the rest of its topic.
        let mut has: Vec<AssignedPartition> = [&member.assigned[..], &member.revoking].concat();
        has.sort_by_key(|has| has.at.topic_id());
        by_name(&has, catalogue)
    };
    ConsumerGroupDescribedMember {
        member_id: (*member.id).into(),
        instance_id: member.instance_id().map(Into::into),
        rack_id: member.rack_id().map(Into::into),
        member_epoch: member.member_epoch,
        client_id: member.client_id().into(),
        client_host: member.client_host().into(),
        subscribed_topic_names: Arc::clone(&member.names),
        subscribed_topic_regex: member.regex().into(),
        assignment,
        target_assignment: by_name(member.target(), catalogue),
        member_type: member.member_type(),
    }
}

/// Memory that [`by_name`] takes.
fn bytes_by_name<T: AtPartition>(partitions: &[T], catalogue: &Catalogue) -> usize {
    let topic = |topic_id| TOPIC_BYTES + catalogue.name_of(topic_id).map_or(0, str::len);
    let topics: usize = by_topic(partitions).map(|(topic_id, _)| topic(topic_id)).sum();
    topics + partitions.len() * PARTITION_BYTES
}

/// Topics that are gone are left out.
fn by_name<T: AtPartition>(
    partitions: &[T],
    catalogue: &Catalogue,
) -> Vec<DescribedTopicPartitions> {
    let topics = by_topic(partitions).filter_map(|(topic_id, of_topic)| {
        Some(DescribedTopicPartitions {
            topic_id,
            topic_name: catalogue.name_of(topic_id)?.into(),
            partitions: of_topic.iter().map(|item| item.at().partition).collect(),
        })
    });
    topics.collect()
}
