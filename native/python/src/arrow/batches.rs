//! Records for a log: whole RecordBatches v2 with their CRC, back to back.

use kcoord_core::outbox::Append;
use kcoord_core::record::BatchHeader;
use kcoord_log::write_sealed;

#[derive(Default)]
pub struct Batches {
    pub bytes: Vec<u8>,
    pub leader_epoch: i32,
}

impl Batches {
    pub fn push(&mut self, append: &Append) {
        let header =
            BatchHeader { partition_leader_epoch: self.leader_epoch, ..BatchHeader::of(append) };
        write_sealed(&header, &append.records, &mut self.bytes);
    }
}
