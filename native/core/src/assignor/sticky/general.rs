//! The way for groups with different subscriptions (`GeneralAssignmentBuilder`, assignors
//! section 7), at its own pace.
//!
//! Java looks through all consumers for each partition, and at all partitions of all consumers to
//! see whether it is done. Here a topic is worked on at a time, which Java's order of partitions
//! allows. A list is who owns what and when it was given. One pass costs as much as there are
//! partitions and subscriptions together.

use super::super::Compat;
use super::super::group::{Assignment, Group, NONE};
use super::super::order::{Subscribers, id_order, ranks};
use super::super::racks::Racks;
use super::claims::{Claims, Prior};
use super::loads::{Ledger, Loads};
use super::movements::Movements;
use super::reassign::{Run, reassign};

/// Requires claims without phantoms. Prior owners that do not subscribe to what they claim are
/// passed over.
pub fn assign(group: &Group<'_>, claims: &Claims, prior: &Prior, compat: Compat) -> Assignment {
    let listings = listings(group);
    let topics = topic_order(group, &listings);
    let order = id_order(group);
    let subscribers = Subscribers::new(group, &order);
    let mut ledger = Ledger::new(group, ranks(&order), order);

    let (racks, revocation_required) = keep_owned(group, claims, &mut ledger);
    let unassigned = unassigned(group, &ledger, &topics);
    let initializing = ledger.sizes.iter().all(|&size| size == 0);
    match racks {
        Some(racks) => assign_in_racks(group, racks, &subscribers, &unassigned, &mut ledger),
        None => assign_to_least(&subscribers, &unassigned, &mut ledger),
    }

    // Topics with one subscriber leave nothing to decide, nor do members that can get no more.
    let shared = |topic: u32| listings[topic as usize] >= 2;
    set_aside(group, shared, &mut ledger);
    let mut movements = Movements::new(group.partition_count());
    let before = (!initializing).then(|| ledger.clone());
    if !revocation_required {
        let runs: Vec<Run> = unassigned.into_iter().filter(|run| shared(run.0)).collect();
        reassign(group, &subscribers, prior, &runs, &mut ledger, &mut movements);
    }
    let run = |&topic: &u32| (topic, group.partitions_of(topic).collect());
    let topics = topics.iter().filter(|&&topic| shared(topic));
    let runs: Vec<Run> = topics.map(run).collect();
    let performed = reassign(group, &subscribers, prior, &runs, &mut ledger, &mut movements);
    if let Some(before) = before.filter(|_| performed) {
        let worth_it = match compat {
            Compat::Correct => ledger.score() < before.score(),
            // Java's sum is an int that wraps.
            Compat::Java => (ledger.score() as i32) < before.score() as i32,
        };
        ledger = if worth_it { ledger } else { before };
    }
    ledger.into_assignment()
}

/// Per topic how often it is listed, repetitions by one member included.
pub fn listings(group: &Group<'_>) -> Vec<u32> {
    let mut members = vec![0; group.subscriptions.len()];
    group.members().iter().for_each(|member| members[member.subscription as usize] += 1);
    let mut listings = vec![0; group.topic_count()];
    for (subscription, members) in group.subscriptions.iter().zip(members) {
        subscription.listed.iter().for_each(|&topic| listings[topic as usize] += members);
    }
    listings
}

/// Topics with few subscribers first, then by name.
pub fn topic_order(group: &Group<'_>, listings: &[u32]) -> Vec<u32> {
    let topics = 0..group.topic_count() as u32;
    let mut topics: Vec<u32> = topics.filter(|&topic| group.size_of(topic) > 0).collect();
    topics.sort_by_key(|&topic| listings[topic as usize]);
    topics
}

/// The racks, if they make a difference for the group as a whole.
pub fn racks_that_matter<'a>(group: &'a Group<'_>) -> Option<&'a Racks> {
    let consumers = group.members().iter().map(|member| member.rack);
    let partitions = 0..group.partition_count() as u32;
    group.racks.as_ref().filter(|racks| racks.matter(consumers, partitions))
}

/// Step 1. Returns the racks, if they matter, and whether a member had to give up a partition.
fn keep_owned<'a>(
    group: &'a Group<'_>,
    claims: &Claims,
    ledger: &mut Ledger,
) -> (Option<&'a Racks>, bool) {
    let racks = racks_that_matter(group);
    let topics = group.topic_table();
    let mut revocation_required = false;
    for (member, owned) in claims.owned() {
        let rack = group.members()[member as usize].rack;
        for partition in owned {
            let fits = group.is_subscribed(member, topics[partition as usize])
                && racks.is_none_or(|racks| racks.match_rack(rack, partition));
            if fits {
                ledger.give(partition, member);
            }
            revocation_required |= !fits;
        }
    }
    (racks, revocation_required)
}

/// Step 2.
fn unassigned(group: &Group<'_>, ledger: &Ledger, topics: &[u32]) -> Vec<Run> {
    let free = |&partition: &u32| ledger.owners[partition as usize] == NONE;
    let run = |&topic: &u32| (topic, group.partitions_of(topic).filter(free).collect());
    topics.iter().map(run).filter(|run: &Run| !run.1.is_empty()).collect()
}

/// Step 4: each partition to the least loaded subscriber.
fn assign_to_least(subscribers: &Subscribers, unassigned: &[Run], ledger: &mut Ledger) {
    let mut loads = Loads::default();
    for (topic, partitions) in unassigned {
        loads.fill(subscribers.of(*topic).iter().copied(), ledger);
        for &partition in partitions {
            let member = loads.least(ledger).expect("a topic that somebody subscribes to");
            ledger.give(partition, member);
            loads.changed(member, ledger);
        }
    }
}

/// Step 4 with racks: first to members that read the partition in their rack, or have none, as
/// far as there are any.
fn assign_in_racks(
    group: &Group<'_>,
    racks: &Racks,
    subscribers: &Subscribers,
    unassigned: &[Run],
    ledger: &mut Ledger,
) {
    let no_rack = racks.count();
    let place = |member: u32| match group.members()[member as usize].rack {
        NONE => no_rack,
        rack => rack as usize,
    };
    let mut left: Vec<Run> = Vec::new();
    let mut by_rack: Vec<Loads> = (0..=no_rack).map(|_| Loads::default()).collect();
    for (topic, partitions) in unassigned {
        by_rack.iter_mut().for_each(Loads::clear);
        for &member in subscribers.of(*topic) {
            by_rack[place(member)].changed(member, ledger);
        }
        let mut rest = Vec::new();
        for &partition in partitions {
            let near = racks.of(partition).iter().map(|&rack| rack as usize);
            let near = near.chain([no_rack]);
            let least = near.filter_map(|rack| by_rack[rack].least(ledger));
            let least = least.min_by_key(|&member| ledger.key(member));
            match least {
                Some(member) => {
                    ledger.give(partition, member);
                    by_rack[place(member)].changed(member, ledger);
                }
                None => rest.push(partition),
            }
        }
        if !rest.is_empty() {
            left.push((*topic, rest));
        }
    }
    assign_to_least(subscribers, &left, ledger);
}

/// Step 5: who holds nothing of a shared topic and can get no more takes no further part.
fn set_aside(group: &Group<'_>, shared: impl Fn(u32) -> bool, ledger: &mut Ledger) {
    let most: Vec<u64> = most_by_subscription(group);
    for (member, takes_part) in ledger.takes_part.iter_mut().enumerate() {
        let most = most[group.members()[member].subscription as usize];
        *takes_part = u64::from(ledger.sizes[member]) < most;
    }
    for topic in (0..group.topic_count() as u32).filter(|&topic| shared(topic)) {
        for partition in group.partitions_of(topic) {
            ledger.takes_part[ledger.owners[partition as usize] as usize] = true;
        }
    }
}

/// How many partitions Java thinks a member can have at most: a topic that is listed twice counts
/// twice, unless as many topics are listed as there are.
pub fn most_by_subscription(group: &Group<'_>) -> Vec<u64> {
    let exists = |&&topic: &&u32| group.size_of(topic) > 0;
    let topics = (0..group.topic_count() as u32).filter(|topic| exists(&topic)).count();
    let most = |listed: &[u32]| {
        let existing = listed.iter().filter(exists);
        if existing.clone().count() == topics {
            return group.partition_count() as u64;
        }
        existing.map(|&topic| u64::from(group.size_of(topic))).sum()
    };
    group.subscriptions.iter().map(|subscription| most(&subscription.listed)).collect()
}
