//! The offset store against a sorted map, and what it costs.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use kcoord_core::offset::{GroupOffsets, GroupScope, OffsetTables};
use kcoord_core::record::{OffsetCommitValue, TransactionResult};
use kcoord_core::request::Uuid;
use proptest::prelude::*;

/// Bytes that this thread holds. Tests run in threads of their own.
struct Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
}

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.set(HELD.get() + layout.size() as isize);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.set(HELD.get() - layout.size() as isize);
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn value(offset: i64) -> OffsetCommitValue<'static> {
    OffsetCommitValue {
        offset,
        leader_epoch: 5,
        metadata: "",
        commit_timestamp: 1_700_000_000_000,
        expire_timestamp: -1,
        topic_id: Uuid(7),
    }
}

/// Bytes per offset of groups with `topics` x `partitions` offsets, tables included.
fn bytes_per_offset(groups: usize, topics: usize, partitions: i32) -> f64 {
    let names: Vec<String> = (0..topics).map(|topic| format!("topic-{topic}")).collect();
    let before = HELD.get();
    let mut tables = OffsetTables::new([1, 2]);
    let mut all: Vec<GroupOffsets> = Vec::with_capacity(groups);
    for _ in 0..groups {
        let mut offsets = GroupOffsets::default();
        let mut scope = GroupScope { group_id: "g", offsets: &mut offsets, tables: &mut tables };
        for partition in 0..partitions {
            for name in &names {
                scope.apply(name, partition, Some(&value(1)), 1, None);
            }
        }
        all.push(offsets);
    }
    let held = HELD.get() - before;
    assert_eq!(tables.committed_count, groups * topics * partitions as usize);
    held as f64 / tables.committed_count as f64
}

#[test]
fn at_most_48_bytes_an_offset() {
    for (topics, partitions) in [(1, 100), (10, 10), (100, 1), (1, 1000), (7, 1000)] {
        let bytes = bytes_per_offset(50, topics, partitions);
        assert!(bytes <= 48.0, "{topics} topics of {partitions} partitions: {bytes:.1} bytes");
    }
    for partitions in 16..300 {
        let bytes = bytes_per_offset(20, 1, partitions);
        assert!(bytes <= 48.0, "{partitions} partitions: {bytes:.1} bytes");
    }
    let alone = bytes_per_offset(1000, 1, 1);
    assert!(alone <= 80.0, "a group of one offset: {alone:.1} bytes, group included");
}

#[test]
fn the_topic_table_forgets() {
    let mut tables = OffsetTables::new([1, 2]);
    let mut offsets = GroupOffsets::default();
    let mut scope = GroupScope { group_id: "g", offsets: &mut offsets, tables: &mut tables };
    let before = HELD.get();
    for round in 0..10_000 {
        let name = format!("topic-{round}");
        scope.apply(&name, 0, Some(&value(1)), round, None);
        scope.apply(&name, 1, Some(&value(1)), round, Some(round));
        assert_eq!(scope.tables.topics.len(), 1);
        scope.apply(&name, 0, None, round, None);
        scope.apply(&name, 1, None, round, None);
        assert!(scope.tables.topics.is_empty() && scope.tables.transactions.is_empty());
    }
    assert_eq!(tables.committed_count, 0);
    assert!(HELD.get() - before < 1000, "{} bytes left", HELD.get() - before);
}

#[test]
fn topic_ids_are_kept_per_offset() {
    let mut tables = OffsetTables::new([1, 2]);
    let mut offsets = GroupOffsets::default();
    let mut scope = GroupScope { group_id: "g", offsets: &mut offsets, tables: &mut tables };
    for round in 0..1000 {
        for partition in 0..3 {
            let topic_id = Uuid(u128::from(partition as u32 % 2) + round);
            let value = OffsetCommitValue { topic_id, ..value(1) };
            scope.apply("t", partition, Some(&value), 1, None);
            let found = scope.offsets.committed(&scope.tables.topics, "t", partition);
            assert_eq!(found.unwrap().topic_id, topic_id);
        }
    }
}

/// What the store must hold, told in the plainest way.
#[derive(Default)]
struct Model {
    committed: BTreeMap<(String, i32), Stored>,
    pending: BTreeMap<i64, BTreeMap<(String, i32), Stored>>,
}

#[derive(Clone, Debug, PartialEq)]
struct Stored {
    offset: i64,
    metadata: String,
    expire_timestamp: i64,
    topic_id: Uuid,
    record_offset: i64,
}

#[derive(Clone, Debug)]
enum Step {
    Commit(u8, i32, Option<i64>, i64, bool, u8),
    Tombstone(u8, i32),
    Marker(i64, bool),
}

impl Model {
    fn apply(&mut self, step: &Step, record_offset: i64) {
        match step {
            Step::Commit(topic, partition, producer_id, offset, extra, id) => {
                let stored = Stored {
                    offset: *offset,
                    metadata: if *extra { format!("m{offset}") } else { String::new() },
                    expire_timestamp: if *extra { *offset } else { -1 },
                    topic_id: Uuid(u128::from(*id)),
                    record_offset,
                };
                let slots = match producer_id {
                    Some(producer_id) => self.pending.entry(*producer_id).or_default(),
                    None => &mut self.committed,
                };
                slots.insert((topic_name(*topic), *partition), stored);
            }
            Step::Tombstone(topic, partition) => {
                let key = (topic_name(*topic), *partition);
                self.committed.remove(&key);
                self.pending.values_mut().for_each(|offsets| drop(offsets.remove(&key)));
                self.pending.retain(|_, offsets| !offsets.is_empty());
            }
            Step::Marker(producer_id, commit) => {
                for (key, stored) in self.pending.remove(producer_id).unwrap_or_default() {
                    let old = self.committed.get(&key).map_or(-1, |old| old.record_offset);
                    if *commit && stored.record_offset > old {
                        self.committed.insert(key, stored);
                    }
                }
            }
        }
    }

    fn topics(&self) -> BTreeSet<&str> {
        let pending = self.pending.values().flat_map(BTreeMap::keys);
        self.committed.keys().chain(pending).map(|(topic, _)| topic.as_str()).collect()
    }
}

fn topic_name(topic: u8) -> String {
    // The order of names is not the order in which they appear.
    format!("t{}", topic.wrapping_mul(37))
}

fn apply(scope: &mut GroupScope<'_>, step: &Step, record_offset: i64) {
    match step {
        Step::Commit(topic, partition, producer_id, offset, extra, id) => {
            let metadata = format!("m{offset}");
            let value = OffsetCommitValue {
                metadata: if *extra { &metadata } else { "" },
                expire_timestamp: if *extra { *offset } else { -1 },
                topic_id: Uuid(u128::from(*id)),
                ..value(*offset)
            };
            let name = topic_name(*topic);
            scope.apply(&name, *partition, Some(&value), record_offset, *producer_id);
        }
        Step::Tombstone(topic, partition) => {
            scope.apply(&topic_name(*topic), *partition, None, record_offset, None);
        }
        Step::Marker(producer_id, commit) => {
            let result = if *commit { TransactionResult::Commit } else { TransactionResult::Abort };
            for group_id in scope.tables.transactions.close(*producer_id) {
                assert_eq!(&*group_id, scope.group_id);
                scope.apply_marker(*producer_id, result);
            }
        }
    }
}

fn check(scope: &GroupScope<'_>, model: &Model) {
    let topics = &scope.tables.topics;
    let found: Vec<_> = scope
        .offsets
        .iter(topics)
        .map(|(topic, partition, committed)| {
            let stored = Stored {
                offset: committed.offset,
                metadata: committed.metadata.into(),
                expire_timestamp: committed.expire_timestamp.unwrap_or(-1),
                topic_id: committed.topic_id,
                record_offset: committed.record_offset,
            };
            ((topic.to_owned(), partition), stored)
        })
        .collect();
    let expected: Vec<_> =
        model.committed.iter().map(|(key, stored)| (key.clone(), stored.clone())).collect();
    assert_eq!(found, expected);
    assert_eq!(scope.offsets.len(), expected.len());
    assert_eq!(scope.offsets.is_empty(), expected.is_empty());
    assert_eq!(scope.tables.committed_count, expected.len());
    assert_eq!(scope.offsets.has_open_transactions(), !model.pending.is_empty());
    let open: Vec<i64> = scope.tables.transactions.iter().map(|(producer, _)| producer).collect();
    assert_eq!(open, model.pending.keys().copied().collect::<Vec<_>>());
    for topic in 0..6 {
        for partition in -3..3 {
            let key = (topic_name(topic), partition);
            let pending = model.pending.values().any(|offsets| offsets.contains_key(&key));
            assert_eq!(scope.offsets.has_pending(topics, &key.0, partition), pending);
        }
    }
    assert_eq!(topics.len(), model.topics().len());
}

fn steps(partitions: core::ops::Range<i32>) -> impl Strategy<Value = Vec<Step>> {
    let producer = prop::option::weighted(0.3, 0..3_i64);
    let step = prop_oneof![
        6 => (0..6_u8, partitions.clone(), producer, 0..99_i64, prop::bool::weighted(0.2), 0..3_u8)
            .prop_map(|(topic, partition, producer, offset, extra, id)| {
                Step::Commit(topic, partition, producer, offset, extra, id)
            }),
        2 => (0..6_u8, partitions).prop_map(|(topic, partition)| Step::Tombstone(topic, partition)),
        1 => (0..4_i64, any::<bool>()).prop_map(|(producer, commit)| Step::Marker(producer, commit)),
    ];
    prop::collection::vec(step, 0..120)
}

proptest! {
    #[test]
    fn equals_a_sorted_map(steps in steps(-3..3)) {
        let mut tables = OffsetTables::new([1, 2]);
        let mut offsets = GroupOffsets::default();
        let mut scope = GroupScope { group_id: "g", offsets: &mut offsets, tables: &mut tables };
        let mut model = Model::default();
        for (record_offset, step) in steps.iter().enumerate() {
            apply(&mut scope, step, record_offset as i64);
            model.apply(step, record_offset as i64);
            check(&scope, &model);
        }
    }

    #[test]
    fn chunks_equal_a_sorted_map(keys in prop::collection::vec((0..3_u8, -400..400), 0..3000)) {
        let mut tables = OffsetTables::new([1, 2]);
        let mut offsets = GroupOffsets::default();
        let mut scope = GroupScope { group_id: "g", offsets: &mut offsets, tables: &mut tables };
        let mut model = Model::default();
        for (index, (topic, partition)) in keys.iter().enumerate() {
            // Filled first, emptied afterwards.
            let step = if index * 3 > keys.len() * 2 && index % 5 != 0 {
                let (topic, partition) = keys[keys.len() - index];
                Step::Tombstone(topic, partition)
            } else {
                Step::Commit(*topic, *partition, None, index as i64, false, 0)
            };
            apply(&mut scope, &step, index as i64);
            model.apply(&step, index as i64);
        }
        check(&scope, &model);
        for (topic, partition) in keys {
            apply(&mut scope, &Step::Tombstone(topic, partition), 0);
        }
        check(&scope, &Model::default());
    }
}
