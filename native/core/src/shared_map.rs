//! A sorted map that is copied to be changed: a copy with few changes has most of its memory in
//! common with the map before, and how the two differ is found without a look at the rest.

use core::borrow::Borrow;
use core::fmt;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Entries of a chunk: what a change copies. A copy of the map has a word for each chunk.
const MOST: usize = 32;
/// A chunk that has fewer is joined with the one behind it, where both fit.
const FEWEST: usize = 8;

/// Entries of a chunk, sorted.
type Chunk<K, V> = Vec<(K, V)>;

/// A value for each key, in the order of the keys. Keys and values are cloned with their chunk: they
/// are small, or counted references.
#[derive(Clone)]
pub struct SharedMap<K, V> {
    /// Sorted; none is empty.
    chunks: Vec<Arc<Chunk<K, V>>>,
}

impl<K, V> SharedMap<K, V> {
    /// An empty one.
    pub const fn new() -> Self {
        SharedMap { chunks: Vec::new() }
    }

    /// All entries by key.
    pub fn iter(&self) -> impl Iterator<Item = &(K, V)> {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }
}

impl<K: Ord + Clone, V: Clone> SharedMap<K, V> {
    /// The value of a key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let chunk = self.chunks.get(self.chunk_of(key))?;
        let at = position(chunk, key).ok()?;
        Some(&chunk[at].1)
    }

    /// Entries whose keys come after this one; after none: all.
    pub fn after<'a, Q: Ord + ?Sized>(
        &'a self,
        key: Option<&Q>,
    ) -> impl Iterator<Item = &'a (K, V)> + use<'a, Q, K, V>
    where
        K: Borrow<Q>,
    {
        let (mut first, mut at) = (0, 0);
        if let Some(key) = key
            && !self.chunks.is_empty()
        {
            first = self.chunk_of(key);
            at = self.chunks[first].partition_point(|(other, _)| other.borrow() <= key);
        }
        self.chunks[first..].iter().flat_map(|chunk| chunk.iter()).skip(at)
    }

    /// Puts a value in the place of the one that the key has, if it has one.
    pub fn insert(&mut self, key: K, value: V) {
        let number = self.chunk_of(&key);
        let Some(chunk) = self.chunks.get_mut(number) else {
            return self.chunks.push(Arc::new(vec![(key, value)]));
        };
        let chunk = Arc::make_mut(chunk);
        match position(chunk, &key) {
            Ok(at) => chunk[at].1 = value,
            Err(at) => chunk.insert(at, (key, value)),
        }
        if chunk.len() > MOST {
            let behind = chunk.split_off(MOST / 2);
            self.chunks.insert(number + 1, Arc::new(behind));
        }
    }

    /// Takes a key and its value out.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let number = self.chunk_of(key);
        let chunk = self.chunks.get_mut(number)?;
        let at = position(chunk, key).ok()?;
        let chunk = Arc::make_mut(chunk);
        let (_, value) = chunk.remove(at);
        let left = chunk.len();
        if left == 0 {
            self.chunks.remove(number);
        } else if left < FEWEST
            && let Some(behind) = self.chunks.get(number + 1)
            && left + behind.len() <= MOST
        {
            let behind = self.chunks.remove(number + 1);
            Arc::make_mut(&mut self.chunks[number]).extend(behind.iter().cloned());
        }
        Some(value)
    }

    /// Entries of this map and of another one, without those of chunks that both have: what differs
    /// is among them. Both are sorted.
    pub fn apart<'a>(&'a self, other: &'a Self) -> [Vec<&'a (K, V)>; 2] {
        let own = |map: &'a Self, known: &Self| {
            let mut known: Vec<_> = known.chunks.iter().map(Arc::as_ptr).collect();
            known.sort_unstable();
            let is_known = |chunk: &&Arc<_>| known.binary_search(&Arc::as_ptr(chunk)).is_ok();
            let apart = map.chunks.iter().filter(|chunk| !is_known(chunk));
            apart.flat_map(|chunk| chunk.iter()).collect()
        };
        [own(self, other), own(other, self)]
    }

    /// The chunk that has the key, or may take it; 0 where there is none.
    fn chunk_of<Q: Ord + ?Sized>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
    {
        let behind = self.chunks.partition_point(|chunk| chunk[0].0.borrow() <= key);
        behind.saturating_sub(1)
    }
}

fn position<K: Borrow<Q>, V, Q: Ord + ?Sized>(chunk: &[(K, V)], key: &Q) -> Result<usize, usize> {
    chunk.binary_search_by(|(other, _)| other.borrow().cmp(key))
}

/// Of entries with the same key the last one stays.
impl<K: Ord + Clone, V: Clone> FromIterator<(K, V)> for SharedMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let sorted: BTreeMap<K, V> = entries.into_iter().collect();
        let mut sorted = sorted.into_iter().peekable();
        let mut chunks = Vec::new();
        while sorted.peek().is_some() {
            // Room is left for those that will come between them.
            chunks.push(Arc::new(sorted.by_ref().take(MOST - FEWEST).collect()));
        }
        SharedMap { chunks }
    }
}

impl<K, V> Default for SharedMap<K, V> {
    fn default() -> Self {
        SharedMap::new()
    }
}

impl<K: PartialEq, V: PartialEq> PartialEq for SharedMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<K: Eq, V: Eq> Eq for SharedMap<K, V> {}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for SharedMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|(key, value)| (key, value))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As any order has them: a number that looks random, of each number.
    fn scattered(number: u32) -> u32 {
        number.wrapping_mul(0x9E37_79B1).rotate_left(13) % 1_000
    }

    #[test]
    fn it_is_a_sorted_map_whatever_comes_and_goes() {
        let mut map = SharedMap::new();
        let mut expected = BTreeMap::new();
        for number in 0..6_000 {
            let key = scattered(number);
            if number % 3 == 2 || number > 5_000 {
                assert_eq!(map.remove(&key), expected.remove(&key));
            } else {
                map.insert(key, number);
                expected.insert(key, number);
            }
            assert_eq!(map.get(&key), expected.get(&key));
            assert!(map.chunks.iter().all(|chunk| (1..=MOST).contains(&chunk.len())));
            if number % 250 == 0 {
                let collected: SharedMap<_, _> = expected.clone().into_iter().collect();
                assert_eq!(map, collected);
                assert!(map.iter().map(|(key, value)| (key, value)).eq(&expected));
                let after = map.after(Some(&key)).map(|(key, _)| key);
                assert!(after.eq(expected.range(key + 1..).map(|(key, _)| key)));
            }
        }
        for key in (0..1_000).rev() {
            assert_eq!(map.remove(&key), expected.remove(&key));
            assert!(map.chunks.iter().all(|chunk| !chunk.is_empty()));
        }
        assert!(map.chunks.is_empty());
    }

    #[test]
    fn an_empty_one_has_nothing() {
        let map: SharedMap<u32, ()> = SharedMap::new();
        assert_eq!((map.get(&1), map.after(Some(&1)).count(), map.iter().count()), (None, 0, 0));
        assert_eq!(map.clone().remove(&1), None);
    }

    #[test]
    fn a_copy_with_few_changes_shares_the_rest() {
        let map: SharedMap<u32, u32> = (0..10_000).map(|key| (2 * key, key)).collect();
        let mut next = map.clone();
        next.insert(1_001, 7);
        next.insert(4_000, 7);
        next.remove(&9_000);
        let [now, before] = next.apart(&map);
        assert!(now.len() <= 4 * MOST && before.len() <= 4 * MOST, "{} of 10,000", now.len());
        assert!(now.contains(&&(1_001, 7)) && now.contains(&&(4_000, 7)));
        assert!(before.contains(&&(9_000, 4_500)) && before.contains(&&(4_000, 2_000)));
        assert!(now.is_sorted() && before.is_sorted());
        assert_eq!((map.get(&4_000), map.get(&9_000)), (Some(&2_000), Some(&4_500)));
        assert!(next.apart(&next.clone()).iter().all(Vec::is_empty));
    }
}
