//! Which partitions the members of a group have or have yet to give up, as bits: 64 neighbours of a topic
//! in one word, so that a step of a member touches few of them.

use ahash::RandomState;
use hashbrown::HashMap;

use crate::request::Uuid;
use crate::topic_partition::TopicPartition;

/// A set of partitions. Quickest when it is asked and changed in their order.
#[derive(Debug)]
pub struct Owned {
    /// None is empty.
    words: HashMap<Place, u64, RandomState>,
}

/// Of a word: the topic, and the number of its first partition by 64.
type Place = (Uuid, i32);

fn place_of(at: TopicPartition) -> Place {
    (at.topic_id(), at.partition >> 6)
}

fn bit_of(at: TopicPartition) -> u64 {
    1 << (at.partition & 63)
}

impl Default for Owned {
    fn default() -> Self {
        Owned { words: HashMap::with_hasher(RandomState::with_seeds(1, 2, 3, 4)) }
    }
}

impl Owned {
    pub fn insert_all(&mut self, partitions: impl Iterator<Item = TopicPartition>) {
        by_word(partitions, |place, bits| *self.words.entry(place).or_default() |= bits);
    }

    pub fn remove_all(&mut self, partitions: impl Iterator<Item = TopicPartition>) {
        by_word(partitions, |place, bits| {
            let Some(word) = self.words.get_mut(&place) else { return };
            *word &= !bits;
            if *word == 0 {
                self.words.remove(&place);
            }
        });
    }

    pub fn contains(&self, at: TopicPartition) -> bool {
        self.words.get(&place_of(at)).is_some_and(|word| word & bit_of(at) != 0)
    }

    pub fn count(&self) -> usize {
        self.words.values().map(|word| word.count_ones() as usize).sum()
    }
}

fn by_word(mut partitions: impl Iterator<Item = TopicPartition>, mut each: impl FnMut(Place, u64)) {
    let Some(first) = partitions.next() else { return };
    let (mut place, mut bits) = (place_of(first), bit_of(first));
    for at in partitions {
        if place_of(at) != place {
            each(place, bits);
            (place, bits) = (place_of(at), 0);
        }
        bits |= bit_of(at);
    }
    each(place, bits);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use proptest::prelude::*;

    fn partition() -> impl Strategy<Value = TopicPartition> {
        let number =
            prop_oneof![9 => 0..200, 1 => Just(i32::MAX), 1 => Just(i32::MIN), 1 => Just(-1)];
        (0..3u128, number).prop_map(|(id, number)| TopicPartition::new(Uuid(id), number))
    }

    proptest! {
        #[test]
        fn it_is_a_set(
            steps in proptest::collection::vec(
                (any::<bool>(), proptest::collection::vec(partition(), 0..40)),
                0..20,
            ),
        ) {
            let (mut owned, mut expected) = (Owned::default(), BTreeSet::new());
            for (inserts, partitions) in steps {
                if inserts {
                    owned.insert_all(partitions.iter().copied());
                    expected.extend(partitions.iter().copied());
                } else {
                    owned.remove_all(partitions.iter().copied());
                    partitions.iter().for_each(|at| _ = expected.remove(at));
                }
                prop_assert_eq!(owned.count(), expected.len());
                prop_assert!(expected.iter().all(|at| owned.contains(*at)));
                prop_assert!(partitions.iter().all(|at| owned.contains(*at) == expected.contains(at)));
                prop_assert!(owned.words.values().all(|word| *word != 0));
            }
        }
    }
}
