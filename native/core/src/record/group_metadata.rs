//! GROUP_METADATA: key type 2, values v0 to v4 (log-format section 3.2).

use super::fields::{
    write_bytes, write_compact_bytes, write_compact_count, write_compact_nullable_string,
    write_compact_string, write_i16, write_i32, write_i64, write_nullable_string, write_string,
};
use super::reader::{DecodeError, Reader};

/// The key's first two bytes.
pub const GROUP_METADATA_KEY_TYPE: i16 = 2;
/// What Kafka writes, 4.3 included.
pub const GROUP_METADATA_WRITTEN_VERSION: i16 = 3;

const FLEXIBLE: i16 = 4;
/// The least bytes that a member takes in any version: six empty fields and two numbers.
const SMALLEST_MEMBER: usize = 11;

/// The key of the record of a classic group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupMetadataKey<'a> {
    /// The group.
    pub group: &'a str,
}

impl<'a> GroupMetadataKey<'a> {
    /// Reads what follows the type.
    pub fn parse(body: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(GroupMetadataKey { group: body.string()? })
    }

    /// Appends the key, type included.
    pub fn encode(&self, out: &mut Vec<u8>) {
        write_i16(out, GROUP_METADATA_KEY_TYPE);
        write_string(out, self.group);
    }
}

/// A classic group: its generation, and members with their assignments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMetadataValue<'a> {
    /// `consumer` for consumers; empty for a group that never had members.
    pub protocol_type: &'a str,
    /// The generation.
    pub generation: i32,
    /// The assignor that the group uses.
    pub protocol: Option<&'a str>,
    /// The member that assigns.
    pub leader: Option<&'a str>,
    /// Milliseconds; -1: unknown. From v2.
    pub current_state_timestamp: i64,
    /// The members.
    pub members: Vec<GroupMetadataMember<'a>>,
}

/// A member with what it subscribes to and has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupMetadataMember<'a> {
    /// The member's id; empty in a first request.
    pub member_id: &'a str,
    /// From v3.
    pub group_instance_id: Option<&'a str>,
    /// As the client named itself in the request header.
    pub client_id: &'a str,
    /// The client's address, as Java prints it: `/127.0.0.1`.
    pub client_host: &'a str,
    /// Milliseconds; -1: unknown. From v1.
    pub rebalance_timeout: i32,
    /// Milliseconds.
    pub session_timeout: i32,
    /// In the bytes of the protocol type (ConsumerProtocolSubscription).
    pub subscription: &'a [u8],
    /// In the bytes of the protocol type (ConsumerProtocolAssignment).
    pub assignment: &'a [u8],
}

impl<'a> GroupMetadataValue<'a> {
    /// Reads the value, version included.
    pub fn parse(value: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(value);
        let version = reader.i16()?;
        if !(0..=FLEXIBLE).contains(&version) {
            return Err(DecodeError("unknown version of a GROUP_METADATA value"));
        }
        let protocol_type = string(&mut reader, version)?;
        let generation = reader.i32()?;
        let protocol = nullable_string(&mut reader, version)?;
        let leader = nullable_string(&mut reader, version)?;
        let current_state_timestamp = if version >= 2 { reader.i64()? } else { -1 };
        let count = member_count(&mut reader, version)?;
        let mut members = Vec::with_capacity(count.min(reader.rest().len() / SMALLEST_MEMBER));
        for _ in 0..count {
            members.push(GroupMetadataMember::parse(&mut reader, version)?);
        }
        skip_tags(&mut reader, version)?;
        Ok(GroupMetadataValue {
            protocol_type,
            generation,
            protocol,
            leader,
            current_state_timestamp,
            members,
        })
    }

    /// Appends the value in a version; fields that it does not have are left out.
    pub fn encode(&self, version: i16, out: &mut Vec<u8>) {
        assert!((0..=FLEXIBLE).contains(&version), "GROUP_METADATA has versions 0 to 4");
        write_i16(out, version);
        put_string(out, version, self.protocol_type);
        write_i32(out, self.generation);
        put_nullable_string(out, version, self.protocol);
        put_nullable_string(out, version, self.leader);
        if version >= 2 {
            write_i64(out, self.current_state_timestamp);
        }
        if version >= FLEXIBLE {
            write_compact_count(out, self.members.len());
        } else {
            write_i32(out, i32::try_from(self.members.len()).expect("members fit an int32"));
        }
        for member in &self.members {
            member.encode(version, out);
        }
        put_no_tags(out, version);
    }
}

impl<'a> GroupMetadataMember<'a> {
    fn parse(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let member = GroupMetadataMember {
            member_id: string(reader, version)?,
            group_instance_id: if version >= 3 { nullable_string(reader, version)? } else { None },
            client_id: string(reader, version)?,
            client_host: string(reader, version)?,
            rebalance_timeout: if version >= 1 { reader.i32()? } else { -1 },
            session_timeout: reader.i32()?,
            subscription: bytes(reader, version)?,
            assignment: bytes(reader, version)?,
        };
        skip_tags(reader, version)?;
        Ok(member)
    }

    fn encode(&self, version: i16, out: &mut Vec<u8>) {
        put_string(out, version, self.member_id);
        if version >= 3 {
            put_nullable_string(out, version, self.group_instance_id);
        }
        put_string(out, version, self.client_id);
        put_string(out, version, self.client_host);
        if version >= 1 {
            write_i32(out, self.rebalance_timeout);
        }
        write_i32(out, self.session_timeout);
        put_bytes(out, version, self.subscription);
        put_bytes(out, version, self.assignment);
        put_no_tags(out, version);
    }
}

fn string<'a>(reader: &mut Reader<'a>, version: i16) -> Result<&'a str, DecodeError> {
    if version >= FLEXIBLE { reader.compact_string() } else { reader.string() }
}

fn nullable_string<'a>(
    reader: &mut Reader<'a>,
    version: i16,
) -> Result<Option<&'a str>, DecodeError> {
    if version >= FLEXIBLE { reader.compact_nullable_string() } else { reader.nullable_string() }
}

fn bytes<'a>(reader: &mut Reader<'a>, version: i16) -> Result<&'a [u8], DecodeError> {
    if version >= FLEXIBLE { reader.compact_bytes() } else { reader.bytes() }
}

fn member_count(reader: &mut Reader<'_>, version: i16) -> Result<usize, DecodeError> {
    let count = if version >= FLEXIBLE {
        i64::from(reader.unsigned_varint()?) - 1
    } else {
        i64::from(reader.i32()?)
    };
    usize::try_from(count).map_err(|_| DecodeError("the members of a GROUP_METADATA are null"))
}

fn skip_tags(reader: &mut Reader<'_>, version: i16) -> Result<(), DecodeError> {
    if version < FLEXIBLE {
        return Ok(());
    }
    reader.tagged_fields(|_, _| Ok(()))
}

fn put_string(out: &mut Vec<u8>, version: i16, value: &str) {
    if version >= FLEXIBLE { write_compact_string(out, value) } else { write_string(out, value) }
}

fn put_nullable_string(out: &mut Vec<u8>, version: i16, value: Option<&str>) {
    if version >= FLEXIBLE {
        write_compact_nullable_string(out, value);
    } else {
        write_nullable_string(out, value);
    }
}

fn put_bytes(out: &mut Vec<u8>, version: i16, value: &[u8]) {
    if version >= FLEXIBLE { write_compact_bytes(out, value) } else { write_bytes(out, value) }
}

fn put_no_tags(out: &mut Vec<u8>, version: i16) {
    if version >= FLEXIBLE {
        out.push(0);
    }
}
