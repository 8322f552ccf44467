//! TxnOffsetCommit and the markers of WriteTxnMarkers: who may commit in a transaction, and how one
//! ends (offsets section 3). That the transaction exists, and that this partition belongs to it, is
//! the transaction coordinator's to say: the host has asked it.

use crate::error::ErrorCode;
use crate::group::Machine;
use crate::group::watching::Asking;
use crate::limits::check_partitions;
use crate::offset::commit;
use crate::record::{BatchKind, TransactionResult};
use crate::request::{RequestContext, Ticket, TransactionMarker, TxnOffsetCommitRequest};
use crate::response::Response;

/// From this version on clients know GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH here (KIP-1319).
const MEMBER_EPOCH_VERSION: i16 = 6;

impl Machine {
    #[cold]
    pub fn commit_in_transaction(
        &mut self,
        now_ms: i64,
        context: &RequestContext<'_>,
        request: &TxnOffsetCommitRequest<'_>,
    ) {
        let commit = &request.commit;
        let group = match self.admit_in_transaction(now_ms, context.api_version, request) {
            Ok(group) => group,
            Err(error_code) => {
                let of = (commit.group_id, commit.member_id, commit.group_instance_id);
                let asking = Asking::of(context, of.0, of.1, of.2);
                self.tell_refused("TxnOffsetCommit", asking, error_code);
                let response = Response::TxnOffsetCommit(commit::refuse(commit, error_code));
                return self.outbox.respond(context.ticket, response);
            }
        };
        let (start_offset, producer) = (self.outbox.next_offset(), request.producer);
        let of = &mut self.registry.groups[group];
        let mut scope = of.offset_scope(&mut self.offsets);
        let response =
            commit::commit(&mut scope, &self.config, commit, producer, now_ms, &mut self.outbox);
        self.offsets_written(group, start_offset);
        let response = Response::TxnOffsetCommit(response);
        if self.outbox.next_offset() == start_offset {
            return self.outbox.respond(context.ticket, response);
        }
        self.offsets.producers.wrote(producer, now_ms, start_offset);
        self.respond_for_group(group, context.ticket, response);
    }

    /// The end of a producer's transaction, for all groups of the shard. It is written down whether
    /// the producer has pending offsets or not, as in Kafka.
    #[cold]
    pub fn end_transaction(&mut self, now_ms: i64, ticket: Ticket, marker: &TransactionMarker) {
        let producer = marker.producer;
        let admitted = match (producer.id, producer.epoch) {
            (0.., 0..) => self.offsets.producers.admit_marker(now_ms, marker),
            _ => Err(ErrorCode::UnknownServerError),
        };
        if let Err(error_code) = admitted {
            return self.outbox.respond(ticket, Response::WriteTxnMarkers(error_code));
        }
        let (mut key, mut value) = (Vec::with_capacity(4), Vec::with_capacity(6));
        marker.result.encode_key(&mut key);
        TransactionResult::encode_value(marker.coordinator_epoch, &mut value);
        let start_offset = self.outbox.next_offset();
        self.outbox.emit_as(BatchKind::EndMarker(producer), now_ms, &key, Some(&value));
        self.offsets.producers.ended(producer, now_ms, marker.coordinator_epoch);
        self.apply_marker(producer.id, marker.result, start_offset);
        let response = Response::WriteTxnMarkers(ErrorCode::None);
        self.outbox.respond_when_committed(self.outbox.next_offset(), ticket, response);
    }

    /// Ends what a producer has pending, in each group. `start_offset`: of the marker; what the groups
    /// hold then is durable with it.
    pub(in crate::group) fn apply_marker(
        &mut self,
        producer_id: i64,
        result: TransactionResult,
        start_offset: i64,
    ) {
        for group_id in self.offsets.transactions.close(producer_id) {
            let group = self.registry.find(&group_id).expect("open transactions name their groups");
            let of = &mut self.registry.groups[group];
            of.offset_scope(&mut self.offsets).apply_marker(producer_id, result);
            self.offsets_written(group, start_offset);
        }
    }

    /// The group that is committed to, made if it is not there and no member is named. It is asked
    /// before the producer: Kafka finds an old epoch where it writes.
    fn admit_in_transaction(
        &mut self,
        now_ms: i64,
        api_version: i16,
        request: &TxnOffsetCommitRequest<'_>,
    ) -> Result<u32, ErrorCode> {
        let (commit, producer) = (&request.commit, request.producer);
        if commit.group_id.is_empty() {
            return Err(ErrorCode::InvalidGroupId);
        }
        if producer.id < 0 {
            return Err(ErrorCode::InvalidProducerIdMapping);
        }
        check_partitions(commit.topics.iter().map(|topic| topic.partitions.len()).sum())?;
        let knows_codes = api_version >= MEMBER_EPOCH_VERSION;
        let is_there = self.registry.find(commit.group_id).is_some();
        if is_there || commit.generation_id_or_member_epoch >= 0 {
            let group = self.group_to_commit_to(knows_codes, commit)?;
            self.check_is_whole(group)?;
            let admitted = self.admit_transactional_commit(group, commit);
            admitted.map_err(|error_code| match error_code {
                ErrorCode::StaleMemberEpoch if !knows_codes => ErrorCode::IllegalGeneration,
                error_code => error_code,
            })?;
        }
        match producer.epoch {
            0.. => self.offsets.producers.admit(now_ms, producer)?,
            _ => return Err(ErrorCode::InvalidProducerEpoch),
        }
        self.group_to_commit_to(knows_codes, commit)
    }
}
