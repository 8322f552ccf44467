//! The checker can see: each deliberate break makes the invariant fail that it is meant to break,
//! within 1,000 seeds; and unbroken seeds hold, twice with the same trace.

use kcoord_sim::breaks::{BREAKS, Break};
use kcoord_sim::coverage::Coverage;
use kcoord_sim::faults::Fault;
use kcoord_sim::plan::{Options, Plan};
use kcoord_sim::run;

/// Within so many seeds a break must show.
const SEEDS: u64 = 1_000;

fn first_failure(broken: Break) -> Option<(u64, run::Outcome)> {
    let options = Options { broken: Some(broken), ..Options::default() };
    (1..=SEEDS).find_map(|seed| {
        let outcome = run::check(seed, &options);
        outcome.violation.is_some().then_some((seed, outcome))
    })
}

#[test]
fn every_break_is_seen_for_what_it_is() {
    for broken in BREAKS {
        let found = first_failure(broken);
        let (seed, outcome) = found.unwrap_or_else(|| panic!("{} is not seen", broken.name()));
        let violation = outcome.violation.expect("it failed");
        let name = broken.name();
        assert_eq!(violation.invariant, broken.breaks(), "{name}, seed {seed}: {violation:?}");
    }
}

#[test]
fn unbroken_seeds_hold_and_leave_the_same_trace_twice() {
    let mut total = Coverage::default();
    for seed in 1..=24 {
        let [one, two] = [(); 2].map(|()| run::run(seed, &Options::default()));
        assert_eq!(one.violation, None, "seed {seed}");
        assert_eq!((one.hash, one.ended_ms), (two.hash, two.ended_ms), "seed {seed}");
        total.add(&one.coverage);
    }
    for (fault, count) in total.faults() {
        assert!(count > 0, "{fault} never struck");
    }
    assert!(total.requests > 10_000);
}

#[test]
fn a_failing_run_shrinks_to_one_that_fails_alike() {
    let options = Options { broken: Some(Break::ForgetLastBatch), ..Options::default() };
    let (seed, outcome) = first_failure(Break::ForgetLastBatch).expect("it is seen");
    let smallest = run::shrink(seed, &options, |_| {});
    assert!(smallest.without_clients.len() > Plan::new(seed).clients.len() / 2);
    // A crash is what it takes, and little else.
    assert!(smallest.without_faults.len() > 10);
    let is_left = |fault| !smallest.without_faults.contains(&fault);
    assert!(is_left(Fault::Crash) || is_left(Fault::CrashInLoad));
    let again = run::run(seed, &Options { trace: true, ..smallest });
    let kind = |outcome: &run::Outcome| outcome.violation.as_ref().map(|found| found.invariant);
    assert_eq!(kind(&again), kind(&outcome));
    assert!(!again.lines.is_empty());
}
