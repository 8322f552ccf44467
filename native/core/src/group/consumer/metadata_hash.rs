//! A number that is another when topics that a group subscribes to are others (log-format section 3.3:
//! `Utils.computeTopicHash`, `computeGroupHash`). Kafka's own numbers, so that a group that moves
//! between the two does not rebalance.

use xxhash_rust::xxh3::xxh3_64;

use crate::catalogue::{Catalogue, known};
use crate::group::Machine;
use crate::request::Uuid;

/// Of the way in which it is made.
const VERSION: u8 = 0;

impl Machine {
    /// Of the topics that a member subscribes to, and that exist; 0: there are none.
    pub fn metadata_hash(&self, group: u32) -> i64 {
        let of = self.registry.consumer(group);
        let catalogue = known(&self.catalogue);
        match of.only_topic_list() {
            Some(names) => group_hash(catalogue, names.iter().map(|name| &**name)),
            None => group_hash(catalogue, of.subscribed_topics()),
        }
    }
}

/// `names` are sorted.
fn group_hash<'a>(catalogue: &Catalogue, names: impl IntoIterator<Item = &'a str>) -> i64 {
    let mut hashes = Vec::new();
    for name in names {
        if let Some(hash) = catalogue.topic_hash(name, topic_hash) {
            hashes.extend(hash.to_le_bytes());
        }
    }
    if hashes.is_empty() { 0 } else { xxh3_64(&hashes) as i64 }
}

/// `racks`: of each partition, or of none.
fn topic_hash(name: &str, topic_id: Uuid, partitions: u32, racks: &[Box<[Box<str>]>]) -> u64 {
    let mut scratch = Vec::with_capacity(2 * name.len() + 4 * partitions as usize + 32);
    scratch.push(VERSION);
    scratch.extend(((topic_id.0 >> 64) as u64).to_le_bytes());
    scratch.extend((topic_id.0 as u64).to_le_bytes());
    write_units(&mut scratch, name);
    scratch.extend(partitions.to_le_bytes());
    for partition in 0..partitions {
        scratch.extend(partition.to_le_bytes());
        let of_partition = racks.get(partition as usize).into_iter().flatten();
        let mut sorted: Vec<&str> = of_partition.map(|rack| &**rack).collect();
        sorted.sort_unstable();
        for rack in sorted {
            scratch.extend((rack.encode_utf16().count() as u32).to_le_bytes());
            write_units(&mut scratch, rack);
        }
    }
    xxh3_64(&scratch)
}

/// A string, and behind it its length.
fn write_units(out: &mut Vec<u8>, text: &str) {
    let mut units = 0u32;
    for unit in text.encode_utf16() {
        out.extend(unit.to_le_bytes());
        units += 1;
    }
    out.extend(units.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::CatalogueTopic;

    /// Of Kafka's classes (spec vectors `topicHash` and `groupHash`).
    #[test]
    fn they_are_kafkas_numbers() {
        let (t1, t2) = (Uuid(1 << 64 | 2), Uuid(3 << 64 | 4));
        assert_eq!(topic_hash("t1", t1, 6, &[]), 0xdee0_b1a9_2d83_9a1d);
        assert_eq!(topic_hash("t2", t2, 1, &[]), 0x7ee1_df0c_4a67_1513);
        let racks = [["b", "a"], ["a", "b"]].map(|racks| Box::from(racks.map(Box::from)));
        assert_eq!(topic_hash("t1", t1, 2, &racks), 0xf9f7_fe7d_53dd_d6e7);
        let topic = |id, partitions| CatalogueTopic { id, partitions, ..CatalogueTopic::default() };
        let catalogue = Catalogue::new([("t1".into(), topic(t1, 6)), ("t2".into(), topic(t2, 1))]);
        assert_eq!(group_hash(&catalogue, ["t1"]), 0x3333_4eaa_68f6_df41);
        assert_eq!(group_hash(&catalogue, ["t1", "t2", "t3"]), 0x4945_e826_a9c2_b6f4);
        assert_eq!(group_hash(&catalogue, ["t3"]), 0);
    }
}
