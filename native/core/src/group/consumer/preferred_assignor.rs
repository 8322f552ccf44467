//! Which assignor a group uses: the one that most of its members name (consumer-protocol section 4).

use super::ConsumerGroup;
use crate::config::ServerAssignor;
use crate::group::Machine;

/// Of the names that as many members want. Kafka takes what its hash map has first, which is this one
/// between its own two.
const FIRST_OF_EQUALS: &str = "uniform";

impl Machine {
    /// The assignor that most members name; the first that is configured where none does.
    pub fn preferred_assignor(&self, group: u32) -> &ServerAssignor {
        let config = &self.config.consumer;
        let votes = self.registry.consumer(group).assignor_votes.iter();
        let of_known = votes.filter(|(name, _)| config.assignor(name).is_some());
        let most = of_known.min_by_key(|(name, count)| {
            (core::cmp::Reverse(*count), **name != *FIRST_OF_EQUALS, &**name)
        });
        let named = most.and_then(|(name, _)| config.assignor(name));
        named.unwrap_or_else(|| config.default_assignor())
    }
}

impl ConsumerGroup {
    /// A member names this assignor from now on (1), or does not any more (-1).
    pub fn count_vote(&mut self, assignor: Option<&str>, by: i32) {
        let Some(assignor) = assignor else { return };
        let votes = &mut self.assignor_votes;
        let at = votes.iter().position(|(name, _)| **name == *assignor).unwrap_or_else(|| {
            votes.push((assignor.into(), 0));
            votes.len() - 1
        });
        let count = &mut votes[at].1;
        *count = count.checked_add_signed(by).expect("what is taken out was counted");
        if *count == 0 {
            votes.swap_remove(at);
        }
    }
}
