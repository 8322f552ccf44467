//! TxnOffsetCommit and WriteTxnMarkers on their way to the shards.

use kcoord_core::ErrorCode;
use kcoord_core::request::{Request, TxnOffsetCommitRequest};
use kcoord_core::response::{OffsetCommitResponse, Response};

use super::{Arrival, Arrivals};
use crate::gather::{Gather, Parts, merge};
use crate::transactions::{Held, Transactions, Verification, told_coordinator};
use kcoord_wire::api::txn_offset_commit::ADDS_PARTITION_VERSION;
use kcoord_wire::api::write_txn_markers as markers;
use kcoord_wire::api::{self, RequestBody};
use kcoord_wire::header::{Incoming, open_request};

/// The topic whose partitions are shards.
const OFFSETS_TOPIC: &str = "__consumer_offsets";

/// Below this version COORDINATOR_LOAD_IN_PROGRESS ends a producer.
const LOADING_VERSION: i16 = 2;

/// What a producer of this version is told in the place of an error (offsets section 3).
pub(super) fn told(version: i16, error_code: ErrorCode) -> ErrorCode {
    match error_code {
        ErrorCode::CoordinatorLoadInProgress if version < LOADING_VERSION => {
            ErrorCode::CoordinatorNotAvailable
        }
        error_code => error_code,
    }
}

impl<'a> Arrivals<'a, '_> {
    #[cold]
    pub(super) fn transactional(
        &mut self,
        arrival: Arrival<'a>,
        frame: &'a [u8],
        body: RequestBody<'a>,
    ) {
        let ticket = arrival.header.ticket;
        match body {
            _ if self.holding.mode == Transactions::Unserved => self.turn.foreign.push(ticket),
            RequestBody::TxnOffsetCommit(_)
                if arrival.header.version >= ADDS_PARTITION_VERSION
                    && self.holding.mode == Transactions::Trusted =>
            {
                let reason = "TxnOffsetCommit is served up to version 4 here".to_owned();
                self.turn.invalid.push((ticket, reason));
            }
            RequestBody::TxnOffsetCommit(commit) => self.commit_in(arrival, frame, commit),
            RequestBody::WriteTxnMarkers(request) => self.end(arrival, &request),
            body => unreachable!("{:?} has nothing to do with transactions", body.api()),
        }
    }

    /// Goes on with a request that waited for its transaction coordinator.
    #[cold]
    pub(crate) fn go_on(&mut self, held: &'a Held) {
        let Ok(Incoming::Owned(request, mut body)) = open_request(&held.frame) else {
            unreachable!("it was read before");
        };
        let version = request.api_version;
        let Ok(commit) = api::txn_offset_commit::decode_request(version, &mut body) else {
            unreachable!("it was read before");
        };
        let arrival = Arrival::of(held.ticket, &held.session, &request);
        let unserved = self.unserved(self.shard_of(commit.commit.group_id));
        self.deliver(arrival, commit, unserved.or(held.refused));
    }

    fn commit_in(
        &mut self,
        arrival: Arrival<'a>,
        frame: &'a [u8],
        request: TxnOffsetCommitRequest<'a>,
    ) {
        let shard = self.shard_of(request.commit.group_id);
        let is_asked = self.holding.mode == Transactions::Verified
            && !request.commit.group_id.is_empty()
            && !self.shards[shard].has_open_transaction(request.producer)
            && request.commit.topics.iter().any(|topic| {
                let mut topic = topic.clone();
                self.refuse_partitions::<true>(arrival.header.version, &mut topic);
                !topic.partitions.is_empty()
            });
        let Some(session) = arrival.session.filter(|_| is_asked) else {
            return self.deliver(arrival, request, None);
        };
        if self.shards[shard].has_later_epoch(request.producer) {
            return self.deliver(arrival, request, Some(ErrorCode::InvalidProducerEpoch));
        }
        if !self.holding.has_room(frame.len()) {
            return self.deliver(arrival, request, Some(ErrorCode::CoordinatorLoadInProgress));
        }
        let (ticket, api_version) = (arrival.header.ticket, arrival.header.version);
        self.turn.verifications.push(Verification {
            ticket,
            transactional_id: request.transactional_id.into(),
            producer: request.producer,
            shard,
            adds_partition: api_version >= ADDS_PARTITION_VERSION,
            api_version,
        });
        self.holding.hold(Held {
            ticket,
            session: session.clone(),
            frame: frame.to_vec(),
            shard,
            producer: request.producer,
            refused: None,
        });
    }

    /// Hands a commit to its shard, or answers that it is refused: what does not exist has its own
    /// error in either case.
    fn deliver(
        &mut self,
        arrival: Arrival<'a>,
        mut request: TxnOffsetCommitRequest<'a>,
        refusal: Option<ErrorCode>,
    ) {
        let version = arrival.header.version;
        let topics = &mut request.commit.topics;
        let mut refused = OffsetCommitResponse { topics: Vec::new() };
        let answered =
            topics.iter_mut().map(|topic| self.refuse_partitions::<true>(version, topic));
        merge(&mut refused.topics, answered.flatten());
        topics.retain(|topic| !topic.partitions.is_empty());
        if let Some(code) = refusal {
            let code = told(version, code);
            let of = api::offset_commit::error_response(&request.commit, code);
            merge(&mut refused.topics, of.topics);
        }
        if request.commit.topics.is_empty() || refusal.is_some() {
            return self.reply(&arrival.header, |out, version| {
                api::txn_offset_commit::encode_response(out, version, &refused);
            });
        }
        let group_id = request.commit.group_id;
        let shard = self.shard_of(group_id) as u32;
        let gather = (!refused.topics.is_empty())
            .then(|| Gather::new(Parts::OffsetCommit(refused), vec![shard]));
        self.one(arrival, group_id, Request::TxnOffsetCommit(request), gather);
    }

    /// Each marker goes to the shard of each of its partitions, and is answered on its own.
    fn end(&mut self, arrival: Arrival<'a>, request: &markers::Request<'a>) {
        let mut response = markers::error_response(request, ErrorCode::UnknownTopicOrPartition);
        let mut places = Vec::new();
        let mut reached = Vec::new();
        for (marker, written) in request.markers.iter().zip(&mut response.markers).enumerate() {
            let (of, written) = written;
            for (topic, (name, partitions)) in written.topics.iter_mut().enumerate() {
                if **name != *OFFSETS_TOPIC {
                    continue;
                }
                for (at, (index, code)) in partitions.iter_mut().enumerate() {
                    let shard = usize::try_from(*index).ok();
                    let Some(shard) = shard.filter(|shard| *shard < self.batches.len()) else {
                        continue;
                    };
                    match self.unserved(shard) {
                        Some(unserved) => *code = told_coordinator(unserved),
                        None => {
                            places.push((marker, topic, at));
                            reached.push((shard as u32, of.marker));
                        }
                    }
                }
            }
        }
        if reached.is_empty() {
            return self.reply(&arrival.header, |out, version| {
                markers::encode_response(out, version, &response);
            });
        }
        let parts = Parts::WriteTxnMarkers { response, places };
        let arrival = self.begin_parts(arrival, parts);
        let shards: Vec<u32> = reached.iter().map(|(shard, _)| *shard).collect();
        let first = self.gather(&arrival).grow(shards);
        for (part, (shard, marker)) in (first..).zip(reached) {
            self.holding.outrun(shard as usize, marker.producer);
            let request = Request::WriteTxnMarkers(marker);
            self.part(&arrival.context, part, shard, request, |_, code| {
                Response::WriteTxnMarkers(code)
            });
        }
        self.end_parts(&arrival);
    }
}
