//! Which APIs the core owns, in which versions, and the headers around their bodies. Frames of
//! other APIs are only recognised here; nothing of them is read.

use crate::reader::{DecodeError, DecodeErrorKind, MAX_STRING_LENGTH, Reader};
use crate::table::with_apis;
use crate::writer::Writer;

/// An owned API and the versions it is served in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiSpec {
    /// The API.
    pub api: ApiKey,
    /// Kafka's name, e.g. `OffsetCommit`.
    pub name: &'static str,
    /// The lowest version that is served.
    pub min_version: i16,
    /// The highest version that is served.
    pub max_version: i16,
    /// First version with compact encodings and tag buffers; `i16::MAX` where there is none.
    pub flexible_from: i16,
    /// The first field of a request is the one group that it names.
    pub names_one_group: bool,
}

const NEVER: i16 = i16::MAX;

macro_rules! names_one_group {
    (group) => {
        true
    };
    ($other:ident) => {
        false
    };
}

macro_rules! apis {
    ($($api:ident = $key:literal, $min:literal to $max:literal, flexible $flexible:expr, $names:ident in $module:ident;)+) => {
        /// The owned APIs, by Kafka's numbers (`ApiKeys`).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(i16)]
        pub enum ApiKey {
            $(
                #[doc = concat!(stringify!($api), ", with the key ", stringify!($key), ".")]
                $api = $key,
            )+
        }

        /// All APIs of the table.
        pub const APIS: [ApiSpec; [$($key),+].len()] = [$(ApiSpec {
            api: ApiKey::$api,
            name: stringify!($api),
            min_version: $min,
            max_version: $max,
            flexible_from: $flexible,
            names_one_group: names_one_group!($names),
        }),+];

        /// The places of the APIs in the table.
        enum Place {
            $($api,)+
        }

        impl ApiKey {
            /// Its line of the table.
            pub const fn spec(self) -> &'static ApiSpec {
                &APIS[match self {
                    $(ApiKey::$api => Place::$api as usize,)+
                }]
            }
        }

        impl ApiSpec {
            /// `None`: the core does not own this API.
            pub const fn of(api_key: i16) -> Option<&'static ApiSpec> {
                match api_key {
                    $($key => Some(ApiKey::$api.spec()),)+
                    _ => None,
                }
            }
        }
    };
}

with_apis!(apis);

impl ApiKey {
    /// Whether it belongs to transactions: a host serves it only beside a transaction coordinator.
    pub const fn is_transactional(self) -> bool {
        matches!(self, ApiKey::TxnOffsetCommit | ApiKey::WriteTxnMarkers)
    }
}

impl ApiSpec {
    /// Whether it is served in this version.
    pub const fn serves(&self, version: i16) -> bool {
        self.min_version <= version && version <= self.max_version
    }

    /// Whether this version has compact lengths and tagged fields (KIP-482).
    pub const fn is_flexible(&self, version: i16) -> bool {
        version >= self.flexible_from
    }
}

/// Request header v1, or v2 where the API version is flexible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader<'a> {
    /// The API's line of the table.
    pub spec: &'static ApiSpec,
    /// The version of the body.
    pub api_version: i16,
    /// Comes back with the response.
    pub correlation_id: i32,
    /// As the client names itself.
    pub client_id: Option<&'a str>,
}

/// What a frame is to the core.
#[derive(Clone, Debug)]
pub enum Incoming<'a> {
    /// A request of an owned API; the reader stands at its body.
    Owned(RequestHeader<'a>, Reader<'a>),
    /// The host answers it.
    Foreign {
        /// Kafka's number of the API.
        api_key: i16,
    },
    /// An owned API in a version that is not served: Kafka closes the connection.
    Unsupported {
        /// Kafka's number of the API.
        api_key: i16,
        /// The version of the body.
        api_version: i16,
    },
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
    let client_id = client_id_and_tags(&mut reader, spec.is_flexible(api_version))?;
    if client_id.is_some_and(|client_id| client_id.len() > MAX_CLIENT_ID_LENGTH) {
        return Err(reader.error("client_id", DecodeErrorKind::TooLong));
    }
    Ok(Incoming::Owned(RequestHeader { spec, api_version, correlation_id, client_id }, reader))
}

/// Where the body begins of a frame whose API the core does not own: whoever answers it knows
/// whether its version is `flexible`.
///
/// # Errors
/// As [`open_request`].
pub fn body_at(frame: &[u8], flexible: bool) -> Result<usize, DecodeError> {
    let mut reader = Reader::new(frame, false);
    reader.i16("request_api_key")?;
    reader.i16("request_api_version")?;
    reader.i32("correlation_id")?;
    client_id_and_tags(&mut reader, flexible)?;
    Ok(reader.position())
}

/// The end of a header; the reader goes on in the body's encoding.
#[inline(always)]
fn client_id_and_tags<'a>(
    reader: &mut Reader<'a>,
    flexible: bool,
) -> Result<Option<&'a str>, DecodeError> {
    // Not compact even in header v2, so that brokers of any age can read it (KIP-482).
    let client_id = reader.nullable_string("client_id")?;
    reader.set_flexible(flexible);
    reader.tags()?;
    Ok(client_id)
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
