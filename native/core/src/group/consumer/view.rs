//! A consumer group for people and tables.

use std::collections::BTreeMap;

use super::ConsumerGroup;
use super::member::Member;
use super::regexes::ResolvedRegex;
use crate::group::Machine;
use crate::topic_partition::{AtPartition, by_topic};
use crate::views::{
    ConsumerGroupView, ConsumerMemberView, GroupView, MemberView, RegularExpressionView,
    TopicPartitionsView,
};

impl Machine {
    /// Fills in what a consumer group has.
    pub fn view_consumer_group(&self, group: u32, bare: GroupView) -> GroupView {
        let of = self.registry.consumer(group);
        let members = of.members.iter().map(|row| &self.registry.consumer_members[*row]);
        let session_timeout_ms = self.session_timeout_ms_of(group);
        let consumer = ConsumerGroupView {
            group_epoch: of.group_epoch,
            assignment_epoch: of.assignment_epoch,
            assignment_timestamp_ms: of.assignment_timestamp_ms,
            assignor_name: self.preferred_assignor(group).name().into(),
            regular_expressions: regular_expressions(of),
        };
        GroupView {
            consumer: Some(consumer),
            // A target alone, which a damaged log may have left, makes no member.
            members: members
                .filter(|member| member.is_there)
                .map(|member| view_member(member, session_timeout_ms))
                .collect(),
            ..bare
        }
    }
}

fn regular_expressions(of: &ConsumerGroup) -> Vec<RegularExpressionView> {
    let wanted = of.regexes.names().map(|regex| (regex, None));
    let resolved = of.regexes.resolved().map(|(regex, resolved)| (regex, Some(resolved)));
    let all: BTreeMap<&str, Option<&ResolvedRegex>> = wanted.chain(resolved).collect();
    let view = |(regex, resolved): (&str, Option<&ResolvedRegex>)| RegularExpressionView {
        regular_expression: regex.into(),
        topics: resolved.map(|resolved| resolved.topics.to_vec()),
        timestamp_ms: resolved.map_or(0, |resolved| resolved.timestamp_ms),
    };
    all.into_iter().map(view).collect()
}

fn view_member(member: &Member, session_timeout_ms: i32) -> MemberView {
    let consumer = ConsumerMemberView {
        member_epoch: member.member_epoch,
        previous_member_epoch: member.previous_member_epoch,
        state: member.state.name(),
        member_type: member.member_type(),
        rack_id: member.rack_id().map(Into::into),
        subscribed_topic_names: member.names.to_vec(),
        subscribed_topic_regex: member.regex().into(),
        server_assignor: member.server_assignor().map(Into::into),
        assigned: topic_partitions(&member.assigned),
        pending_revocation: topic_partitions(&member.revoking),
        target: topic_partitions(member.target()),
    };
    let classic = member.classic.as_deref();
    MemberView {
        member_id: (*member.id).into(),
        group_instance_id: member.instance_id().map(Into::into),
        client_id: member.client_id().into(),
        client_host: member.client_host().into(),
        session_timeout_ms: classic.map_or(session_timeout_ms, |of| of.session_timeout_ms),
        rebalance_timeout_ms: member.rebalance_timeout_ms,
        subscription: Box::default(),
        assignment: Box::default(),
        consumer: Some(Box::new(consumer)),
    }
}

fn topic_partitions<T: AtPartition>(set: &[T]) -> Vec<TopicPartitionsView> {
    let view = |(topic_id, of): (_, &[T])| TopicPartitionsView {
        topic_id,
        partitions: of.iter().map(|has| has.at().partition).collect(),
    };
    by_topic(set).map(view).collect()
}
