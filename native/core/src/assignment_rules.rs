//! Which groups the coordinator assigns itself, and how: `group.assignment.*`.
//!
//! Values from the host's configuration, which it has checked. Nothing here knows a group.

use wildmatch::WildMatch;

use crate::assignor::Strategy;

/// What the coordinator can assign by: Kafka's assignors, and two that need what it alone knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupStrategy {
    /// One of Kafka's own, of one group's members and topics.
    Kafka(Strategy),
    /// By the members' capacities.
    Weighted,
    /// By committed offsets against end offsets.
    LagAware,
}

impl GroupStrategy {
    /// All that there are.
    pub const ALL: [GroupStrategy; 8] = [
        GroupStrategy::Kafka(Strategy::Range),
        GroupStrategy::Kafka(Strategy::RoundRobin),
        GroupStrategy::Kafka(Strategy::Sticky),
        GroupStrategy::Kafka(Strategy::CooperativeSticky),
        GroupStrategy::Kafka(Strategy::Uniform),
        GroupStrategy::Kafka(Strategy::ServerRange),
        GroupStrategy::Weighted,
        GroupStrategy::LagAware,
    ];

    /// As the configuration and metrics name it.
    pub const fn name(self) -> &'static str {
        match self {
            GroupStrategy::Kafka(strategy) => strategy.name(),
            GroupStrategy::Weighted => "weighted",
            GroupStrategy::LagAware => "lag-aware",
        }
    }

    /// Of the name that settings use.
    pub fn of_name(name: &str) -> Option<GroupStrategy> {
        GroupStrategy::ALL.into_iter().find(|strategy| strategy.name() == name)
    }

    /// Its place in [`GroupStrategy::ALL`].
    pub fn index(self) -> usize {
        let place = GroupStrategy::ALL.iter().position(|strategy| *strategy == self);
        place.expect("all are listed")
    }
}

/// A whole name, with `*` for any characters and `?` for one.
#[derive(Clone, Debug, PartialEq)]
pub struct Pattern(WildMatch);

impl Eq for Pattern {}

impl Pattern {
    /// Of a text with `*` for any characters and `?` for one.
    pub fn new(pattern: &str) -> Self {
        Pattern(WildMatch::new(pattern))
    }

    /// Whether the whole name fits.
    pub fn matches(&self, name: &str) -> bool {
        self.0.matches(name)
    }
}

/// The first match wins, in both lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AssignmentRules {
    /// By group id. Empty: every group is assigned by the leader among its members.
    pub groups: Vec<(Pattern, GroupStrategy)>,
    /// By client id or `group.instance.id`, for `weighted`.
    pub capacities: Vec<(Pattern, u32)>,
}

impl AssignmentRules {
    /// The strategy of the first pattern that fits the group; `None`: its leader assigns.
    pub fn strategy_of(&self, group_id: &str) -> Option<GroupStrategy> {
        let rule = self.groups.iter().find(|(pattern, _)| pattern.matches(group_id));
        rule.map(|(_, strategy)| *strategy)
    }

    /// The capacity of the first pattern that fits the member's instance id or client id.
    pub fn capacity_of(&self, client_id: &str, group_instance_id: Option<&str>) -> Option<u32> {
        let matches = |pattern: &Pattern| {
            pattern.matches(client_id) || group_instance_id.is_some_and(|id| pattern.matches(id))
        };
        let rule = self.capacities.iter().find(|(pattern, _)| matches(pattern));
        rule.map(|(_, capacity)| *capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_pattern_that_matches_the_whole_name_wins() {
        let rules = AssignmentRules {
            groups: vec![
                (Pattern::new("billing-?"), GroupStrategy::Weighted),
                (Pattern::new("billing*"), GroupStrategy::LagAware),
            ],
            capacities: vec![(Pattern::new("big-*"), 4), (Pattern::new("*"), 2)],
        };
        assert_eq!(rules.strategy_of("billing-1"), Some(GroupStrategy::Weighted));
        assert_eq!(rules.strategy_of("billing-12"), Some(GroupStrategy::LagAware));
        assert_eq!(rules.strategy_of("billing"), Some(GroupStrategy::LagAware));
        assert_eq!(rules.strategy_of("my-billing"), None);
        assert_eq!(rules.capacity_of("big-1", None), Some(4));
        assert_eq!(rules.capacity_of("small", Some("big-2")), Some(4));
        assert_eq!(rules.capacity_of("small", None), Some(2));
    }

    #[test]
    fn every_strategy_is_found_by_its_name_and_place() {
        for (place, strategy) in GroupStrategy::ALL.into_iter().enumerate() {
            assert_eq!(GroupStrategy::of_name(strategy.name()), Some(strategy));
            assert_eq!(strategy.index(), place);
        }
        assert_eq!(GroupStrategy::of_name("stickier"), None);
    }
}
