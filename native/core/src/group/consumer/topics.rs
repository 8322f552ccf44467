//! Topics as consumer groups need them: which of those that have a subscriber exist.

use core::cell::Cell;
use std::collections::BTreeSet;

use super::ConsumerGroup;
use super::member::Member;
use super::subscription::{TopicNames, has_topic};
use crate::catalogue::Catalogue;
use crate::request::Uuid;
use crate::topic_partition::TopicPartition;

impl ConsumerGroup {
    /// Names of all topics that have a subscriber, whether they exist or not.
    pub fn subscribed_topics(&self) -> BTreeSet<&str> {
        let by_name = self.subscriptions.iter().flat_map(|(names, _)| names.iter());
        let by_regex = self.regexes.resolved().flat_map(|(_, resolved)| resolved.topics.iter());
        by_name.chain(by_regex).map(|name| &**name).collect()
    }

    /// The one list of topics that there is, if there are not several: most groups have one.
    pub fn only_topic_list(&self) -> Option<&TopicNames> {
        let by_name = self.subscriptions.iter().map(|(names, _)| names);
        let by_regex = self.regexes.resolved().map(|(_, resolved)| &resolved.topics);
        let mut lists = by_name.chain(by_regex).filter(|names| !names.is_empty());
        lists.next().filter(|_| lists.next().is_none())
    }

    pub fn is_member_subscribed_to(&self, member: &Member, topic: &str) -> bool {
        has_topic(&member.names, topic)
            || self.regexes.get(member.regex()).is_some_and(|of| has_topic(&of.topics, topic))
    }
}

/// Whether a member subscribes to the topic of a partition, asked in the order of topics.
pub struct SubscribedIds<'a> {
    group: &'a ConsumerGroup,
    member: &'a Member,
    catalogue: &'a Catalogue,
    last: Cell<Option<(Uuid, bool)>>,
}

impl<'a> SubscribedIds<'a> {
    pub fn new(group: &'a ConsumerGroup, member: &'a Member, catalogue: &'a Catalogue) -> Self {
        SubscribedIds { group, member, catalogue, last: Cell::new(None) }
    }

    pub fn holds(&self, partition: TopicPartition) -> bool {
        let topic_id = partition.topic_id();
        if let Some((last, is_subscribed)) = self.last.get()
            && last == topic_id
        {
            return is_subscribed;
        }
        let name = self.catalogue.name_of(topic_id);
        let is_subscribed =
            name.is_some_and(|name| self.group.is_member_subscribed_to(self.member, name));
        self.last.set(Some((topic_id, is_subscribed)));
        is_subscribed
    }
}
