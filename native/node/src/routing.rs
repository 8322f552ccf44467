//! Which shard a group lives in: `abs(hashCode(group)) mod n`, as Kafka places it
//! (log-format section 1; `GroupCoordinatorService.partitionFor`).

use kcoord_core::java_hash::java_hash;

/// The partition of `__consumer_offsets` that holds `group_id`. `abs(-2^31)` is 0 in Kafka.
#[inline]
pub fn shard_of(group_id: &str, shards: usize) -> usize {
    match shards {
        1 => 0,
        _ => shard_of_many(group_id, shards),
    }
}

/// Apart, so that a host of one shard is spared a call.
#[inline(never)]
fn shard_of_many(group_id: &str, shards: usize) -> usize {
    let hash = java_hash(group_id).cast_signed();
    let positive = if hash == i32::MIN { 0 } else { hash.unsigned_abs() };
    (positive % shards as u32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of log-format section 1, made with Kafka's own classes.
    #[test]
    fn groups_land_where_kafka_puts_them() {
        for (group, shard) in [
            ("", 0),
            ("g", 3),
            ("test-group", 12),
            ("my-group", 12),
            ("console-consumer-12345", 6),
            ("группа", 8),
            ("消费组", 35),
            ("polygenelubricants", 0),
        ] {
            assert_eq!(shard_of(group, 50), shard, "{group}");
        }
    }
}
