//! Topics by regular expression (consumer-protocol section 4.2): RE2's syntax, matched against whole names
//! in linear time.
//!
//! A heartbeat only has them looked up soon: a timer that is due at once does it, so that one look
//! serves all members. It looks up all expressions of the group in one go: very many of them, or very
//! many topics, hold up the shard meanwhile.

use std::borrow::Cow;

use kcoord_timer::TimerId;
use regex::{Regex, RegexBuilder};

use super::located::Home;
use crate::catalogue::known;
use crate::delayed::{DelayedOperation, RegexResolution};
use crate::error::ErrorCode;
use crate::group::Machine;
use crate::record::consumer::{RecordChange, RegularExpressionValue};
use crate::request::ConsumerGroupHeartbeatRequest;
use crate::response::Refusal;

/// Topics are looked at again after so long at the earliest.
const LEAST_INTERVAL_MS: i64 = 10_000;

/// Longer expressions are refused: each class of Unicode in one takes time before any memory counts.
const MAX_PATTERN_BYTES: usize = 4 << 10;

/// Memory of a compiled expression: nested repetitions reach it, and are refused.
const MAX_COMPILED_BYTES: usize = 1 << 20;

/// How deep groups may nest.
const MAX_NESTING: u32 = 250;

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
        let is_known = |group| self.registry.consumer(group).regex_counts.contains_key(regex);
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
        let mut must_bump = false;
        let mut is_asked_for = false;
        if let Some(before) = before {
            self.drop_unused_regex(now_ms, group, before);
            let regex = self.registry.consumer_members[row].regex();
            let of = self.registry.consumer(group);
            let is_first = of.regex_counts.get(regex) == Some(&1);
            must_bump = regex.is_empty() || (!is_first && of.regexes.contains_key(regex));
            is_asked_for = !regex.is_empty() && is_first;
        }
        if (is_asked_for && self.may_look_up_regexes(now_ms, group))
            || self.must_look_up_regexes(now_ms, group)
        {
            let fires = DelayedOperation::RegexResolution(RegexResolution { group });
            let timer = self.wheel.insert(now_ms, fires);
            self.registry.consumer_mut(group).regex_timer = timer;
        }
        must_bump
    }

    /// What no member subscribes to any more is not kept.
    pub fn drop_unused_regex(&mut self, now_ms: i64, group: u32, regex: &str) {
        if !regex.is_empty() && !self.registry.consumer(group).regex_counts.contains_key(regex) {
            let record = RecordChange::RegularExpression { regular_expression: regex, value: None };
            self.emit_consumer(now_ms, group, &record);
        }
    }

    /// Whether expressions are there, no look is due already, and the last look is old enough.
    fn may_look_up_regexes(&self, now_ms: i64, group: u32) -> bool {
        let of = self.registry.consumer(group);
        let is_old = |last_ms: i64| now_ms > last_ms.saturating_add(LEAST_INTERVAL_MS);
        let last_ms = || of.regexes.values().map(|resolved| resolved.timestamp_ms).max();
        !of.regex_counts.is_empty() && of.regex_timer.is_none() && last_ms().is_none_or(is_old)
    }

    /// Whether a heartbeat has to have the expressions looked up, as far as time allows it.
    pub fn must_look_up_regexes(&self, now_ms: i64, group: u32) -> bool {
        if !self.may_look_up_regexes(now_ms, group) {
            return false;
        }
        let of = self.registry.consumer(group);
        let interval_ms = self.config.consumer.regex_refresh_interval_ms;
        let is_old = |last_ms: i64| now_ms >= last_ms.saturating_add(interval_ms);
        let mut resolved = of.regexes.values();
        of.regex_counts.len() != of.regexes.len()
            || resolved
                .any(|of| of.seen_topics < self.topics_created_version || is_old(of.timestamp_ms))
    }

    /// Looks up all expressions of a group; its epoch rises if they match other topics than before.
    pub fn resolve_regexes(&mut self, now_ms: i64, fired: RegexResolution) {
        let group = fired.group;
        self.registry.consumer_mut(group).regex_timer = TimerId::NONE;
        let regexes: Vec<Box<str>> =
            self.registry.consumer(group).regex_counts.keys().cloned().collect();
        let mut has_changed = false;
        for regex in &regexes {
            let topics: Vec<Box<str>> = match compile(regex) {
                Ok(compiled) => {
                    let names = known(&self.catalogue).names();
                    names.filter(|name| compiled.is_match(name)).map(Into::into).collect()
                }
                // Of a log, whose writer accepted it.
                Err(_) => Vec::new(),
            };
            let before = self.registry.consumer(group).regexes.get(regex);
            has_changed |= match before {
                Some(before) => *before.topics != *topics,
                None => !topics.is_empty(),
            };
            let value = RegularExpressionValue {
                topics: topics.iter().map(|name| &**name).collect(),
                version: self.topics_version as i64,
                timestamp: now_ms,
            };
            let record =
                RecordChange::RegularExpression { regular_expression: regex, value: Some(value) };
            self.emit_consumer(now_ms, group, &record);
            let seen = self.topics_version;
            let resolved = self.registry.consumer_mut(group).regexes.get_mut(regex);
            resolved.expect("its record made it").seen_topics = seen;
        }
        self.update_group_epoch(now_ms, group, has_changed);
    }
}

/// An expression for whole names.
fn compile(regex: &str) -> Result<Regex, regex::Error> {
    if regex.len() > MAX_PATTERN_BYTES {
        return Err(regex::Error::CompiledTooBig(MAX_COMPILED_BYTES));
    }
    let regex = without_quotes(regex);
    let build = |pattern: &str| {
        RegexBuilder::new(pattern).size_limit(MAX_COMPILED_BYTES).nest_limit(MAX_NESTING).build()
    };
    // Alone first: it must not close the group that is put around it.
    build(&regex)?;
    build(&format!(r"\A(?:{regex})\z"))
}

/// RE2 takes what stands between `\Q` and `\E` literally.
fn without_quotes(regex: &str) -> Cow<'_, str> {
    if !regex.contains(r"\Q") {
        return Cow::Borrowed(regex);
    }
    let mut out = String::with_capacity(regex.len());
    let mut rest = regex;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let behind = &rest[at + 1..];
        if let Some(quoted) = behind.strip_prefix('Q') {
            let (quoted, behind) = quoted.split_once(r"\E").unwrap_or((quoted, ""));
            out.push_str(&regex::escape(quoted));
            rest = behind;
        } else {
            let escaped = behind.chars().next().map_or(0, char::len_utf8);
            out.push_str(&rest[at..at + 1 + escaped]);
            rest = &behind[escaped..];
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(regex: &str, name: &str) -> bool {
        compile(regex).expect("it is valid").is_match(name)
    }

    #[test]
    fn whole_names_match() {
        assert!(matches("diff-k[01].*", "diff-k0.1"));
        assert!(!matches("k0", "diff-k0") && !matches("k0", "k01") && !matches("a|b", "ab"));
        assert!(matches("a|ab", "ab"));
        assert!(matches(r"(?i)T\d+", "t12") && matches(r"\p{L}+", "abc"));
        assert!(matches(r"\Qa.b\E.", "a.bc") && !matches(r"\Qa.b\E.", "aXbc"));
        assert!(matches(r"\\Q.*", r"\Qx") && matches(r"x\Q.*", "x.*"));
    }

    #[test]
    fn what_re2_has_not_is_refused() {
        for regex in ["[", "(a", "a)(b", r"\p{Nonsense}", "(?=a)", r"(a)\1", "a{2,1}"] {
            assert!(compile(regex).is_err(), "{regex}");
        }
    }

    #[test]
    fn the_memory_of_repetitions_is_bounded() {
        assert!(compile("((((a{100}){100}){100}){100})").is_err());
        assert!(compile(&format!("{}a{}", "(".repeat(30_000), ")".repeat(30_000))).is_err());
        assert!(compile(&"a?".repeat(16_000)).is_err());
        assert!(compile(&"ab".repeat(2_000)).is_ok());
        assert!(compile(&"ab".repeat(3_000)).is_err());
    }
}
