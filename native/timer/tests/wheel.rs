//! The timing wheel against an ordered map, and the vectors of timers section 4.

use std::collections::BTreeMap;

use kcoord_timer::{TimerId, TimingWheel};
use proptest::prelude::*;

fn drain<T>(wheel: &mut TimingWheel<T>, now_ms: i64) -> Vec<(i64, T)> {
    wheel.advance(now_ms);
    wheel.assert_consistent();
    std::iter::from_fn(|| wheel.pop_expired()).collect()
}

#[derive(Clone, Debug)]
enum Step {
    Insert(i64),
    InsertAfter(i64),
    Cancel(prop::sample::Index),
    Advance(i64),
    AdvanceToNext,
    Pop,
}

/// Distances of every magnitude, and those next to the edges of slots.
fn distance() -> impl Strategy<Value = i64> {
    let near_power = (0u32..62, -2i64..3).prop_map(|(bits, off)| ((1i64 << bits) + off).max(0));
    prop_oneof![3 => 0i64..200, 3 => near_power, 1 => (0u32..63).prop_map(|bits| i64::MAX >> bits)]
}

fn step() -> impl Strategy<Value = Step> {
    let extreme = prop_oneof![Just(i64::MIN), Just(i64::MAX), Just(0), any::<i64>()];
    prop_oneof![
        1 => extreme.prop_map(Step::Insert),
        6 => distance().prop_map(Step::InsertAfter),
        1 => (-300i64..0).prop_map(Step::InsertAfter),
        2 => any::<prop::sample::Index>().prop_map(Step::Cancel),
        2 => (0i64..200).prop_map(Step::Advance),
        1 => distance().prop_map(|ms| Step::Advance(ms >> 20)),
        2 => Just(Step::AdvanceToNext),
        5 => Just(Step::Pop),
    ]
}

/// What a wheel should do: a waiting and a released map, both by deadline and then by insertion.
struct Model {
    wheel: TimingWheel<u64>,
    now_ms: i64,
    inserted: Vec<(i64, TimerId)>,
    waiting: BTreeMap<(i64, u64), TimerId>,
    released: BTreeMap<(i64, u64), TimerId>,
}

impl Model {
    fn new(now_ms: i64) -> Self {
        Model {
            wheel: TimingWheel::new(now_ms),
            now_ms,
            inserted: Vec::new(),
            waiting: BTreeMap::new(),
            released: BTreeMap::new(),
        }
    }

    fn run(&mut self, step: &Step) {
        match step {
            Step::Insert(deadline_ms) => self.insert(*deadline_ms),
            Step::InsertAfter(ms) => self.insert(self.now_ms.saturating_add(*ms)),
            Step::Cancel(index) if !self.inserted.is_empty() => self.cancel(index),
            Step::Cancel(_) => {}
            Step::Advance(ms) => self.advance(self.now_ms.saturating_add(*ms)),
            Step::AdvanceToNext => {
                let next = self.wheel.next_deadline().unwrap_or(self.now_ms);
                self.advance(next.max(self.now_ms));
            }
            Step::Pop => self.pop(),
        }
        self.check();
    }

    fn insert(&mut self, deadline_ms: i64) {
        let sequence = self.inserted.len() as u64;
        let id = self.wheel.insert(deadline_ms, sequence);
        self.waiting.insert((deadline_ms, sequence), id);
        self.inserted.push((deadline_ms, id));
    }

    fn cancel(&mut self, index: &prop::sample::Index) {
        let sequence = index.index(self.inserted.len());
        let (deadline_ms, id) = self.inserted[sequence];
        let key = (deadline_ms, sequence as u64);
        let removed = self.waiting.remove(&key).or_else(|| self.released.remove(&key));
        assert_eq!(self.wheel.deadline(id), removed.map(|_| deadline_ms));
        assert_eq!(self.wheel.cancel(id), removed.map(|_| key.1));
        assert_eq!(self.wheel.cancel(id), None);
    }

    fn advance(&mut self, now_ms: i64) {
        self.now_ms = now_ms;
        self.wheel.advance(now_ms);
        let due = self.waiting.keys().copied().take_while(|key| key.0 <= now_ms);
        for key in due.collect::<Vec<_>>() {
            let id = self.waiting.remove(&key).expect("the key was just listed");
            self.released.insert(key, id);
        }
    }

    fn pop(&mut self) {
        let expected = self.released.pop_first().map(|(key, _)| key);
        assert_eq!(self.wheel.pop_expired(), expected);
    }

    fn check(&self) {
        self.wheel.assert_consistent();
        assert_eq!(self.wheel.len(), self.waiting.len() + self.released.len());
        let mut keys = self.waiting.keys().chain(self.released.keys());
        let earliest = self.waiting.keys().chain(self.released.keys()).map(|key| key.0).min();
        match (self.wheel.next_deadline(), earliest) {
            (None, None) => assert!(keys.next().is_none()),
            (Some(next), Some(earliest)) if earliest > self.now_ms => {
                assert!(self.now_ms < next && next <= earliest);
            }
            (Some(next), Some(_)) => assert!(next <= self.now_ms),
            (next, earliest) => panic!("{next:?} but the earliest is {earliest:?}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn behaves_like_an_ordered_map(
        start in prop_oneof![Just(0), Just(1_700_000_000_000), any::<i64>()],
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let mut model = Model::new(start);
        steps.iter().for_each(|step| model.run(step));
        model.advance(i64::MAX);
        (0..=model.released.len()).for_each(|_| model.pop());
        prop_assert!(model.wheel.is_empty());
    }

    #[test]
    fn does_not_depend_on_how_often_it_is_advanced(
        distances in prop::collection::vec(0i64..100_000, 1..100),
        mut stops in prop::collection::vec(0i64..100_000, 0..50),
    ) {
        let (mut once, mut often) = (TimingWheel::new(0), TimingWheel::new(0));
        for (sequence, ms) in distances.iter().enumerate() {
            once.insert(*ms, sequence);
            often.insert(*ms, sequence);
        }
        stops.sort_unstable();
        let mut fired = Vec::new();
        for now_ms in stops.into_iter().chain([100_000]) {
            for (deadline_ms, sequence) in drain(&mut often, now_ms) {
                prop_assert!(deadline_ms <= now_ms);
                fired.push((deadline_ms, sequence));
            }
        }
        prop_assert_eq!(fired, drain(&mut once, 100_000));
    }
}

/// Vector 1 adapted: delays at the edges of levels (64 here, 20 in Kafka) fire at their time.
#[test]
fn fires_at_its_time_and_not_before() {
    for start in [0, 1, 63, 64, 4_095, 1_700_000_000_123] {
        for delay in [1, 2, 19, 20, 62, 63, 64, 65, 127, 128, 399, 400, 4_095, 4_096, 262_144] {
            let mut wheel = TimingWheel::new(start);
            wheel.insert(start + delay, delay);
            assert_eq!(drain(&mut wheel, start + delay - 1), []);
            assert_eq!(wheel.next_deadline(), Some(start + delay));
            assert_eq!(drain(&mut wheel, start + delay), [(start + delay, delay)]);
            assert_eq!(wheel.next_deadline(), None);
        }
    }
}

/// Vector 1, delay 0; a deadline in the past waits for the next advance, even to the same time.
#[test]
fn what_is_due_already_waits_for_the_next_advance() {
    let mut wheel = TimingWheel::new(100);
    wheel.insert(100, "now");
    wheel.insert(40, "past");
    wheel.insert(i64::MIN, "long past");
    assert_eq!(wheel.pop_expired(), None);
    assert!(wheel.next_deadline().is_some_and(|next| next <= 100));
    wheel.advance(100);
    assert_eq!(wheel.pop_expired(), Some((i64::MIN, "long past")));
    wheel.insert(50, "again");
    assert_eq!(wheel.pop_expired(), Some((40, "past")));
    assert_eq!(wheel.pop_expired(), Some((100, "now")));
    assert_eq!(wheel.pop_expired(), None);
    assert_eq!(drain(&mut wheel, 100), [(50, "again")]);
}

/// Vector 2 adapted: timers of one coarse slot fire at their own times.
#[test]
fn timers_of_one_slot_fire_each_at_its_time() {
    let mut wheel = TimingWheel::new(0);
    for deadline_ms in [81, 99, 101] {
        wheel.insert(deadline_ms, ());
    }
    for deadline_ms in [81, 99, 101] {
        assert_eq!(wheel.next_deadline(), Some(deadline_ms));
        assert_eq!(drain(&mut wheel, deadline_ms - 1), []);
        assert_eq!(drain(&mut wheel, deadline_ms), [(deadline_ms, ())]);
    }
}

/// Vector 3.
#[test]
fn a_cancelled_timer_never_fires() {
    let mut wheel = TimingWheel::new(0);
    let id = wheel.insert(450, "gone");
    assert_eq!(wheel.len(), 1);
    assert_eq!(wheel.cancel(id), Some("gone"));
    assert_eq!(wheel.len(), 0);
    assert_eq!(drain(&mut wheel, 1_000), []);
}

#[test]
fn a_due_timer_can_be_cancelled_until_it_is_popped() {
    let mut wheel = TimingWheel::new(0);
    let ids = [10, 10, 20].map(|deadline_ms| wheel.insert(deadline_ms, deadline_ms));
    wheel.advance(50);
    assert_eq!(wheel.pop_expired(), Some((10, 10)));
    assert_eq!(wheel.cancel(ids[0]), None);
    assert_eq!(wheel.cancel(ids[1]), Some(10));
    let late = wheel.insert(5, 5);
    let later = wheel.insert(6, 6);
    assert_eq!(wheel.cancel(late), Some(5));
    assert_eq!(wheel.pop_expired(), Some((20, 20)));
    assert_eq!(wheel.pop_expired(), None);
    assert_eq!(wheel.deadline(later), Some(6));
    assert_eq!(drain(&mut wheel, 50), [(6, 6)]);
}

/// Vector 4: an id that has fired or was cancelled does not reach the entry's next user.
#[test]
fn a_stale_id_cancels_nothing() {
    let mut wheel = TimingWheel::new(0);
    let cancelled = wheel.insert(10, 1);
    wheel.cancel(cancelled);
    let fired = wheel.insert(10, 2);
    drain(&mut wheel, 10);
    let live = wheel.insert(20, 3);
    assert_ne!(cancelled, live);
    for stale in [cancelled, fired, TimerId::NONE, TimerId::from_bits(u64::MAX >> 8)] {
        assert_eq!(wheel.cancel(stale), None);
        assert_eq!(wheel.deadline(stale), None);
    }
    for id in [live, fired, TimerId::NONE] {
        assert_eq!(TimerId::from_bits(id.to_bits()), id);
    }
    assert_eq!(TimerId::NONE.to_bits(), 0);
    assert!(wheel.payloads().eq([&3]));
    assert_eq!(drain(&mut wheel, 20), [(20, 3)]);
}

#[test]
fn the_same_deadline_keeps_the_order_of_insertion_through_cascades() {
    let mut wheel = TimingWheel::new(0);
    let deadline_ms = 3 * 4_096 + 5 * 64 + 7;
    let mut expected = Vec::new();
    for (sequence, now_ms) in [0, 1, 4_096, 3 * 4_096, 3 * 4_096 + 5 * 64].into_iter().enumerate() {
        assert_eq!(drain(&mut wheel, now_ms), []);
        wheel.insert(deadline_ms, sequence);
        expected.push((deadline_ms, sequence));
    }
    assert_eq!(drain(&mut wheel, deadline_ms + 9_999), expected);
}

#[test]
fn far_deadlines_fire_at_the_end_of_time() {
    let mut wheel = TimingWheel::new(i64::MIN);
    wheel.insert(i64::MAX, "max");
    wheel.insert(i64::MAX - 1, "almost");
    wheel.insert(-1, "before zero");
    wheel.insert(0, "zero");
    assert_eq!(drain(&mut wheel, -1), [(-1, "before zero")]);
    assert_eq!(drain(&mut wheel, 0), [(0, "zero")]);
    assert_eq!(drain(&mut wheel, i64::MAX - 2), []);
    assert_eq!(wheel.next_deadline(), Some(i64::MAX - 1));
    assert_eq!(drain(&mut wheel, i64::MAX), [(i64::MAX - 1, "almost"), (i64::MAX, "max")]);
    wheel.insert(i64::MAX, "again");
    assert_eq!(drain(&mut wheel, i64::MAX), [(i64::MAX, "again")]);
}

/// A bound left behind by a cancelled timer costs wake-ups, but only a few.
#[test]
fn waking_at_next_deadline_always_makes_progress() {
    let mut wheel = TimingWheel::new(0);
    let early = wheel.insert(5_000_000_000, "early");
    wheel.insert(5_000_900_000, "late");
    wheel.cancel(early);
    let mut wakes = 0;
    while let Some(next) = wheel.next_deadline() {
        wakes += 1;
        assert!(wakes <= 11, "one per level at most");
        if let [fired] = drain(&mut wheel, next)[..] {
            assert_eq!(fired, (5_000_900_000, "late"));
        }
    }
    assert!(wheel.is_empty());
}

#[test]
#[should_panic(expected = "time ran back")]
fn time_cannot_run_back() {
    TimingWheel::<()>::new(10).advance(9);
}
