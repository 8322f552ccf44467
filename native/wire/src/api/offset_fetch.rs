//! OffsetFetch (9): gives committed offsets, of one group or many (v8+), by topic id from v10. v2 null topics and a top-level error, v5 leader epoch, v6 flexible, v7 require
//! stable, v8 several groups (KIP-709), v9 member id and epoch, v10 topics by id instead of name.

use kcoord_core::ErrorCode;
use kcoord_core::limits::MAX_ENTRIES_PER_REQUEST;
use kcoord_core::request::{OffsetFetchRequest, OffsetFetchTopic};
use kcoord_core::response::{
    OffsetFetchPlace, OffsetFetchResponse, OffsetFetchResponseBuilder,
    OffsetFetchResponsePartition, OffsetFetchStep,
};

use super::{decode_topic, encode_topic};
use crate::header::ApiKey;
use crate::in_steps::{InSteps, Spill};
use crate::reader::{DecodeErrorKind, Reader, Result};
use crate::writer::{Writer, varint_bytes};

const API: ApiKey = ApiKey::OffsetFetch;

/// What a request says.
pub type Request<'a> = Vec<OffsetFetchRequest<'a>>;
/// What a response says.
pub type Response = Vec<OffsetFetchResponse>;

/// One request per group: exactly one up to v7.
pub fn decode_request<'a>(
    version: i16,
    body: &mut Reader<'a>,
) -> Result<Vec<OffsetFetchRequest<'a>>> {
    let mut left = MAX_ENTRIES_PER_REQUEST;
    let mut groups = match version {
        ..8 => vec![decode_group(version, body, &mut left)?],
        _ => body.counted_array("groups", 3, &mut left, |body, left| {
            decode_element(version, body, left)
        })?,
    };
    if version >= 7 {
        let require_stable = body.boolean("require_stable")?;
        groups.iter_mut().for_each(|group| group.require_stable = require_stable);
    }
    body.tags()?;
    Ok(groups)
}

/// One of the groups, with its end: the only one up to v7, whose end is the body's.
pub(super) fn decode_element<'a>(
    version: i16,
    body: &mut Reader<'a>,
    left: &mut usize,
) -> Result<OffsetFetchRequest<'a>> {
    let group = decode_group(version, body, left)?;
    decode_group_end(version, body)?;
    Ok(group)
}

/// What comes behind the topics of a group.
pub(super) fn decode_group_end(version: i16, body: &mut Reader<'_>) -> Result<()> {
    if version >= 8 { body.tags() } else { Ok(()) }
}

/// Checks what [`decode_element`] reads, and makes no list of it: what comes before the topics of a
/// group, of which it says the number. [`check_topic`] and [`decode_group_end`] do the rest.
pub(super) fn check_group(version: i16, body: &mut Reader<'_>, left: &mut usize) -> Result<usize> {
    body.string("group_id")?;
    if version >= 9 {
        body.nullable_string("member_id")?;
        body.i32("member_epoch")?;
    }
    let topics = body.counted_length("topics", 3, left)?;
    if version < 2 && topics.is_none() {
        return Err(body.error("topics", DecodeErrorKind::Null));
    }
    Ok(topics.unwrap_or_default())
}

/// Checks one topic of a group.
pub(super) fn check_topic(version: i16, body: &mut Reader<'_>, left: &mut usize) -> Result<()> {
    decode_topic(version, body)?;
    let Some(partitions) = body.counted_length("partition_indexes", 4, left)? else {
        return Err(body.error("partition_indexes", DecodeErrorKind::Null));
    };
    body.skip("partition_index", size_of::<i32>() * partitions)?;
    body.tags()
}

fn decode_group<'a>(
    version: i16,
    body: &mut Reader<'a>,
    left: &mut usize,
) -> Result<OffsetFetchRequest<'a>> {
    let topic = |body: &mut Reader<'a>, left: &mut usize| decode_fetch_topic(version, body, left);
    let group_id = body.string("group_id")?;
    let (member_id, member_epoch) = match version {
        ..9 => (None, -1),
        _ => (body.nullable_string("member_id")?, body.i32("member_epoch")?),
    };
    let topics = match version {
        ..2 => Some(body.counted_array("topics", 3, left, topic)?),
        _ => body.nullable_counted_array("topics", 3, left, topic)?,
    };
    Ok(OffsetFetchRequest { group_id, member_id, member_epoch, topics, require_stable: false })
}

fn decode_fetch_topic<'a>(
    version: i16,
    body: &mut Reader<'a>,
    left: &mut usize,
) -> Result<OffsetFetchTopic<'a>> {
    let (name, topic_id) = decode_topic(version, body)?;
    let partition_indexes =
        body.counted_array("partition_indexes", 4, left, |body, _| body.i32("partition_index"))?;
    body.tags()?;
    Ok(OffsetFetchTopic { name, topic_id, partition_indexes })
}

/// A group's error stands on each of its partitions in v1, which has no other place for it, and
/// at the top (v2-7) or on the group (v8+) without topics later.
///
/// # Panics
/// As [`begin_groups`].
pub fn encode_response(out: &mut Vec<u8>, version: i16, groups: &[OffsetFetchResponse]) {
    begin_groups(out, version, groups.len());
    groups.iter().for_each(|group| encode_group(out, version, group));
    end_groups(out, version);
}

/// What comes before the groups.
///
/// # Panics
/// Below v8, unless there is exactly one group.
pub fn begin_groups(out: &mut Vec<u8>, version: i16, count: usize) {
    let mut out = Writer::new(out, API.spec().is_flexible(version));
    if version >= 3 {
        out.i32(0); // throttle_time_ms
    }
    if version >= 8 {
        return out.array_length(count);
    }
    assert!(count == 1, "{count} groups in a response below v8");
}

/// What comes behind the groups.
pub fn end_groups(out: &mut Vec<u8>, version: i16) {
    Writer::new(out, API.spec().is_flexible(version)).tags();
}

/// Bytes that a group takes at most; not much less.
pub fn group_bytes(group: &OffsetFetchResponse) -> usize {
    32 + group.group_id().len() + group.topics_length()
}

/// One of the groups.
pub fn encode_group(out: &mut Vec<u8>, version: i16, group: &OffsetFetchResponse) {
    let mut out = Writer::new(out, API.spec().is_flexible(version));
    if version < 8 {
        encode_topics(&mut out, version, group);
        if version >= 2 {
            out.error_code(group.error_code());
        }
        return;
    }
    out.string(group.group_id());
    encode_topics(&mut out, version, group);
    out.error_code(group.error_code());
    out.tags();
}

fn encode_topics(out: &mut Writer<'_>, version: i16, group: &OffsetFetchResponse) {
    let failed = group.error_code().is_error();
    if failed && version >= 2 {
        return out.array_length(0);
    }
    out.array_length(group.topic_count());
    for topic in group.topics() {
        encode_topic(out, version, topic.name(), topic.topic_id);
        out.array_length(topic.partitions.len());
        for partition in topic.partitions {
            let error_code = if failed { group.error_code() } else { partition.error_code };
            encode_partition(out, version, &partition, error_code);
        }
        out.tags();
    }
}

#[inline(always)]
fn encode_partition(
    out: &mut Writer<'_>,
    version: i16,
    partition: &OffsetFetchResponsePartition<'_>,
    error_code: ErrorCode,
) {
    out.i32(partition.partition_index);
    out.i64(partition.committed_offset);
    if version >= 5 {
        out.i32(partition.committed_leader_epoch);
    }
    out.string(partition.metadata);
    out.error_code(error_code);
    out.tags();
}

/// A group whose bytes are made some at a time: what [`encode_group`] makes at once.
#[derive(Debug)]
pub struct GroupInSteps {
    version: i16,
    group: OffsetFetchResponse,
    place: OffsetFetchPlace,
    has_begun: bool,
    left: usize,
    spill: Spill,
}

impl GroupInSteps {
    /// All of it.
    pub fn new(version: i16, group: OffsetFetchResponse) -> Self {
        let (place, left) = (OffsetFetchPlace::default(), encoded_bytes(version, &group));
        GroupInSteps { version, group, place, has_begun: false, left, spill: Spill::default() }
    }

    fn encode_next(&mut self, out: &mut Vec<u8>) {
        let GroupInSteps { version, group, place, .. } = self;
        let (version, error_code) = (*version, group.error_code());
        let mut out = Writer::new(out, API.spec().is_flexible(version));
        let shows_topics = version < 2 || !error_code.is_error();
        if !self.has_begun {
            self.has_begun = true;
            if version >= 8 {
                out.string(group.group_id());
            }
            return out.array_length(if shows_topics { group.topic_count() } else { 0 });
        }
        match if shows_topics { group.step(place) } else { None } {
            Some(OffsetFetchStep::Topic(topic)) => {
                encode_topic(&mut out, version, topic.name(), topic.topic_id);
                out.array_length(topic.partitions.len());
                if topic.partitions.len() == 0 {
                    out.tags();
                }
            }
            Some(OffsetFetchStep::Partition(partition, is_last)) => {
                let of_group = error_code.is_error();
                let error_code = if of_group { error_code } else { partition.error_code };
                encode_partition(&mut out, version, &partition, error_code);
                if is_last {
                    out.tags();
                }
            }
            None => {
                if version >= 2 {
                    out.error_code(error_code);
                }
                if version >= 8 {
                    out.tags();
                }
            }
        }
    }
}

impl InSteps for GroupInSteps {
    fn left(&self) -> usize {
        self.left
    }

    fn fill(&mut self, out: &mut Vec<u8>, most: usize) {
        let end = out.len() + most;
        self.left -= most;
        self.spill.fill(out, most);
        while out.len() < end {
            self.encode_next(out);
        }
        self.spill.take(out, end);
    }
}

/// Bytes that [`encode_group`] makes: without a look at each partition, where none has metadata.
fn encoded_bytes(version: i16, group: &OffsetFetchResponse) -> usize {
    let flexible = API.spec().is_flexible(version);
    let tags = usize::from(flexible);
    let count_bytes = |count: usize| if flexible { varint_bytes(count + 1) } else { 4 };
    let string_bytes = |length: usize| length + if flexible { varint_bytes(length + 1) } else { 2 };
    let mut bytes = match version {
        ..2 => 0,
        2..8 => 2,
        _ => string_bytes(group.group_id().len()) + 2 + tags,
    };
    if version >= 2 && group.has_error() {
        return bytes + count_bytes(0);
    }
    bytes += count_bytes(group.topic_count());
    let epoch = if version >= 5 { 4 } else { 0 };
    let row = 4 + 8 + epoch + string_bytes(0) + 2 + tags;
    for topic in group.topics() {
        let name = if version < 10 { string_bytes(topic.name().len()) } else { 16 };
        let count = topic.partitions.len();
        bytes += name + count_bytes(count) + count * row + tags;
        if topic.partitions.have_metadata() {
            let more = |length| string_bytes(length) - string_bytes(0);
            bytes += topic.partitions.map(|of| more(of.metadata.len())).sum::<usize>();
        }
    }
    bytes
}

/// The answer for one group that cannot be served. The partitions asked for are in it for v1's
/// sake; [`encode_response`] leaves them out where the error has a place of its own.
pub fn refused(request: &OffsetFetchRequest<'_>, error_code: ErrorCode) -> OffsetFetchResponse {
    let mut response = OffsetFetchResponseBuilder::new(request.group_id, error_code);
    for topic in request.topics.iter().flatten() {
        let OffsetFetchTopic { name, topic_id, partition_indexes } = topic;
        response.push_absent(name, *topic_id, partition_indexes, error_code);
    }
    response.finish()
}

/// See [`refused`].
pub fn error_response(groups: &[OffsetFetchRequest<'_>], error_code: ErrorCode) -> Response {
    groups.iter().map(|group| refused(group, error_code)).collect()
}

/// Each code of a response.
pub fn each_code(response: &Response, mut found: impl FnMut(ErrorCode)) {
    for group in response {
        found(group.error_code());
        let partitions = group.topics().flat_map(|topic| topic.partitions);
        partitions.for_each(|partition| found(partition.error_code));
    }
}

/// v7+ asks for stable offsets if any of the groups does.
///
/// # Panics
/// Below v8, unless there is exactly one group.
pub fn encode_request(out: &mut Vec<u8>, version: i16, groups: &[OffsetFetchRequest<'_>]) {
    let mut out = Writer::new(out, API.spec().is_flexible(version));
    if version >= 8 {
        out.array_length(groups.len());
        for group in groups {
            encode_asked_group(&mut out, version, group);
            out.tags();
        }
    } else {
        let [group] = groups else { panic!("{} groups in a request below v8", groups.len()) };
        encode_asked_group(&mut out, version, group);
    }
    if version >= 7 {
        out.boolean(groups.iter().any(|group| group.require_stable));
    }
    out.tags();
}

fn encode_asked_group(out: &mut Writer<'_>, version: i16, group: &OffsetFetchRequest<'_>) {
    out.string(group.group_id);
    if version >= 9 {
        out.nullable_string(group.member_id);
        out.i32(group.member_epoch);
    }
    let Some(topics) = &group.topics else { return out.null_array() };
    out.array_length(topics.len());
    for topic in topics {
        encode_topic(out, version, topic.name, topic.topic_id);
        out.array_length(topic.partition_indexes.len());
        for &partition_index in &topic.partition_indexes {
            out.i32(partition_index);
        }
        out.tags();
    }
}

/// One response per group. Below v8 the group id is `""`: the response does not say it.
pub fn decode_response(version: i16, body: &mut Reader<'_>) -> Result<Vec<OffsetFetchResponse>> {
    if version >= 3 {
        body.i32("throttle_time_ms")?;
    }
    let groups = match version {
        ..8 => {
            let mut group = decode_response_topics(version, "", body)?;
            if version >= 2 {
                group.error_code = body.error_code("error_code")?;
            }
            vec![group.finish()]
        }
        _ => body.array("groups", 5, |body| {
            let group_id = body.string("group_id")?;
            let mut group = decode_response_topics(version, group_id, body)?;
            group.error_code = body.error_code("error_code")?;
            body.tags()?;
            Ok(group.finish())
        })?,
    };
    body.tags()?;
    Ok(groups)
}

/// A group's answer, without its error.
fn decode_response_topics<'g>(
    version: i16,
    group_id: &'g str,
    body: &mut Reader<'_>,
) -> Result<OffsetFetchResponseBuilder<'g>> {
    let mut group = OffsetFetchResponseBuilder::new(group_id, ErrorCode::None);
    body.array("topics", 3, |body| {
        let (name, topic_id) = decode_topic(version, body)?;
        let partitions = body.array("partitions", 16, |body| decode_partition(version, body))?;
        body.tags()?;
        group.push_topic(name, topic_id, partitions.into_iter());
        Ok(())
    })?;
    Ok(group)
}

fn decode_partition<'a>(
    version: i16,
    body: &mut Reader<'a>,
) -> Result<OffsetFetchResponsePartition<'a>> {
    let partition = OffsetFetchResponsePartition {
        partition_index: body.i32("partition_index")?,
        committed_offset: body.i64("committed_offset")?,
        committed_leader_epoch: match version {
            ..5 => -1,
            _ => body.i32("committed_leader_epoch")?,
        },
        // Kafka sends "" where it has none, though the schema would allow null.
        metadata: body.nullable_string("metadata")?.unwrap_or_default(),
        error_code: body.error_code("error_code")?,
    };
    body.tags()?;
    Ok(partition)
}
