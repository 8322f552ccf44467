//! kcoord-cluster: what the nodes of a cluster decide, each for itself: which node leads which
//! shard, who is fenced, and who may answer a read.
//!
//! Inputs go in, [`Action`]s come out. It reads no clock, opens no connection and no file: who
//! drives a [`Node`] says what the store and the other nodes answered, and when by a clock that
//! counts on while the machine sleeps. Only how fast that clock runs matters.
//!
//! # Three things in a shared store
//!
//! * The **cluster log**: numbered entries ([`Entry`]), each put where there is none yet. Who puts
//!   the entry of a number knows all before it, so that there is one order of all changes.
//!   [`View`] is what they amount to.
//! * A **journal** for each [`Incarnation`] of a node: its rounds, numbered. A round holds records
//!   of all shards that the node leads ([`JournalWriter`]).
//! * A **fence** in a journal: a round that another node put at the next free number. The journal
//!   ends there ([`FenceSearch`]); its owner finds the place taken, and stops.
//! * A **floor** of a journal ([`Change::Pruned`]): rounds below it are deleted, once the cluster
//!   log says so. A fence that was found below it, in the gap, stops nobody: it is searched again.
//! * A **snapshot** of the cluster log: what its entries amount to. Those that are in two go.
//!
//! # What holds
//!
//! * What was acknowledged is below the end of a journal, and who leads a shard next has read up
//!   to that end.
//! * A node answers while its last [proof](Lease) is young. Who leads a shard next answers later
//!   than that, wherever the end came by a fence.
//! * A message between nodes can be late, lost or doubled, and a controller can be one of several:
//!   none of that decides anything that the cluster log does not.

#![warn(missing_docs)]

mod action;
mod controller;
mod election;
mod entry;
mod journal;
mod leading;
mod lease;
mod message;
mod node;
mod placement;
mod proposal;
mod pruning;
mod settings;
mod text;
mod trimming;
mod view;

pub use action::{Action, Outcome};
pub use entry::{Change, Entry, Kept, Seat};
pub use journal::{FenceSearch, Found, JournalWriter, Step};
pub use lease::Lease;
pub use message::{Answer, Ask, Released};
pub use node::{Node, Stop};
pub use placement::place;
pub use pruning::Place;
pub use settings::Settings;
pub use text::FormatError;
pub use view::{Stretch, View, ViewError};

/// A process that serves as a node, from its start to its end: a random number. A node that is
/// started again is another incarnation, with a journal of its own.
pub type Incarnation = u64;
/// Kafka's `node.id`.
pub type NodeId = i32;
/// The number of a shard, from 0.
pub type Shard = u32;
/// Counts the leaderships of a shard, from 0; Kafka's leader epoch.
pub type Epoch = i32;
/// Milliseconds of a clock of the machine that counts on while the machine sleeps.
pub type Millis = u64;
