//! Records of `__consumer_offsets`: keys and values, and the records area of a RecordBatch v2.

pub mod writer;
