//! WriteTxnMarkers (27): ends transactions on partitions of `__consumer_offsets`, for a transaction
//! coordinator. v1 flexible, v2 the version of transactions.

use kcoord_core::ErrorCode;
use kcoord_core::limits::MAX_ENTRIES_PER_REQUEST;
use kcoord_core::record::{Producer, TransactionResult};
use kcoord_core::request::TransactionMarker;

use super::{decode_codes, encode_codes};
use crate::header::ApiKey;
use crate::reader::{Reader, Result};
use crate::writer::Writer;

const API: ApiKey = ApiKey::WriteTxnMarkers;

/// What a request says.
#[derive(Clone, Debug, Default)]
pub struct Request<'a> {
    /// Each is answered on its own.
    pub markers: Vec<Markers<'a>>,
}

/// One marker, for the partitions of a transaction.
#[derive(Clone, Debug)]
pub struct Markers<'a> {
    /// The same for each partition.
    pub marker: TransactionMarker,
    /// The partitions, by topic.
    pub topics: Vec<(&'a str, Vec<i32>)>,
}

/// What a response says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Response {
    /// As the request's.
    pub markers: Vec<Written>,
}

/// A topic, and its partitions with their results.
pub type WrittenTopic = (Box<str>, Vec<(i32, ErrorCode)>);

/// What came of a marker.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// Whose transaction it ends.
    pub producer_id: i64,
    /// Partitions by topic, each with its result.
    pub topics: Vec<WrittenTopic>,
}

/// Reads the body of a request.
pub fn decode_request<'a>(version: i16, body: &mut Reader<'a>) -> Result<Request<'a>> {
    let mut left = MAX_ENTRIES_PER_REQUEST;
    let markers = body.counted_array("markers", 17, &mut left, |body, left| {
        let producer =
            Producer { id: body.i64("producer_id")?, epoch: body.i16("producer_epoch")? };
        let result = match body.boolean("transaction_result")? {
            true => TransactionResult::Commit,
            false => TransactionResult::Abort,
        };
        let topics = body.counted_array("topics", 3, left, |body, left| {
            let name = body.string("name")?;
            let partitions = body.counted_array("partition_indexes", 4, left, |body, _| {
                body.i32("partition_index")
            })?;
            body.tags()?;
            Ok((name, partitions))
        })?;
        let coordinator_epoch = body.i32("coordinator_epoch")?;
        let transaction_version = if version >= 2 { body.i8("transaction_version")? } else { 0 };
        body.tags()?;
        let marker = TransactionMarker { producer, result, coordinator_epoch, transaction_version };
        Ok(Markers { marker, topics })
    })?;
    body.tags()?;
    Ok(Request { markers })
}

/// Appends the body of a response.
pub fn encode_response(out: &mut Vec<u8>, version: i16, response: &Response) {
    let mut out = Writer::new(out, API.spec().is_flexible(version));
    out.array_length(response.markers.len());
    for written in &response.markers {
        out.i64(written.producer_id);
        out.array_length(written.topics.len());
        for (name, partitions) in &written.topics {
            out.string(name);
            encode_codes(&mut out, partitions);
            out.tags();
        }
        out.tags();
    }
    out.tags();
}

/// Every partition gets the code: there is no other place for it.
pub fn error_response(request: &Request<'_>, error_code: ErrorCode) -> Response {
    let written = |of: &Markers<'_>| {
        let topics = of.topics.iter().map(|(name, partitions)| {
            ((*name).into(), partitions.iter().map(|index| (*index, error_code)).collect())
        });
        Written { producer_id: of.marker.producer.id, topics: topics.collect() }
    };
    Response { markers: request.markers.iter().map(written).collect() }
}

/// Each code of a response.
pub fn each_code(response: &Response, mut found: impl FnMut(ErrorCode)) {
    let topics = response.markers.iter().flat_map(|written| &written.topics);
    topics.flat_map(|(_, partitions)| partitions).for_each(|(_, code)| found(*code));
}

/// Appends the body of a request, as transaction coordinators do.
pub fn encode_request(out: &mut Vec<u8>, version: i16, request: &Request<'_>) {
    let mut out = Writer::new(out, API.spec().is_flexible(version));
    out.array_length(request.markers.len());
    for Markers { marker, topics } in &request.markers {
        out.i64(marker.producer.id);
        out.i16(marker.producer.epoch);
        out.boolean(marker.result == TransactionResult::Commit);
        out.array_length(topics.len());
        for (name, partitions) in topics {
            out.string(name);
            out.array_length(partitions.len());
            partitions.iter().for_each(|index| out.i32(*index));
            out.tags();
        }
        out.i32(marker.coordinator_epoch);
        if version >= 2 {
            out.i8(marker.transaction_version);
        }
        out.tags();
    }
    out.tags();
}

/// Reads the body of a response, as transaction coordinators do.
pub fn decode_response(_version: i16, body: &mut Reader<'_>) -> Result<Response> {
    let markers = body.array("markers", 10, |body| {
        let producer_id = body.i64("producer_id")?;
        let topics = body.array("topics", 3, |body| {
            let name = body.string("name")?.into();
            let partitions = decode_codes(body)?;
            body.tags()?;
            Ok((name, partitions))
        })?;
        body.tags()?;
        Ok(Written { producer_id, topics })
    })?;
    body.tags()?;
    Ok(Response { markers })
}
