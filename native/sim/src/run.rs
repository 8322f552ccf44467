//! Seeds: one run, the same run again, and a failing run made as small as it gets.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::breaks::{Break, Invariant, Violation};
use crate::coverage::Coverage;
use crate::faults::{FAULTS, Fault};
use crate::plan::{Options, Plan};
use crate::world::World;

/// What came of a run.
pub struct Outcome {
    pub violation: Option<Violation>,
    pub coverage: Coverage,
    pub hash: u32,
    /// When it ended, in virtual milliseconds.
    pub ended_ms: i64,
    /// Faults that struck.
    pub strikes: Vec<(Fault, u32)>,
    /// If they were asked for.
    pub lines: Vec<String>,
}

/// Seeds of which the second run is compared with the first: one in so many.
const TWICE_EVERY: u64 = 16;

pub fn run(seed: u64, options: &Options) -> Outcome {
    let plan = Plan::new(seed);
    let mut world = World::new(&plan, options);
    let ran = catch_unwind(AssertUnwindSafe(|| world.run()));
    let violation = match ran {
        Ok(checked) => checked.err(),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            let message = text.unwrap_or_else(|| "a panic without words".to_owned());
            Some(Violation { invariant: Invariant::Panic, message })
        }
    };
    Outcome {
        violation,
        hash: world.trace.hash(),
        ended_ms: world.now_ms,
        strikes: std::mem::take(&mut world.faults.happened),
        coverage: std::mem::take(&mut world.coverage),
        lines: world.trace.into_lines(),
    }
}

/// A run, and for some seeds the same again: it must leave the same trace.
pub fn check(seed: u64, options: &Options) -> Outcome {
    let mut outcome = run(seed, options);
    let is_sample = seed.is_multiple_of(TWICE_EVERY);
    if outcome.violation.is_none() && (is_sample || options.broken == Some(Break::OtherEntropy)) {
        let again = run(seed, options);
        if again.hash != outcome.hash {
            let message = format!("the same seed gave {:08x} and {:08x}", outcome.hash, again.hash);
            outcome.violation = Some(Violation { invariant: Invariant::SameTrace, message });
        }
    }
    outcome
}

/// Takes out clients, faults, single strikes and time, as long as the same invariant still fails.
/// Calls `progress` after each attempt.
pub fn shrink(seed: u64, options: &Options, mut progress: impl FnMut(u32)) -> Options {
    let first = check(seed, options);
    let Some(violation) = first.violation else { return options.clone() };
    let mut attempts = 0;
    let mut fails = |smaller: &Options| {
        attempts += 1;
        progress(attempts);
        let outcome = check(seed, smaller);
        outcome.violation.is_some_and(|found| found.invariant == violation.invariant)
    };
    let mut best = options.clone();
    for at_ms in [1_000, 2_000, 5_000, 10_000, 20_000, 40_000] {
        let smaller = Options { calm_at_ms: Some(at_ms), ..best.clone() };
        if best.calm_at_ms.is_none_or(|best_ms| at_ms < best_ms) && fails(&smaller) {
            best = smaller;
            break;
        }
    }
    for fault in FAULTS {
        let mut smaller = best.clone();
        smaller.without_faults.push(fault);
        if !best.without_faults.contains(&fault) && fails(&smaller) {
            best = smaller;
        }
    }
    for client in 0..Plan::new(seed).clients.len() {
        let mut smaller = best.clone();
        smaller.without_clients.push(client);
        if !best.without_clients.contains(&client) && fails(&smaller) {
            best = smaller;
        }
    }
    let mut strikes = check(seed, &best).strikes;
    strikes.reverse();
    for strike in strikes.into_iter().take(400) {
        let mut smaller = best.clone();
        smaller.skip.push(strike);
        if fails(&smaller) {
            best = smaller;
        }
    }
    best
}
