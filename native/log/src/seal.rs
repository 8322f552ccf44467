//! A whole batch, as it stands in a log.

use kcoord_core::record::BatchHeader;
use kcoord_core::record::batch::{BATCH_OVERHEAD, CRC_AT, CRC_FROM};

/// Puts the batch of `header` behind what `out` holds: the header, `records` (encoded records v2,
/// uncompressed, back to back) and the CRC-32C of all from the attributes on (log-format section 4).
pub fn write_sealed(header: &BatchHeader, records: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.reserve(BATCH_OVERHEAD + records.len());
    header.encode(records, out);
    let crc = crc32c::crc32c(&out[start + CRC_FROM..]);
    out[start + CRC_AT..start + CRC_FROM].copy_from_slice(&crc.to_be_bytes());
}
