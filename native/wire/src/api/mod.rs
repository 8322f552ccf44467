//! Request and response bodies, one file per API, in every version that is served. A module reads
//! requests and writes responses (the server's side), and does the reverse for clients: tests, the
//! simulator, load. Bodies only; headers and lengths are `header.rs`. All reads are whole: what a
//! decoder returned was checked to its last byte, and bytes after a body are ignored, as Kafka does.

use kcoord_core::ErrorCode;
use kcoord_core::request::{Request, Uuid};
use kcoord_core::response::Response;

use crate::header::ApiKey;
use crate::reader::{DecodeErrorKind, MAX_STRING_LENGTH, Reader, Result};
use crate::table::with_apis;
use crate::writer::Writer;

pub mod consumer_group_describe;
pub mod consumer_group_heartbeat;
pub mod delete_groups;
pub mod describe_groups;
pub mod describing;
pub mod describing_steps;
pub mod heartbeat;
pub mod join_group;
pub mod leave_group;
pub mod list_groups;
pub mod long;
pub mod offset_commit;
pub mod offset_delete;
pub mod offset_fetch;
pub mod sync_group;
pub mod txn_offset_commit;
pub mod write_txn_markers;

/// The request that a body is to the shard of the one group that it names.
macro_rules! of_one_group {
    (group $api:ident $body:ident) => {
        Some(($body.group_id, Request::$api($body)))
    };
    (commit $api:ident $body:ident) => {
        Some(($body.commit.group_id, Request::$api($body)))
    };
    ($several:ident $api:ident $body:ident) => {{
        let _ = $body;
        None
    }};
}

macro_rules! group_id {
    (group $body:ident) => {
        Some($body.group_id)
    };
    (commit $body:ident) => {
        Some($body.commit.group_id)
    };
    ($several:ident $body:ident) => {{
        let _ = $body;
        None
    }};
}

/// What is done with the response of a shard that is the whole answer.
macro_rules! of_whole {
    (group $response:ident => $then:expr) => {
        $then
    };
    (commit $response:ident => $then:expr) => {
        $then
    };
    ($several:ident $response:ident => $then:expr) => {
        unreachable!("{:?} comes in parts", $response)
    };
}

macro_rules! bodies {
    ($(
        $api:ident = $key:literal, $min:literal to $max:literal, flexible $flexible:expr,
        $names:ident in $module:ident;
    )+) => {
        /// A request as it came over the wire. It differs from the core's `Request` where one
        /// frame holds several groups, which the node fans out to the shards.
        #[derive(Clone, Debug)]
        pub enum RequestBody<'a> {
            $(
                #[doc = concat!(stringify!($api), ".")]
                $api($module::Request<'a>),
            )+
        }

        /// A response as it goes over the wire, gathered from the shards.
        #[derive(Clone, Debug, PartialEq)]
        pub enum ResponseBody {
            $(
                #[doc = concat!(stringify!($api), ".")]
                $api($module::Response),
            )+
        }

        impl<'a> RequestBody<'a> {
            /// A request that says nothing.
            pub fn empty(api: ApiKey) -> Self {
                match api {
                    $(ApiKey::$api => RequestBody::$api(Default::default()),)+
                }
            }

            /// Its API.
            pub fn api(&self) -> ApiKey {
                match self {
                    $(RequestBody::$api(_) => ApiKey::$api,)+
                }
            }

            /// The group that it names; `None`: APIs that may name several.
            #[inline(always)]
            pub fn group_id(&self) -> Option<&'a str> {
                match self {
                    $(RequestBody::$api(body) => group_id!($names body),)+
                }
            }

            /// The group that it names, and what its shard is asked; `None`: APIs that may name several.
            #[inline(always)]
            pub fn of_one_group(self) -> Option<(&'a str, Request<'a>)> {
                match self {
                    $(RequestBody::$api(body) => of_one_group!($names $api body),)+
                }
            }
        }

        impl ResponseBody {
            /// Calls `found` with each code of the response, as Kafka's `errorCounts` counts them.
            pub fn each_code(&self, found: impl FnMut(ErrorCode)) {
                match self {
                    $(ResponseBody::$api(body) => $module::each_code(body, found),)+
                }
            }
        }

        /// Reads the body of a request.
        ///
        /// # Errors
        /// The body is cut short or malformed.
        #[inline]
        pub fn decode_request<'a>(
            api: ApiKey,
            version: i16,
            body: &mut Reader<'a>,
        ) -> Result<RequestBody<'a>> {
            Ok(match api {
                $(ApiKey::$api => RequestBody::$api($module::decode_request(version, body)?),)+
            })
        }

        /// Appends the body of a response.
        pub fn encode_response(out: &mut Vec<u8>, version: i16, response: &ResponseBody) {
            match response {
                $(ResponseBody::$api(body) => $module::encode_response(out, version, body),)+
            }
        }

        /// The body that answers a whole request with one error, in the API's own shape (Kafka's
        /// `getErrorResponse` and `GroupCoordinatorService`'s exception handlers).
        pub fn error_response(request: &RequestBody<'_>, code: ErrorCode) -> ResponseBody {
            match request {
                $(RequestBody::$api(body) => {
                    ResponseBody::$api($module::error_response(body, code))
                })+
            }
        }

        /// Client side: appends the body of a request.
        pub fn encode_request(out: &mut Vec<u8>, version: i16, request: &RequestBody<'_>) {
            match request {
                $(RequestBody::$api(body) => $module::encode_request(out, version, body),)+
            }
        }

        /// Client side: reads the body of a response.
        ///
        /// # Errors
        /// The body is cut short or malformed, or holds a code or state that kcoord never sends.
        pub fn decode_response(
            api: ApiKey,
            version: i16,
            body: &mut Reader<'_>,
        ) -> Result<ResponseBody> {
            Ok(match api {
                $(ApiKey::$api => ResponseBody::$api($module::decode_response(version, body)?),)+
            })
        }

        /// Appends the body of a shard's response to a request of one group.
        ///
        /// # Panics
        /// If the response is a part of an answer.
        #[inline]
        pub fn encode_whole(out: &mut Vec<u8>, version: i16, api: ApiKey, response: &Response) {
            match response {
                Response::OffsetFetch(group) => {
                    offset_fetch::encode_response(out, version, std::slice::from_ref(group));
                }
                Response::Dropped(code) => {
                    encode_error(out, version, &RequestBody::empty(api), *code);
                }
                $(#[allow(unreachable_patterns)]
                Response::$api(body) => {
                    of_whole!($names body => $module::encode_response(out, version, body));
                })+
            }
        }

        /// Calls `found` with each code of a shard's response to a request of one group, as a
        /// client reads them in any version; false: that depends on the version.
        #[inline]
        pub fn each_code_of_whole(response: &Response, found: impl FnMut(ErrorCode)) -> bool {
            match response {
                Response::OffsetFetch(_) | Response::Dropped(_) => return false,
                $(#[allow(unreachable_patterns)]
                Response::$api(body) => {
                    of_whole!($names body => $module::each_code(body, found));
                })+
            }
            true
        }
    };
}

with_apis!(bodies);

/// Appends the body of [`error_response`].
pub fn encode_error(
    out: &mut Vec<u8>,
    version: i16,
    request: &RequestBody<'_>,
    error_code: ErrorCode,
) {
    encode_response(out, version, &error_response(request, error_code));
}

/// A topic of OffsetCommit or OffsetFetch: by name, or by id from v10. The other one is empty.
#[inline]
fn decode_topic<'a>(version: i16, body: &mut Reader<'a>) -> Result<(&'a str, Uuid)> {
    Ok(match version {
        ..10 => (body.string("name")?, Uuid::ZERO),
        _ => ("", body.uuid("topic_id")?),
    })
}

#[inline]
fn encode_topic(out: &mut Writer<'_>, version: i16, name: &str, topic_id: Uuid) {
    match version {
        ..10 => out.string(name),
        _ => out.uuid(topic_id),
    }
}

/// The codes of a topic's partitions in a response, which writes partitions with tags.
#[inline(always)]
fn encode_codes(out: &mut Writer<'_>, partitions: &[(i32, ErrorCode)]) {
    out.array_length(partitions.len());
    for &(partition_index, error_code) in partitions {
        out.i32(partition_index);
        out.error_code(error_code);
        out.tags();
    }
}

/// What [`encode_codes`] wrote.
fn decode_codes(body: &mut Reader<'_>) -> Result<Vec<(i32, ErrorCode)>> {
    body.array("partitions", 6, |body| {
        let partition = (body.i32("partition_index")?, body.error_code("error_code")?);
        body.tags()?;
        Ok(partition)
    })
}

/// A message as far as it fits into a string.
fn shorten(message: &str) -> &str {
    let mut end = message.len().min(MAX_STRING_LENGTH);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    &message[..end]
}

/// Group states and types are a closed set, so that responses need not own them.
fn known_word(body: &mut Reader<'_>, field: &'static str) -> Result<&'static str> {
    const WORDS: [&str; 14] = [
        "",
        "Empty",
        "PreparingRebalance",
        "CompletingRebalance",
        "Stable",
        "Dead",
        "Assigning",
        "Reconciling",
        "NotReady",
        "Unknown",
        "classic",
        "consumer",
        "share",
        "streams",
    ];
    let word = body.string(field)?;
    let known = WORDS.into_iter().find(|known| *known == word);
    known.ok_or_else(|| body.error(field, DecodeErrorKind::UnknownValue))
}
