//! What consumers put into the opaque bytes of a group of protocol type `consumer`:
//! subscriptions and assignments (ConsumerProtocol, assignors.md section 8).
//!
//! The coordinator serves groups without reading any of it, unless it is to assign.
//! Nothing here is ever a reason to refuse a request.

use crate::record::{DecodeError, Reader};

type Result<T> = core::result::Result<T, DecodeError>;

/// What Java clients of today write.
pub const LATEST_VERSION: i16 = 3;

/// The least bytes of an element: an empty string, and one with an empty array after it.
const SMALLEST_STRING: usize = 2;
const SMALLEST_TOPIC: usize = SMALLEST_STRING + 4;

/// A topic and the numbers of some of its partitions.
pub type TopicPartitions<'a> = (&'a str, Vec<i32>);

/// ConsumerProtocolSubscription v0 to v3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription<'a> {
    /// As written: a newer version than 3 is read as 3.
    pub version: i16,
    /// The topics that the member subscribes to.
    pub topics: Vec<&'a str>,
    /// What its assignor adds.
    pub user_data: Option<&'a [u8]>,
    /// From v1.
    pub owned_partitions: Vec<TopicPartitions<'a>>,
    /// -1: none. From v2.
    pub generation_id: i32,
    /// From v3.
    pub rack_id: Option<&'a str>,
}

impl<'a> Subscription<'a> {
    /// Bytes behind the last field are ignored, as by Kafka's consumers.
    pub fn decode(bytes: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let version = version(&mut reader)?;
        let topics = array(&mut reader, SMALLEST_STRING, Reader::string)?;
        let user_data = reader.nullable_bytes()?;
        let owned_partitions = if version >= 1 { topic_partitions(&mut reader)? } else { vec![] };
        let generation_id = if version >= 2 { reader.i32()? } else { -1 };
        let rack_id = if version >= 3 { reader.nullable_string()? } else { None };
        Ok(Subscription { version, topics, user_data, owned_partitions, generation_id, rack_id })
    }

    /// The same, but a body of which only version 0 is whole is read as that: some clients write a
    /// newer version than they have fields for (sarama wrote 1 without owned partitions).
    pub fn decode_leniently(bytes: &'a [u8]) -> Result<Self> {
        Subscription::decode(bytes).or_else(|error| {
            let Some((_, body)) = bytes.split_first_chunk::<2>() else { return Err(error) };
            let mut reader = Reader::new(body);
            version(&mut Reader::new(bytes))?;
            let topics = array(&mut reader, SMALLEST_STRING, Reader::string)?;
            let user_data = reader.nullable_bytes()?;
            let owned_partitions = Vec::new();
            let (version, generation_id, rack_id) = (0, -1, None);
            Ok(Subscription {
                version,
                topics,
                user_data,
                owned_partitions,
                generation_id,
                rack_id,
            })
        })
    }

    /// Appends the fields of `self.version`, in their order; see [`Subscription::sort`].
    ///
    /// # Panics
    /// On a version outside 0 to 3.
    pub fn encode(&self, out: &mut Vec<u8>) {
        assert!((0..=LATEST_VERSION).contains(&self.version), "version {}", self.version);
        out.extend_from_slice(&self.version.to_be_bytes());
        write_length(out, self.topics.len());
        self.topics.iter().for_each(|topic| write_string(out, topic));
        write_nullable_bytes(out, self.user_data);
        if self.version >= 1 {
            write_topic_partitions(out, &self.owned_partitions);
        }
        if self.version >= 2 {
            out.extend_from_slice(&self.generation_id.to_be_bytes());
        }
        if self.version >= 3 {
            match self.rack_id {
                Some(rack_id) => write_string(out, rack_id),
                None => out.extend_from_slice(&(-1i16).to_be_bytes()),
            }
        }
    }

    /// Puts topics and owned partitions in the order in which Java clients write them.
    pub fn sort(&mut self) {
        self.topics.sort_unstable();
        self.owned_partitions.sort_unstable();
        for (_, partitions) in &mut self.owned_partitions {
            partitions.sort_unstable();
        }
    }
}

/// ConsumerProtocolAssignment v0 to v3, which all have the same body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment<'a> {
    /// As written.
    pub version: i16,
    /// The partitions, by topic.
    pub assigned_partitions: Vec<TopicPartitions<'a>>,
    /// What the assignor adds.
    pub user_data: Option<&'a [u8]>,
}

impl<'a> Assignment<'a> {
    /// Bytes behind the last field are ignored, as by Kafka's consumers.
    pub fn decode(bytes: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let version = version(&mut reader)?;
        let assigned_partitions = topic_partitions(&mut reader)?;
        let user_data = reader.nullable_bytes()?;
        Ok(Assignment { version, assigned_partitions, user_data })
    }

    /// Appends the assignment, in its order.
    ///
    /// # Panics
    /// On a version outside 0 to 3.
    pub fn encode(&self, out: &mut Vec<u8>) {
        assert!((0..=LATEST_VERSION).contains(&self.version), "version {}", self.version);
        out.extend_from_slice(&self.version.to_be_bytes());
        write_topic_partitions(out, &self.assigned_partitions);
        write_nullable_bytes(out, self.user_data);
    }
}

fn version(reader: &mut Reader<'_>) -> Result<i16> {
    let version = reader.i16()?;
    if version < 0 { Err(DecodeError("a negative version")) } else { Ok(version) }
}

fn topic_partitions<'a>(reader: &mut Reader<'a>) -> Result<Vec<TopicPartitions<'a>>> {
    array(reader, SMALLEST_TOPIC, |reader| Ok((reader.string()?, array(reader, 4, Reader::i32)?)))
}

/// An int32 count, believed as far as there are bytes for elements of the least size.
fn array<'a, T>(
    reader: &mut Reader<'a>,
    smallest: usize,
    element: impl Fn(&mut Reader<'a>) -> Result<T>,
) -> Result<Vec<T>> {
    let count = usize::try_from(reader.i32()?).map_err(|_| DecodeError("a negative length"))?;
    if count > reader.rest().len() / smallest {
        return Err(DecodeError("a length that is more than the bytes there are"));
    }
    let mut elements = Vec::with_capacity(count);
    for _ in 0..count {
        elements.push(element(reader)?);
    }
    Ok(elements)
}

fn write_length(out: &mut Vec<u8>, length: usize) {
    let length = i32::try_from(length).expect("fewer than 2^31 elements");
    out.extend_from_slice(&length.to_be_bytes());
}

fn write_string(out: &mut Vec<u8>, text: &str) {
    let length = i16::try_from(text.len()).expect("a string of at most 32767 bytes");
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn write_nullable_bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => {
            write_length(out, bytes.len());
            out.extend_from_slice(bytes);
        }
        None => out.extend_from_slice(&(-1i32).to_be_bytes()),
    }
}

fn write_topic_partitions(out: &mut Vec<u8>, topics: &[TopicPartitions<'_>]) {
    write_length(out, topics.len());
    for (topic, partitions) in topics {
        write_string(out, topic);
        write_length(out, partitions.len());
        partitions.iter().for_each(|partition| out.extend_from_slice(&partition.to_be_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOLDEN: &str =
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/bytes.tsv"));

    /// Bytes that Kafka's own classes wrote.
    fn golden(name: &str) -> Vec<u8> {
        let line = GOLDEN.lines().find_map(|line| line.strip_prefix(&format!("{name}\t")));
        let hex = line.unwrap_or_else(|| panic!("no line {name}"));
        let digits = (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16));
        digits.collect::<core::result::Result<_, _>>().unwrap()
    }

    #[test]
    fn a_sorted_subscription_is_written_as_by_java_in_every_version() {
        for version in 0..=LATEST_VERSION {
            let mut subscription = Subscription {
                version,
                topics: vec!["b", "a"],
                user_data: Some(&[9]),
                owned_partitions: vec![("b", vec![1, 0]), ("a", vec![2])],
                generation_id: 5,
                rack_id: Some("rk"),
            };
            subscription.sort();
            let mut out = Vec::new();
            subscription.encode(&mut out);
            assert_eq!(out, golden(&format!("Subscription v{version}")));
        }
    }

    #[test]
    fn an_assignment_is_written_back_as_it_was_read_in_every_version() {
        for version in 0..=LATEST_VERSION {
            let bytes = golden(&format!("Assignment v{version}"));
            let mut out = Vec::new();
            Assignment::decode(&bytes).unwrap().encode(&mut out);
            assert_eq!(out, bytes);
        }
    }

    /// Topics b and a, user data 09, owned b-1, a-2, b-0, generation 5, rack rk.
    const V3: &[u8] = b"\x00\x03\x00\x00\x00\x02\x00\x01a\x00\x01b\x00\x00\x00\x01\x09\
        \x00\x00\x00\x02\x00\x01a\x00\x00\x00\x01\x00\x00\x00\x02\
        \x00\x01b\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x01\
        \x00\x00\x00\x05\x00\x02rk";

    fn of_version(version: u8, length: usize) -> Vec<u8> {
        let mut bytes = V3[..length].to_vec();
        bytes[1] = version;
        bytes
    }

    #[test]
    fn every_version_of_a_subscription_is_read() {
        let full = Subscription {
            version: 3,
            topics: vec!["a", "b"],
            user_data: Some(&[9]),
            owned_partitions: vec![("a", vec![2]), ("b", vec![0, 1])],
            generation_id: 5,
            rack_id: Some("rk"),
        };
        assert_eq!(Subscription::decode(V3).unwrap(), full);
        let bytes = of_version(2, V3.len() - 4);
        let v2 = Subscription { version: 2, rack_id: None, ..full };
        assert_eq!(Subscription::decode(&bytes).unwrap(), v2);
        let bytes = of_version(1, V3.len() - 8);
        let v1 = Subscription { version: 1, generation_id: -1, ..v2 };
        assert_eq!(Subscription::decode(&bytes).unwrap(), v1);
        let bytes = of_version(0, 17);
        let v0 = Subscription { version: 0, owned_partitions: vec![], ..v1 };
        assert_eq!(Subscription::decode(&bytes).unwrap(), v0);
    }

    #[test]
    fn a_newer_version_is_read_as_the_newest_known() {
        let mut bytes = of_version(9, V3.len());
        bytes.extend_from_slice(b"what v9 adds");
        let subscription = Subscription::decode(&bytes).unwrap();
        assert_eq!((subscription.version, subscription.rack_id), (9, Some("rk")));
    }

    #[test]
    fn an_assignment_is_read() {
        let bytes =
            b"\x00\x01\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00\x04\
            \xff\xff\xff\xff";
        let assignment = Assignment::decode(bytes).unwrap();
        let expected = Assignment {
            version: 1,
            assigned_partitions: vec![("t", vec![3, 4])],
            user_data: None,
        };
        assert_eq!(assignment, expected);
    }

    #[test]
    fn what_is_cut_short_or_claims_too_much_is_refused() {
        for length in 0..V3.len() {
            assert!(Subscription::decode(&V3[..length]).is_err(), "{length} bytes");
        }
        for bytes in [&b"\x00\x00\x7f\xff\xff\xff\x00"[..], b"\xff\xff\x00\x00\x00\x00", b""] {
            assert!(Subscription::decode(bytes).is_err());
            assert!(Assignment::decode(bytes).is_err());
        }
    }
}
