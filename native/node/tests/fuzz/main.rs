//! A bounded, seeded run of what native/fuzz fuzzes without end: sessions, logs and member data
//! that are changed at random, from honest ones. The same seed changes the same bytes.
//!
//! With `FUZZ_CORPUS=DIR` the honest ones are written there, for `cargo fuzz` to begin with.

mod entry;
mod migrations;
mod seeds;

use std::time::{Duration, Instant};

/// Changed inputs a door, whatever the machine; the time only keeps a debug build bearable.
const MOST_RUNS: u64 = 20_000;
const MOST_TIME: Duration = Duration::from_secs(3);

/// Steele, Lea and Flood's SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

/// A copy of `seed` with one to eight changes: bits, numbers at their bounds, pieces that are
/// lost, repeated or taken from `other`.
fn changed(seed: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..1 + random.below(8) {
        let at = random.below(bytes.len());
        let end = (at + 1 + random.below(40)).min(bytes.len());
        match random.below(7) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
            1 if !bytes.is_empty() => bytes[at] = random.next() as u8,
            2 if !bytes.is_empty() => {
                let number = [0, 1, 0x7f, 0x80, 0xff, 0x7fff, -1, i32::MAX, i32::MIN];
                let number: i32 = number[random.below(number.len())];
                for (byte, new) in bytes[at..end].iter_mut().zip(number.to_be_bytes()) {
                    *byte = new;
                }
            }
            3 => bytes.truncate(at),
            4 if at < end => drop(bytes.drain(at..end)),
            5 if at < end => {
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => {
                let from = random.below(other.len());
                let until = (from + random.below(200)).min(other.len());
                bytes.splice(at..at, other[from..until].iter().copied());
            }
        }
    }
    bytes
}

/// Hands every seed and many changes of them to `entry`; returns how many it was.
fn run(name: &str, seeds: &[Vec<u8>], entry: fn(&[u8])) -> u64 {
    if let Some(corpus) = std::env::var_os("FUZZ_CORPUS") {
        let folder = std::path::Path::new(&corpus).join(name);
        std::fs::create_dir_all(&folder).expect("a folder for the corpus");
        for (number, seed) in seeds.iter().enumerate() {
            std::fs::write(folder.join(number.to_string()), seed).expect("a seed");
        }
    }
    seeds.iter().for_each(|seed| entry(seed));
    let started = Instant::now();
    let mut runs = 0;
    while runs < MOST_RUNS && started.elapsed() < MOST_TIME {
        let mut random = Random(runs);
        let (seed, other) = (random.below(seeds.len()), random.below(seeds.len()));
        let bytes = changed(&seeds[seed], &seeds[other], &mut random);
        let result = std::panic::catch_unwind(|| entry(&bytes));
        if let Err(panic) = result {
            let words = panic.downcast_ref::<String>().map_or("", |words| words);
            panic!("run {runs}: {words}\n{bytes:?}");
        }
        runs += 1;
    }
    runs
}

#[test]
fn sessions_of_peers_that_err() {
    let sessions = [seeds::sessions(), migrations::sessions()].concat();
    assert!(run("session", &sessions, entry::session) > 10);
}

#[test]
fn honest_migrations_change_the_kind_of_a_group() {
    let [there, back] = ["consumer", "classic"];
    for session in migrations::sessions() {
        let mut types = entry::play(&session);
        types.dedup();
        assert!(types == [there, back] || types == [back, there, back], "{types:?}");
    }
}

#[test]
fn logs_whose_crcs_are_right_and_whose_records_are_not() {
    assert!(run("log", &seeds::logs(), entry::log) > 10);
}

#[test]
fn member_data_of_any_bytes() {
    assert!(run("member_data", &seeds::member_data(), entry::member_data) > 10);
}
