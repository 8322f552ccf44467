//! What an assignor may cost: at most 100 bytes a partition beside the group itself, 150 where
//! twenty members dispute each of them; and an end in a bounded number of moves (counted by a debug
//! assertion in `sticky/reassign.rs`, which these groups drive as far as groups can).

#[path = "support/counting.rs"]
mod counting;

use kcoord_core::assignor::{self, Compat, Group, GroupBuilder, NewMember, Strategy};

const BYTES_A_PARTITION: usize = 100;
const BYTES_A_DISPUTED_PARTITION: usize = 150;

/// Who subscribes to which topics, and what of them each claims in which generation.
struct Shape {
    name: &'static str,
    members: usize,
    topics: usize,
    partitions: u32,
    subscribes: fn(usize, usize) -> bool,
    claims: fn(usize, usize, u32) -> bool,
    generation: fn(usize) -> i32,
    /// Whether everybody claims everything, and most of it changes hands more than once.
    disputed: bool,
}

const NOTHING: fn(usize, usize, u32) -> bool = |_, _, _| false;

const SHAPES: [Shape; 7] = [
    Shape {
        name: "100,000 partitions on one member",
        members: 1,
        topics: 10,
        partitions: 10_000,
        subscribes: |_, _| true,
        claims: |_, _, _| true,
        generation: |_| 3,
        disputed: false,
    },
    Shape {
        name: "one owns all, and others come",
        members: 200,
        topics: 20,
        partitions: 500,
        subscribes: |_, _| true,
        claims: |member, _, _| member == 0,
        generation: |_| 3,
        disputed: false,
    },
    Shape {
        name: "one owns all, and others come, each for other topics",
        members: 200,
        topics: 20,
        partitions: 500,
        subscribes: |member, topic| member == 0 || member % 20 != topic,
        claims: |member, _, _| member == 0,
        generation: |_| 3,
        disputed: false,
    },
    Shape {
        name: "everybody claims everything, in the same generation",
        members: 20,
        topics: 20,
        partitions: 500,
        subscribes: |member, topic| member % 20 != topic,
        claims: |_, _, _| true,
        generation: |_| 3,
        disputed: false,
    },
    Shape {
        name: "everybody claims everything, each in an older generation",
        members: 20,
        topics: 20,
        partitions: 500,
        subscribes: |member, topic| member % 20 != topic,
        claims: |_, _, _| true,
        generation: |member| 1_000 - member as i32,
        disputed: true,
    },
    Shape {
        name: "each topic shared by two neighbours",
        members: 100,
        topics: 100,
        partitions: 100,
        subscribes: |member, topic| topic == member || topic == member + 1,
        claims: |member, topic, _| topic == member + 1,
        generation: |member| member as i32 % 3,
        disputed: false,
    },
    Shape {
        name: "a staircase of subscriptions",
        members: 100,
        topics: 100,
        partitions: 100,
        subscribes: |member, topic| topic <= member,
        claims: NOTHING,
        generation: |_| -1,
        disputed: false,
    },
];

fn names(count: usize) -> Vec<String> {
    (0..count).map(|name| format!("name-{name}")).collect()
}

fn group<'a>(shape: &Shape, names: &'a [String]) -> Group<'a> {
    let mut builder = GroupBuilder::new(7);
    let topics: Vec<u32> =
        (0..shape.topics).map(|topic| builder.add_topic(&names[topic], shape.partitions)).collect();
    for (member, name) in names.iter().enumerate().take(shape.members) {
        let listed = (0..shape.topics).filter(|&topic| (shape.subscribes)(member, topic));
        let listed: Vec<u32> = listed.map(|topic| topics[topic]).collect();
        let subscription = builder.subscription(&listed);
        let generation = Some((shape.generation)(member));
        builder.add_member(
            NewMember {
                id: name,
                generation,
                claim_generation: generation,
                ..NewMember::default()
            },
            subscription,
        );
        for (topic, &id) in topics.iter().enumerate() {
            let claims = (0..shape.partitions).filter(|&p| (shape.claims)(member, topic, p));
            claims.for_each(|number| builder.add_claim(id, number as i32));
        }
    }
    builder.build().expect("few partitions")
}

#[test]
fn every_assignor_ends_within_its_memory() {
    for shape in &SHAPES {
        let names = names(shape.members.max(shape.topics));
        let group = group(shape, &names);
        for strategy in Strategy::ALL {
            let assign = || assignor::assign(strategy, &group, Compat::Correct);
            let (result, most, _) = counting::counted(assign);
            let result = result.expect("never fails");
            let each = most / group.partition_count();
            let bound = if shape.disputed { BYTES_A_DISPUTED_PARTITION } else { BYTES_A_PARTITION };
            let what = format!("{}: {}: {each} bytes", strategy.name(), shape.name);
            assert!(each <= bound, "{what}");
            let given: usize = (0..shape.members).map(|member| result.of(member).len()).sum();
            let withheld = strategy == Strategy::CooperativeSticky;
            assert!(given == group.partition_count() || withheld, "{what}, {given} given");
        }
    }
}
