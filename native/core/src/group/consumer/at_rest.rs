//! The short way of a ConsumerGroupHeartbeat: of a member that has what it is to have, that says no
//! more than that it lives, and whose group waits for nothing.
//!
//! It reads one cache line of the group and one of the member, which were prefetched where heartbeats
//! come together (`group/batch.rs`). Whatever is not so plain goes the long way (`heartbeat.rs`), which
//! would end as this one does: debug builds compare them.

use super::heartbeat::changes_nothing;
use super::located::{Home, Who};
use super::member::Member;
use super::validate::is_full;
use crate::delayed::DelayedHeartbeat;
use crate::group::Machine;
use crate::group_configs::GroupConfig;
use crate::request::{ConsumerGroupHeartbeatRequest, RequestContext};
use crate::response::{ConsumerGroupHeartbeatResponse, Response};
use crate::time::deadline;

type Request<'a> = ConsumerGroupHeartbeatRequest<'a>;

impl Machine {
    /// `group`: the row of the group that it names. False: nothing was done.
    #[inline]
    pub fn beat_at_rest(
        &mut self,
        now_ms: i64,
        group: Option<u32>,
        context: &RequestContext<'_>,
        request: &Request<'_>,
    ) -> bool {
        if !says_nothing(request) || !self.config.consumer.is_enabled {
            return false;
        }
        let Some(row) = group.and_then(|group| self.member_at_rest(group, context, request)) else {
            return false;
        };
        let group = group.expect("just looked at");
        debug_assert!(self.goes_the_long_way_to(now_ms, (group, row), context, request));
        let own = match self.group_configs.is_empty() {
            true => GroupConfig::default(),
            false => self.group_configs.of(self.group(group).id.as_str()),
        };
        let config = &self.config.consumer;
        let timeout_ms = own.session_timeout_ms.unwrap_or(config.session_timeout_ms);
        let heartbeat_interval_ms =
            own.heartbeat_interval_ms.unwrap_or(config.heartbeat_interval_ms);
        if !is_renewed(&mut self.registry.consumer_members[row], now_ms, timeout_ms) {
            self.renew_consumer_session_with(now_ms, row, timeout_ms);
        }
        let member = &self.registry.consumer_members[row];
        let end_offset = self.registry.groups[group].last_record_end;
        self.outbox.make_when_committed(end_offset, context.ticket, || {
            Response::ConsumerGroupHeartbeat(Ok(ConsumerGroupHeartbeatResponse {
                member_id: member.id.clone(),
                member_epoch: member.member_epoch,
                heartbeat_interval_ms,
                assignment: None,
            }))
        });
        true
    }

    /// The row of the member, if both rest.
    #[inline]
    fn member_at_rest(
        &self,
        group: u32,
        context: &RequestContext<'_>,
        request: &Request<'_>,
    ) -> Option<u32> {
        let of = self.group(group).as_consumer()?;
        let row = of.find(&self.registry.consumer_members, request.member_id)?;
        let member = &self.registry.consumer_members[row];
        let rests = of.group_epoch <= of.assignment_epoch
            && of.seen_topics == self.topics_version
            && !of.regexes.is_used()
            && request.member_epoch == member.member_epoch
            && member.is_reconciled_to(of.assignment_epoch)
            && member.classic.is_none()
            && member.client().is_some_and(|it| it.is(context.client_id, context.client_host));
        rests.then_some(row)
    }

    fn goes_the_long_way_to(
        &mut self,
        now_ms: i64,
        (group, row): (u32, u32),
        context: &RequestContext<'_>,
        request: &Request<'_>,
    ) -> bool {
        request.check(context.api_version, &self.config.consumer).is_ok()
            && self.locate(request) == Ok((Home::Consumer(group), Who::Known(row)))
            && self.is_at_rest(now_ms, group, row)
            && changes_nothing(&self.registry.consumer_members[row], context, request)
            && !is_full(request)
    }
}

/// Who it is, and no more.
#[inline]
fn says_nothing(request: &Request<'_>) -> bool {
    // Nearly every id begins with what Java's `String.trim` leaves.
    let is_surely_not_blank =
        |id: &str| id.as_bytes().first().is_some_and(|character| *character > b' ');
    request.member_epoch > 0
        && request.rebalance_timeout_ms == -1
        && request.instance_id.is_none()
        && request.subscribed_topic_names.is_none()
        && request.subscribed_topic_regex.is_none()
        && request.preferences.is_none()
        && is_surely_not_blank(request.group_id)
        && is_surely_not_blank(request.member_id)
}

/// Starts a session anew whose heartbeat is in time, and whose timer may stay where it is.
#[inline]
fn is_renewed(member: &mut Member, now_ms: i64, timeout_ms: i32) -> bool {
    let (before_ms, deadline_ms) = (member.deadline_ms, deadline(now_ms, timeout_ms));
    let is_plain = !member.session_timer.is_none()
        && before_ms - now_ms >= i64::from(timeout_ms >> 2)
        && !DelayedHeartbeat::must_arm(Some(before_ms), deadline_ms);
    if is_plain {
        member.deadline_ms = deadline_ms;
    }
    is_plain
}
