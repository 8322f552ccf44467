//! Sessions of peers on a timing wheel, and requests that wait for each other in a purgatory.
//!
//! `cargo run -p kcoord-timer --example sessions`

#![allow(clippy::print_stdout)]

use kcoord_timer::{Purgatory, TimerId, TimingWheel};

/// A peer's session. A sign of life moves the deadline; the timer is armed again when it fires.
struct Session {
    name: &'static str,
    deadline_ms: i64,
}

fn main() {
    let mut wheel: TimingWheel<usize> = TimingWheel::new(0);
    let mut sessions =
        [Session { name: "ann", deadline_ms: 100 }, Session { name: "bob", deadline_ms: 100 }];
    let timers: Vec<TimerId> = (0..2).map(|peer| wheel.insert(100, peer)).collect();

    sessions[0].deadline_ms = 180; // ann was heard of: one store, and no timer is touched
    assert_eq!(wheel.next_deadline(), Some(100)); // the host sleeps until then, or until a request
    for now_ms in [100, 180] {
        wheel.advance(now_ms);
        while let Some((_, peer)) = wheel.pop_expired() {
            let session = &sessions[peer];
            if session.deadline_ms > now_ms {
                wheel.insert(session.deadline_ms, peer);
            } else {
                println!("{now_ms} ms: the session of {} has ended", session.name);
            }
        }
    }
    assert!(timers.iter().all(|timer| wheel.cancel(*timer).is_none()), "a stale id is harmless");

    // Two operations wait for all parts of "orders"; one has 50 ms, the other 200.
    let mut parts = 1;
    let mut purgatory: Purgatory<&str, &str> = Purgatory::new(180, [1, 2]);
    purgatory.watch(&["orders"], 230, "in a hurry");
    purgatory.watch(&["orders"], 380, "patient");
    println!("230 ms: time is up for {:?}", purgatory.expire(230));
    parts += 1;
    let complete = purgatory.check_and_complete("orders", |_| parts == 2);
    println!("230 ms: complete: {complete:?}");
}
