//! The logs of all shards on a disk that tears, flips, fills and forgets: real RecordBatches v2
//! with their CRC. It never acknowledges what is not synced, and never hands out what it cannot
//! prove: recovery follows the rules of the log on a real disk.

use kcoord_core::outbox::Append;
use kcoord_core::record::batch::{BATCH_OVERHEAD, BatchHeader, CRC_AT, CRC_FROM};
use kcoord_log::write_sealed;

/// The length field counts what stands behind it.
const LENGTH_AT: usize = 8;
const LENGTH_END: usize = 12;

/// What stopped recovery before the end of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// Nothing sound behind it: what a crash leaves of a write. Cut off.
    Tail,
    /// Sound batches follow: a log that must be refused.
    Middle,
}

/// One shard's log.
#[derive(Clone, Debug, Default)]
pub struct Log {
    bytes: Vec<u8>,
    /// Bytes and offset up to which a sync has succeeded.
    synced_bytes: usize,
    synced_end: i64,
    /// Bytes and offset up to which whole batches were written.
    written_end: i64,
    /// What the sync under way will have made durable.
    syncing: Option<(usize, i64)>,
}

impl Log {
    /// Everything below is durable.
    pub fn synced_end(&self) -> i64 {
        self.synced_end
    }

    pub fn written_end(&self) -> i64 {
        self.written_end
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn write(&mut self, append: &Append) {
        assert_eq!(append.base_offset, self.written_end, "appends follow each other");
        write_sealed(&BatchHeader::of(append), &append.records, &mut self.bytes);
        self.written_end = append.end_offset();
    }

    /// The disk is full: only the first `kept` bytes of the batch are written.
    pub fn write_torn(&mut self, append: &Append, kept: usize) {
        let (start, end) = (self.bytes.len(), self.written_end);
        self.write(append);
        let whole = self.bytes.len() - start;
        self.bytes.truncate(start + kept % whole);
        self.written_end = end;
    }

    /// False if one is under way, or nothing is to be synced.
    pub fn begin_sync(&mut self) -> bool {
        if self.syncing.is_some() || self.synced_bytes == self.bytes.len() {
            return false;
        }
        self.syncing = Some((self.bytes.len(), self.written_end));
        true
    }

    /// The sync under way is done; the offset up to which everything is durable.
    pub fn end_sync(&mut self) -> i64 {
        let (bytes, end) = self.syncing.take().expect("a sync was under way");
        (self.synced_bytes, self.synced_end) = (bytes, end);
        end
    }

    /// The process is gone, or it has given up: of the bytes that were not synced the first `kept`
    /// are there (all of them if it is `None`), one bit of them possibly wrong.
    pub fn lose(&mut self, kept: Option<usize>, flipped_bit: Option<usize>) {
        self.syncing = None;
        let unsynced = self.bytes.len() - self.synced_bytes;
        if let Some(kept) = kept {
            self.bytes.truncate(self.synced_bytes + kept % (unsynced + 1));
        }
        let Some(bit) = flipped_bit else { return };
        // In what was written last: what came before it was complete when that began.
        let scanned = scan(&self.bytes);
        let last = scanned.starts.last().copied().unwrap_or(0);
        let last = if scanned.sound_bytes < self.bytes.len() { scanned.sound_bytes } else { last };
        let from = last.max(self.synced_bytes);
        if from < self.bytes.len() {
            let bit = bit % ((self.bytes.len() - from) * 8);
            self.bytes[from + bit / 8] ^= 1 << (bit % 8);
        }
    }

    /// A deliberate break: the last batch that was synced is gone.
    pub fn forget_last_batch(&mut self) {
        let starts = scan(&self.bytes[..self.synced_bytes]).starts;
        if let Some(start) = starts.last() {
            self.bytes.truncate(*start);
            self.synced_bytes = *start;
        }
    }

    /// Reads the log back and cuts a torn tail off. With `flipped_bit`, one that is not in the last
    /// batch is read wrongly: `Err`, and nothing is changed.
    pub fn recover(&mut self, flipped_bit: Option<usize>) -> Result<Recovered<'_>, Damage> {
        let scanned = scan(&self.bytes);
        if let (Some(bit), Some(last)) = (flipped_bit, scanned.starts.last())
            && *last > 0
        {
            let bit = bit % (last * 8);
            let mut misread = self.bytes.clone();
            misread[bit / 8] ^= 1 << (bit % 8);
            let read = scan(&misread);
            match read.damage(&misread) {
                Some(damage) => return Err(damage),
                // No CRC covers the leader epoch, and nothing depends on it.
                None => assert!(scanned.is_in_leader_epoch(bit / 8), "bit {bit} is not noticed"),
            }
        }
        let damage = scanned.damage(&self.bytes);
        assert_ne!(damage, Some(Damage::Middle), "a crash damages the tail alone");
        let cut_bytes = self.bytes.len() - scanned.sound_bytes;
        self.bytes.truncate(scanned.sound_bytes);
        // What was read is synced before it is served: it might be only in the page cache.
        self.synced_bytes = self.bytes.len();
        (self.synced_end, self.written_end) = (scanned.next_offset, scanned.next_offset);
        Ok(Recovered { bytes: &self.bytes, next_offset: scanned.next_offset, cut_bytes })
    }
}

/// A log that may be replayed.
pub struct Recovered<'a> {
    pub bytes: &'a [u8],
    pub next_offset: i64,
    pub cut_bytes: usize,
}

struct Scan {
    starts: Vec<usize>,
    sound_bytes: usize,
    next_offset: i64,
}

impl Scan {
    fn is_in_leader_epoch(&self, byte: usize) -> bool {
        let start = self.starts[self.starts.partition_point(|start| *start <= byte) - 1];
        (LENGTH_END..LENGTH_END + 4).contains(&(byte - start))
    }

    fn damage(&self, bytes: &[u8]) -> Option<Damage> {
        if self.sound_bytes == bytes.len() {
            return None;
        }
        let behind = self.sound_bytes + 1..bytes.len();
        let is_followed =
            behind.into_iter().any(|at| sound_batch(&bytes[at..], self.next_offset).is_some());
        Some(if is_followed { Damage::Middle } else { Damage::Tail })
    }
}

/// Batches from the start, as long as they are sound and follow each other.
fn scan(bytes: &[u8]) -> Scan {
    let mut scanned = Scan { starts: Vec::new(), sound_bytes: 0, next_offset: 0 };
    while let Some((base_offset, end_offset, length)) =
        sound_batch(&bytes[scanned.sound_bytes..], scanned.next_offset)
    {
        if base_offset != scanned.next_offset {
            break;
        }
        scanned.starts.push(scanned.sound_bytes);
        scanned.sound_bytes += length;
        scanned.next_offset = end_offset;
    }
    scanned
}

/// Base offset, end offset and length of the batch that begins here, if it is whole and sound.
fn sound_batch(bytes: &[u8], least_offset: i64) -> Option<(i64, i64, usize)> {
    let field = |at: usize| {
        let four: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_be_bytes(four))
    };
    let base_offset = i64::from_be_bytes(bytes.get(..LENGTH_AT)?.try_into().ok()?);
    let length = LENGTH_END + usize::try_from(field(LENGTH_AT)?).ok()?;
    if base_offset < least_offset || length < BATCH_OVERHEAD {
        return None;
    }
    let covered = bytes.get(CRC_FROM..length)?;
    if crc32c::crc32c(covered) != field(CRC_AT)? || bytes[CRC_AT - 1] != 2 {
        return None;
    }
    let last_offset_delta = field(CRC_FROM + 2)?;
    Some((base_offset, base_offset + i64::from(last_offset_delta) + 1, length))
}
