//! What is set for single consumer groups: told to every shard, and to those that come later.

use std::sync::Arc;

use kcoord_core::group_configs::GroupConfigs;

use crate::Node;

impl Node {
    /// All of it, at each change. It counts from a member's next heartbeat on.
    pub fn set_group_configs(&mut self, configs: GroupConfigs) {
        self.group_configs = Arc::new(configs);
        for shard in &mut self.shards {
            shard.handle_group_configs(&self.group_configs);
        }
    }
}
