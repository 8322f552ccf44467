//! kcoord-timer: a hierarchical timing wheel, and a purgatory of delayed operations over it.
//!
//! Both are plain values in memory. They read no clock, start no thread and make no calls: the
//! owner moves time with `advance(now_ms)` and takes what is due with `pop_expired()`. Times are
//! milliseconds on any line that the owner chooses and that never runs back.
//!
//! * [`TimingWheel`]: timers with a payload, inserted and cancelled in constant time. For owners
//!   that know where their timers are and keep the [`TimerId`].
//! * [`Purgatory`]: operations that wait for a condition *or* for time to run out, watched under
//!   keys (Kafka's `DelayedOperationPurgatory`). For owners that learn "something about this key
//!   has changed" and do not know what waits for it.
//!
//! The order in which timers come due depends on deadlines and on the order of insertion alone: the
//! same calls give the same results, whatever the hash seed and however often time is moved.
//!
//! `docs/timers.md` says which of the two the group engine uses for what, and compares costs.

#![warn(missing_docs)]

mod purgatory;
pub mod slab;
mod wheel;

pub use purgatory::{Completed, OperationId, PURGE_INTERVAL, Purgatory};
pub use wheel::{TimerId, TimingWheel};
