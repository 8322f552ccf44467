//! When the topics that regular expressions match are looked up (consumer-protocol section 4.2).
//!
//! A heartbeat only has them looked up soon: a timer that is due at once begins, so that one look
//! serves all members, and goes on slice by slice.

use kcoord_timer::TimerId;

use super::located::Home;
use super::pattern::compile;
use super::search::Search;
use crate::delayed::{DelayedOperation, RegexResolution};
use crate::error::ErrorCode;
use crate::event::EpochCause;
use crate::group::Machine;
use crate::record::consumer::{RecordChange, RegularExpressionValue};
use crate::request::ConsumerGroupHeartbeatRequest;
use crate::response::Refusal;

/// Topics are looked at again after so long at the earliest.
const LEAST_INTERVAL_MS: i64 = 10_000;

/// Between two slices of a look.
const PAUSE_MS: i64 = 1;

impl Machine {
    /// Step 8 of the checks: an expression that no member has must be one.
    pub fn check_regex(
        &self,
        home: Home,
        request: &ConsumerGroupHeartbeatRequest<'_>,
    ) -> Result<(), Refusal> {
        let Some(regex) = request.subscribed_topic_regex.filter(|regex| !regex.is_empty()) else {
            return Ok(());
        };
        let is_known = |group| self.registry.consumer(group).regexes.members(regex) > 0;
        if matches!(home, Home::Consumer(group) if is_known(group)) || compile(regex).is_ok() {
            return Ok(());
        }
        let reason = format!("SubscribedTopicRegex `{regex}` is not a valid regular expression.");
        Err(Refusal::new(ErrorCode::InvalidRegularExpression, reason))
    }

    /// After a member's update; `before` is the expression that it had, if it has another now. True: the
    /// group's epoch has to rise.
    pub fn update_regexes(&mut self, now_ms: i64, row: u32, before: Option<&str>) -> bool {
        let group = self.registry.consumer_members[row].group;
        // Of what the member had before, too: Kafka forgets that only when this heartbeat is over.
        let may_look_up = self.may_look_up_regexes(now_ms, group);
        let must_look_up = self.must_look_up_regexes(now_ms, group);
        let mut must_bump = false;
        let mut is_asked_for = false;
        if let Some(before) = before {
            self.drop_unused_regex(now_ms, group, before);
            let regex = self.registry.consumer_members[row].regex();
            let of = self.registry.consumer(group);
            let is_first = of.regexes.members(regex) == 1;
            must_bump = regex.is_empty() || (!is_first && of.regexes.get(regex).is_some());
            is_asked_for = !regex.is_empty() && is_first;
        }
        if must_look_up || (may_look_up && is_asked_for) {
            self.look_up_regexes_at(now_ms, group);
        }
        must_bump
    }

    /// What no member subscribes to any more is not kept.
    pub fn drop_unused_regex(&mut self, now_ms: i64, group: u32, regex: &str) {
        if !regex.is_empty() && self.registry.consumer(group).regexes.members(regex) == 0 {
            let record = RecordChange::RegularExpression { regular_expression: regex, value: None };
            self.emit_consumer(now_ms, group, &record);
        }
    }

    fn look_up_regexes_at(&mut self, at_ms: i64, group: u32) {
        let fires = DelayedOperation::RegexResolution(RegexResolution { group });
        let timer = self.wheel.insert(at_ms, fires);
        self.registry.consumer_mut(group).regexes.set_timer(timer);
    }

    /// Whether expressions are there, no look is due already, and the last look is old enough.
    fn may_look_up_regexes(&mut self, now_ms: i64, group: u32) -> bool {
        let regexes = &mut self.registry.consumer_mut(group).regexes;
        let is_old = |last_ms: i64| now_ms > last_ms.saturating_add(LEAST_INTERVAL_MS);
        regexes.is_used()
            && regexes.timer().is_none()
            && regexes.ages().is_none_or(|ages| is_old(ages.newest_ms))
    }

    /// Whether a heartbeat has to have the expressions looked up, as far as time allows it.
    pub fn must_look_up_regexes(&mut self, now_ms: i64, group: u32) -> bool {
        if !self.may_look_up_regexes(now_ms, group) {
            return false;
        }
        let interval_ms = self.config.consumer.regex_refresh_interval_ms;
        let created_version = self.topics_created_version;
        let regexes = &mut self.registry.consumer_mut(group).regexes;
        regexes.is_incomplete()
            || regexes.ages().is_some_and(|ages| {
                ages.least_seen_topics < created_version
                    || now_ms >= ages.oldest_ms.saturating_add(interval_ms)
            })
    }

    /// Looks further for the topics that a group's expressions match; tells the group when all are found.
    pub fn resolve_regexes(&mut self, now_ms: i64, fired: RegexResolution) {
        let group = fired.group;
        let regexes = &mut self.registry.consumer_mut(group).regexes;
        regexes.set_timer(TimerId::NONE);
        let mut search = regexes.take_search().unwrap_or_else(|| {
            let catalogue = self.catalogue.clone();
            Box::new(Search::new(regexes.names(), catalogue, self.topics_version))
        });
        if search.advance() {
            self.regexes_are_resolved(now_ms, group, *search);
        } else {
            regexes.set_search(search);
            self.look_up_regexes_at(now_ms.saturating_add(PAUSE_MS), group);
        }
    }

    /// The group's epoch rises if its expressions match other topics than before.
    fn regexes_are_resolved(&mut self, now_ms: i64, group: u32, search: Search) {
        let seen_topics = search.topics_version;
        let mut has_changed = false;
        for (regex, topics) in search.into_found() {
            let regexes = &self.registry.consumer(group).regexes;
            if regexes.members(&regex) == 0 {
                // Its last member left during the look.
                continue;
            }
            has_changed |= match regexes.get(&regex) {
                Some(before) => *before.topics != *topics,
                None => !topics.is_empty(),
            };
            let value = RegularExpressionValue {
                topics: topics.iter().map(|name| &**name).collect(),
                version: seen_topics as i64,
                timestamp: now_ms,
            };
            let record =
                RecordChange::RegularExpression { regular_expression: &regex, value: Some(value) };
            self.emit_consumer(now_ms, group, &record);
            self.registry.consumer_mut(group).regexes.set_seen_topics(&regex, seen_topics);
        }
        let cause = has_changed.then_some(EpochCause::RegexResolved);
        self.update_group_epoch(now_ms, group, cause, None);
    }
}
