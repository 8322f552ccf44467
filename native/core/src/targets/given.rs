//! Targets that an assignor of the host gave: taken if they are an assignment, and refused whole if not.

use std::collections::{BTreeMap, BTreeSet};

use super::{NewTarget, NewTargets, TargetInput};
use crate::topic_partition::{TopicPartition, into_set};

/// What an assignor gave, by member id: partitions by topic name.
pub type Given = BTreeMap<Box<str>, Vec<(Box<str>, i32)>>;

impl TargetInput {
    /// The new targets, if each partition of a topic with subscribers goes to one member that subscribes
    /// to it. A member that is left out gets nothing.
    ///
    /// # Errors
    /// In words: what is wrong with it.
    pub fn accept(&self, given: &Given) -> Result<NewTargets, String> {
        let is_member = |member_id: &str| {
            self.members.binary_search_by(|member| (*member.id).cmp(member_id)).is_ok()
        };
        if let Some(stranger) = given.keys().find(|member_id| !is_member(member_id)) {
            return Err(format!("{stranger:?} is not a member"));
        }
        let topics: BTreeMap<&str, u32> = self.topics().into_iter().collect();
        let mut owned = BTreeSet::new();
        let mut changed = Vec::new();
        let nothing = Vec::new();
        for member in &self.members {
            let partitions = given.get(&*member.id).unwrap_or(&nothing);
            let mut subscribed: Vec<&str> = member.topics().collect();
            subscribed.sort_unstable();
            let mut target = Vec::with_capacity(partitions.len());
            for (topic, number) in partitions {
                let count = topics.get(&**topic).copied().unwrap_or_default();
                if *number < 0 || *number as u32 >= count {
                    return Err(format!("{topic}-{number} does not exist"));
                }
                if subscribed.binary_search(&&**topic).is_err() {
                    return Err(format!("{} does not subscribe to {topic}", member.id));
                }
                if !owned.insert((&**topic, *number)) {
                    return Err(format!("{topic}-{number} is given twice"));
                }
                let (topic_id, _) = self.catalogue().topic(topic).expect("it exists");
                target.push(TopicPartition::new(topic_id, *number));
            }
            let target = into_set(target);
            if member.target.as_deref() != Some(&target[..]) {
                let member_id = member.id.clone();
                changed.push(NewTarget { member_id, partitions: target.into() });
            }
        }
        let wanted: u64 = topics.values().map(|count| u64::from(*count)).sum();
        let missing = wanted - owned.len() as u64;
        if missing > 0 && !self.members.is_empty() {
            return Err(format!("{missing} of {wanted} partitions are given to nobody"));
        }
        Ok(NewTargets(changed))
    }
}
