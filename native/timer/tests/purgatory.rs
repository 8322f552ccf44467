//! The purgatory (timers sections 2 and 4).

use kcoord_timer::*;
use proptest::prelude::*;

const SEED: [u64; 2] = [1, 2];

fn purgatory() -> Purgatory<&'static str, u32> {
    Purgatory::new(0, SEED)
}

/// Vector 5.
#[test]
fn completing_through_one_key_leaves_garbage_under_the_other() {
    let mut purgatory = purgatory();
    let id = purgatory.watch(&["a", "b"], 100, 7);
    assert_eq!((purgatory.watched(), purgatory.delayed()), (2, 1));
    assert_eq!(purgatory.check_and_complete("a", |_| false)[..], []);
    assert_eq!(purgatory.check_and_complete("a", |_| true)[..], [7]);
    assert_eq!((purgatory.watched(), purgatory.delayed()), (1, 0));
    assert_eq!(purgatory.operations("b").count(), 0);
    assert_eq!(purgatory.check_and_complete("b", |_| panic!("it has left"))[..], []);
    assert_eq!((purgatory.watched(), purgatory.keys()), (0, 0));
    assert_eq!(purgatory.cancel(id), None);
    assert_eq!(purgatory.expire(1_000), []);
}

#[test]
fn completes_in_the_order_of_watching_and_keeps_the_rest() {
    let mut purgatory = purgatory();
    for operation in [3, 1, 2, 4] {
        purgatory.watch(&["key"], 100 - i64::from(operation), operation);
    }
    let mut tested = Vec::new();
    let completed = purgatory.check_and_complete("key", |operation| {
        tested.push(*operation);
        *operation += 10;
        *operation % 2 == 1
    });
    assert_eq!(tested, [3, 1, 2, 4]);
    assert_eq!(completed[..], [13, 11]);
    let left: Vec<u32> = purgatory.operations("key").map(|(_, operation)| *operation).collect();
    assert_eq!(left, [12, 14]);
    purgatory.watch(&["key"], 99, 5);
    let left: Vec<u32> = purgatory.operations("key").map(|(_, operation)| *operation).collect();
    assert_eq!(left, [12, 14, 5]);
    assert_eq!(purgatory.check_and_complete("other", |_| true)[..], []);
    assert_eq!(purgatory.expire(99), [14, 12, 5]);
}

#[test]
fn expires_once_and_in_order() {
    let mut purgatory = purgatory();
    purgatory.watch(&["a"], 20, 20);
    purgatory.watch(&["a", "b"], 10, 10);
    purgatory.watch(&[], 15, 15);
    assert_eq!(purgatory.next_deadline(), Some(10));
    assert_eq!(purgatory.expire(9), []);
    assert_eq!(purgatory.expire(15), [10, 15]);
    assert_eq!(purgatory.check_and_complete("b", |_| true)[..], []);
    purgatory.advance(20);
    assert_eq!(purgatory.check_and_complete("a", |_| true)[..], [20]);
    assert_eq!(purgatory.pop_expired(), None);
    assert_eq!((purgatory.watched(), purgatory.delayed()), (0, 0));
}

#[test]
fn cancelling_hands_back_what_was_delayed() {
    let mut purgatory = purgatory();
    let first = purgatory.watch(&["a"], 10, 1);
    purgatory.watch(&["a", "b"], 10, 2);
    assert_eq!(purgatory.cancel(first), Some(1));
    assert_eq!(purgatory.cancel(first), None);
    assert_eq!(purgatory.cancel_for_key("a")[..], [2]);
    assert_eq!(purgatory.cancel_for_key("a")[..], []);
    assert_eq!(purgatory.expire(10), []);
    assert_eq!((purgatory.watched(), purgatory.delayed()), (1, 0));
    purgatory.purge();
    assert_eq!(purgatory.watched(), 0);
}

#[test]
fn garbage_is_bounded() {
    let mut purgatory: Purgatory<u32, u32> = Purgatory::new(0, SEED);
    for operation in 0..50_000 {
        purgatory.watch(&[operation, u32::MAX - operation], i64::from(operation), operation);
        assert_eq!(purgatory.check_and_complete(&operation, |_| true)[..], [operation]);
        assert!(purgatory.watched() <= PURGE_INTERVAL + 2);
    }
    for operation in 0..500 {
        purgatory.watch(&[1, 2, 3], 60_000, operation);
    }
    assert_eq!(purgatory.expire(60_000).len(), 500);
    purgatory.advance(60_000);
    assert_eq!(purgatory.watched(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever happens to it, an operation leaves exactly once, and only by a key of its own.
    #[test]
    fn every_operation_leaves_exactly_once(
        steps in prop::collection::vec((0u8..5, 0u8..6, 0u8..6, 0i64..40), 1..300),
    ) {
        let mut purgatory: Purgatory<u8, usize> = Purgatory::new(0, SEED);
        let (mut now_ms, mut watched, mut left) = (0, Vec::new(), Vec::new());
        for (action, first, second, ms) in steps {
            let gone = match action {
                0 | 1 => {
                    let id = purgatory.watch(&[first, second], now_ms + ms, watched.len());
                    watched.push((id, first, second, now_ms + ms));
                    Vec::new()
                }
                2 => {
                    let parity = ms as usize % 2;
                    let gone = purgatory.check_and_complete(&first, |op| *op % 2 == parity).to_vec();
                    for (_, one, other, _) in gone.iter().map(|op| watched[*op]) {
                        prop_assert!([one, other].contains(&first));
                    }
                    gone
                }
                3 => {
                    now_ms += ms;
                    let gone = purgatory.expire(now_ms);
                    prop_assert!(gone.iter().all(|op| watched[*op].3 <= now_ms));
                    gone
                }
                _ => {
                    let id = watched.get(ms as usize).map(|watched| watched.0);
                    id.and_then(|id| purgatory.cancel(id)).into_iter().collect()
                }
            };
            left.extend(gone);
            prop_assert_eq!(purgatory.delayed(), watched.len() - left.len());
prop_assert!(purgatory.watched() >= 2 * purgatory.delayed());
        }
        left.extend(purgatory.expire(i64::MAX));
        left.sort_unstable();
        prop_assert_eq!(left, (0..watched.len()).collect::<Vec<_>>());
        purgatory.purge();
        prop_assert_eq!((purgatory.watched(), purgatory.keys()), (0, 0));
    }
}
