//! Random requests and responses of transactional commits.

use kcoord_core::record::{Producer, TransactionResult};
use kcoord_wire::api::write_txn_markers::{self, Markers, Written};

use super::*;

pub fn commits() -> impl Strategy<Value = RequestBody<'static>> {
    (word(), producer(), offset_commit()).prop_map(|(transactional_id, producer, commit)| {
        let commit = OffsetCommitRequest { retention_time_ms: -1, ..commit };
        let request = TxnOffsetCommitRequest { transactional_id, producer, commit };
        RequestBody::TxnOffsetCommit(request)
    })
}

pub fn markers() -> impl Strategy<Value = RequestBody<'static>> {
    let result = select(&[TransactionResult::Commit, TransactionResult::Abort][..]);
    let marker = (producer(), result, any::<i32>(), any::<i8>());
    let topics = some((word(), some(any::<i32>())));
    let markers = (marker, topics).prop_map(|(of, topics)| {
        let (producer, result, coordinator_epoch, transaction_version) = of;
        let marker = TransactionMarker { producer, result, coordinator_epoch, transaction_version };
        Markers { marker, topics }
    });
    some(markers)
        .prop_map(|markers| RequestBody::WriteTxnMarkers(write_txn_markers::Request { markers }))
}

pub fn committed() -> impl Strategy<Value = ResponseBody> {
    let topics = some((boxed(), uuid(), some((any::<i32>(), code()))));
    topics.prop_map(|topics| {
        let topics = topics.into_iter().map(|(name, topic_id, partitions)| {
            OffsetCommitResponseTopic { name, topic_id, partitions }
        });
        ResponseBody::TxnOffsetCommit(OffsetCommitResponse { topics: topics.collect() })
    })
}

pub fn written() -> impl Strategy<Value = ResponseBody> {
    let topics = some((boxed(), some((any::<i32>(), code()))));
    some((any::<i64>(), topics)).prop_map(|markers| {
        let markers = markers.into_iter();
        let written = markers.map(|(producer_id, topics)| Written { producer_id, topics });
        let response = write_txn_markers::Response { markers: written.collect() };
        ResponseBody::WriteTxnMarkers(response)
    })
}

fn producer() -> impl Strategy<Value = Producer> {
    (any::<i64>(), any::<i16>()).prop_map(|(id, epoch)| Producer { id, epoch })
}
