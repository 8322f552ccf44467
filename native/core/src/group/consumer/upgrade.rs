//! A classic group becomes a consumer group, because a member of the consumer protocol joins it
//! (`convertToConsumerGroup`, consumer-protocol section 8.1). Its members stay as they are, with what
//! they were last assigned, and go on using JoinGroup and SyncGroup. A member that has not joined again since the
//! group was a consumer group, and a cooperative one that was assigned less than it had, may read the rest still:
//! nobody gets that before it has joined again.

use std::collections::BTreeSet;

use super::flat;
use super::located::{Home, Who};
use crate::catalogue::known;
use crate::consumer_protocol::{Assignment, Subscription};
use crate::error::ErrorCode;
use crate::group::Machine;
use crate::group::classic::claims::is_cooperative;
use crate::group::classic::rebalance::Held;
use crate::group::classic::subscription::CONSUMER_PROTOCOL_TYPE;
use crate::record::consumer::{
    ClassicMemberMetadata, ClassicProtocol, ConsumerGroupMetadataValue,
    CurrentMemberAssignmentValue, EpochPartitions, MemberMetadataValue, MemberState, RecordChange,
    TargetAssignmentMemberValue, TargetAssignmentMetadataValue,
};
use crate::request::{ConsumerGroupHeartbeatRequest, RequestContext};
use crate::response::Refusal;
use crate::topic_partition::{AssignedPartition, TopicPartition, into_set};

/// A member of the classic group as the consumer group will have it.
struct Converted {
    id: Box<str>,
    /// Its record of type 5.
    metadata: Vec<u8>,
    partitions: Vec<TopicPartition>,
    /// What it said that it has, or had when the group was downgraded, and was not assigned again.
    revoking: Vec<TopicPartition>,
    /// It has said so in the rebalance that ends here, or has not heard of it yet: it reads nothing else.
    is_known: bool,
    session_timeout_ms: i32,
}

impl Machine {
    /// Where the member that joins is found afterwards. Who waits for the classic group to rebalance is
    /// answered before anything can fail, and joins again.
    pub fn upgrade(
        &mut self,
        now_ms: i64,
        group: u32,
        context: &RequestContext<'_>,
        request: &ConsumerGroupHeartbeatRequest<'_>,
    ) -> Result<(Home, Who), Refusal> {
        self.may_upgrade(group)?;
        let joined = self.parked_joins(group);
        self.refuse_all_parked(now_ms, group, ErrorCode::RebalanceInProgress);
        let members = self.converted_members(group, &joined)?;
        let of = self.classic(group);
        let by_id = self.registry.find_member(group, request.member_id);
        let by_instance =
            request.instance_id.and_then(|id| self.registry.find_static_member(group, id));
        match (by_id, by_instance) {
            (None, None) => self.check_capacity(members.len())?,
            (Some(by_id), Some(by_instance)) if by_id != by_instance => {
                let reason = "the member id and the instance id are those of two members";
                return Err(self.not_upgraded(group, ErrorCode::FencedInstanceId, reason));
            }
            _ => {}
        }
        self.check_regex(Home::Classic(group), request)?;
        let generation_id = of.generation_id;
        self.emit_group_tombstone(now_ms, group);
        let group = self.registry.make_consumer(request.group_id);
        self.emit_converted_group(now_ms, group, generation_id, &members);
        self.tell_upgraded(group, context, request, members.len());
        for member in &members {
            let row = self.registry.find_consumer_member(group, &member.id);
            let row = row.expect("its records made it");
            self.renew_consumer_session_with(now_ms, row, member.session_timeout_ms);
        }
        self.locate(request)
    }

    fn may_upgrade(&self, group: u32) -> Result<(), Refusal> {
        let of = self.classic(group);
        let reason = if !self.config.consumer.migration_policy.allows_upgrade() {
            "online upgrade is disabled"
        } else if of.protocol_type() != CONSUMER_PROTOCOL_TYPE {
            "the group does not use the consumer embedded protocol"
        } else if of.member_count() > self.config.consumer.max_size {
            "the group size exceeds the consumer group maximum size"
        } else {
            return Ok(());
        };
        Err(self.not_upgraded(group, ErrorCode::GroupIdNotFound, reason))
    }

    fn not_upgraded(&self, group: u32, error_code: ErrorCode, reason: &str) -> Refusal {
        let id = self.group(group).id.as_str();
        let reason =
            format!("Cannot upgrade classic group {id} to consumer group because {reason}.");
        Refusal::new(error_code, reason)
    }

    /// The members by id, and what each was last assigned.
    /// `joined`: rows of those whose JoinGroup waited.
    fn converted_members(&self, group: u32, joined: &[u32]) -> Result<Vec<Converted>, Refusal> {
        let of = self.classic(group);
        let mut owned = BTreeSet::new();
        let mut members = Vec::with_capacity(of.member_count());
        for row in of.member_rows() {
            let converted = self.converted_member(group, row, joined.contains(&row))?;
            if !converted.partitions.iter().all(|partition| owned.insert(*partition)) {
                let reason = "a partition is assigned to two members";
                return Err(self.not_upgraded(group, ErrorCode::UnknownServerError, reason));
            }
            members.push(converted);
        }
        let claimed: BTreeSet<TopicPartition> =
            members.iter().flat_map(|member| member.revoking.iter().copied()).collect();
        for member in members.iter_mut().filter(|member| member.is_known) {
            // It was assigned by a downgrade, never heard of it, and another one reads it still.
            let (own, owned) = (&member.revoking, &mut owned);
            member
                .partitions
                .retain(|at| own.contains(at) || !claimed.contains(at) || !owned.remove(at));
        }
        for member in &mut members {
            // What another one claims as well, or has been assigned, is claimed by mistake.
            member.revoking.retain(|partition| owned.insert(*partition));
        }
        members.sort_unstable_by(|left, right| left.id.cmp(&right.id));
        Ok(members)
    }

    fn converted_member(
        &self,
        group: u32,
        row: u32,
        has_joined: bool,
    ) -> Result<Converted, Refusal> {
        let member = &self.registry.members[row];
        let details = member.details();
        let malformed = |_| {
            let reason = "the embedded consumer protocol is malformed";
            self.not_upgraded(group, ErrorCode::GroupIdNotFound, reason)
        };
        let mut partitions = Vec::new();
        // Before it was assigned anything a member owns nothing.
        if !details.assignment.is_empty() {
            let assignment = Assignment::decode(details.assignment).map_err(malformed)?;
            if assignment.user_data.is_some_and(|data| !data.is_empty()) {
                let reason = "an unsupported custom assignor is in use";
                return Err(self.not_upgraded(group, ErrorCode::GroupIdNotFound, reason));
            }
            partitions = self.by_id(&assignment.assigned_partitions);
        }
        let chosen = self.classic(group).protocol_name();
        let chosen = chosen.and_then(|name| details.protocols.iter().find(|of| of.0 == name));
        let Some((protocol, metadata)) = chosen else {
            // No generation began yet, or it joins with others than this one has.
            let reason = "a member has no metadata for the group's protocol";
            return Err(self.not_upgraded(group, ErrorCode::UnknownServerError, reason));
        };
        let subscription = Subscription::decode(metadata).map_err(malformed)?;
        let held = self.held(group).filter(|_| !has_joined);
        let reads = match held {
            Some(held) => held.get(details.member_id).cloned().unwrap_or_default(),
            None if is_cooperative(protocol) => self.by_id(&subscription.owned_partitions),
            None => Vec::new(),
        };
        let mut names = subscription.topics;
        names.sort_unstable();
        names.dedup();
        let protocols = details.protocols.iter();
        let protocols = protocols.map(|(name, metadata)| ClassicProtocol { name, metadata });
        let mut metadata = Vec::new();
        MemberMetadataValue {
            instance_id: details.group_instance_id,
            rack_id: subscription.rack_id,
            client_id: details.client_id,
            client_host: details.client_host,
            subscribed_topic_names: names,
            subscribed_topic_regex: Some(""),
            rebalance_timeout_ms: member.rebalance_timeout_ms,
            server_assignor: None,
            classic: Some(ClassicMemberMetadata {
                session_timeout_ms: member.session_timeout_ms,
                supported_protocols: protocols.collect(),
            }),
        }
        .encode(&mut metadata);
        let (id, session_timeout_ms) = (details.member_id.into(), member.session_timeout_ms);
        let is_known = has_joined || held.is_some();
        Ok(Converted { id, metadata, partitions, revoking: reads, is_known, session_timeout_ms })
    }

    /// What members may read, where they have not been told of what they are assigned.
    fn held(&self, group: u32) -> Option<&Held> {
        let soft = self.classic(group).rebalance.as_ref()?;
        (!soft.held.is_empty()).then_some(&soft.held)
    }

    /// Partitions by name as partitions by id. Topics that are not there are left out.
    pub fn by_id(&self, topics: &[(&str, Vec<i32>)]) -> Vec<TopicPartition> {
        let catalogue = known(&self.catalogue);
        let ids =
            topics.iter().filter_map(|(name, numbers)| Some((catalogue.topic(name)?.0, numbers)));
        let each = ids.flat_map(|(topic_id, numbers)| {
            numbers.iter().map(move |number| TopicPartition::new(topic_id, *number))
        });
        into_set(each.collect())
    }

    /// The records that make the group, in Kafka's order: the classic group's tombstone came before.
    fn emit_converted_group(&mut self, now_ms: i64, group: u32, epoch: i32, members: &[Converted]) {
        for member in members {
            self.emit_member_metadata(now_ms, group, &member.id, &member.metadata);
        }
        let metadata_hash = self.metadata_hash(group);
        let value = ConsumerGroupMetadataValue { epoch, metadata_hash };
        self.emit_consumer(now_ms, group, &RecordChange::GroupMetadata(Some(value)));
        for Converted { id: member_id, partitions, .. } in members {
            let topic_partitions = flat::of_targets(partitions);
            let value = Some(TargetAssignmentMemberValue { topic_partitions });
            let record = RecordChange::TargetAssignmentMember { member_id, value };
            self.emit_consumer(now_ms, group, &record);
        }
        let value =
            TargetAssignmentMetadataValue { assignment_epoch: epoch, assignment_timestamp: 0 };
        self.emit_consumer(now_ms, group, &RecordChange::TargetAssignmentMetadata(Some(value)));
        for Converted { id: member_id, partitions, revoking, .. } in members {
            let value = Some(CurrentMemberAssignmentValue {
                member_epoch: epoch,
                previous_member_epoch: epoch,
                state: match revoking.is_empty() {
                    true => MemberState::Stable,
                    false => MemberState::UnrevokedPartitions,
                },
                assigned_partitions: at_epoch(partitions, epoch),
                partitions_pending_revocation: at_epoch(revoking, epoch),
            });
            let record = RecordChange::CurrentMemberAssignment { member_id, value };
            self.emit_consumer(now_ms, group, &record);
        }
    }
}

fn at_epoch(partitions: &[TopicPartition], epoch: i32) -> Vec<EpochPartitions> {
    let each = partitions.iter().map(|at| AssignedPartition { at: *at, epoch });
    flat::of_assigned(&each.collect::<Vec<_>>())
}
