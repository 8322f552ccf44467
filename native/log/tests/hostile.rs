//! What a damaged or hostile chunk does to the cleaner: an error, never a panic; and what it does
//! accept and judge, it can read again.

use kcoord_core::record::writer::write_record;
use kcoord_core::record::{Attributes, BatchHeader, Batches};
use kcoord_log::{Cleaner, Options};
use proptest::prelude::*;

const NOW_MS: i64 = 1_000_000;

fn header(base_offset: i64, count: i32, attributes: i16, producer_id: i64) -> BatchHeader {
    BatchHeader {
        base_offset,
        partition_leader_epoch: 0,
        crc: 0,
        attributes: Attributes(attributes),
        last_offset_delta: count.max(1) - 1,
        base_timestamp: 7,
        max_timestamp: 9,
        producer_id,
        producer_epoch: 0,
        base_sequence: 0,
        records_count: count,
    }
}

/// Data, a transaction with its marker, a tombstone, and an empty batch.
fn chunk() -> Vec<u8> {
    let mut out = Vec::new();
    let mut records = Vec::new();
    write_record(&mut records, 0, 0, b"first", Some(b"value"));
    write_record(&mut records, 1, 1, b"second", None);
    header(0, 2, 0, -1).encode(&records, &mut out);
    records.clear();
    write_record(&mut records, 0, 0, b"first", Some(b"later"));
    header(2, 1, 1 << 4, 5).encode(&records, &mut out);
    records.clear();
    write_record(&mut records, 0, 0, &[0, 0, 0, 0], Some(&[0; 6]));
    header(3, 1, 0b11 << 4, 5).encode(&records, &mut out);
    header(4, 0, 0, -1).encode(&[], &mut out);
    records.clear();
    write_record(&mut records, 0, 0, b"first", Some(b"last"));
    header(5, 1, 0, -1).encode(&records, &mut out);
    out
}

fn options() -> Options {
    Options {
        hash_key: [1; 16],
        dedupe_buffer_bytes: 1 << 16,
        now_ms: NOW_MS,
        delete_retention_ms: 10,
    }
}

/// What stays, and the offset from which on it is left as it is.
struct Compacted {
    bytes: Vec<u8>,
    end_offset: i64,
}

/// All three passes; the first error ends them.
fn compact(chunk: &[u8]) -> Result<Compacted, String> {
    let mut cleaner = Cleaner::new(options());
    cleaner.observe(chunk).map_err(|error| error.to_string())?;
    let bound = cleaner.first_undecided_offset().unwrap_or(1 << 40);
    cleaner.start_index(0, bound);
    if cleaner.index(chunk).map_err(|error| error.to_string())? {
        cleaner.finish_index();
    }
    let mut bytes = Vec::new();
    cleaner.clean(chunk, 0, &mut bytes).map_err(|error| error.to_string())?;
    Ok(Compacted { bytes, end_offset: cleaner.end_offset() })
}

fn offsets(chunk: &[u8]) -> Vec<i64> {
    let batches = Batches::new(chunk).map(|batch| batch.expect("a sound batch"));
    batches
        .flat_map(|batch| batch.records().map(|record| record.expect("a sound record").offset))
        .collect()
}

#[test]
fn a_sound_chunk_is_cleaned() {
    let cleaned = compact(&chunk()).expect("it is sound");
    // The tombstone, the marker of the aborted transaction, and the last of the first key.
    assert_eq!(offsets(&cleaned.bytes), [1, 3, 5]);
}

#[test]
fn a_key_that_is_not_indexed_is_kept() {
    let chunk = chunk();
    let mut cleaner = Cleaner::new(options());
    cleaner.observe(&chunk).expect("it is sound");
    cleaner.start_index(0, 0);
    assert!(cleaner.index(&chunk).expect("it is sound"));
    let mut out = Vec::new();
    cleaner.clean(&chunk, 0, &mut out).expect("it is sound");
    assert_eq!(out, chunk);
}

#[test]
fn a_count_without_the_bytes_for_it_is_refused() {
    let mut bytes = chunk();
    // Of the batch that is aborted: no pass needs its records.
    let at = Batches::new(&bytes).nth(1).expect("a batch").expect("a sound one").position;
    bytes[at + 57..at + 61].copy_from_slice(&i32::MAX.to_be_bytes());
    let error = compact(&bytes).err().expect("nobody has seen them");
    assert!(error.ends_with("2147483647 records in 17 bytes"), "{error}");
}

#[test]
fn offsets_that_run_back_are_refused() {
    let mut bytes = chunk();
    let last = Batches::new(&bytes).last().expect("a batch").expect("a sound one").position;
    bytes[last..last + 8].copy_from_slice(&1i64.to_be_bytes());
    let error = compact(&bytes).err().expect("its records would be taken for others");
    assert!(error.ends_with("the batch before it ends at 5"), "{error}");
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = compact(&bytes);
    }

    #[test]
    fn no_change_of_a_sound_chunk_makes_it_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        end in any::<prop::sample::Index>(),
    ) {
        let mut bytes = chunk();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(end.index(bytes.len()) + 1);
        if let Ok(cleaned) = compact(&bytes) {
            for batch in Batches::new(&cleaned.bytes) {
                let batch = batch.expect("what it wrote is sound");
                let is_judged = batch.header.base_offset < cleaned.end_offset;
                prop_assert!(!is_judged || batch.records().all(|record| record.is_ok()));
            }
        }
    }
}
