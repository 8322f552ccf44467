//! Where partitions end at the least, from what groups of all shards committed.

use super::Node;

impl Node {
    /// For each of `partitions` the highest offset that a group ever committed, as far as the
    /// shards of this node know; 0: none. One look-up of the topic a shard, one of each partition
    /// in those shards that have commits for it.
    pub fn furthest_offsets(&self, topic: &str, partitions: &[i32]) -> Vec<i64> {
        let mut furthest = vec![0; partitions.len()];
        for shard in &self.shards {
            let Some(offsets) = shard.furthest_offsets(topic, partitions) else { continue };
            for (known, offset) in furthest.iter_mut().zip(offsets) {
                *known = offset.max(*known);
            }
        }
        furthest
    }
}
