//! What arrives in a turn: frames are opened and their requests routed to the shards, a batch
//! each. Requests of one group are handled here, those of several in `split.rs`, long ones in
//! `slices.rs`.

mod sliced;
pub mod slices;
mod split;
mod transactions;

use std::sync::Arc;

use kcoord_core::request::{
    OffsetCommitRequest, OffsetCommitTopic, OffsetDeleteRequest, Request, RequestContext, Uuid,
};
use kcoord_core::response::{
    OffsetCommitResponse, OffsetCommitResponseTopic, OffsetDeleteResponse,
    OffsetDeleteResponseTopic, Response,
};
use kcoord_core::{Config, ErrorCode, Shard};

use super::gather::{Gather, Parts, merge};
use super::routing::shard_of;
use super::slots::{Header, Slots};
use super::topics::Topics;
use super::transactions::{Holding, Transactions};
use super::uuids::Uuids;
use super::{Arrived, Frame, Session, Status, Turn};
use kcoord_wire::api::txn_offset_commit::TOPIC_ID_VERSION;
use kcoord_wire::api::{self, RequestBody};
use kcoord_wire::header::{Incoming, RequestHeader, begin_response, open_request};
use slices::Slices;

pub(super) type Batch<'a> = Vec<(RequestContext<'a>, Request<'a>)>;

/// A batch that had room for more requests gives its memory back.
const KEPT_REQUESTS: usize = 256;

/// The memory of batches that were delivered, for the next turn. Nothing is in it by then: a `Vec`
/// that is collected from one of the same layout takes its place.
pub(super) fn emptied<'a>(batches: Vec<Batch<'_>>) -> Vec<Batch<'a>> {
    let empty = |mut batch: Batch<'_>| {
        batch.clear();
        batch.shrink_to(KEPT_REQUESTS);
        batch.into_iter().map(|_| unreachable!("it was cleared")).collect()
    };
    batches.into_iter().map(empty).collect()
}

/// The turn's arrivals on their way to the shards.
pub(super) struct Arrivals<'a, 'n> {
    pub config: &'n Config,
    pub topics: &'a Topics,
    pub slots: &'n mut Slots,
    pub slices: &'n mut Slices,
    pub holding: &'n mut Holding,
    pub uuids: &'n mut Uuids,
    pub status: &'n [Status],
    pub shards: &'n [Shard],
    pub batches: Vec<Batch<'a>>,
    /// Parts answered without their shard, which is loading or led by another node.
    pub early: Vec<(u64, Response)>,
    pub turn: &'n mut Turn,
}

/// One request: where its reply goes, and what its handler gets.
#[derive(Clone, Copy)]
pub(super) struct Arrival<'a> {
    pub header: Header,
    pub context: RequestContext<'a>,
    /// Of the frame that it came in; `None`: it came in none.
    pub session: Option<&'a Arc<Session>>,
}

impl<'a> Arrival<'a> {
    /// A request that came in a frame.
    #[inline(always)]
    fn of(ticket: u64, session: &'a Arc<Session>, request: &RequestHeader<'a>) -> Self {
        let (api, version) = (request.spec.api, request.api_version);
        let context = RequestContext {
            ticket: 0,
            api_version: version,
            client_id: request.client_id.unwrap_or_default(),
            client_host: &session.client_host,
            uuid: 0,
        };
        let header = Header { ticket, correlation_id: request.correlation_id, api, version };
        Arrival { header, context, session: Some(session) }
    }
}

impl<'a> Arrivals<'a, '_> {
    /// Takes one frame; `Err`: it cannot be read, and its connection must go.
    pub fn open(&mut self, frame: &Frame<'a>) -> Result<(), String> {
        let (request, mut body) = match open_request(frame.bytes) {
            Ok(Incoming::Owned(header, body)) => (header, body),
            Ok(Incoming::Foreign { .. }) => {
                self.turn.foreign.push(frame.ticket);
                return Ok(());
            }
            Ok(Incoming::Unsupported { api_key, api_version }) => {
                return Err(format!("API key {api_key} is not served at version {api_version}"));
            }
            Err(error) => return Err(format!("request header: {error}")),
        };
        let (spec, version) = (request.spec, request.api_version);
        let length = frame.bytes.len();
        if length > slices::MAX_FRAME_BYTES
            && let Some(most) = slices::longest_frame_bytes(spec.api)
        {
            return Err(format!("{} of {length} bytes: at most {most} are served", spec.name));
        }
        let arrival = Arrival::of(frame.ticket, frame.session, &request);
        let malformed = |error| slices::unread(&arrival.header, error);
        if length > slices::LONG_FRAME_BYTES
            && self.put_names_aside(arrival, frame.bytes, body.clone()).map_err(malformed)?
        {
            return Ok(());
        }
        let decoded = api::decode_request(spec.api, version, &mut body).map_err(malformed)?;
        self.route(arrival, frame.bytes, decoded);
        Ok(())
    }

    /// Takes one request.
    pub fn take(&mut self, request: Arrived<'a>) {
        let Arrived { ticket, api, api_version, client_id, client_host, body } = request;
        debug_assert!(api.spec().serves(api_version));
        let header = Header { ticket, correlation_id: 0, api, version: api_version };
        let context = RequestContext { ticket: 0, api_version, client_id, client_host, uuid: 0 };
        self.route(Arrival { header, context, session: None }, &[], body);
    }

    /// `frame`: what the body was read from, where a long request may be done in slices.
    fn route(&mut self, mut arrival: Arrival<'a>, frame: &'a [u8], body: RequestBody<'a>) {
        if let Some(code) = self.refused_by_api_layer(arrival.header.version, &body)
            && (self.holding.mode != Transactions::Unserved
                || !arrival.header.api.is_transactional())
        {
            self.reply(&arrival.header, |out, version| {
                api::encode_error(out, version, &body, code);
            });
            return;
        }
        match body {
            RequestBody::Heartbeat(heartbeat) => {
                self.one(arrival, heartbeat.group_id, Request::Heartbeat(heartbeat), None);
            }
            RequestBody::JoinGroup(join) => {
                arrival.context.uuid = self.uuids.next();
                self.one(arrival, join.group_id, Request::JoinGroup(join), None);
            }
            RequestBody::ConsumerGroupHeartbeat(beat) => {
                arrival.context.uuid = self.uuids.next();
                self.one(arrival, beat.group_id, Request::ConsumerGroupHeartbeat(beat), None);
            }
            body @ (RequestBody::TxnOffsetCommit(_) | RequestBody::WriteTxnMarkers(_)) => {
                self.transactional(arrival, frame, body);
            }
            body => {
                let many = match frame {
                    [] => None,
                    _ => slices::many(&body, self.shards),
                };
                match many {
                    Some(entries) => self.put_aside(arrival, frame, body, entries),
                    None => self.whole(arrival, body),
                }
            }
        }
    }

    /// A request that is done in one go.
    #[inline(always)]
    fn whole(&mut self, arrival: Arrival<'a>, body: RequestBody<'a>) {
        match body {
            RequestBody::OffsetCommit(commit) => self.commit(arrival, commit),
            RequestBody::OffsetDelete(delete) => self.delete_offsets(arrival, delete),
            RequestBody::OffsetFetch(groups) => self.fetch(arrival, groups),
            RequestBody::DescribeGroups(describe)
            | RequestBody::ConsumerGroupDescribe(describe) => {
                self.describe(arrival, describe);
            }
            RequestBody::DeleteGroups(delete) => self.delete_groups(arrival, delete),
            RequestBody::ListGroups(list) => self.list(arrival, list),
            body => {
                let found = body.of_one_group();
                let (group_id, request) = found.expect("those of several groups stand above");
                self.one(arrival, group_id, request, None);
            }
        }
    }

    /// What Kafka answers before any group is looked at, for requests of one group: what the
    /// request says of itself first, then that its shard is not served (states.md section 3.1).
    fn refused_by_api_layer(&self, version: i16, body: &RequestBody<'_>) -> Option<ErrorCode> {
        if let RequestBody::SyncGroup(sync) = body {
            let named = sync.protocol_type.is_some() && sync.protocol_name.is_some();
            if version >= 5 && !named {
                return Some(ErrorCode::InconsistentGroupProtocol);
            }
        }
        let group_id = body.group_id()?;
        let unserved = self.unserved(self.shard_of(group_id))?;
        Some(self.refused_unserved(version, group_id, body, unserved))
    }

    /// The core checks these itself where it has the shard; this is for shards that are not here.
    fn refused_unserved(
        &self,
        version: i16,
        group_id: &str,
        body: &RequestBody<'_>,
        unserved: ErrorCode,
    ) -> ErrorCode {
        let loading = unserved == ErrorCode::CoordinatorLoadInProgress;
        let shortest_ms = self.config.group_min_session_timeout_ms;
        let longest_ms = self.config.group_max_session_timeout_ms;
        match body {
            RequestBody::OffsetCommit(_) => unserved,
            RequestBody::ConsumerGroupHeartbeat(beat) => {
                let checked = beat.check(version, &self.config.consumer);
                checked.err().map_or(unserved, |refusal| refusal.error_code)
            }
            _ if group_id.is_empty() => ErrorCode::InvalidGroupId,
            RequestBody::TxnOffsetCommit(_) => transactions::told(version, unserved),
            RequestBody::Heartbeat(_) if loading => ErrorCode::None,
            RequestBody::JoinGroup(join)
                if !(shortest_ms..=longest_ms).contains(&join.session_timeout_ms) =>
            {
                ErrorCode::InvalidSessionTimeout
            }
            _ => unserved,
        }
    }

    /// The error of a request whose shard does not serve.
    pub(super) fn unserved(&self, shard: usize) -> Option<ErrorCode> {
        match self.status[shard] {
            Status { active: true, .. } => None,
            Status { away: true, .. } => Some(ErrorCode::NotCoordinator),
            _ => Some(ErrorCode::CoordinatorLoadInProgress),
        }
    }

    pub(super) fn shard(&self, group_id: &str) -> &Shard {
        &self.shards[self.shard_of(group_id)]
    }

    pub(super) fn shard_of(&self, group_id: &str) -> usize {
        shard_of(group_id, self.batches.len())
    }

    /// Hands one request to the shard of its group.
    pub(super) fn one(
        &mut self,
        mut arrival: Arrival<'a>,
        group_id: &str,
        request: Request<'a>,
        gather: Option<Box<Gather>>,
    ) {
        let shard = self.shard_of(group_id);
        arrival.context.ticket = self.slots.open(arrival.header, shard, gather);
        self.batches[shard].push((arrival.context, request));
    }

    /// Answers at once, without a shard.
    pub(super) fn reply(&mut self, header: &Header, body: impl FnOnce(&mut Vec<u8>, i16)) {
        let out = &mut self.turn.buffer;
        let start = begin_response(out, header.api, header.version, header.correlation_id);
        body(out, header.version);
        self.turn.end_reply(header.ticket, start, None);
    }

    fn commit(&mut self, arrival: Arrival<'a>, mut request: OffsetCommitRequest<'a>) {
        let version = arrival.header.version;
        let mut refused = OffsetCommitResponse { topics: Vec::new() };
        let answered =
            request.topics.iter_mut().map(|t| self.refuse_partitions::<false>(version, t));
        merge(&mut refused.topics, answered.flatten());
        request.topics.retain(|topic| !topic.partitions.is_empty());
        if request.topics.is_empty() {
            return self.reply(&arrival.header, |out, version| {
                api::offset_commit::encode_response(out, version, &refused);
            });
        }
        let whole = refused.topics.is_empty();
        let gather = (!whole).then(|| {
            let shard = self.shard_of(request.group_id) as u32;
            Gather::new(Parts::OffsetCommit(refused), vec![shard])
        });
        self.one(arrival, request.group_id, Request::OffsetCommit(request), gather);
    }

    /// Resolves the topic's name or id, and takes out the partitions that do not exist. `version`: of
    /// TxnOffsetCommit where it is `TRANSACTIONAL`, else of OffsetCommit.
    pub(super) fn refuse_partitions<const TRANSACTIONAL: bool>(
        &self,
        version: i16,
        topic: &mut OffsetCommitTopic<'a>,
    ) -> Option<OffsetCommitResponseTopic> {
        let asked_id = topic.topic_id;
        let by_id = version >= if TRANSACTIONAL { TOPIC_ID_VERSION } else { 10 };
        let code = if by_id {
            let name = self.topics.name_of(topic.topic_id);
            topic.name = name.unwrap_or_default();
            name.map_or(ErrorCode::UnknownTopicId, |_| ErrorCode::UnknownTopicOrPartition)
        } else {
            ErrorCode::UnknownTopicOrPartition
        };
        let mut refused = Vec::new();
        let mut topic_id = Uuid::ZERO;
        topic.partitions.retain(|partition| {
            let index = partition.partition_index;
            let found = match code {
                ErrorCode::UnknownTopicId => None,
                _ => self.topics.id_of(topic.name, index),
            };
            topic_id = found.unwrap_or(topic_id);
            if found.is_none() {
                refused.push((index, code));
            }
            found.is_some()
        });
        topic.topic_id = topic_id;
        (!refused.is_empty()).then(|| OffsetCommitResponseTopic {
            name: topic.name.into(),
            topic_id: asked_id,
            partitions: refused,
        })
    }

    fn delete_offsets(&mut self, arrival: Arrival<'a>, mut request: OffsetDeleteRequest<'a>) {
        let mut refused = OffsetDeleteResponse { error_code: ErrorCode::None, topics: Vec::new() };
        let answered = request.topics.iter_mut().map(|topic| {
            let mut partitions = Vec::new();
            topic.partitions.retain(|index| {
                let exists = self.topics.id_of(topic.name, *index).is_some();
                if !exists {
                    partitions.push((*index, ErrorCode::UnknownTopicOrPartition));
                }
                exists
            });
            let name = topic.name.into();
            (!partitions.is_empty()).then_some(OffsetDeleteResponseTopic { name, partitions })
        });
        merge(&mut refused.topics, answered.flatten());
        request.topics.retain(|topic| !topic.partitions.is_empty());
        let whole = refused.topics.is_empty();
        let gather = (!whole).then(|| {
            let shard = self.shard_of(request.group_id) as u32;
            Gather::new(Parts::OffsetDelete(refused), vec![shard])
        });
        self.one(arrival, request.group_id, Request::OffsetDelete(request), gather);
    }
}

#[cfg(test)]
mod tests {
    use kcoord_core::request::HeartbeatRequest;

    use super::*;

    #[test]
    fn delivered_batches_leave_their_memory_and_nothing_else() {
        let context =
            RequestContext { ticket: 0, api_version: 4, client_id: "", client_host: "", uuid: 0 };
        let beat = HeartbeatRequest {
            group_id: "g",
            generation_id: 1,
            member_id: "m",
            group_instance_id: None,
        };
        let requests = |count| vec![(context, Request::Heartbeat(beat)); count];
        let batches = vec![requests(3), Vec::new(), requests(KEPT_REQUESTS + 1)];
        let (outer, inner) = (batches.as_ptr(), batches[0].as_ptr());
        let empty = emptied(batches);
        assert!(empty.len() == 3 && empty.iter().all(Vec::is_empty));
        assert!(std::ptr::addr_eq(outer, empty.as_ptr()));
        assert!(std::ptr::addr_eq(inner, empty[0].as_ptr()));
        assert!(empty[2].capacity() <= KEPT_REQUESTS);
    }
}
