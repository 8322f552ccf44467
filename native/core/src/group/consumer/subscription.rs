//! Lists of topics that members subscribe to by name. Most members of a shard have the same few:
//! each list is held once.

use std::sync::Arc;

use ahash::RandomState;
use hashbrown::HashTable;

/// Ascending, each name once.
pub type TopicNames = Arc<[Box<str>]>;

/// Gives equal lists one home. What no member has any more is dropped when the table would grow.
#[derive(Debug, Default)]
pub struct SubscriptionTable {
    table: HashTable<TopicNames>,
}

impl SubscriptionTable {
    /// The list of these names, in any order and with repetitions.
    pub fn intern(&mut self, hasher: &RandomState, names: &[&str]) -> TopicNames {
        let mut sorted = names.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let hash = hasher.hash_one(&sorted[..]);
        let is_it = |known: &TopicNames| is_same(known, &sorted);
        if let Some(known) = self.table.find(hash, is_it) {
            return Arc::clone(known);
        }
        if self.table.len() == self.table.capacity() {
            self.table.retain(|known| Arc::strong_count(known) > 1);
        }
        let names: TopicNames = sorted.iter().map(|name| Box::from(*name)).collect();
        let rehash = |known: &TopicNames| {
            hasher.hash_one(known.iter().map(|name| &**name).collect::<Vec<&str>>().as_slice())
        };
        self.table.insert_unique(hash, Arc::clone(&names), rehash);
        names
    }
}

fn is_same(known: &TopicNames, sorted: &[&str]) -> bool {
    known.iter().map(|name| &**name).eq(sorted.iter().copied())
}

pub fn has_topic(names: &TopicNames, topic: &str) -> bool {
    names.binary_search_by(|name| (**name).cmp(topic)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_lists_are_one_and_what_nobody_has_goes() {
        let hasher = RandomState::with_seeds(1, 2, 3, 4);
        let mut table = SubscriptionTable::default();
        let list = table.intern(&hasher, &["b", "a", "b"]);
        assert!(has_topic(&list, "a") && has_topic(&list, "b") && !has_topic(&list, "ab"));
        assert!(Arc::ptr_eq(&list, &table.intern(&hasher, &["a", "b"])));
        for number in 0..1_000 {
            table.intern(&hasher, &[&format!("t{number}")]);
        }
        assert!(table.table.len() < 16, "{} of 1 are kept", table.table.len());
        assert!(Arc::ptr_eq(&list, &table.intern(&hasher, &["a", "b"])));
    }
}
