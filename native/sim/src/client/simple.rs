//! A client that is a member of nothing: it commits and fetches offsets of a group of its own.

use rand::RngExt;

use super::{Around, Client};
use crate::ask::Body;

impl Client {
    pub(super) fn use_simply(&mut self, around: &mut Around<'_>) -> Option<Body> {
        let (topic, partitions) = self.some_partitions(around);
        if self.rng.random_ratio(1, 3) {
            let all = self.rng.random_ratio(1, 3);
            let topics = (!all).then(|| vec![(topic, partitions)]);
            return Some(Body::Fetch { topics, other_group: None });
        }
        let offsets = partitions.into_iter().map(|partition| (topic, partition, around.value()));
        let offsets = offsets.collect();
        let retention_ms = if self.rng.random_ratio(1, 4) { 2_000 } else { -1 };
        Some(Body::Commit { offsets, retention_ms, metadata: "" })
    }
}
