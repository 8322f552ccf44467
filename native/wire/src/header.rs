//! Which APIs the core owns, in which versions, and the headers around their bodies. Frames of
//! other APIs are only told apart here; nothing of them is read.

use crate::reader::{DecodeError, DecodeErrorKind, MAX_STRING_LENGTH, Reader};
use crate::writer::Writer;

/// The owned APIs, by Kafka's numbers (`ApiKeys`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i16)]
pub enum ApiKey {
    OffsetCommit = 8,
    OffsetFetch = 9,
    JoinGroup = 11,
    Heartbeat = 12,
    LeaveGroup = 13,
    SyncGroup = 14,
    DescribeGroups = 15,
    ListGroups = 16,
    DeleteGroups = 42,
    OffsetDelete = 47,
}

/// An owned API and the versions it is served in: exactly those of Kafka 4.3. The minima (0 for the
/// group APIs, OffsetCommit 2, OffsetFetch 1) are what clients with an exact-version feature map
/// need (librdkafka before 2.11; KAFKA-18659, KAFKA-19444).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiSpec {
    pub api: ApiKey,
    /// Kafka's name, e.g. `OffsetCommit`.
    pub name: &'static str,
    pub min_version: i16,
    pub max_version: i16,
    /// First version with compact encodings and tag buffers; `i16::MAX` where there is none.
    pub flexible_from: i16,
}

pub const APIS: [ApiSpec; 10] = [
    ApiSpec::new(ApiKey::OffsetCommit, "OffsetCommit", 2, 10, 8),
    ApiSpec::new(ApiKey::OffsetFetch, "OffsetFetch", 1, 10, 6),
    ApiSpec::new(ApiKey::JoinGroup, "JoinGroup", 0, 9, 6),
    ApiSpec::new(ApiKey::Heartbeat, "Heartbeat", 0, 4, 4),
    ApiSpec::new(ApiKey::LeaveGroup, "LeaveGroup", 0, 5, 4),
    ApiSpec::new(ApiKey::SyncGroup, "SyncGroup", 0, 5, 4),
    ApiSpec::new(ApiKey::DescribeGroups, "DescribeGroups", 0, 6, 5),
    ApiSpec::new(ApiKey::ListGroups, "ListGroups", 0, 5, 3),
    ApiSpec::new(ApiKey::DeleteGroups, "DeleteGroups", 0, 2, 2),
    ApiSpec::new(ApiKey::OffsetDelete, "OffsetDelete", 0, 0, i16::MAX),
];

impl ApiKey {
    pub const fn spec(self) -> &'static ApiSpec {
        &APIS[match self {
            ApiKey::OffsetCommit => 0,
            ApiKey::OffsetFetch => 1,
            ApiKey::JoinGroup => 2,
            ApiKey::Heartbeat => 3,
            ApiKey::LeaveGroup => 4,
            ApiKey::SyncGroup => 5,
            ApiKey::DescribeGroups => 6,
            ApiKey::ListGroups => 7,
            ApiKey::DeleteGroups => 8,
            ApiKey::OffsetDelete => 9,
        }]
    }
}

impl ApiSpec {
    const fn new(
        api: ApiKey,
        name: &'static str,
        min_version: i16,
        max_version: i16,
        flexible_from: i16,
    ) -> ApiSpec {
        ApiSpec { api, name, min_version, max_version, flexible_from }
    }

    /// `None`: the core does not own this API.
    pub const fn of(api_key: i16) -> Option<&'static ApiSpec> {
        let api = match api_key {
            8 => ApiKey::OffsetCommit,
            9 => ApiKey::OffsetFetch,
            11 => ApiKey::JoinGroup,
            12 => ApiKey::Heartbeat,
            13 => ApiKey::LeaveGroup,
            14 => ApiKey::SyncGroup,
            15 => ApiKey::DescribeGroups,
            16 => ApiKey::ListGroups,
            42 => ApiKey::DeleteGroups,
            47 => ApiKey::OffsetDelete,
            _ => return None,
        };
        Some(api.spec())
    }

    pub const fn serves(&self, version: i16) -> bool {
        self.min_version <= version && version <= self.max_version
    }

    pub const fn is_flexible(&self, version: i16) -> bool {
        version >= self.flexible_from
    }
}

/// Request header v1, or v2 where the API version is flexible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader<'a> {
    pub spec: &'static ApiSpec,
    pub api_version: i16,
    pub correlation_id: i32,
    pub client_id: Option<&'a str>,
}

/// What a frame is to the core.
#[derive(Clone, Debug)]
pub enum Incoming<'a> {
    /// A request of an owned API; the reader stands at its body.
    Owned(RequestHeader<'a>, Reader<'a>),
    /// The host answers it.
    Foreign { api_key: i16 },
    /// An owned API in a version that is not served: Kafka closes the connection.
    Unsupported { api_key: i16, api_version: i16 },
}

/// A member id is the client id, `-` and a UUID's 36 characters, and must be a string itself.
pub const MAX_CLIENT_ID_LENGTH: usize = MAX_STRING_LENGTH - 37;

/// Reads the header of a frame without its 4-byte length. Always inlined: a header that is moved
/// costs a heartbeat a third of its time, by narrow stores before wide loads.
///
/// # Errors
/// The frame is too short for its header, or the header is malformed.
#[inline(always)]
pub fn open_request(frame: &[u8]) -> Result<Incoming<'_>, DecodeError> {
    let mut reader = Reader::new(frame, false);
    let api_key = reader.i16("request_api_key")?;
    let api_version = reader.i16("request_api_version")?;
    let Some(spec) = ApiSpec::of(api_key) else { return Ok(Incoming::Foreign { api_key }) };
    if !spec.serves(api_version) {
        return Ok(Incoming::Unsupported { api_key, api_version });
    }
    let correlation_id = reader.i32("correlation_id")?;
    // Not compact even in header v2, so that brokers of any age can read it (KIP-482).
    let client_id = reader.nullable_string("client_id")?;
    if client_id.is_some_and(|client_id| client_id.len() > MAX_CLIENT_ID_LENGTH) {
        return Err(reader.error("client_id", DecodeErrorKind::TooLong));
    }
    reader.set_flexible(spec.is_flexible(api_version));
    reader.tags()?;
    Ok(Incoming::Owned(RequestHeader { spec, api_version, correlation_id, client_id }, reader))
}

/// Appends room for the 4-byte length and the response header; the body follows. Returns where the
/// frame starts, for [`finish_response`].
#[inline]
pub fn begin_response(out: &mut Vec<u8>, api: ApiKey, version: i16, correlation_id: i32) -> usize {
    let start = out.len();
    let mut writer = Writer::new(out, api.spec().is_flexible(version));
    writer.i32(0);
    writer.i32(correlation_id);
    writer.tags();
    start
}

/// How much [`begin_response`] wrote: length, correlation id, and no tags.
pub const fn response_header_bytes(flexible: bool) -> usize {
    8 + flexible as usize
}

/// Writes the length of the frame that starts at `start` and ends with the buffer.
#[inline]
pub fn finish_response(out: &mut [u8], start: usize) {
    let length = i32::try_from(out.len() - start - 4).expect("a response below 2 GiB");
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

/// Client side: appends room for the length and a request header; close with [`finish_response`].
pub fn begin_request(
    out: &mut Vec<u8>,
    api: ApiKey,
    version: i16,
    correlation_id: i32,
    client_id: Option<&str>,
) -> usize {
    let start = out.len();
    let mut writer = Writer::new(out, false);
    writer.i32(0);
    writer.i16(api as i16);
    writer.i16(version);
    writer.i32(correlation_id);
    writer.nullable_string(client_id);
    Writer::new(out, api.spec().is_flexible(version)).tags();
    start
}

/// Client side: the correlation id, and a reader at the body, of a frame without its length.
///
/// # Errors
/// The frame is too short for its header, or the tag buffer is malformed.
pub fn open_response(
    api: ApiKey,
    version: i16,
    frame: &[u8],
) -> Result<(i32, Reader<'_>), DecodeError> {
    let mut reader = Reader::new(frame, api.spec().is_flexible(version));
    let correlation_id = reader.i32("correlation_id")?;
    reader.tags()?;
    Ok((correlation_id, reader))
}
