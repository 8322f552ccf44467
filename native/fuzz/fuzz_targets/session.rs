//! Frames of any peers into one node, and its log into another.
//! See `entry`, which a bounded run in the suite shares.
#![no_main]

#[path = "../../node/tests/fuzz/entry.rs"]
#[allow(dead_code)]
mod entry;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entry::session(data));
