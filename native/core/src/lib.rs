//! kcoord-core: one shard of a Kafka group coordinator, as a deterministic state machine.
//!
//! A shard is one partition of `__consumer_offsets`. It never reads a clock, opens a file or a
//! socket, draws a random number or starts a thread: the host does, and passes in what it got.
//!
//! # The contract
//!
//! 1. **Same inputs, same bytes out.** `now_ms` is an argument everywhere and never runs back;
//!    the member-id UUID comes in with the request; nothing iterates a hash map in hash order.
//! 2. **Decide, emit, apply.** A handler reads state and emits records; durable state (what a
//!    snapshot holds: group metadata of the last record, offsets) changes only in `apply(record)`,
//!    which live requests and replay share. Timers, parked requests and pending joins are soft
//!    state, rebuilt by [`Shard::loaded`]. So are state, generation, protocol and members of a
//!    classic group while it rebalances, as in Kafka: they change when a request is handled, and
//!    the record follows with the leader's SyncGroup, or once a join phase ends without members.
//! 3. **Nothing is revealed before it is durable.** A response that depends on a record is parked
//!    until the host reports its offset committed. Heartbeats and errors leave at once.
//! 4. **A failed append ends the shard.** The host drops it and loads it again; its parked
//!    requests are answered NOT_COORDINATOR. There is no rollback code.
//! 5. **Expiry is an input that yields records**, like a request. Replay reads no clock.
//! 6. **Purgatory without callbacks.** Completing and expiring return delayed operations.
//!    A cancelled timer cannot fire.
//! 7. **Heartbeats are the hot path**: find the member, store a deadline, answer. No allocation,
//!    no wheel operation, no log, no wait. A batch is looked up in stages, so that cache misses
//!    overlap.
//! 8. **Limits on everything** that a client can make grow, each with Kafka's own error code.
//! 9. Two kinds of error: [`ErrorCode`] is a value for the peer, [`ReplayError`] is corrupt data;
//!    a broken invariant is an assertion.

#![warn(missing_docs)]

pub mod assignment_rules;
pub mod assignor;
pub mod budget;
pub mod catalogue;
mod checkpoint;
pub mod config;
pub mod consumer_protocol;
pub mod delayed;
pub mod error;
pub mod event;
mod event_cause;
mod event_member;
pub mod finding;
mod group;
pub mod group_configs;
pub mod inspect;
pub mod java_hash;
mod java_order;
pub mod limits;
pub mod offset;
pub mod outbox;
mod owners;
pub mod record;
pub mod request;
pub mod response;
pub mod shard;
pub mod shared_bytes;
mod shared_map;
pub mod snapshot;
pub mod targets;
mod time;
pub mod topic_partition;
mod utf8;
pub mod views;

pub use catalogue::Catalogue;
pub use config::Config;
pub use error::{ErrorCode, ReplayError};
pub use shard::Shard;
