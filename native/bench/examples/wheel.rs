//! Nanoseconds per operation of the timing wheel beside a `BTreeMap` keyed by (deadline, sequence),
//! for the work of session timers: deadlines within half a minute, inserted in random order.
//!
//! `cargo run --release -p kcoord-bench --example wheel [timers]`

#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::print_stdout)]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

use kcoord_timer::{TimerId, TimingWheel};

const START_MS: i64 = 1_700_000_000_000;
const SPREAD_MS: u64 = 30_000;
const ROUNDS: usize = 5;

/// The size of the shard's delayed operations.
type Payload = [u32; 3];

/// What both are asked to do. Time moves in steps of 10 ms, as a busy host's does.
trait Timers {
    type Id: Copy;
    fn insert(&mut self, deadline_ms: i64, payload: Payload) -> Self::Id;
    fn cancel(&mut self, id: Self::Id) -> Option<Payload>;
    fn expire(&mut self, now_ms: i64) -> usize;
}

impl Timers for TimingWheel<Payload> {
    type Id = TimerId;

    fn insert(&mut self, deadline_ms: i64, payload: Payload) -> TimerId {
        self.insert(deadline_ms, payload)
    }

    fn cancel(&mut self, id: TimerId) -> Option<Payload> {
        self.cancel(id)
    }

    fn expire(&mut self, now_ms: i64) -> usize {
        self.advance(now_ms);
        std::iter::from_fn(|| self.pop_expired()).map(black_box).count()
    }
}

#[derive(Default)]
struct Ordered {
    timers: BTreeMap<(i64, u64), Payload>,
    sequence: u64,
}

impl Timers for Ordered {
    type Id = (i64, u64);

    fn insert(&mut self, deadline_ms: i64, payload: Payload) -> (i64, u64) {
        self.sequence += 1;
        self.timers.insert((deadline_ms, self.sequence), payload);
        (deadline_ms, self.sequence)
    }

    fn cancel(&mut self, id: (i64, u64)) -> Option<Payload> {
        self.timers.remove(&id)
    }

    fn expire(&mut self, now_ms: i64) -> usize {
        let mut count = 0;
        while self.timers.first_key_value().is_some_and(|(key, _)| key.0 <= now_ms) {
            black_box(self.timers.pop_first());
            count += 1;
        }
        count
    }
}

/// The fastest of several rounds, per operation, in nanoseconds: insert, cancel, expire.
fn measure<T: Timers>(new: impl Fn() -> T, deadlines: &[i64]) -> [f64; 3] {
    let mut best = [f64::INFINITY; 3];
    let mut keep = |which: usize, since: Instant| {
        let each = since.elapsed().as_nanos() as f64 / deadlines.len() as f64;
        best[which] = best[which].min(each);
    };
    for _ in 0..ROUNDS {
        let mut timers = new();
        let since = Instant::now();
        let ids: Vec<T::Id> =
            deadlines.iter().map(|deadline_ms| timers.insert(*deadline_ms, [7; 3])).collect();
        keep(0, since);
        let since = Instant::now();
        let cancelled = ids.iter().filter(|id| timers.cancel(**id).is_some()).count();
        keep(1, since);
        assert_eq!(cancelled, deadlines.len());
        for deadline_ms in deadlines {
            timers.insert(*deadline_ms, [7; 3]);
        }
        let since = Instant::now();
        let steps = (0..=SPREAD_MS as i64).step_by(10);
        let expired: usize = steps.map(|ms| timers.expire(START_MS + ms)).sum();
        keep(2, since);
        assert_eq!(expired, deadlines.len());
    }
    best
}

fn main() {
    let count = std::env::args().nth(1).map_or(100_000, |count| count.parse().expect("a number"));
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let deadlines: Vec<i64> = std::iter::repeat_with(|| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        START_MS + 1 + ((state >> 33) % SPREAD_MS) as i64
    })
    .take(count)
    .collect();
    println!("{count} timers, ns each      insert   cancel   expire");
    let wheel = measure(|| TimingWheel::new(START_MS), &deadlines);
    let ordered = measure(Ordered::default, &deadlines);
    for (name, [insert, cancel, expire]) in [("TimingWheel", wheel), ("BTreeMap", ordered)] {
        println!("{name:<24} {insert:>8.1} {cancel:>8.1} {expire:>8.1}");
    }
}
