//! A node from outside: frames in, frames out, over one shard or many, with a log in memory.

mod ask;
mod bounds;
mod deleting;
mod ends;
mod frames;
mod gather;
mod host;
mod in_parts;
mod loading;
mod long_answers;
#[allow(dead_code, reason = "the codec tests need its responses too")]
#[path = "../../../wire/tests/codec/random.rs"]
mod random;
mod shards;
mod slices;
mod sweeps;
mod targets;
mod tickets;
mod topics;
mod transactions;
mod waiting;
