//! kcoord-log: batches as they stand in a log ([`write_sealed`]), and the pure half of the log's
//! compaction: Kafka's cleaner without its files.
//!
//! Bytes in, bytes out: whole, uncompressed RecordBatches v2 (log-format section 7). It reads no
//! clock, opens no file and interprets no record: a key is its bytes, whatever its type. Input is
//! bounds-checked; what cannot be read is an error, never a panic, and then nothing was cleaned.
//!
//! # One cleaning, three passes over the batches, in order
//!
//! 1. [`Cleaner::observe`]: which transactions were aborted, which are undecided.
//! 2. [`Cleaner::index`] over the dirty part: which record is the last of its key, in bounded memory.
//! 3. [`Cleaner::clean`] over everything below: what stays, batch by batch.

#![warn(missing_docs)]

mod cleaner;
mod key_map;
mod rewrite;
mod seal;
mod transactions;

pub use cleaner::{Cleaner, Options};
pub use key_map::KeyMap;
pub use seal::write_sealed;
