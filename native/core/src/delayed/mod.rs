//! Delayed operations: what waits for a condition or for time to run out (timers
//! section 2).
//!
//! Kafka's operations complete themselves in callbacks, under locks. These are plain values: a
//! [`Purgatory`] hands completed and expired ones back, and each operation's file holds its
//! condition and its decision on expiry as functions of a few numbers. Nothing here may change a
//! group: the shard does, with what it was handed.

mod consumer;
mod delayed_heartbeat;
mod delayed_join;
mod delayed_sync;
mod initial_delayed_join;
mod pending_member;

pub use consumer::{
    ClassicJoin, ClassicSync, ConsumerRebalance, ConsumerSession, RegexResolution, TargetStep,
};
pub use delayed_heartbeat::{DelayedHeartbeat, HeartbeatExpiry, MemberLiveness};
pub use delayed_join::{DelayedJoin, JoinExpiry, JoinProgress};
pub use delayed_sync::{DelayedSync, SyncProgress};
pub use initial_delayed_join::{InitialDelayedJoin, InitialJoinExpiry};
pub use pending_member::{PendingExpiry, PendingMember};

/// Every operation that a shard delays, small enough for a timer's payload. `group` and `member`
/// are the shard's own indices; who reuses an index cancels its operations first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelayedOperation {
    /// The first join phase of an empty group may end.
    InitialDelayedJoin(InitialDelayedJoin),
    /// A join phase ends.
    DelayedJoin(DelayedJoin),
    /// Members that have not sent SyncGroup are removed.
    DelayedSync(DelayedSync),
    /// The session of a member of a classic group may be over.
    DelayedHeartbeat(DelayedHeartbeat),
    /// A member id that was given out is forgotten.
    PendingMember(PendingMember),
    /// The session of a member of a consumer group may be over.
    ConsumerSession(ConsumerSession),
    /// A member of a consumer group that does not give up partitions is fenced.
    ConsumerRebalance(ConsumerRebalance),
    /// The regular expressions of a group are resolved.
    RegexResolution(RegexResolution),
    /// The targets of a group go on to be computed, or have taken too long.
    TargetStep(TargetStep),
    /// A classic member of a consumer group has to join again.
    ClassicJoin(ClassicJoin),
    /// A classic member of a consumer group has to sync.
    ClassicSync(ClassicSync),
    /// JoinGroups that are held may be handled.
    HeldJoins,
}

const _: () = assert!(size_of::<DelayedOperation>() <= 12);
