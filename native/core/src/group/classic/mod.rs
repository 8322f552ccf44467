//! The classic protocol (JoinGroup, SyncGroup, Heartbeat, LeaveGroup): `ClassicGroup` and the
//! classic half of `GroupMetadataManager`, as spec/states.md tells it.

pub mod catalogue_change;
pub mod claims;
pub mod coordinator_assignment;
pub mod expiry;
pub mod heartbeat;
pub mod identity;
pub mod join;
pub mod join_answer;
pub mod leader_check;
pub mod leave;
pub mod member;
pub mod protocol;
pub mod rebalance;
pub mod session;
pub mod state;
pub mod static_member;
pub mod sync;
