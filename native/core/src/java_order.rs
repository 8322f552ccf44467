//! The two orders of Java that reach into assignments and into the vote on a protocol (assignors
//! section 1.1 and 2): that of `String.compareTo`, and that in which a `HashMap` or `HashSet`
//! iterates.
//!
//! Buckets that Java would turn into trees (nine colliding keys among more than 48) are not
//! imitated: it takes names made to collide.

use core::cmp::Ordering;
use std::collections::BTreeMap;

const SMALLEST_CAPACITY: usize = 16;
/// Below this many buckets, a bucket of more than eight entries doubles the table.
const LEAST_TREE_CAPACITY: usize = 64;
const LONGEST_BUCKET: u32 = 8;

/// `TopicPartition.hashCode`, from the hash code of the topic's name.
pub fn partition_hash_code(topic: u32, partition: u32) -> u32 {
    (31u32.wrapping_add(partition)).wrapping_mul(31).wrapping_add(topic)
}

/// `String.compareTo`: by UTF-16 unit. That is the order of the bytes of UTF-8, except that the
/// characters above U+FFFF (surrogates in UTF-16) stand before U+E000 to U+FFFF.
pub fn compare(left: &str, right: &str) -> Ordering {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    match left.iter().zip(right).find(|(one, other)| one != other) {
        None => left.len().cmp(&right.len()),
        Some((&one, &other)) => weight(one).cmp(&weight(other)),
    }
}

fn weight(byte: u8) -> u16 {
    u16::from(byte) + if matches!(byte, 0xee | 0xef) { 0x10 } else { 0 }
}

/// Positions of `hashes` in the order in which a `HashMap` iterates whose keys, all different,
/// were put in the given order.
pub fn map_order(hashes: &[u32]) -> Vec<u32> {
    let capacity = capacity(hashes);
    let mut starts = vec![0u32; capacity + 1];
    for &hash in hashes {
        starts[bucket(hash, capacity) + 1] += 1;
    }
    for at in 0..capacity {
        starts[at + 1] += starts[at];
    }
    let mut order = vec![0; hashes.len()];
    for (position, &hash) in hashes.iter().enumerate() {
        let start = &mut starts[bucket(hash, capacity)];
        order[*start as usize] = position as u32;
        *start += 1;
    }
    order
}

/// How many buckets the table has in the end. Doubling keeps the order inside of buckets, so
/// nothing else of a table's history matters.
fn capacity(hashes: &[u32]) -> usize {
    if hashes.len() > LEAST_TREE_CAPACITY / 4 * 3 {
        return (hashes.len() * 4).div_ceil(3).next_power_of_two();
    }
    let mut table = Table::default();
    hashes.iter().for_each(|&hash| table.add(hash));
    table.capacity
}

fn bucket(hash: u32, capacity: usize) -> usize {
    (hash ^ (hash >> 16)) as usize & (capacity - 1)
}

/// Where a table that never grew keeps a hash.
pub fn smallest_table_bucket(hash: u32) -> usize {
    bucket(hash, SMALLEST_CAPACITY)
}

/// Whether a table that never grew does so with so many entries, so many of them in one bucket.
pub fn outgrows_smallest_table(entries: usize, of_one_bucket: usize) -> bool {
    entries > SMALLEST_CAPACITY / 4 * 3 || of_one_bucket > LONGEST_BUCKET as usize
}

/// The growth of a table with few entries, collisions included.
struct Table {
    capacity: usize,
    hashes: Vec<u32>,
    lengths: [u32; LEAST_TREE_CAPACITY],
}

impl Default for Table {
    fn default() -> Self {
        Table { capacity: SMALLEST_CAPACITY, hashes: Vec::new(), lengths: [0; LEAST_TREE_CAPACITY] }
    }
}

impl Table {
    fn add(&mut self, hash: u32) {
        self.hashes.push(hash);
        let length = &mut self.lengths[bucket(hash, self.capacity)];
        *length += 1;
        if *length > LONGEST_BUCKET && self.capacity < LEAST_TREE_CAPACITY {
            self.double();
        }
        if self.hashes.len() > self.capacity / 4 * 3 {
            self.double();
        }
    }

    fn double(&mut self) {
        self.capacity *= 2;
        self.lengths = [0; LEAST_TREE_CAPACITY];
        if self.capacity <= LEAST_TREE_CAPACITY {
            for &hash in &self.hashes {
                self.lengths[bucket(hash, self.capacity)] += 1;
            }
        }
    }
}

/// The different ones of `keys` (hash and key) in the order in which a `HashMap` iterates that was
/// filled by `computeIfAbsent`: new keys stand first in their bucket, and the table grows late.
pub fn grouping_order(keys: impl Iterator<Item = (u32, u32)>) -> Vec<u32> {
    let mut buckets: Vec<Vec<(u32, u32)>> = vec![Vec::new(); SMALLEST_CAPACITY];
    let mut size = 0;
    for (hash, key) in keys {
        if size > buckets.len() / 4 * 3 {
            buckets = doubled(&buckets);
        }
        let capacity = buckets.len();
        let held = &mut buckets[bucket(hash, capacity)];
        if held.contains(&(hash, key)) {
            continue;
        }
        held.insert(0, (hash, key));
        size += 1;
        if held.len() >= LONGEST_BUCKET as usize && capacity < LEAST_TREE_CAPACITY {
            buckets = doubled(&buckets);
        }
    }
    buckets.into_iter().flatten().map(|(_, key)| key).collect()
}

fn doubled(buckets: &[Vec<(u32, u32)>]) -> Vec<Vec<(u32, u32)>> {
    let capacity = buckets.len() * 2;
    let mut doubled = vec![Vec::new(); capacity];
    for &entry in buckets.iter().flatten() {
        doubled[bucket(entry.0, capacity)].push(entry);
    }
    doubled
}

/// A `HashSet` that also loses elements, as far as its iterator's first element tells.
#[derive(Clone, Debug)]
pub struct HashSet {
    capacity: usize,
    arrivals: u32,
    /// By bucket and arrival: hash and element.
    elements: BTreeMap<(u32, u32), (u32, u32)>,
}

impl Default for HashSet {
    fn default() -> Self {
        HashSet { capacity: SMALLEST_CAPACITY, arrivals: 0, elements: BTreeMap::new() }
    }
}

impl HashSet {
    /// `element` must not be in the set.
    pub fn insert(&mut self, hash: u32, element: u32) {
        let bucket = bucket(hash, self.capacity) as u32;
        self.elements.insert((bucket, self.arrivals), (hash, element));
        self.arrivals += 1;
        let crowded = self.capacity < LEAST_TREE_CAPACITY
            && self.elements.range((bucket, 0)..=(bucket, u32::MAX)).count()
                > LONGEST_BUCKET as usize;
        if crowded {
            self.double();
        }
        if self.elements.len() > self.capacity / 4 * 3 {
            self.double();
        }
    }

    pub fn remove(&mut self, hash: u32, element: u32) {
        let bucket = bucket(hash, self.capacity) as u32;
        let mut candidates = self.elements.range((bucket, 0)..=(bucket, u32::MAX));
        let found = candidates.find(|(_, held)| held.1 == element).map(|(&key, _)| key);
        if let Some(key) = found {
            self.elements.remove(&key);
        }
    }

    pub fn first(&self) -> Option<u32> {
        self.elements.first_key_value().map(|(_, &(_, element))| element)
    }

    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    fn double(&mut self) {
        self.capacity *= 2;
        let elements = core::mem::take(&mut self.elements);
        self.elements = elements
            .into_iter()
            .map(|((_, arrival), held)| ((bucket(held.0, self.capacity) as u32, arrival), held))
            .collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::java_hash::java_hash;

    fn order(names: &[&str]) -> Vec<String> {
        let hashes: Vec<u32> = names.iter().map(|name| java_hash(name)).collect();
        map_order(&hashes).iter().map(|&at| names[at as usize].to_owned()).collect()
    }

    /// The check values of assignors section 2.
    #[test]
    fn maps_iterate_as_in_java() {
        let names = ["C0", "C1", "C2", "consumer1", "consumer2", "consumer3", "Aa", "BB"];
        let expected = ["Aa", "BB", "consumer3", "consumer2", "consumer1", "C0", "C1", "C2"];
        assert_eq!(order(&names), expected);
        let names: Vec<String> = (0..13).map(|number| format!("m{number:02}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let digits = |names: Vec<String>| names.iter().map(|n| n[1..].parse().unwrap()).collect();
        let twelve: Vec<u32> = digits(order(&names[..12]));
        assert_eq!(twelve, [4, 3, 6, 5, 8, 7, 9, 0, 11, 10, 2, 1]);
        let thirteen: Vec<u32> = digits(order(&names));
        assert_eq!(thirteen, [0, 11, 10, 2, 1, 12, 4, 3, 6, 5, 8, 7, 9]);
    }

    #[test]
    fn a_crowded_bucket_doubles_a_small_table() {
        let colliding = [5u32; 8];
        assert_eq!(capacity(&colliding), 16);
        assert_eq!(capacity(&[5; 9]), 32);
        assert_eq!(capacity(&[5; 10]), 64);
        assert_eq!(capacity(&[5; 11]), 64);
        let spread: Vec<u32> = (0..49).collect();
        assert_eq!((capacity(&spread[..48]), capacity(&spread)), (64, 128));
    }

    #[test]
    fn what_is_grouped_stands_before_what_collides_with_it() {
        let of = |names: &[&str]| -> Vec<u32> {
            let ids: Vec<&str> = vec!["Aa", "BB", "C0"];
            let key = |name: &&str| ids.iter().position(|id| id == name).unwrap() as u32;
            grouping_order(names.iter().map(|name| (java_hash(name), key(name))))
        };
        assert_eq!(of(&["Aa", "BB", "Aa", "C0"]), [1, 0, 2]);
        assert_eq!(of(&["C0", "BB", "Aa", "BB"]), [0, 1, 2]);
        let thirteen = grouping_order((0..13).map(|hash| (hash * 16, hash)));
        assert_eq!(thirteen.len(), 13);
    }

    #[test]
    fn strings_compare_by_utf16_unit() {
        let sorted = ["", "Zed", "a", "ab", "b", "\u{7ff}", "\u{d7ff}", "\u{10000}", "\u{e000}"];
        for (at, left) in sorted.iter().enumerate() {
            for (other, right) in sorted.iter().enumerate() {
                assert_eq!(compare(left, right), at.cmp(&other), "{left:?} {right:?}");
            }
        }
    }

    #[test]
    fn a_set_starts_with_its_lowest_bucket_and_forgets_what_leaves() {
        let mut set = HashSet::default();
        for element in [17, 1, 30] {
            set.insert(element, element);
        }
        assert_eq!(set.first(), Some(17), "1 stands behind it in the same bucket");
        set.remove(17, 17);
        assert_eq!(set.first(), Some(1));
        (32..44).for_each(|element| set.insert(element, element));
        assert_eq!(set.first(), Some(32), "32 buckets by now");
        set.remove(32, 32);
        set.remove(1, 1);
        assert_eq!(set.first(), Some(33));
    }
}
