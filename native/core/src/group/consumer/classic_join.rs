//! JoinGroup into a consumer group with members (`classicGroupJoinToConsumerGroup`, consumer-protocol
//! section 9): the member takes the way of a heartbeat, and is answered at once. It waits for nobody,
//! and nobody leads.

use super::member_id::made_member_id;
use super::update::Said;
use crate::consumer_protocol::Subscription;
use crate::error::ErrorCode;
use crate::event::EpochCause;
use crate::group::Machine;
use crate::group::classic::claims::is_cooperative;
use crate::group::classic::join::MEMBER_ID_REQUIRED_VERSION;
use crate::group::classic::subscription::CONSUMER_PROTOCOL_TYPE;
use crate::record::consumer::{ClassicMemberMetadata, ClassicProtocol, MemberState};
use crate::request::{JoinGroupRequest, RequestContext};
use crate::response::{JoinGroupResponse, Response};
use crate::topic_partition::TopicPartition;

/// Which of the group's members it is.
#[derive(Clone, Copy, Debug)]
enum Who {
    New,
    Known(u32),
    /// A static member, of either protocol, whose place it takes under another id.
    Replaces(u32),
}

impl Who {
    fn row(&self) -> Option<u32> {
        match self {
            Who::New => None,
            Who::Known(row) | Who::Replaces(row) => Some(*row),
        }
    }
}

impl Machine {
    pub fn join_consumer_group(
        &mut self,
        now_ms: i64,
        group: u32,
        context: &RequestContext<'_>,
        request: &JoinGroupRequest<'_>,
    ) -> Result<(), ErrorCode> {
        self.may_join_as_classic(group, request)?;
        let made_id = made_member_id(context.uuid);
        let is_dynamic = request.group_instance_id.is_none();
        if is_dynamic
            && request.member_id.is_empty()
            && context.api_version >= MEMBER_ID_REQUIRED_VERSION
        {
            // Nothing is kept: any id is taken.
            self.refuse_join(context.ticket, &made_id, ErrorCode::MemberIdRequired);
            return Ok(());
        }
        let member_id = if request.member_id.is_empty() { &made_id } else { request.member_id };
        let who = self.who_joins(group, request)?;
        let subscription = subscription_of(request)?;
        let owned = self.by_id(&subscription.owned_partitions);
        self.may_own(&who, request, &owned)?;
        let known = who.row();
        let is_last_native = known.is_some_and(|row| !is_dynamic && self.is_last_native(row));

        let known = match who {
            Who::Replaces(row) => Some(self.replace_member(now_ms, row, member_id)),
            _ => known,
        };
        let said = said(context, request, &subscription);
        let (row, changes) = self.update_consumer_member(now_ms, group, known, member_id, said);
        let must_bump = self.update_regexes(now_ms, row, changes.regex.as_deref()) | changes.names;
        let epoch_before = self.registry.consumer(group).group_epoch;
        let cause = match who {
            _ if !must_bump => None,
            Who::New => Some(EpochCause::MemberJoined),
            Who::Known(_) | Who::Replaces(_) => Some(EpochCause::SubscriptionChanged),
        };
        self.update_group_epoch(now_ms, group, cause, Some(row));
        let downgrade = match is_last_native {
            true => self.plan_downgrade(group, &[], Some(row)),
            false => None,
        };
        // Kafka counts on from the epoch before this request.
        let downgrade = downgrade.map(|plan| plan.at_generation(epoch_before));
        let of = self.registry.consumer(group);
        let is_target_due = of.group_epoch > of.assignment_epoch;
        if downgrade.is_none() {
            self.update_target(now_ms, group);
        }
        if downgrade.is_none() || !is_target_due {
            let has_subscription_changed = changes.names || changes.regex.is_some();
            self.reconcile_member(now_ms, row, Some(&owned), has_subscription_changed);
        }
        let response = self.joined_as_classic(row, request);
        let group = match downgrade {
            Some(plan) => {
                let by = self.told_member(row);
                self.downgrade(now_ms, group, plan, by, is_target_due)
            }
            None => {
                self.await_classic_member(now_ms, row, request.session_timeout_ms);
                group
            }
        };
        self.respond_for_group(group, context.ticket, Response::JoinGroup(Box::new(response)));
        Ok(())
    }

    /// Whether it may have what it says that it has.
    fn may_own(
        &self,
        who: &Who,
        request: &JoinGroupRequest<'_>,
        owned: &[TopicPartition],
    ) -> Result<(), ErrorCode> {
        if owned.is_empty() {
            return Ok(());
        }
        let Some(row) = who.row() else {
            // It was one, and has not heard that its partitions may be another one's by now. Kafka takes it.
            let keeps = request.protocols.first().is_some_and(|of| is_cooperative(of.name));
            return if keeps { Err(ErrorCode::UnknownMemberId) } else { Ok(()) };
        };
        match self.registry.consumer_members[row].state {
            MemberState::Unknown => Err(ErrorCode::FencedMemberEpoch),
            _ => Ok(()),
        }
    }

    fn joined_as_classic(&self, row: u32, request: &JoinGroupRequest<'_>) -> JoinGroupResponse {
        let member = &self.registry.consumer_members[row];
        JoinGroupResponse {
            error_code: ErrorCode::None,
            generation_id: member.member_epoch,
            protocol_type: Some(CONSUMER_PROTOCOL_TYPE.into()),
            protocol_name: request.protocols.first().map(|protocol| protocol.name.into()),
            leader: "".into(),
            skip_assignment: false,
            member_id: (*member.id).into(),
            members: Vec::new(),
        }
    }

    /// Its join and sync timers say from now on when it has to act.
    fn await_classic_member(&mut self, now_ms: i64, row: u32, session_timeout_ms: i32) {
        let timer = core::mem::take(&mut self.registry.consumer_members[row].rebalance_timer);
        self.wheel.cancel(timer);
        self.await_sync(now_ms, row);
        self.renew_consumer_session_with(now_ms, row, session_timeout_ms);
    }

    /// Whether the group takes classic members, has room for this one, and can speak with it.
    fn may_join_as_classic(
        &self,
        group: u32,
        request: &JoinGroupRequest<'_>,
    ) -> Result<(), ErrorCode> {
        if !self.config.consumer.migration_policy.allows_classic_members() {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        let of = self.registry.consumer(group);
        let members = &self.registry.consumer_members;
        let instance_id = request.group_instance_id;
        let is_known = || {
            of.find(members, request.member_id).is_some()
                || instance_id.is_some_and(|id| of.static_members.contains_key(id))
        };
        if of.members.len() >= self.config.consumer.max_size && !is_known() {
            return Err(ErrorCode::GroupMaxSizeReached);
        }
        if request.protocol_type == CONSUMER_PROTOCOL_TYPE && self.shares_protocol(group, request) {
            Ok(())
        } else {
            Err(ErrorCode::InconsistentGroupProtocol)
        }
    }

    /// Whether all classic members have one of the protocols that are offered: the member itself
    /// counts with those that it had.
    fn shares_protocol(&self, group: u32, request: &JoinGroupRequest<'_>) -> bool {
        let rows = &self.registry.consumer(group).members;
        let has = |name: &str, row: &u32| {
            let classic = self.registry.consumer_members[*row].classic.as_deref();
            classic.is_none_or(|of| of.protocols.iter().any(|(known, _)| **known == *name))
        };
        let mut offered = request.protocols.iter().map(|protocol| protocol.name);
        offered.any(|name| rows.iter().all(|row| has(name, row)))
    }

    fn who_joins(&self, group: u32, request: &JoinGroupRequest<'_>) -> Result<Who, ErrorCode> {
        let of = self.registry.consumer(group);
        let Some(instance_id) = request.group_instance_id else {
            let known = of.find(&self.registry.consumer_members, request.member_id);
            return Ok(known.map_or(Who::New, Who::Known));
        };
        if !request.member_id.is_empty() {
            let instance_id = Some(instance_id);
            return self.identify_consumer(group, request.member_id, instance_id).map(Who::Known);
        }
        Ok(of.static_members.get(instance_id).copied().map_or(Who::New, Who::Replaces))
    }

    /// Whether the member is the only one of the consumer protocol.
    fn is_last_native(&self, row: u32) -> bool {
        let member = &self.registry.consumer_members[row];
        let of = self.registry.consumer(member.group);
        member.classic.is_none() && of.classic_count() == of.members.len() - 1
    }
}

fn subscription_of<'a>(request: &JoinGroupRequest<'a>) -> Result<Subscription<'a>, ErrorCode> {
    let metadata = request.protocols.first().map_or(&[][..], |protocol| protocol.metadata);
    Subscription::decode(metadata).map_err(|_| ErrorCode::InconsistentGroupProtocol)
}

fn said<'a>(
    context: &RequestContext<'a>,
    request: &JoinGroupRequest<'a>,
    subscription: &Subscription<'a>,
) -> Said<'a> {
    let protocols = request.protocols.iter();
    let protocols =
        protocols.map(|of| ClassicProtocol { name: of.name, metadata: of.metadata }).collect();
    Said {
        instance_id: request.group_instance_id,
        rack_id: subscription.rack_id,
        client_id: context.client_id,
        client_host: context.client_host,
        topic_names: Some(subscription.topics.clone()),
        topic_regex: Some(""),
        // Version 0 says none.
        rebalance_timeout_ms: match request.rebalance_timeout_ms {
            -1 => request.session_timeout_ms,
            said => said,
        },
        server_assignor: None,
        classic: Some(ClassicMemberMetadata {
            session_timeout_ms: request.session_timeout_ms,
            supported_protocols: protocols,
        }),
    }
}
