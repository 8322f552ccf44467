//! `lag-aware`: what is still to be read is spread over the members, and they keep what they have
//! as far as that allows. Not an assignor of Kafka's.
//!
//! The law, for two members and a partition of one that the other subscribes to:
//!
//! 1. a partition with lag could not go there and leave the larger of both members' total lags
//!    smaller by more than a tenth of the mean: a gap as small as that is no reason to interrupt;
//! 2. a partition without lag could not go there and leave the larger number of partitions smaller.

use super::group::{Assignment, Group};
use super::levelling::{Item, Levels};

/// A gap of this part of the mean lag per member is left alone.
const TOLERATED_PART: u128 = 10;

/// Assigns all partitions. `lags`: by partition, in records.
pub fn assign(group: &Group<'_>, lags: &[u64]) -> Assignment {
    assert_eq!(lags.len(), group.partition_count(), "a lag for every partition");
    let capacities = vec![1; group.members().len()];
    let mut levels = Levels::new(group, &capacities);
    let items = |weighs: fn(u64) -> u64, is_lagging: bool| -> Vec<Item> {
        let of = lags.iter().zip(0..).filter(|(lag, _)| (**lag > 0) == is_lagging);
        of.map(|(lag, partition)| Item { weight: weighs(*lag), partition }).collect()
    };
    levels.level(items(|lag| lag, true), 0, tolerance(lags, capacities.len()));
    let lagging = lags.iter().zip(0..).filter(|(lag, _)| **lag > 0);
    levels.count(lagging.map(|(_, partition)| partition));
    levels.level(items(|_| 1, false), 1, 0);
    levels.into_assignment()
}

/// What a gap between two members' lags must exceed for a partition to move.
pub fn tolerance(lags: &[u64], members: usize) -> u128 {
    let total: u128 = lags.iter().map(|lag| u128::from(*lag)).sum();
    total / (TOLERATED_PART * members.max(1) as u128)
}
