//! Subscriptions, assignments and sticky user data.
//! See `entry`, which a bounded run in the suite shares.
#![no_main]

#[path = "../../node/tests/fuzz/entry.rs"]
#[allow(dead_code)]
mod entry;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entry::member_data(data));
