//! The timing wheel with the work of session timers, and the purgatory over it.

use std::hint::black_box;
use std::rc::Rc;

use kcoord_timer::Purgatory;
use kcoord_timer::{TimerId, TimingWheel};

use crate::work::Work;

const START_MS: i64 = 1_700_000_000_000;
const SPREAD_MS: u64 = 4_000;
const STEP_MS: usize = 10;

/// The size of the shard's delayed operations.
type Payload = [u32; 3];
type Wheel = TimingWheel<Payload>;
/// Its keys are shared with their watchers, as Kafka's are: a key is an object there, and is not
/// copied.
type Keyed = Purgatory<Rc<str>, Payload>;

fn deadlines(count: usize) -> Vec<i64> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let draw = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        START_MS + 1 + ((state >> 33) % SPREAD_MS) as i64
    };
    std::iter::repeat_with(draw).take(count).collect()
}

fn add_all(wheel: &mut Wheel, deadlines: &[i64], ids: &mut Vec<TimerId>) {
    ids.extend(deadlines.iter().map(|deadline_ms| wheel.insert(*deadline_ms, [7; 3])));
}

fn empty_purgatory() -> Keyed {
    Purgatory::new(START_MS, [3, 5])
}

/// Timers with their ids, which an owner keeps to cancel them.
struct Timers {
    deadlines: Vec<i64>,
    wheel: Wheel,
    ids: Vec<TimerId>,
}

impl Timers {
    fn new(count: usize) -> Self {
        let ids = Vec::with_capacity(count);
        Timers { deadlines: deadlines(count), wheel: Wheel::new(START_MS), ids }
    }

    fn clear(&mut self) {
        self.wheel = Wheel::new(START_MS);
        self.ids.clear();
    }

    fn add(&mut self) -> u64 {
        add_all(&mut self.wheel, &self.deadlines, &mut self.ids);
        self.deadlines.len() as u64
    }
}

pub struct Adding(Timers);

impl Adding {
    pub fn new(count: usize) -> Self {
        Adding(Timers::new(count))
    }
}

impl Work for Adding {
    fn prepare(&mut self) {
        self.0.clear();
    }

    fn round(&mut self) -> u64 {
        self.0.add()
    }
}

pub struct Cancelling(Timers);

impl Cancelling {
    pub fn new(count: usize) -> Self {
        Cancelling(Timers::new(count))
    }
}

impl Work for Cancelling {
    fn prepare(&mut self) {
        self.0.clear();
        self.0.add();
    }

    fn round(&mut self) -> u64 {
        let Timers { wheel, ids, .. } = &mut self.0;
        ids.iter().filter(|id| wheel.cancel(**id).is_some()).count() as u64
    }
}

pub struct Expiring(Timers);

impl Expiring {
    pub fn new(count: usize) -> Self {
        Expiring(Timers::new(count))
    }
}

impl Work for Expiring {
    fn prepare(&mut self) {
        self.0.clear();
        self.0.add();
    }

    fn round(&mut self) -> u64 {
        let mut expired = 0;
        for after_ms in (0..=SPREAD_MS as i64).step_by(STEP_MS) {
            self.0.wheel.advance(START_MS + after_ms);
            while let Some(timer) = self.0.wheel.pop_expired() {
                black_box(timer);
                expired += 1;
            }
        }
        assert_eq!(expired, self.0.deadlines.len() as u64);
        expired
    }
}

pub struct Watching {
    keys: Vec<Rc<str>>,
    deadlines: Vec<i64>,
    /// Operations under each key.
    each: usize,
    purgatory: Keyed,
}

impl Watching {
    pub fn new(count: usize, each: usize) -> Self {
        Watching {
            keys: (0..count.div_ceil(each))
                .map(|key| format!("orders-app-{key:07}").into())
                .collect(),
            deadlines: deadlines(count),
            each,
            purgatory: empty_purgatory(),
        }
    }
}

impl Work for Watching {
    /// As Kafka's side: a purgatory of its own for each round, which grows while it is timed.
    fn prepare(&mut self) {
        self.purgatory = empty_purgatory();
    }

    fn round(&mut self) -> u64 {
        for (index, deadline_ms) in self.deadlines.iter().enumerate() {
            let key = &self.keys[index / self.each];
            self.purgatory.watch(std::slice::from_ref(key), *deadline_ms, [7; 3]);
        }
        let mut completed = 0;
        for key in &self.keys {
            let operations = self.purgatory.check_and_complete(key, |_| true);
            completed += black_box(&operations).len();
        }
        assert_eq!(completed, self.deadlines.len());
        completed as u64
    }
}
