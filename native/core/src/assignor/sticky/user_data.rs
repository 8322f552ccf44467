//! What the sticky assignors of Java clients put into their subscription's user data (assignors
//! sections 8.3 and 8.4). No version stands before it, so reading is guessing, in Java's order.

use std::collections::BTreeMap;

use crate::java_hash::java_hash;
use crate::java_order;
use crate::record::{DecodeError, Reader};

/// A topic, by the bytes of its name, and the numbers of some of its partitions.
pub type TopicPartitions<'a> = (&'a [u8], Vec<i32>);

/// What a member says it owned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StickyUserData<'a> {
    /// What the member had in that generation.
    pub partitions: Vec<TopicPartitions<'a>>,
    /// None: the data is of v0, or there is none.
    pub generation: Option<i32>,
}

impl<'a> StickyUserData<'a> {
    /// What the Java class writes for a member that owns `partitions`: topics in the order of a
    /// HashMap, numbers in theirs.
    pub fn of(partitions: &[(&'a str, i32)], generation: Option<i32>) -> Self {
        let mut by_name: BTreeMap<&str, (u32, Vec<i32>)> = BTreeMap::new();
        let mut names = Vec::new();
        let keys: Vec<(u32, u32)> = partitions
            .iter()
            .map(|&(topic, number)| {
                let group = by_name.entry(topic).or_insert_with(|| {
                    names.push(topic);
                    (names.len() as u32 - 1, Vec::new())
                });
                group.1.push(number);
                (java_hash(topic), group.0)
            })
            .collect();
        let order = java_order::grouping_order(keys.into_iter());
        let topics = order.into_iter().map(|at| names[at as usize]);
        let mut numbers = |topic| by_name.remove(topic).expect("a topic that was met").1;
        let partitions = topics.map(|topic| (topic.as_bytes(), numbers(topic))).collect();
        StickyUserData { partitions, generation }
    }

    /// Reads v1, else v0; anything else is a member that owned nothing in generation -1.
    pub fn decode(bytes: Option<&'a [u8]>) -> Self {
        let Some(bytes) = bytes else { return StickyUserData::default() };
        let mut reader = Reader::new(bytes);
        match partitions(&mut reader) {
            Ok(partitions) => StickyUserData { partitions, generation: reader.i32().ok() },
            Err(_) => StickyUserData { partitions: Vec::new(), generation: Some(-1) },
        }
    }

    /// Appends v1, or v0 if there is no generation.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.partitions.len() as i32).to_be_bytes());
        for (topic, numbers) in &self.partitions {
            out.extend_from_slice(&(topic.len() as i16).to_be_bytes());
            out.extend_from_slice(topic);
            out.extend_from_slice(&(numbers.len() as i32).to_be_bytes());
            numbers.iter().for_each(|number| out.extend_from_slice(&number.to_be_bytes()));
        }
        if let Some(generation) = self.generation {
            out.extend_from_slice(&generation.to_be_bytes());
        }
    }
}

/// The generation in the user data of `CooperativeStickyAssignor`: -1 if it cannot be read, None
/// if there is none.
pub fn cooperative_generation(bytes: Option<&[u8]>) -> Option<i32> {
    bytes.map(|bytes| Reader::new(bytes).i32().unwrap_or(-1))
}

fn partitions<'a>(reader: &mut Reader<'a>) -> Result<Vec<TopicPartitions<'a>>, DecodeError> {
    const NEGATIVE: DecodeError = DecodeError("a negative length");
    let topics = usize::try_from(reader.i32()?).map_err(|_| NEGATIVE)?;
    // Counts are believed as far as there are bytes.
    let mut partitions = Vec::new();
    for _ in 0..topics {
        let length = usize::try_from(reader.i16()?).map_err(|_| NEGATIVE)?;
        let topic = reader.take(length)?;
        let count = usize::try_from(reader.i32()?).map_err(|_| NEGATIVE)?;
        let numbers = reader.take(count.saturating_mul(4))?.chunks_exact(4);
        let number = |bytes: &[u8]| i32::from_be_bytes(bytes.try_into().expect("4 bytes"));
        partitions.push((topic, numbers.map(number).collect()));
    }
    Ok(partitions)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of assignors section 8.3, generation 7.
    const V1: &[u8] = b"\x00\x00\x00\x02\x00\x02t0\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x03\
        \x00\x02t1\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x07";

    fn example() -> StickyUserData<'static> {
        let partitions = vec![(&b"t0"[..], vec![0, 3]), (b"t1", vec![1])];
        StickyUserData { partitions, generation: Some(7) }
    }

    #[test]
    fn both_versions_are_read_and_written() {
        assert_eq!(StickyUserData::decode(Some(V1)), example());
        let v0 = &V1[..V1.len() - 4];
        let expected = StickyUserData { generation: None, ..example() };
        assert_eq!(StickyUserData::decode(Some(v0)), expected);
        for bytes in [V1, v0] {
            let mut out = Vec::new();
            StickyUserData::decode(Some(bytes)).encode(&mut out);
            assert_eq!(out, bytes);
        }
    }

    #[test]
    fn what_cannot_be_read_owned_nothing_in_generation_minus_one() {
        let nothing = StickyUserData { partitions: Vec::new(), generation: Some(-1) };
        for length in 0..V1.len() - 4 {
            assert_eq!(StickyUserData::decode(Some(&V1[..length])), nothing, "{length} bytes");
        }
        let many = b"\x7f\xff\xff\xff\x00\x00\x7f\xff\xff\xff";
        assert_eq!(StickyUserData::decode(Some(many)), nothing);
        assert_eq!(StickyUserData::decode(None), StickyUserData::default());
    }

    #[test]
    fn a_generation_alone() {
        assert_eq!(cooperative_generation(Some(&[0, 0, 0, 7])), Some(7));
        assert_eq!(cooperative_generation(Some(&[0, 0, 7])), Some(-1));
        assert_eq!(cooperative_generation(None), None);
    }
}
