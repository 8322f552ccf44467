//! Records for a log: whole RecordBatches v2 with their CRC, back to back.

use kcoord_core::outbox::Append;
use kcoord_core::record::batch::{BatchHeader, CRC_AT, CRC_FROM};

#[derive(Default)]
pub struct Batches {
    pub bytes: Vec<u8>,
    pub leader_epoch: i32,
}

impl Batches {
    pub fn push(&mut self, append: &Append) {
        let start = self.bytes.len();
        let header =
            BatchHeader { partition_leader_epoch: self.leader_epoch, ..BatchHeader::plain(append) };
        header.encode(&append.records, &mut self.bytes);
        let crc = crc32c::crc32c(&self.bytes[start + CRC_FROM..]);
        self.bytes[start + CRC_AT..start + CRC_FROM].copy_from_slice(&crc.to_be_bytes());
    }
}
