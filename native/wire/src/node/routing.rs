//! Which shard a group lives in: `abs(hashCode(group)) mod n`, as Kafka places it
//! (log-format section 1; `GroupCoordinatorService.partitionFor`).

/// Java's `String.hashCode`: over UTF-16 code units, wrapping.
pub fn java_hash(text: &str) -> i32 {
    if text.is_ascii() {
        return text.bytes().fold(0i32, |hash, unit| step(hash, u16::from(unit)));
    }
    text.encode_utf16().fold(0i32, step)
}

fn step(hash: i32, unit: u16) -> i32 {
    hash.wrapping_mul(31).wrapping_add(i32::from(unit))
}

/// The partition of `__consumer_offsets` that holds `group_id`. `abs(-2^31)` is 0 in Kafka.
pub fn shard_of(group_id: &str, shards: usize) -> usize {
    if shards == 1 {
        return 0;
    }
    let hash = java_hash(group_id);
    let positive = if hash == i32::MIN { 0 } else { hash.unsigned_abs() };
    positive as usize % shards
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of log-format section 1, made with Kafka's own classes.
    #[test]
    fn groups_land_where_kafka_puts_them() {
        for (group, hash, shard) in [
            ("", 0, 0),
            ("g", 103, 3),
            ("test-group", 627841412, 12),
            ("my-group", -1906497762, 12),
            ("console-consumer-12345", 158455506, 6),
            ("группа", 1749938458, 8),
            ("消费组", 28099635, 35),
            ("polygenelubricants", i32::MIN, 0),
        ] {
            assert_eq!(java_hash(group), hash, "{group}");
            assert_eq!(shard_of(group, 50), shard, "{group}");
        }
    }
}
