//! A node from outside: frames in, frames out, over one shard or many, with a log in memory.

mod ask;
mod frames;
mod gather;
mod host;
mod loading;
#[allow(dead_code, reason = "the codec tests need its responses too")]
#[path = "../codec/random.rs"]
mod random;
mod shards;
mod tickets;
mod topics;
