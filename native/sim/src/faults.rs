//! What goes wrong, and when: every fault draws from a stream of its own and counts its strikes,
//! so that a single one can be taken out of a run. A fault decides nothing about what it does.

use std::fmt;

use rand::RngExt;
use rand::distr::Bernoulli;
use rand_xorshift::XorShiftRng;

use crate::plan::{Options, Plan, random};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Fault {
    /// A message takes seconds.
    Delay,
    /// A connection is lost, with what is under way in it.
    Drop,
    /// A sync takes long: much is written meanwhile.
    SlowDisk,
    /// An append fails half way.
    FullDisk,
    /// A sync fails: what of it is on the disk is unknown.
    SyncFails,
    /// The node is lost at once, and with it what was not synced.
    Crash,
    /// The write that a crash interrupts is half there.
    TornWrite,
    /// A bit of what a crash interrupts is wrong.
    FlippedTail,
    /// A bit of what was synced is read wrongly: the log must refuse.
    FlippedRead,
    /// A node is lost while it loads.
    CrashInLoad,
    /// The node does nothing for seconds.
    Pause,
    /// The clock jumps forward.
    ClockJump,
    /// The clock is set back while the node is down.
    ClockBack,
    TopicCreated,
    TopicDeleted,
    TopicGrown,
}

pub const FAULTS: [Fault; 16] = [
    Fault::Delay,
    Fault::Drop,
    Fault::SlowDisk,
    Fault::FullDisk,
    Fault::SyncFails,
    Fault::Crash,
    Fault::TornWrite,
    Fault::FlippedTail,
    Fault::FlippedRead,
    Fault::CrashInLoad,
    Fault::Pause,
    Fault::ClockJump,
    Fault::ClockBack,
    Fault::TopicCreated,
    Fault::TopicDeleted,
    Fault::TopicGrown,
];

impl Fault {
    pub const fn name(self) -> &'static str {
        match self {
            Fault::Delay => "delay",
            Fault::Drop => "drop",
            Fault::SlowDisk => "slow-disk",
            Fault::FullDisk => "full-disk",
            Fault::SyncFails => "sync-fails",
            Fault::Crash => "crash",
            Fault::TornWrite => "torn-write",
            Fault::FlippedTail => "flipped-tail",
            Fault::FlippedRead => "flipped-read",
            Fault::CrashInLoad => "crash-in-load",
            Fault::Pause => "pause",
            Fault::ClockJump => "clock-jump",
            Fault::ClockBack => "clock-back",
            Fault::TopicCreated => "topic-created",
            Fault::TopicDeleted => "topic-deleted",
            Fault::TopicGrown => "topic-grown",
        }
    }

    pub fn from_name(name: &str) -> Option<Fault> {
        FAULTS.into_iter().find(|fault| fault.name() == name)
    }

    /// Mean time between two strikes, in milliseconds, before the seed makes it rarer or more
    /// frequent. For a fault that strikes where something happens: one in so many of those.
    pub const fn interval_ms(self) -> i64 {
        match self {
            Fault::Delay => 100,
            Fault::Drop => 150,
            Fault::SlowDisk => 40,
            Fault::FullDisk | Fault::SyncFails => 250,
            Fault::TornWrite | Fault::FlippedTail => 2,
            Fault::FlippedRead | Fault::CrashInLoad | Fault::ClockBack => 4,
            Fault::Crash => 10_000,
            Fault::Pause => 15_000,
            Fault::ClockJump => 20_000,
            Fault::TopicCreated | Fault::TopicGrown => 12_000,
            Fault::TopicDeleted => 15_000,
        }
    }

    /// Whether it comes with time; the others strike where something happens.
    pub const fn is_timed(self) -> bool {
        matches!(
            self,
            Fault::Crash
                | Fault::Pause
                | Fault::ClockJump
                | Fault::TopicCreated
                | Fault::TopicDeleted
                | Fault::TopicGrown
        )
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

struct Kind {
    rng: XorShiftRng,
    interval_ms: i64,
    /// Whether it strikes where it could, if it is not timed.
    strikes_here: Bernoulli,
    strikes: u32,
}

pub struct Faults {
    kinds: Vec<Kind>,
    skip: Vec<(Fault, u32)>,
    calm: bool,
    /// Strikes that happened.
    pub happened: Vec<(Fault, u32)>,
}

impl Faults {
    pub fn new(plan: &Plan, options: &Options) -> Faults {
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
        Faults {
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
