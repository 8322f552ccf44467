//! How long assignors take on generated groups, and how many bytes a partition they hold at most
//! beside their input, the result included; each with a checksum of all lists in their order, to
//! be compared with that of the Java classes on the same group (benches/kafka/java).
//!
//! `cargo run --release -p kcoord-bench --example assignors STRATEGY MEMBERS PARTITIONS TOPICS
//! same|but-one|random full|one-more`, as often as wanted in one command. All members subscribe to
//! all topics; or each to all but one, the next with every member; or each to a random half.
//! *one-more*: the last member joins those who own everything.

#![allow(clippy::print_stdout)]

#[path = "../../core/tests/support/counting.rs"]
mod counting;

use std::hint::black_box;
use std::time::{Duration, Instant};

use kcoord_core::assignor::sticky::user_data::StickyUserData;
use kcoord_core::assignor::{self, Assignment, Compat, Group, GroupBuilder, NewMember, Strategy};

const LEAST_ROUNDS: usize = 5;
const MOST_ROUNDS: usize = 200;
const TIME: Duration = Duration::from_secs(1);
const GENERATION: i32 = 7;

/// A generated group, and who computes.
#[derive(Clone, Copy)]
struct Row<'a> {
    strategy: Strategy,
    members: usize,
    partitions: usize,
    topics: usize,
    kind: &'a str,
    one_more: bool,
}

impl<'a> Row<'a> {
    fn of(arguments: &'a [String]) -> Self {
        let number = |at: usize| arguments[at].parse().expect("a number");
        Row {
            strategy: Strategy::of_name(&arguments[0]).expect("a strategy"),
            members: number(1),
            partitions: number(2),
            topics: number(3),
            kind: &arguments[4],
            one_more: arguments[5] == "one-more",
        }
    }
}

struct Names {
    topics: Vec<String>,
    members: Vec<String>,
    /// Per member the topics that it subscribes to.
    subscriptions: Vec<Vec<usize>>,
}

impl Names {
    fn new(row: Row<'_>) -> Self {
        let mut state = 42u64;
        let mut coin = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            state >> 63 == 1
        };
        let all = 0..row.topics;
        let mut subscription = |member: usize| -> Vec<usize> {
            match row.kind {
                "same" => all.clone().collect(),
                "but-one" => all.clone().filter(|&at| at != member % row.topics).collect(),
                "random" => all.clone().filter(|_| coin()).collect(),
                other => panic!("{other}: neither same, but-one nor random"),
            }
        };
        Names {
            subscriptions: (0..row.members).map(&mut subscription).collect(),
            topics: all.map(|topic| format!("topic-{topic}")).collect(),
            members: (0..row.members).map(|member| format!("member-{member}")).collect(),
        }
    }

    /// The group of the first `members`; those of them in `owned` claim what they own.
    fn group(&self, row: Row<'_>, members: usize, owned: Option<&[Vec<(u32, i32)>]>) -> Group<'_> {
        let mut builder = GroupBuilder::new(7);
        let each = row.partitions / row.topics;
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
            if row.strategy == Strategy::Sticky {
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

/// Milliseconds of the fastest of several rounds, what it returned, and the most bytes that were
/// held at once.
fn timed<T>(mut work: impl FnMut() -> T) -> (f64, T, usize) {
    let ((), bytes, _) = counting::counted(|| drop(black_box(work())));
    let began = Instant::now();
    let (mut best, mut rounds) = (None, 0);
    while rounds < LEAST_ROUNDS || (began.elapsed() < TIME && rounds < MOST_ROUNDS) {
        let start = Instant::now();
        let result = black_box(work());
        let took = start.elapsed();
        if best.as_ref().is_none_or(|(least, _)| took < *least) {
            best = Some((took, result));
        }
        rounds += 1;
    }
    let (took, result) = best.expect("one round at least");
    (took.as_secs_f64() * 1e3, result, bytes)
}

/// Milliseconds to build the group from names and to assign, bytes a partition, checksum.
fn measure(row: Row<'_>) {
    let names = Names::new(row);
    let assign = |group: &Group<'_>| {
        assignor::assign(row.strategy, group, Compat::Correct).expect("never fails")
    };
    let owned = row.one_more.then(|| {
        let before = names.group(row, row.members - 1, None);
        names.lists(&before, &assign(&before))
    });
    let (build, group, _) = timed(|| names.group(row, row.members, owned.as_deref()));
    let (took, assignment, bytes) = timed(|| assign(&group));
    let sum = checksum(&names.lists(&group, &assignment));
    println!("{build:.3} {took:.3} {} {sum:016x}", bytes / row.partitions);
}

fn main() {
    if cfg!(debug_assertions) {
        panic!("figures of a debug build say nothing: use --release");
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    assert!(
        !arguments.is_empty() && arguments.len().is_multiple_of(6),
        "see the head of this file"
    );
    println!("ms to build the group, ms to assign, bytes a partition, checksum");
    arguments.chunks(6).for_each(|row| measure(Row::of(row)));
}
