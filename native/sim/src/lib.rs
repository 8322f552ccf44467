//! kcoord-sim: a node, its disk, its network and its clients in one thread and in virtual time, all
//! drawn from a seed. It drives what the server drives, by frames, and checks at every step what
//! must hold. Development only: nothing of it is in the package.

#![forbid(unsafe_code)]

use mimalloc::MiMalloc;

/// A request is some twenty small allocations, by its client, the node and the checker together:
/// the system's allocator would take a fifth of a run.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

pub mod agenda;
pub mod ask;
pub mod breaks;
pub mod catalogue;
pub mod checker;
pub mod client;
pub mod coverage;
pub mod disk;
pub mod faults;
pub mod host;
pub mod network;
pub mod plan;
pub mod run;
pub mod strikes;
pub mod tickets;
pub mod trace;
pub mod world;
