//! What consumers hide in the opaque bytes of a group whose protocol type is `consumer`:
//! subscriptions and assignments (ConsumerProtocol, assignors.md section 8).
//!
//! The coordinator serves groups without understanding any of it. Nothing here is ever a reason
//! to refuse a request.

use crate::reader::{DecodeError, DecodeErrorKind, Reader, Result};
use crate::writer::Writer;

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
    pub topics: Vec<&'a str>,
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
        let mut reader = Reader::new(bytes, false);
        let version = version(&mut reader)?;
        let topics = reader.array("topics", SMALLEST_STRING, |topic| topic.string("topic"))?;
        let user_data = reader.nullable_bytes("user_data")?;
        let owned_partitions =
            if version >= 1 { topic_partitions(&mut reader, "owned_partitions")? } else { vec![] };
        let generation_id = if version >= 2 { reader.i32("generation_id")? } else { -1 };
        let rack_id = if version >= 3 { reader.nullable_string("rack_id")? } else { None };
        Ok(Subscription { version, topics, user_data, owned_partitions, generation_id, rack_id })
    }

    /// Appends the fields of `self.version`, in their order; see [`Subscription::sort`].
    ///
    /// # Panics
    /// On a version outside 0 to 3.
    pub fn encode(&self, out: &mut Vec<u8>) {
        assert!((0..=LATEST_VERSION).contains(&self.version), "version {}", self.version);
        let mut out = Writer::new(out, false);
        out.i16(self.version);
        out.array_length(self.topics.len());
        for topic in &self.topics {
            out.string(topic);
        }
        out.nullable_bytes(self.user_data);
        if self.version >= 1 {
            write_topic_partitions(&mut out, &self.owned_partitions);
        }
        if self.version >= 2 {
            out.i32(self.generation_id);
        }
        if self.version >= 3 {
            out.nullable_string(self.rack_id);
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
    pub assigned_partitions: Vec<TopicPartitions<'a>>,
    pub user_data: Option<&'a [u8]>,
}

impl<'a> Assignment<'a> {
    /// Bytes behind the last field are ignored, as by Kafka's consumers.
    pub fn decode(bytes: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes, false);
        let version = version(&mut reader)?;
        let assigned_partitions = topic_partitions(&mut reader, "assigned_partitions")?;
        let user_data = reader.nullable_bytes("user_data")?;
        Ok(Assignment { version, assigned_partitions, user_data })
    }

    /// Appends the assignment, in its order.
    ///
    /// # Panics
    /// On a version outside 0 to 3.
    pub fn encode(&self, out: &mut Vec<u8>) {
        assert!((0..=LATEST_VERSION).contains(&self.version), "version {}", self.version);
        let mut out = Writer::new(out, false);
        out.i16(self.version);
        write_topic_partitions(&mut out, &self.assigned_partitions);
        out.nullable_bytes(self.user_data);
    }
}

fn version(reader: &mut Reader<'_>) -> Result<i16> {
    const FIELD: &str = "version";
    let version = reader.i16(FIELD)?;
    if version < 0 {
        let (kind, position) = (DecodeErrorKind::UnknownValue, reader.position());
        return Err(DecodeError { field: FIELD, kind, position });
    }
    Ok(version)
}

fn topic_partitions<'a>(
    reader: &mut Reader<'a>,
    field: &'static str,
) -> Result<Vec<TopicPartitions<'a>>> {
    reader.array(field, SMALLEST_TOPIC, |topic| {
        let name = topic.string("topic")?;
        let partitions = topic.array("partitions", 4, |partition| partition.i32("partition"))?;
        Ok((name, partitions))
    })
}

fn write_topic_partitions(out: &mut Writer<'_>, topics: &[TopicPartitions<'_>]) {
    out.array_length(topics.len());
    for (topic, partitions) in topics {
        out.string(topic);
        out.array_length(partitions.len());
        for &partition in partitions {
            out.i32(partition);
        }
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
