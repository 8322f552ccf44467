//! ConsumerGroupHeartbeat (consumer-protocol sections 2 and 4): the way of every request of a member.
//!
//! One that changes nothing takes no memory, writes nothing and touches no timer (`at_rest.rs` is the
//! short way of nearly all of them). All others go one way, step by step, and each step writes what it has decided before the next one reads.

use std::borrow::Cow;

use super::located::{Home, Who};
use super::member::{LEFT_FOR_A_WHILE, Member};
use super::member_id::made_member_id;
use super::update::{Changes, Said};
use super::validate::{LEAVES, is_full};
use crate::error::ErrorCode;
use crate::event::EpochCause;
use crate::group::Machine;
use crate::request::{ConsumerGroupHeartbeatRequest, RequestContext};
use crate::response::{ConsumerGroupHeartbeatResponse, Refusal, Response};

type Request<'a> = ConsumerGroupHeartbeatRequest<'a>;

impl Machine {
    pub fn consumer_group_heartbeat(
        &mut self,
        now_ms: i64,
        context: &RequestContext<'_>,
        request: &Request<'_>,
    ) {
        let group = self.registry.find(request.group_id);
        if self.beat_at_rest(now_ms, group, context, request) {
            return;
        }
        let checked = request.check(context.api_version, &self.config.consumer);
        let beaten = checked.and_then(|()| match request.member_epoch {
            LEAVES | LEFT_FOR_A_WHILE => self.consumer_leaves(now_ms, request),
            _ => self.consumer_beats(now_ms, context, request),
        });
        match beaten {
            Ok((end_offset, response)) => {
                let response = Response::ConsumerGroupHeartbeat(Ok(response));
                self.outbox.respond_when_committed(end_offset, context.ticket, response);
            }
            Err(refusal) => {
                let is_fenced = refusal.error_code == ErrorCode::FencedMemberEpoch;
                self.counters.members_fenced += u64::from(is_fenced);
                self.tell_member_fenced(context, request, &refusal);
                let response = Response::ConsumerGroupHeartbeat(Err(refusal));
                self.outbox.respond(context.ticket, response);
            }
        }
    }

    fn consumer_beats(
        &mut self,
        now_ms: i64,
        context: &RequestContext<'_>,
        request: &Request<'_>,
    ) -> Result<(i64, ConsumerGroupHeartbeatResponse), Refusal> {
        let (home, who) = self.locate(request)?;
        if let (Home::Consumer(group), Who::Known(row)) = (home, who)
            && self.is_at_rest(now_ms, group, row)
            && changes_nothing(&self.registry.consumer_members[row], context, request)
        {
            self.renew_consumer_session(now_ms, row);
            let response = self.beaten(row, is_full(request));
            return Ok((self.group(group).last_record_end, response));
        }
        let was_classic_group = matches!(home, Home::Classic(_));
        let (home, who) = match home {
            // It has looked at the expression, before anything was written.
            Home::Classic(group) => self.upgrade(now_ms, group, context, request)?,
            _ => {
                self.check_regex(home, request)?;
                (home, who)
            }
        };
        let group = self.settle_home(now_ms, home, context, request);
        let new_id = own_or_made_id(context, request);
        let row = match who {
            Who::New => None,
            Who::Known(row) => Some(row),
            Who::Replaces(row) => Some(self.replace_member(now_ms, row, &new_id)),
        };
        let preferred = request.server_assignor().map(|_| self.preferred_assignor(group).clone());
        let (row, was_classic, changes) = self.update_native(now_ms, group, row, context, request);
        let must_bump = self.update_regexes(now_ms, row, changes.regex.as_deref()) | changes.names;
        let cause = match who {
            // Kafka computes no target then, as long as nothing else changes.
            _ if !must_bump && was_classic_group && self.has_unassigned(group) => {
                Some(EpochCause::SubscriptionChanged)
            }
            _ if !must_bump => preferred
                .filter(|before| before != self.preferred_assignor(group))
                .map(|_| EpochCause::AssignorChanged),
            Who::New => Some(EpochCause::MemberJoined),
            Who::Known(_) | Who::Replaces(_) => Some(EpochCause::SubscriptionChanged),
        };
        self.update_group_epoch(now_ms, group, cause, Some(row));
        self.update_target(now_ms, group);
        let reported = request.topic_partitions.as_deref();
        let has_subscription_changed = changes.names || changes.regex.is_some();
        let step = self.reconcile_member(now_ms, row, reported, has_subscription_changed);
        if step.is_written || was_classic {
            self.update_rebalance_timer(now_ms, row);
        }
        self.renew_consumer_session(now_ms, row);
        let response = self.beaten(row, step.has_other_partitions || is_full(request));
        Ok((self.group(group).last_record_end, response))
    }

    /// Whether the group waits for nothing that this member's heartbeat could bring about.
    pub fn is_at_rest(&mut self, now_ms: i64, group: u32, row: u32) -> bool {
        let of = self.registry.consumer(group);
        of.seen_topics == self.topics_version
            && self.registry.consumer_members[row].is_reconciled_to(of.assignment_epoch)
            && !self.is_target_due(now_ms, group)
            && !self.must_look_up_regexes(now_ms, group)
    }

    fn beaten(&self, row: u32, tells_assignment: bool) -> ConsumerGroupHeartbeatResponse {
        let member = &self.registry.consumer_members[row];
        let assignment = || member.assigned.iter().map(|has| has.at).collect();
        ConsumerGroupHeartbeatResponse {
            member_id: member.id.clone(),
            member_epoch: member.member_epoch,
            heartbeat_interval_ms: self.heartbeat_interval_ms_of(member.group),
            assignment: tells_assignment.then(assignment),
        }
    }

    /// The group of a heartbeat that is accepted. It is made by the member's first record.
    fn settle_home(
        &mut self,
        now_ms: i64,
        home: Home,
        context: &RequestContext<'_>,
        request: &Request<'_>,
    ) -> u32 {
        let group_id = request.group_id;
        match home {
            Home::Consumer(group) => group,
            Home::Classic(_) => unreachable!("it was upgraded before"),
            Home::EmptyClassic(group) => {
                self.emit_group_tombstone(now_ms, group);
                let group = self.registry.make_consumer(group_id);
                self.tell_upgraded(group, context, request, 0);
                group
            }
            Home::Absent => {
                let group = self.registry.make_consumer(group_id);
                // No answer may show that the one before is gone until that is durable.
                self.group_mut(group).last_record_end = self.last_tombstone_end;
                self.tell_group_created(group);
                group
            }
        }
    }

    /// Step 1: what the request says of the member, in a record if it is news. True: the member used
    /// JoinGroup until now.
    fn update_native(
        &mut self,
        now_ms: i64,
        group: u32,
        known: Option<u32>,
        context: &RequestContext<'_>,
        request: &Request<'_>,
    ) -> (u32, bool, Changes) {
        let member = known.map(|row| (row, &self.registry.consumer_members[row]));
        if let Some((row, member)) = member
            && changes_nothing(member, context, request)
        {
            return (row, false, Changes::default());
        }
        let was_classic = member.is_some_and(|(_, member)| member.classic.is_some());
        let member_id = own_or_made_id(context, request);
        let said = said(context, request);
        let (row, changes) = self.update_consumer_member(now_ms, group, known, &member_id, said);
        if was_classic {
            self.cancel_classic_timers(row);
        }
        (row, was_classic, changes)
    }
}

/// The id of a member that is new under it: version 0 lets members come without one.
fn own_or_made_id<'a>(context: &RequestContext<'_>, request: &Request<'a>) -> Cow<'a, str> {
    match request.member_id {
        "" => Cow::Owned(made_member_id(context.uuid)),
        own => Cow::Borrowed(own),
    }
}

fn said<'a>(context: &RequestContext<'a>, request: &Request<'a>) -> Said<'a> {
    Said {
        instance_id: request.instance_id,
        rack_id: request.rack_id(),
        client_id: context.client_id,
        client_host: context.client_host,
        topic_names: request.subscribed_topic_names.clone(),
        topic_regex: request.subscribed_topic_regex,
        rebalance_timeout_ms: request.rebalance_timeout_ms,
        server_assignor: request.server_assignor(),
        // A member that sends this API uses the consumer protocol.
        classic: None,
    }
}

/// Whether all that the request says is known: names in their order, since who repeats them says
/// them as before.
pub fn changes_nothing(
    member: &Member,
    context: &RequestContext<'_>,
    request: &Request<'_>,
) -> bool {
    let is_known = |said: Option<&str>, known: Option<&str>| said.is_none() || said == known;
    is_known(request.instance_id, member.instance_id())
        && is_known(request.rack_id(), member.rack_id())
        && is_known(request.server_assignor(), member.server_assignor())
        && is_known(request.subscribed_topic_regex, Some(member.regex()))
        && [-1, member.rebalance_timeout_ms].contains(&request.rebalance_timeout_ms)
        && member.client_id() == context.client_id
        && member.client_host() == context.client_host
        && member.classic.is_none()
        && request
            .subscribed_topic_names
            .as_ref()
            .is_none_or(|names| names.iter().copied().eq(member.names.iter().map(|name| &**name)))
}
