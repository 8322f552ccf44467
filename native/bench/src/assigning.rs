//! The assignors on generated groups of 100 members: all alike, or each without one topic. Those
//! that know what members had get a group in which each member owns something, and one member more.

use std::hint::black_box;

use kcoord_core::assignor::sticky::user_data::StickyUserData;
use kcoord_core::assignor::{self, Assignment, Compat, Group, GroupBuilder, NewMember, Strategy};

use crate::work::Work;

const MEMBERS: usize = 100;
const TOPICS: usize = 20;
const GENERATION: i32 = 7;

pub struct Assigning {
    strategy: Strategy,
    group: Group<'static>,
}

impl Assigning {
    /// `differ`: each member lacks a topic.
    pub fn new(strategy: Strategy, partitions: usize, differ: bool) -> Self {
        let shape = Shape { strategy, each: (partitions / TOPICS) as u32, differ };
        let group = if strategy.knows_the_past() {
            let before = shape.group(MEMBERS - 1, None);
            let owned = shape.lists(&before, &assigned(strategy, &before));
            shape.group(MEMBERS, Some(&owned))
        } else {
            shape.group(MEMBERS, None)
        };
        Assigning { strategy, group }
    }
}

impl Work for Assigning {
    fn round(&mut self) -> u64 {
        black_box(assigned(self.strategy, &self.group));
        self.group.partition_count() as u64
    }
}

fn assigned(strategy: Strategy, group: &Group<'_>) -> Assignment {
    assignor::assign(strategy, group, Compat::Correct).expect("never fails")
}

type Lists = Vec<Vec<(u32, i32)>>;

struct Shape {
    strategy: Strategy,
    /// Partitions of a topic.
    each: u32,
    differ: bool,
}

impl Shape {
    /// The first `members`; those of them in `owned` claim what they own.
    fn group(&self, members: usize, owned: Option<&Lists>) -> Group<'static> {
        let mut builder = GroupBuilder::new(7);
        let names: Vec<&'static str> =
            (0..TOPICS).map(|topic| &*format!("topic-{topic}").leak()).collect();
        let topics: Vec<u32> =
            names.iter().map(|name| builder.add_topic(name, self.each)).collect();
        for member in 0..members {
            let lacks = |topic: usize| self.differ && topic == member % TOPICS;
            let listed = (0..TOPICS).filter(|topic| !lacks(*topic)).map(|topic| topics[topic]);
            let subscription = builder.subscription(&listed.collect::<Vec<_>>());
            let claims = owned.and_then(|owned| owned.get(member));
            let generation = claims.map(|_| GENERATION);
            let id = format!("member-{member}").leak();
            builder.add_member(
                NewMember { id, generation, claim_generation: generation, ..NewMember::default() },
                subscription,
            );
            let claims = claims.map_or(&[][..], Vec::as_slice);
            if self.strategy == Strategy::Sticky {
                add_user_data(&mut builder, &names, claims);
            } else {
                claims.iter().for_each(|&(topic, number)| builder.add_claim(topic, number));
            }
        }
        builder.build().expect("few partitions")
    }

    /// What each member has, by the builder's numbers.
    fn lists(&self, group: &Group<'_>, assignment: &Assignment) -> Lists {
        let number = |name: &str| name["topic-".len()..].parse::<u32>().expect("a number");
        let list = |member: usize| {
            let list = assignment.of(member).iter().map(|&partition| group.partition(partition));
            list.map(|(name, partition)| (number(name), partition)).collect()
        };
        (0..assignment.member_count()).map(list).collect()
    }
}

/// Topic by topic, as the user data of Java's StickyAssignor has it.
fn add_user_data(builder: &mut GroupBuilder<'_>, names: &[&str], claims: &[(u32, i32)]) {
    let named = claims.iter().map(|&(topic, number)| (names[topic as usize], number));
    let data = StickyUserData::of(&named.collect::<Vec<_>>(), Some(GENERATION));
    for (topic, numbers) in data.partitions {
        let topic = str::from_utf8(topic).ok().and_then(|name| builder.existing_topic(name));
        let topic = topic.expect("a topic of the group");
        numbers.iter().for_each(|&number| builder.add_claim(topic, number));
    }
}
