//! What every assignment must be, whatever the group: complete, disjoint, to subscribers only,
//! balanced as the strategy promises, and with no move that could be avoided.

use kcoord_core::assignor::{
    self, Assignment, Compat, Group, GroupBuilder, NewMember, Strategy, sticky,
};
use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};
use proptest::strategy::Strategy as _;

const TOPICS: [&str; 5] = ["a", "b", "orders", "жур", "ghost"];
const RACKS: [&str; 3] = ["r0", "r1", "r2"];

/// In which a cooperative group must have settled.
const ROUNDS: usize = 6;

/// Topics as partitions with racks, members as (topics, claims, generation, rack, static).
#[derive(Clone, Debug)]
struct Case {
    topics: Vec<Vec<Vec<usize>>>,
    members: Vec<Participant>,
}

#[derive(Clone, Debug)]
struct Participant {
    topics: Vec<usize>,
    claims: Vec<(usize, i32)>,
    generation: Option<i32>,
    rack: Option<usize>,
    is_static: bool,
}

fn case(same: bool) -> impl proptest::strategy::Strategy<Value = Case> {
    let racks = prop::collection::vec(0..RACKS.len(), 0..3);
    let topic = prop::collection::vec(racks, 0..9);
    let topics = prop::collection::vec(topic, 4);
    let participant = (
        prop::collection::btree_set(0..TOPICS.len(), 0..5),
        prop::collection::vec((0..TOPICS.len(), -1..12), 0..12),
        prop::option::of(-1..4),
        prop::option::of(0..RACKS.len()),
        any::<bool>(),
    );
    let participant = participant.prop_map(|(topics, claims, generation, rack, is_static)| {
        let topics = topics.into_iter().collect();
        Participant { topics, claims, generation, rack, is_static }
    });
    let members = prop::collection::vec(participant, 1..9);
    (topics, members, any::<bool>()).prop_map(move |(topics, mut members, racks)| {
        let first = members[0].topics.clone();
        for member in &mut members {
            if same {
                member.topics = first.clone();
            }
            if !racks {
                member.rack = None;
            }
        }
        Case { topics, members }
    })
}

/// Names live as long as the case: they are made before.
fn names(case: &Case) -> Vec<String> {
    (0..case.members.len()).map(|at| format!("member-{}", at * 7 % 10)).collect()
}

fn group<'a>(case: &Case, names: &'a [String]) -> Group<'a> {
    let mut builder = GroupBuilder::new(7);
    for (&name, partitions) in TOPICS.iter().zip(&case.topics) {
        let topic = builder.add_topic(name, partitions.len() as u32);
        let racks: Vec<Vec<&str>> = partitions
            .iter()
            .map(|racks| racks.iter().map(|&rack| RACKS[rack]).collect())
            .collect();
        builder.set_racks(topic, racks.iter().map(Vec::as_slice));
    }
    for (member, name) in case.members.iter().zip(names) {
        let topics: Vec<u32> = member.topics.iter().map(|&at| builder.topic(TOPICS[at])).collect();
        let subscription = builder.subscription(&topics);
        let new = NewMember {
            id: name,
            instance_id: member.is_static.then_some(name.as_str()),
            rack_id: member.rack.map(|rack| RACKS[rack]),
            generation: member.generation,
            claim_generation: member.generation,
        };
        builder.add_member(new, subscription);
        for &(topic, number) in &member.claims {
            if let Some(topic) = builder.existing_topic(TOPICS[topic]) {
                builder.add_claim(topic, number);
            }
        }
    }
    builder.build().expect("few partitions")
}

fn lists(group: &Group<'_>, assignment: &Assignment) -> Vec<Vec<(String, i32)>> {
    let list = |member| {
        assignment.of(member).iter().map(|&partition| {
            let (topic, number) = group.partition(partition);
            (topic.to_owned(), number)
        })
    };
    (0..group.members().len()).map(|member| list(member).collect()).collect()
}

fn assign(strategy: Strategy, group: &Group<'_>) -> Assignment {
    assignor::assign(strategy, group, Compat::Correct).expect("never fails")
}

/// Each partition that somebody subscribes to belongs to exactly one of those; `withheld` may be
/// missing.
fn check_complete(case: &Case, lists: &[Vec<(String, i32)>], withheld: bool) {
    let mut owners = std::collections::BTreeMap::new();
    for (member, list) in lists.iter().enumerate() {
        for (topic, number) in list {
            let at = TOPICS.iter().position(|name| name == topic).expect("a known topic");
            assert!(case.members[member].topics.contains(&at), "{member} {topic}: not subscribed");
            assert!(*number >= 0 && (*number as usize) < case.topics[at].len(), "{topic}-{number}");
            assert!(owners.insert((at, *number), member).is_none(), "{topic}-{number}: twice");
        }
    }
    for (at, partitions) in case.topics.iter().enumerate() {
        let wanted = case.members.iter().any(|member| member.topics.contains(&at));
        for number in 0..partitions.len() as i32 {
            let has_owner = owners.contains_key(&(at, number));
            assert!(has_owner == wanted || (withheld && !has_owner), "{}-{number}", TOPICS[at]);
        }
    }
}

/// Nobody could be given a partition by somebody who has two more.
fn check_balanced(case: &Case, lists: &[Vec<(String, i32)>]) {
    for list in lists {
        for (topic, number) in list {
            let at = TOPICS.iter().position(|name| name == topic).expect("a known topic");
            for (other, member) in case.members.iter().enumerate() {
                let fair = !member.topics.contains(&at) || list.len() <= lists[other].len() + 1;
                assert!(fair, "{topic}-{number} would be better off with {other}: {lists:?}");
            }
        }
    }
}

/// The assignment as the claims of the next generation.
fn settled(case: &Case, lists: &[Vec<(String, i32)>]) -> Case {
    let mut case = case.clone();
    for (member, list) in case.members.iter_mut().zip(lists) {
        let at = |topic: &str| TOPICS.iter().position(|name| *name == topic).expect("known");
        member.claims = list.iter().map(|(topic, number)| (at(topic), *number)).collect();
        member.generation = Some(9);
    }
    case
}

fn moved(before: &[Vec<(String, i32)>], after: &[Vec<(String, i32)>]) -> usize {
    let pairs = before.iter().zip(after);
    pairs.map(|(before, after)| before.iter().filter(|held| !after.contains(held)).count()).sum()
}

proptest! {
    #[test]
    fn every_partition_belongs_to_one_subscriber(case in case(false)) {
        let names = names(&case);
        let group = group(&case, &names);
        for strategy in Strategy::ALL {
            let lists = lists(&group, &assign(strategy, &group));
            check_complete(&case, &lists, strategy == Strategy::CooperativeSticky);
        }
    }

    #[test]
    fn equal_subscriptions_get_equal_shares(case in case(true)) {
        let names = names(&case);
        let group = group(&case, &names);
        for strategy in [Strategy::RoundRobin, Strategy::Sticky, Strategy::Uniform] {
            let lists = lists(&group, &assign(strategy, &group));
            check_complete(&case, &lists, false);
            let sizes = || lists.iter().map(Vec::len);
            prop_assert!(sizes().max().unwrap() - sizes().min().unwrap() <= 1, "{:?}", lists);
        }
    }

    #[test]
    fn what_is_settled_stays(case in case(false)) {
        let names = names(&case);
        for strategy in [Strategy::Sticky, Strategy::CooperativeSticky, Strategy::Uniform] {
            let mut case = case.clone();
            if strategy != Strategy::Uniform {
                // Java's general way gives up what is far away even if nobody is nearer.
                case.members.iter_mut().for_each(|member| member.rack = None);
            }
            let mut before = Vec::new();
            // A cooperative group needs further rounds for what is withheld.
            for _ in 0..ROUNDS {
                let group = group(&case, &names);
                before = lists(&group, &assign(strategy, &group));
                case = settled(&case, &before);
                if before.iter().map(Vec::len).sum::<usize>() == group.partition_count() {
                    break;
                }
            }
            check_complete(&case, &before, false);
            let group = group(&case, &names);
            let after = lists(&group, &assign(strategy, &group));
            prop_assert_eq!(moved(&before, &after), 0, "{:?}: {:?} {:?}", strategy, before, after);
        }
    }

    #[test]
    fn racks_apart_different_subscriptions_are_as_balanced_as_they_allow(case in case(false)) {
        let mut case = case;
        case.members.iter_mut().for_each(|member| member.claims.clear());
        let names = names(&case);
        let group = group(&case, &names);
        check_balanced(&case, &lists(&group, &assign(Strategy::Sticky, &group)));
        check_balanced(&case, &lists(&group, &assign(Strategy::Uniform, &group)));
    }

    /// The fast way decides as the slow one does that follows Java's text.
    #[test]
    fn the_general_way_equals_its_reference(case in case(false)) {
        let names = names(&case);
        let group = group(&case, &names);
        let slow = sticky::assign_by_reference(&group, Compat::Correct).expect("never fails");
        prop_assert_eq!(sticky::assign_generally(&group), slow);
    }

    #[test]
    fn a_member_that_leaves_moves_only_what_it_had(case in case(true)) {
        let names = names(&case);
        let unracked = case.members.iter().map(|member| Participant { rack: None, ..member.clone() });
        let case = Case { members: unracked.collect(), ..case };
        for strategy in [Strategy::Sticky, Strategy::CooperativeSticky, Strategy::Uniform] {
            let first = group(&case, &names);
            let before = lists(&first, &assign(strategy, &first));
            let mut case = settled(&case, &before);
            let second = group(&case, &names);
            let before = lists(&second, &assign(strategy, &second));
            case = settled(&case, &before);
            if case.members.len() < 2 {
                continue;
            }
            case.members.pop();
            let third = group(&case, &names);
            let after = lists(&third, &assign(strategy, &third));
            prop_assert_eq!(moved(&before[..before.len() - 1], &after), 0);
        }
    }
}
