//! Operations watched under keys, over a timing wheel (Kafka's `DelayedOperationPurgatory`).
//!
//! An operation leaves exactly once: completed through one of its keys, expired, or cancelled. It
//! is then handed back; nothing is called. Under its other keys a stale id stays behind as garbage
//! until that key is checked or the lists are purged.

mod watchers;

use core::hash::Hash;

use ahash::RandomState;
use hashbrown::Equivalent;
use smallvec::SmallVec;

use self::watchers::Watchers;
use crate::wheel::{TimerId, TimingWheel};

/// Kafka's `purgeInterval`: garbage that is tolerated before all lists are purged. More is
/// tolerated while more operations than that are live, so that purging stays O(1) an operation.
pub const PURGE_INTERVAL: usize = 1_000;

/// Names one delayed operation. Stale once the operation has left; a stale id is harmless.
pub type OperationId = TimerId;

/// What left through a key, oldest first: mostly one operation, which needs no allocation.
pub type Completed<O> = SmallVec<[O; 1]>;

/// Operations that wait under keys until they are complete or their time is up.
#[derive(Debug)]
pub struct Purgatory<K, O> {
    wheel: TimingWheel<Delayed<O>>,
    /// Only the purge iterates it; the order does not show in any result.
    watchers: Watchers<K>,
    /// Entries in all of `watchers`, garbage included.
    watched: usize,
    /// Entries in all of `watchers` that belong to a live operation.
    watched_live: usize,
}

#[derive(Debug)]
struct Delayed<O> {
    operation: O,
    key_count: u32,
}

impl<K: Hash + Eq + Clone, O> Purgatory<K, O> {
    /// `hash_seed` guards against chosen keys; no result depends on it.
    pub fn new(now_ms: i64, hash_seed: [u64; 2]) -> Self {
        let [first, second] = hash_seed;
        let state = RandomState::with_seeds(first, second, !first, !second);
        Purgatory {
            wheel: TimingWheel::new(now_ms),
            watchers: Watchers::new(state),
            watched: 0,
            watched_live: 0,
        }
    }

    /// Watches an operation under its keys until `deadline_ms`. Its condition has just been found
    /// not to hold (Kafka's `tryCompleteElseWatch`); without keys only time ends it.
    pub fn watch(&mut self, keys: &[K], deadline_ms: i64, operation: O) -> OperationId {
        let key_count = u32::try_from(keys.len()).expect("an operation has few keys");
        let id = self.wheel.insert(deadline_ms, Delayed { operation, key_count });
        for key in keys {
            self.watchers.push(key, id);
        }
        self.watched += keys.len();
        self.watched_live += keys.len();
        self.purge_if_due();
        id
    }

    /// Tests the operations under `key`, oldest first, and hands back those for which `complete`
    /// says true. It is not called for an operation that has left already.
    pub fn check_and_complete<Q>(
        &mut self,
        key: &Q,
        mut complete: impl FnMut(&mut O) -> bool,
    ) -> Completed<O>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let mut completed = Completed::new();
        self.watched -= self.watchers.retain(key, |id| {
            let Some(delayed) = self.wheel.payload_mut(id) else { return false };
            if !complete(&mut delayed.operation) {
                return true;
            }
            let delayed = self.wheel.cancel(id).expect("the operation was just tested");
            self.watched_live -= delayed.key_count as usize;
            completed.push(delayed.operation);
            false
        });
        completed
    }

    /// Moves time forward; [`pop_expired`](Self::pop_expired) then hands back what has run out.
    /// Panics if time runs back.
    pub fn advance(&mut self, now_ms: i64) {
        self.wheel.advance(now_ms);
        self.purge_if_due();
    }

    /// The next expired operation and its deadline, in the order of [`TimingWheel::pop_expired`].
    pub fn pop_expired(&mut self) -> Option<(i64, O)> {
        let (deadline_ms, delayed) = self.wheel.pop_expired()?;
        self.watched_live -= delayed.key_count as usize;
        Some((deadline_ms, delayed.operation))
    }

    /// Moves time forward and hands back all that has run out.
    pub fn expire(&mut self, now_ms: i64) -> Vec<O> {
        self.advance(now_ms);
        core::iter::from_fn(|| self.pop_expired()).map(|(_, operation)| operation).collect()
    }

    /// When to call `advance` next, as [`TimingWheel::next_deadline`].
    pub fn next_deadline(&self) -> Option<i64> {
        self.wheel.next_deadline()
    }

    /// Takes one operation out. `None` if it has left already.
    pub fn cancel(&mut self, id: OperationId) -> Option<O> {
        let delayed = self.wheel.cancel(id)?;
        self.watched_live -= delayed.key_count as usize;
        Some(delayed.operation)
    }

    /// Takes out all operations under `key`, oldest first, without testing them.
    pub fn cancel_for_key<Q>(&mut self, key: &Q) -> Completed<O>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        self.check_and_complete(key, |_| true)
    }

    /// The live operations under `key`, oldest first.
    pub fn operations<Q>(&self, key: &Q) -> impl Iterator<Item = (OperationId, &O)>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let ids = self.watchers.ids(key);
        ids.filter_map(|id| Some((id, &self.wheel.payload(id)?.operation)))
    }

    /// All live operations, in no useful order: for garbage collectors.
    pub fn all_operations(&self) -> impl Iterator<Item = &O> {
        self.wheel.payloads().map(|delayed| &delayed.operation)
    }

    /// The time of the last `advance`.
    pub fn now_ms(&self) -> i64 {
        self.wheel.now_ms()
    }

    /// Entries in all lists, garbage included (Kafka's gauge PurgatorySize).
    pub fn watched(&self) -> usize {
        self.watched
    }

    /// Keys that have a list.
    pub fn keys(&self) -> usize {
        self.watchers.len()
    }

    /// Live operations (Kafka's gauge NumDelayedOperations).
    pub fn delayed(&self) -> usize {
        self.wheel.len()
    }

    /// Drops what operations that have left have left behind under their other keys.
    pub fn purge(&mut self) {
        self.watchers.retain_all(|id| self.wheel.payload(id).is_some());
        self.watched = self.watched_live;
    }

    fn purge_if_due(&mut self) {
        let garbage = self.watched - self.watched_live;
        if garbage > PURGE_INTERVAL.max(self.watched_live) {
            self.purge();
        }
    }
}
