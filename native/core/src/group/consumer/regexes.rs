//! The regular expressions that members of a group subscribe to, and the topics that each matches.

use std::collections::BTreeMap;

use kcoord_timer::TimerId;

use super::search::Search;
use super::subscription::TopicNames;

/// Nearly all groups have none, and take no memory for them.
#[derive(Debug, Default)]
pub struct Regexes(Option<Box<Held>>);

#[derive(Debug, Default)]
struct Held {
    /// How many members have each.
    counts: BTreeMap<Box<str>, u32>,
    /// The topics that each matched when it was looked up last.
    resolved: BTreeMap<Box<str>, ResolvedRegex>,
    /// Of what is resolved; none: to be found again.
    ages: Option<Ages>,
    /// They are about to be looked up, or to be looked up further.
    timer: TimerId,
    /// How far that has come.
    search: Option<Box<Search>>,
}

#[derive(Clone, Debug, Default)]
pub struct ResolvedRegex {
    pub topics: TopicNames,
    /// Of the topics when it was looked up.
    pub version: i64,
    pub timestamp_ms: i64,
    /// Which topics it was looked up in by this process; 0: it was loaded.
    pub seen_topics: u64,
}

/// When expressions were looked up, and in which topics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ages {
    pub oldest_ms: i64,
    pub newest_ms: i64,
    pub least_seen_topics: u64,
}

impl Regexes {
    fn held_mut(&mut self) -> &mut Held {
        self.0.get_or_insert_default()
    }

    /// A member subscribes to this one from now on (1), or does not any more (-1); `""` is none.
    pub fn count(&mut self, regex: &str, by: i32) {
        if regex.is_empty() {
            return;
        }
        let count = self.members(regex);
        let counts = &mut self.held_mut().counts;
        match count.checked_add_signed(by).expect("what is taken out was counted") {
            0 => drop(counts.remove(regex)),
            count => drop(counts.insert(regex.into(), count)),
        }
    }

    /// How many members subscribe to it.
    pub fn members(&self, regex: &str) -> u32 {
        let held = self.0.as_ref();
        held.and_then(|held| held.counts.get(regex)).copied().unwrap_or_default()
    }

    /// Those that members subscribe to, sorted.
    pub fn names(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.iter().flat_map(|held| held.counts.keys()).map(|regex| &**regex)
    }

    pub fn insert(&mut self, regex: &str, resolved: ResolvedRegex) {
        let held = self.held_mut();
        held.resolved.insert(regex.into(), resolved);
        held.ages = None;
    }

    pub fn remove(&mut self, regex: &str) {
        if let Some(held) = &mut self.0 {
            held.resolved.remove(regex);
            held.ages = None;
        }
    }

    pub fn get(&self, regex: &str) -> Option<&ResolvedRegex> {
        self.0.as_ref()?.resolved.get(regex)
    }

    /// The topics that one was looked up in.
    pub fn set_seen_topics(&mut self, regex: &str, seen_topics: u64) {
        let Some(held) = &mut self.0 else { return };
        if let Some(resolved) = held.resolved.get_mut(regex) {
            resolved.seen_topics = seen_topics;
        }
        held.ages = None;
    }

    /// All that are resolved, sorted.
    pub fn resolved(&self) -> impl Iterator<Item = (&str, &ResolvedRegex)> {
        let resolved = self.0.iter().flat_map(|held| &held.resolved);
        resolved.map(|(regex, resolved)| (&**regex, resolved))
    }

    /// Whether members subscribe to any.
    #[inline]
    pub fn is_used(&self) -> bool {
        self.0.as_ref().is_some_and(|held| !held.counts.is_empty())
    }

    /// Whether one is not resolved yet, or resolved and not used.
    pub fn is_incomplete(&self) -> bool {
        self.0.as_ref().is_some_and(|held| held.counts.len() != held.resolved.len())
    }

    /// When they are looked up, or looked up further.
    pub fn timer(&self) -> TimerId {
        self.0.as_ref().map_or(TimerId::NONE, |held| held.timer)
    }

    pub fn set_timer(&mut self, timer: TimerId) {
        self.held_mut().timer = timer;
    }

    pub fn take_search(&mut self) -> Option<Box<Search>> {
        self.0.as_mut()?.search.take()
    }

    pub fn set_search(&mut self, search: Box<Search>) {
        self.held_mut().search = Some(search);
    }

    /// None: nothing is resolved.
    pub fn ages(&mut self) -> Option<Ages> {
        let held = self.0.as_mut()?;
        if held.ages.is_none() {
            let all = held.resolved.values().map(|resolved| Ages {
                oldest_ms: resolved.timestamp_ms,
                newest_ms: resolved.timestamp_ms,
                least_seen_topics: resolved.seen_topics,
            });
            held.ages = all.reduce(|one, other| Ages {
                oldest_ms: one.oldest_ms.min(other.oldest_ms),
                newest_ms: one.newest_ms.max(other.newest_ms),
                least_seen_topics: one.least_seen_topics.min(other.least_seen_topics),
            });
        }
        held.ages
    }
}
