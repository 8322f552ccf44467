//! The settings of a consumer group: its own, or those of the shard.

use crate::group::Machine;
use crate::group_configs::GroupConfig;

impl Machine {
    pub fn session_timeout_ms_of(&self, group: u32) -> i32 {
        let own = self.own_settings_of(group).session_timeout_ms;
        own.unwrap_or(self.config.consumer.session_timeout_ms)
    }

    pub fn heartbeat_interval_ms_of(&self, group: u32) -> i32 {
        let own = self.own_settings_of(group).heartbeat_interval_ms;
        own.unwrap_or(self.config.consumer.heartbeat_interval_ms)
    }

    pub fn assignment_interval_ms_of(&self, group: u32) -> i32 {
        let own = self.own_settings_of(group).assignment_interval_ms;
        own.unwrap_or(self.config.consumer.assignment_interval_ms)
    }

    fn own_settings_of(&self, group: u32) -> GroupConfig {
        self.group_configs.of(self.group(group).id.as_str())
    }
}
