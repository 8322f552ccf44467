//! When faults strike: every fault draws from a stream of its own and counts its strikes, so that a
//! single one can be taken out of a run.

use rand::RngExt;
use rand::distr::Bernoulli;
use rand_xorshift::XorShiftRng;

use crate::faults::{FAULTS, Fault};
use crate::plan::{Options, Plan, random};

struct Kind {
    rng: XorShiftRng,
    interval_ms: i64,
    /// Whether it strikes where it could, if it is not timed.
    strikes_here: Bernoulli,
    strikes: u32,
}

pub struct Strikes {
    kinds: Vec<Kind>,
    skip: Vec<(Fault, u32)>,
    calm: bool,
    /// Strikes that happened.
    pub happened: Vec<(Fault, u32)>,
}

impl Strikes {
    pub fn new(plan: &Plan, options: &Options) -> Strikes {
        let kind = |fault: Fault| {
            let interval_ms = match options.without_faults.contains(&fault) {
                true => 0,
                false => plan.intervals_ms[fault as usize],
            };
            let strikes_here = Bernoulli::from_ratio(1, interval_ms.max(1) as u32);
            Kind {
                rng: random(plan.seed, 100 + fault as u64),
                interval_ms,
                strikes_here: strikes_here.expect("one in some"),
                strikes: 0,
            }
        };
        Strikes {
            kinds: FAULTS.into_iter().map(kind).collect(),
            skip: options.skip.clone(),
            calm: false,
            happened: Vec::new(),
        }
    }

    pub fn stop(&mut self) {
        self.calm = true;
    }

    pub fn is_calm(&self) -> bool {
        self.calm
    }

    /// Whether the fault strikes here.
    pub fn strikes(&mut self, fault: Fault) -> bool {
        let kind = &mut self.kinds[fault as usize];
        if self.calm || kind.interval_ms == 0 {
            return false;
        }
        kind.rng.sample(kind.strikes_here) && self.count(fault)
    }

    /// How long until a timed fault strikes next, in milliseconds.
    pub fn next_in_ms(&mut self, fault: Fault) -> Option<i64> {
        let kind = &mut self.kinds[fault as usize];
        if self.calm || kind.interval_ms == 0 {
            return None;
        }
        Some(kind.rng.random_range(1..=2 * kind.interval_ms))
    }

    /// A timed fault's time has come. False: this strike is taken out of the run.
    pub fn count(&mut self, fault: Fault) -> bool {
        if self.calm {
            return false;
        }
        let strikes = &mut self.kinds[fault as usize].strikes;
        *strikes += 1;
        let strike = (fault, *strikes);
        let happens = !self.skip.contains(&strike);
        if happens {
            self.happened.push(strike);
        }
        happens
    }

    /// How a fault strikes is drawn from the same stream as when.
    pub fn draw(&mut self, fault: Fault, range: std::ops::Range<i64>) -> i64 {
        self.kinds[fault as usize].rng.random_range(range)
    }
}
