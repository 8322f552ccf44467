//! Records of `__consumer_offsets`: keys and values, and the RecordBatch v2 around them.
//!
//! One file per record type, versions inside (log-format sections 2 to 5). Parsing borrows from
//! the bytes of the log, checks every bound, and never panics on what it reads.

pub mod batch;
pub mod consumer;
pub mod control;
pub mod fields;
pub mod group_metadata;
pub mod key;
pub mod live;
pub mod offset_commit;
pub mod reader;
pub mod writer;

pub use batch::{
    Attributes, Batch, BatchHeader, BatchKind, Batches, Plain, Producer, Record, Records,
};
pub use control::TransactionResult;
pub use group_metadata::{GroupMetadataKey, GroupMetadataMember, GroupMetadataValue};
pub use key::{GroupType, OtherKey, RecordKey};
pub use live::{LiveRecords, Rewriting, Run};
pub use offset_commit::{OffsetCommitKey, OffsetCommitValue};
pub use reader::{DecodeError, Reader};
