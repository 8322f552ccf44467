//! ConsumerGroupMemberMetadataValue: key type 5.

use super::{VERSION, array, open, skip_tags, write_no_tags};
use crate::record::fields::{
    write_compact_bytes, write_compact_count, write_compact_nullable_string, write_compact_string,
    write_i16, write_i32, write_tagged_field,
};
use crate::record::reader::{DecodeError, Reader};

const CLASSIC_MEMBER_METADATA_TAG: u32 = 0;
/// What stands ahead of a struct that can be null, inside a tagged field.
const NULL: u8 = 0;
const PRESENT: u8 = 1;
/// An empty name, no metadata, no tags.
const SMALLEST_PROTOCOL: usize = 3;

/// What a member of a consumer group said of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberMetadataValue<'a> {
    /// Of a static member (KIP-345).
    pub instance_id: Option<&'a str>,
    /// The rack of the client (KIP-881); `None`: not said.
    pub rack_id: Option<&'a str>,
    /// As the client named itself in the request header.
    pub client_id: &'a str,
    /// The client's address, as Java prints it: `/127.0.0.1`.
    pub client_host: &'a str,
    /// Sorted.
    pub subscribed_topic_names: Vec<&'a str>,
    /// `""` for a member without one; null in records of Kafka before 4.0.
    pub subscribed_topic_regex: Option<&'a str>,
    /// Milliseconds; -1: never told.
    pub rebalance_timeout_ms: i32,
    /// The assignor that the member asks the coordinator for; `None`: any.
    pub server_assignor: Option<&'a str>,
    /// Of a member that uses JoinGroup and SyncGroup. A native member's is written as null: to
    /// Kafka, a record that leaves it out is one of a classic member without protocols.
    pub classic: Option<ClassicMemberMetadata<'a>>,
}

/// Of a member that uses the classic protocol in a consumer group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassicMemberMetadata<'a> {
    /// How long a member counts as alive after its last heartbeat, in ms.
    pub session_timeout_ms: i32,
    /// As its JoinGroup listed them.
    pub supported_protocols: Vec<ClassicProtocol<'a>>,
}

/// One of the assignors that such a member knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassicProtocol<'a> {
    /// The name of the assignor.
    pub name: &'a str,
    /// The subscription, in its bytes.
    pub metadata: &'a [u8],
}

impl<'a> MemberMetadataValue<'a> {
    /// Reads the value, version included.
    pub fn parse(value: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = open(value)?;
        let mut member = MemberMetadataValue {
            instance_id: reader.compact_nullable_string()?,
            rack_id: reader.compact_nullable_string()?,
            client_id: reader.compact_string()?,
            client_host: reader.compact_string()?,
            subscribed_topic_names: array(&mut reader, 1, |reader| reader.compact_string())?,
            subscribed_topic_regex: reader.compact_nullable_string()?,
            rebalance_timeout_ms: reader.i32()?,
            server_assignor: reader.compact_nullable_string()?,
            classic: Some(ClassicMemberMetadata::default()),
        };
        reader.tagged_fields(|tag, bytes| {
            if tag == CLASSIC_MEMBER_METADATA_TAG {
                member.classic = classic_member(bytes)?;
            }
            Ok(())
        })?;
        Ok(member)
    }

    /// Appends the value.
    pub fn encode(&self, out: &mut Vec<u8>) {
        write_i16(out, VERSION);
        write_compact_nullable_string(out, self.instance_id);
        write_compact_nullable_string(out, self.rack_id);
        write_compact_string(out, self.client_id);
        write_compact_string(out, self.client_host);
        write_compact_count(out, self.subscribed_topic_names.len());
        self.subscribed_topic_names.iter().for_each(|topic| write_compact_string(out, topic));
        write_compact_nullable_string(out, self.subscribed_topic_regex);
        write_i32(out, self.rebalance_timeout_ms);
        write_compact_nullable_string(out, self.server_assignor);
        if self.classic.as_ref().is_some_and(|classic| *classic == Default::default()) {
            return write_no_tags(out);
        }
        out.push(1);
        write_tagged_field(out, CLASSIC_MEMBER_METADATA_TAG, |out| match &self.classic {
            Some(classic) => {
                out.push(PRESENT);
                classic.encode(out);
            }
            None => out.push(NULL),
        });
    }
}

impl ClassicMemberMetadata<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        write_i32(out, self.session_timeout_ms);
        write_compact_count(out, self.supported_protocols.len());
        for protocol in &self.supported_protocols {
            write_compact_string(out, protocol.name);
            write_compact_bytes(out, protocol.metadata);
            write_no_tags(out);
        }
        write_no_tags(out);
    }
}

fn classic_member(bytes: &[u8]) -> Result<Option<ClassicMemberMetadata<'_>>, DecodeError> {
    let mut reader = Reader::new(bytes);
    if reader.u8()? == NULL {
        return Ok(None);
    }
    let session_timeout_ms = reader.i32()?;
    let supported_protocols = array(&mut reader, SMALLEST_PROTOCOL, |reader| {
        let protocol =
            ClassicProtocol { name: reader.compact_string()?, metadata: reader.compact_bytes()? };
        skip_tags(reader)?;
        Ok(protocol)
    })?;
    skip_tags(&mut reader)?;
    Ok(Some(ClassicMemberMetadata { session_timeout_ms, supported_protocols }))
}
