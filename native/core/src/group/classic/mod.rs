//! The classic protocol (JoinGroup, SyncGroup, Heartbeat, LeaveGroup): `ClassicGroup` and the
//! classic half of `GroupMetadataManager`, as `docs/spec/states.md` tells it.

pub mod catalogue_change;
pub mod claims;
pub mod consistency;
pub mod coordinator_assignment;
pub mod ending;
pub mod expiry;
pub mod group;
pub mod heartbeat;
pub mod identity;
pub mod join;
pub mod join_answer;
pub mod leader_check;
pub mod leave;
pub mod member;
pub mod members;
pub mod metadata;
pub mod offsets;
pub mod packed;
pub mod parking;
pub mod protocol;
pub mod rebalance;
pub mod roster;
pub mod session;
pub mod state;
pub mod static_member;
pub mod storm;
pub mod subscription;
pub mod sync;
pub mod view;
