//! How long assignors take for the rows of docs/assignors.md, and how many bytes a partition they
//! hold at most beside their input, the result included: members, partitions and topics, all members with the same subscription or each with a
//! random half of the topics; from nothing, or with one member more than owns everything.
//!
//! The last column is a checksum of all lists in their order, to be compared with that of the
//! Java classes on the same group.
//!
//! `cargo run --release -p kcoord-core --example assignors [ROW...]`

#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::print_stdout)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use kcoord_core::assignor::sticky::user_data::StickyUserData;
use kcoord_core::assignor::{self, Assignment, Compat, Group, GroupBuilder, NewMember, Strategy};

/// Counts what is allocated and has not been freed, and the most that was so far.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// Sound: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Relaxed) + layout.size();
        MOST.fetch_max(held, Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const ROUNDS: usize = 5;
const GENERATION: i32 = 7;

/// Strategy, members, partitions, topics, and whether all subscriptions are the same.
type Row = (Strategy, usize, usize, usize, bool);

const ROWS: [Row; 15] = [
    (Strategy::CooperativeSticky, 1_000, 10_000, 100, true),
    (Strategy::CooperativeSticky, 10_000, 500_000, 1_000, true),
    (Strategy::Sticky, 10_000, 500_000, 1_000, true),
    (Strategy::CooperativeSticky, 1_000, 10_000, 100, false),
    (Strategy::Sticky, 1_000, 10_000, 100, false),
    (Strategy::CooperativeSticky, 1_000, 50_000, 1_000, false),
    (Strategy::CooperativeSticky, 5_000, 50_000, 100, false),
    (Strategy::CooperativeSticky, 10_000, 100_000, 10, false),
    (Strategy::Range, 10_000, 500_000, 1_000, true),
    (Strategy::RoundRobin, 10_000, 500_000, 1_000, true),
    (Strategy::Range, 1_000, 50_000, 1_000, false),
    (Strategy::RoundRobin, 1_000, 50_000, 1_000, false),
    (Strategy::Uniform, 10_000, 500_000, 1_000, true),
    (Strategy::Uniform, 10_000, 500_000, 1_000, false),
    (Strategy::ServerRange, 10_000, 500_000, 1_000, true),
];

struct Names {
    topics: Vec<String>,
    members: Vec<String>,
    /// Per member the topics that it subscribes to.
    subscriptions: Vec<Vec<usize>>,
}

impl Names {
    fn new((_, members, _, topics, same): Row) -> Self {
        let mut state = 42u64;
        let mut coin = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            state >> 63 == 1
        };
        let mut subscription = || (0..topics).filter(|_| same || coin()).collect();
        Names {
            topics: (0..topics).map(|topic| format!("topic-{topic}")).collect(),
            members: (0..members).map(|member| format!("member-{member}")).collect(),
            subscriptions: (0..members).map(|_| subscription()).collect(),
        }
    }

    /// The group of the first `members`; those of them in `owned` claim what they own.
    fn group(&self, row: Row, members: usize, owned: Option<&[Vec<(u32, i32)>]>) -> Group<'_> {
        let mut builder = GroupBuilder::new(7);
        let each = row.2 / self.topics.len();
        let topics: Vec<u32> =
            self.topics.iter().map(|name| builder.add_topic(name, each as u32)).collect();
        for member in 0..members {
            let listed: Vec<u32> =
                self.subscriptions[member].iter().map(|&topic| topics[topic]).collect();
            let subscription = builder.subscription(&listed);
            let claims = owned.and_then(|owned| owned.get(member));
            let generation = claims.map(|_| GENERATION);
            builder.add_member(
                NewMember {
                    id: &self.members[member],
                    generation,
                    claim_generation: generation,
                    ..NewMember::default()
                },
                subscription,
            );
            let claims = claims.map_or(&[][..], Vec::as_slice);
            if row.0 == Strategy::Sticky {
                self.add_user_data(&mut builder, claims);
            } else {
                claims.iter().for_each(|&(topic, number)| builder.add_claim(topic, number));
            }
        }
        builder.build().expect("few partitions")
    }

    /// Topic by topic, as the user data of Java's StickyAssignor has it.
    fn add_user_data(&self, builder: &mut GroupBuilder<'_>, claims: &[(u32, i32)]) {
        let named = claims.iter().map(|&(topic, number)| (&*self.topics[topic as usize], number));
        let data = StickyUserData::of(&named.collect::<Vec<_>>(), Some(GENERATION));
        for (topic, numbers) in data.partitions {
            let topic = str::from_utf8(topic).ok().and_then(|name| builder.existing_topic(name));
            let topic = topic.expect("a topic of the catalogue");
            numbers.iter().for_each(|&number| builder.add_claim(topic, number));
        }
    }

    /// What each member has, by the numbers of the builder.
    fn lists(&self, group: &Group<'_>, assignment: &Assignment) -> Vec<Vec<(u32, i32)>> {
        let number = |name: &str| name["topic-".len()..].parse::<u32>().expect("a number");
        let list = |member: usize| {
            let list = assignment.of(member).iter().map(|&partition| group.partition(partition));
            list.map(|(name, partition)| (number(name), partition)).collect()
        };
        (0..assignment.member_count()).map(list).collect()
    }
}

/// As in the Java program.
fn checksum(lists: &[Vec<(u32, i32)>]) -> u64 {
    let partitions = lists.iter().flat_map(|list| list.iter().copied().chain([(u32::MAX, -1)]));
    partitions.fold(7u64, |sum, (topic, number)| {
        sum.wrapping_mul(31).wrapping_add(u64::from(topic) << 20).wrapping_add(number as u64)
    })
}

/// The fastest of several rounds, what it returned, and the most bytes that were held at once.
fn timed<T>(mut work: impl FnMut() -> T) -> (Duration, T, usize) {
    let mut best = None;
    let before = HELD.load(Relaxed);
    MOST.store(before, Relaxed);
    let result = work();
    let bytes = MOST.load(Relaxed) - before;
    drop(result);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let result = black_box(work());
        let took = start.elapsed();
        if best.as_ref().is_none_or(|(least, _)| took < *least) {
            best = Some((took, result));
        }
    }
    let (took, result) = best.expect("one round at least");
    (took, result, bytes)
}

fn measure(row: Row) {
    let (strategy, members, partitions, topics, same) = row;
    let kind = if same { "same" } else { "different" };
    let names = Names::new(row);
    let assign = |group: &Group<'_>| {
        assignor::assign(strategy, group, Compat::Correct).expect("never fails")
    };
    let print = |what: &str, build: Duration, took: Duration, bytes: usize, sum: u64| {
        let each = bytes / partitions;
        let (build, took) = (build.as_secs_f64() * 1e3, took.as_secs_f64() * 1e3);
        println!(
            "{:<18} {members:>6} {partitions:>7} {topics:>5} {kind:<9} {what:<9} \
             {took:>9.2} {build:>9.2} {each:>5}  {sum:016x}",
            strategy.name(),
        );
    };
    let (build, group, _) = timed(|| names.group(row, members, None));
    let (took, assignment, bytes) = timed(|| assign(&group));
    print("full", build, took, bytes, checksum(&names.lists(&group, &assignment)));
    if !strategy.knows_the_past() {
        return;
    }
    let before = names.group(row, members - 1, None);
    let owned = names.lists(&before, &assign(&before));
    let (build, group, _) = timed(|| names.group(row, members, Some(&owned)));
    let (took, assignment, bytes) = timed(|| assign(&group));
    print("one more", build, took, bytes, checksum(&names.lists(&group, &assignment)));
}

fn main() {
    let chosen: Vec<usize> =
        std::env::args().skip(1).map(|row| row.parse().expect("the number of a row")).collect();
    println!(
        "members, partitions, topics, subscriptions; ms to assign, ms to build the group, bytes"
    );
    for (number, &row) in ROWS.iter().enumerate() {
        if chosen.is_empty() || chosen.contains(&number) {
            measure(row);
        }
    }
}
