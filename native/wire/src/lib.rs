//! kcoord-wire: the codec of the group APIs, and nothing else. Kafka's request and response bodies to and from kcoord-core's requests and
//! responses, by a bounds-checked reader. Bytes from the network are untrusted: no count is
//! believed before the bytes are there, and a body is checked whole before anything is applied.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod api;
pub mod header;
pub mod in_steps;
pub mod reader;
pub mod reencode;
mod table;
pub mod writer;

pub use reader::{DecodeError, DecodeErrorKind};
