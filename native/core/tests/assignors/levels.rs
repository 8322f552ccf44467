//! `weighted` and `lag-aware`: complete, disjoint, to subscribers only, as level as each promises,
//! and with no move that could be avoided.

use kcoord_core::assignor::{Assignment, Group, GroupBuilder, NewMember, lag_aware, weighted};
use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};
use proptest::strategy::Strategy as _;

const TOPICS: [&str; 4] = ["a", "b", "orders", "ghost"];
const NAMES: [&str; 8] = ["m3", "m1", "m7", "m0", "m5", "m2", "m6", "m4"];

#[derive(Clone, Debug)]
struct Case {
    /// Partitions of all but the last, which does not exist.
    sizes: Vec<u32>,
    members: Vec<Participant>,
    /// One for each partition that there could be.
    lags: Vec<u64>,
}

#[derive(Clone, Debug)]
struct Participant {
    topics: Vec<usize>,
    claims: Vec<(usize, i32)>,
    capacity: u32,
}

fn case(same: bool) -> impl proptest::strategy::Strategy<Value = Case> {
    let participant = (
        prop::collection::btree_set(0..TOPICS.len(), 1..5),
        prop::collection::vec((0..TOPICS.len(), -1..9), 0..14),
        prop::sample::select(vec![1, 1, 2, 3, 7, 1_000_000]),
    );
    let participant = participant.prop_map(|(topics, claims, capacity)| Participant {
        topics: topics.into_iter().collect(),
        claims,
        capacity,
    });
    let lag = prop::sample::select(vec![0, 0, 1, 2, 3, 10, 500, 501, 100_000, u64::MAX]);
    let sizes = prop::collection::vec(0..8u32, TOPICS.len() - 1);
    let members = prop::collection::vec(participant, 1..NAMES.len() + 1);
    let lags = prop::collection::vec(lag, 24);
    (sizes, members, lags).prop_map(move |(sizes, mut members, lags)| {
        let first = members[0].topics.clone();
        members.iter_mut().filter(|_| same).for_each(|member| member.topics = first.clone());
        Case { sizes, members, lags }
    })
}

fn group(case: &Case) -> Group<'static> {
    let mut builder = GroupBuilder::new(7);
    for (&name, &size) in TOPICS.iter().zip(&case.sizes) {
        builder.add_topic(name, size);
    }
    for (member, name) in case.members.iter().zip(NAMES) {
        let topics: Vec<u32> = member.topics.iter().map(|&at| builder.topic(TOPICS[at])).collect();
        let subscription = builder.subscription(&topics);
        builder.add_member(NewMember { id: name, ..NewMember::default() }, subscription);
        for &(topic, number) in &member.claims {
            if let Some(topic) = builder.existing_topic(TOPICS[topic]) {
                builder.add_claim(topic, number);
            }
        }
    }
    builder.build().expect("few partitions")
}

fn capacities(case: &Case) -> Vec<u32> {
    case.members.iter().map(|member| member.capacity).collect()
}

fn lags<'a>(case: &'a Case, group: &Group<'_>) -> &'a [u64] {
    &case.lags[..group.partition_count()]
}

/// Per partition who owns it. Each belongs to exactly one of its topic's subscribers.
fn owners(case: &Case, group: &Group<'_>, assignment: &Assignment) -> Vec<usize> {
    let mut owners = vec![None; group.partition_count()];
    for member in 0..case.members.len() {
        for &partition in assignment.of(member) {
            assert!(may_own(case, group, member, partition), "{partition} to {member}");
            assert!(owners[partition as usize].replace(member).is_none(), "{partition} twice");
        }
    }
    owners.into_iter().map(|owner| owner.expect("everything is assigned")).collect()
}

fn may_own(case: &Case, group: &Group<'_>, member: usize, partition: u32) -> bool {
    let (topic, _) = group.partition(partition);
    case.members[member].topics.iter().any(|&at| TOPICS[at] == topic)
}

/// Every partition with its owner and another member that could have it.
fn alternatives(case: &Case, group: &Group<'_>, owners: &[usize]) -> Vec<(usize, usize, usize)> {
    let mut found = Vec::new();
    for (partition, &owner) in owners.iter().enumerate() {
        let others = (0..case.members.len()).filter(|&other| other != owner);
        let others = others.filter(|&other| may_own(case, group, other, partition as u32));
        found.extend(others.map(|other| (partition, owner, other)));
    }
    found
}

fn sizes(owners: &[usize], members: usize) -> Vec<u128> {
    (0..members).map(|member| owners.iter().filter(|&&o| o == member).count() as u128).collect()
}

/// What the members had, as `Levels` understands it: the first by id has what two claim.
fn had(case: &Case, group: &Group<'_>) -> Vec<Option<usize>> {
    let mut order: Vec<usize> = (0..case.members.len()).collect();
    order.sort_unstable_by_key(|&member| NAMES[member]);
    let mut had = vec![None; group.partition_count()];
    for (partition, had) in had.iter_mut().enumerate() {
        let (topic, number) = group.partition(partition as u32);
        *had = order.iter().copied().find(|&member| {
            may_own(case, group, member, partition as u32)
                && case.members[member]
                    .claims
                    .iter()
                    .any(|&(at, n)| TOPICS[at] == topic && n == number)
        });
    }
    had
}

fn moved(had: &[Option<usize>], owners: &[usize]) -> usize {
    had.iter().zip(owners).filter(|(had, owner)| had.is_some_and(|had| had != **owner)).count()
}

/// Whether one partition more for `to` would be no better than one less for `from`.
fn is_level(loads: &[u128], capacities: &[u32], from: usize, to: usize) -> bool {
    loads[from] * u128::from(capacities[to]) <= (loads[to] + 1) * u128::from(capacities[from])
}

/// Fewest moves with which members of equal subscriptions come to lawful numbers of partitions: all
/// numbers are tried.
fn fewest_moves(had: &[u128], capacities: &[u32], total: u128) -> u128 {
    fn rest(had: &[u128], capacities: &[u32], left: u128, taken: &mut Vec<u128>) -> Option<u128> {
        let at = taken.len();
        if at == capacities.len() {
            let is_lawful = left == 0
                && (0..at)
                    .all(|a| (0..at).all(|b| taken[a] == 0 || is_level(taken, capacities, a, b)));
            let moves = had.iter().zip(taken.iter()).map(|(had, now)| had.saturating_sub(*now));
            return is_lawful.then(|| moves.sum());
        }
        (0..=left)
            .filter_map(|now| {
                taken.push(now);
                let moves = rest(had, capacities, left - now, taken);
                taken.pop();
                moves
            })
            .min()
    }
    rest(had, capacities, total, &mut Vec::new()).expect("there is a lawful one")
}

proptest! {
    #[test]
    fn weighted_is_as_level_as_capacities_allow(case in any::<bool>().prop_flat_map(case)) {
        let (group, capacities) = (group(&case), capacities(&case));
        let owners = owners(&case, &group, &weighted::assign(&group, &capacities));
        let loads = sizes(&owners, capacities.len());
        for (partition, from, to) in alternatives(&case, &group, &owners) {
            prop_assert!(
                is_level(&loads, &capacities, from, to),
                "{partition} from {from} to {to}: {loads:?} for {capacities:?}"
            );
        }
    }

    #[test]
    fn weighted_moves_no_more_than_it_must(case in case(true)) {
        let mut case = case;
        case.members.truncate(4);
        case.sizes.iter_mut().for_each(|size| *size = (*size).min(4));
        let (group, capacities) = (group(&case), capacities(&case));
        let owners = owners(&case, &group, &weighted::assign(&group, &capacities));
        let had = had(&case, &group);
        let held: Vec<usize> = had.iter().flatten().copied().collect();
        let held = sizes(&held, capacities.len());
        let fewest = fewest_moves(&held, &capacities, group.partition_count() as u128);
        prop_assert_eq!(moved(&had, &owners) as u128, fewest, "{:?} for {:?}", held, capacities);
    }

    #[test]
    fn lag_is_level_within_its_tolerance(case in any::<bool>().prop_flat_map(case)) {
        let group = group(&case);
        let lags = lags(&case, &group);
        let owners = owners(&case, &group, &lag_aware::assign(&group, lags));
        let members = case.members.len();
        let tolerance = lag_aware::tolerance(lags, members);
        let counts = sizes(&owners, members);
        let load = |member| -> u128 {
            let own = owners.iter().zip(lags).filter(|(owner, _)| **owner == member);
            own.map(|(_, lag)| u128::from(*lag)).sum()
        };
        let loads: Vec<u128> = (0..members).map(load).collect();
        for (partition, from, to) in alternatives(&case, &group, &owners) {
            match lags[partition] {
                0 => prop_assert!(counts[from] <= counts[to] + 1, "{partition}: {counts:?}"),
                lag => prop_assert!(
                    loads[from] <= loads[to] + u128::from(lag) + tolerance,
                    "{partition} from {from} to {to}: {loads:?}, tolerated {tolerance}"
                ),
            }
        }
    }

    #[test]
    fn what_is_level_stays(case in any::<bool>().prop_flat_map(case)) {
        let mut case = case;
        for strategy in ["weighted", "lag-aware"] {
            let assign = |group: &Group<'_>, case: &Case| match strategy {
                "weighted" => weighted::assign(group, &capacities(case)),
                _ => lag_aware::assign(group, lags(case, group)),
            };
            let first = {
                let group = group(&case);
                let assignment = assign(&group, &case);
                owners(&case, &group, &assignment)
            };
            let places: Vec<(usize, i32)> = {
                let group = group(&case);
                (0..group.partition_count() as u32)
                    .map(|partition| {
                        let (topic, number) = group.partition(partition);
                        (TOPICS.iter().position(|name| *name == topic).unwrap(), number)
                    })
                    .collect()
            };
            for (member, participant) in case.members.iter_mut().enumerate() {
                let owned = places.iter().zip(&first).filter(|(_, owner)| **owner == member);
                participant.claims = owned.map(|(place, _)| *place).collect();
            }
            let group = group(&case);
            let again = owners(&case, &group, &assign(&group, &case));
            prop_assert_eq!(first, again, "{}", strategy);
        }
    }
}
