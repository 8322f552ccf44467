//! A producer that commits offsets of a group in transactions, and the transaction coordinator that
//! ends them: a marker is sent again until it is written. Sometimes the producer dies, and another
//! takes over with a higher epoch: what was open is aborted.

use kcoord_core::ErrorCode;
use kcoord_wire::api::write_txn_markers;
use rand::RngExt;

use super::{Around, Client};
use crate::ask::Body;

#[derive(Debug, Default)]
pub struct Producer {
    epoch: i16,
    is_open: bool,
    /// Whether it is committed, and the epoch of the marker.
    ending: Option<(bool, i16)>,
}

impl Client {
    pub(super) fn transact(&mut self, around: &mut Around<'_>) -> Option<Body> {
        // Since KIP-890 each transaction has an epoch of its own.
        let bumps = self.id.is_multiple_of(2);
        if self.producer.ending.is_none() {
            if !around.is_calm && self.rng.random_ratio(1, 16) {
                self.producer.ending = Some((false, self.producer.epoch + 1));
            } else if self.producer.is_open && self.rng.random_ratio(1, 3) {
                let commits = around.is_calm || self.rng.random_ratio(3, 4);
                self.producer.ending = Some((commits, self.producer.epoch + i16::from(bumps)));
            }
        }
        if let Some((commits, producer_epoch)) = self.producer.ending {
            let transaction_version = if bumps { 2 } else { 0 };
            return Some(Body::EndTransaction { commits, producer_epoch, transaction_version });
        }
        let (topic, partitions) = self.some_partitions(around);
        let offsets = partitions.into_iter().map(|partition| (topic, partition, around.value()));
        self.producer.is_open = true;
        let producer_epoch = self.producer.epoch;
        Some(Body::CommitInTransaction { offsets: offsets.collect(), producer_epoch })
    }

    pub(super) fn learn_of_end(
        &mut self,
        around: &Around<'_>,
        written: &write_txn_markers::Response,
    ) {
        let topics = written.markers.iter().flat_map(|of| &of.topics);
        let mut codes = topics.flat_map(|(_, partitions)| partitions).map(|(_, code)| *code);
        // There are fewer shards than partitions are named.
        let is_done = |code| matches!(code, ErrorCode::None | ErrorCode::UnknownTopicOrPartition);
        if !codes.all(is_done) {
            return;
        }
        if let Some((commits, epoch)) = self.producer.ending.take() {
            self.producer = Producer { epoch, ..Producer::default() };
            if commits {
                self.consumer.committed_ms = around.now_ms;
            }
        }
    }
}
