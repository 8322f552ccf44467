//! Nodes over a shared store that answers late, or not at all, on a network that loses and cuts,
//! with crashes, pauses and clocks that do not run equally fast.
//!
//! `KCOORD_CLUSTER_SEEDS=1:10000` says which seeds (`FROM:TO`, both included); a failure names its
//! seed, and `KCOORD_CLUSTER_SEEDS=7:7` runs it again.

#![allow(clippy::disallowed_methods)] // which seeds is said by the environment

mod breaks;
mod calls;
mod clients;
mod faults;
mod process;
mod random;
mod store;
mod storing;
mod trimming;
mod wishes;
mod world;

use breaks::{BREAKS, Break, Invariant, Violation};
use world::{Event, Slot, World};

const FAULTS_MS: u64 = 12_000;
const CALM_MS: u64 = 10_000;
/// Each break is seen within so many seeds.
const SEEDS_FOR_A_BREAK: u64 = 1_000;
/// None of the seeds before sees it.
const SEEN_LATE: [(Break, u64); 1] = [(Break::TrimAtOnce, 208)];

/// A digest of all that happened, or what was seen to be wrong.
fn run(seed: u64, breaks: Option<Break>) -> Result<u64, Violation> {
    let mut world = World::new(seed, breaks);
    world.later(2_000, Event::Fault);
    if seed.is_multiple_of(2) {
        world.later(2_000, Event::Wish);
    }
    world.run_until(FAULTS_MS)?;
    faults::end(&mut world);
    world.run_until(FAULTS_MS + CALM_MS)?;
    for shard in 0..world.shards {
        let written = world.clients.written_at.get(&shard).copied().unwrap_or(0);
        if written + 1_000 < world.now {
            let leader = world.store.view.leader(shard);
            let message = format!("shard {shard} of {leader:?} was written at {written} last");
            return Err(Violation { invariant: Invariant::Liveness, at: world.now, message });
        }
    }
    if let Some(message) = world.misplaced() {
        return Err(Violation { invariant: Invariant::Placed, at: world.now, message });
    }
    let message = world.unpruned().or_else(|| world.untrimmed());
    if let Some(message) = message {
        return Err(Violation { invariant: Invariant::Bounded, at: world.now, message });
    }
    Ok(world.trace)
}

/// A node that is not the controller sleeps while entries of the cluster log go that it has not
/// read; nothing else goes wrong.
fn asleep(seed: u64, breaks: Option<Break>) -> Result<u64, Violation> {
    let mut world = World::new(seed, breaks);
    world.later(2_000, Event::Wish);
    world.run_until(4_000)?;
    let controller = world.store.view.controller();
    let stays = |slot: &&mut Slot| slot.process.as_ref().map(|one| one.own) != controller;
    if let Some(slot) = world.slots.iter_mut().find(stays) {
        slot.paused_until = 16_000;
    }
    world.run_until(24_000)?;
    Ok(world.trace)
}

fn seeds() -> (u64, u64) {
    let text = std::env::var("KCOORD_CLUSTER_SEEDS").unwrap_or_else(|_| "1:60".to_owned());
    let (from, to) = text.split_once(':').expect("KCOORD_CLUSTER_SEEDS is FROM:TO");
    let number = |text: &str| text.parse().expect("KCOORD_CLUSTER_SEEDS is FROM:TO");
    (number(from), number(to))
}

#[test]
fn nothing_is_lost_or_stale_and_all_is_served_again() {
    let (from, to) = seeds();
    for seed in from..=to {
        if let Err(violation) = run(seed, None) {
            panic!("seed {seed}: {violation:?}");
        }
    }
}

#[test]
fn what_all_nodes_that_leave_have_given_up_is_led_again() {
    assert!(run(5691, None).is_ok()); // the seed that has found it
}

/// It reaches the store, and would be quicker than those who want to take its place.
#[test]
fn a_controller_that_is_cut_off_from_all_others_gives_way_and_fences_nobody() {
    let (begin, end) = (4_000, 16_000);
    for seed in 1..=8 {
        let mut world = World::new(seed, None);
        world.calm = true;
        assert_eq!(world.run_until(begin), Ok(()));
        let who =
            |world: &World, slot: usize| world.slots[slot].process.as_ref().map(|one| one.own);
        let slots = world.slots.len();
        let alone = (0..slots).find(|&slot| who(&world, slot) == world.store.view.controller());
        let alone = alone.expect("there is a controller");
        let others: Vec<_> = (0..slots).filter(|&slot| slot != alone).collect();
        if others.len() < 2 {
            continue; // two nodes: nobody knows which of them is cut off
        }
        let term = world.store.view.term();
        let before: Vec<_> = others.iter().map(|&slot| who(&world, slot)).collect();
        for &other in &others {
            world.cuts.insert((alone, other), end);
            world.cuts.insert((other, alone), end);
        }
        assert_eq!(world.run_until(end), Ok(()));
        let after: Vec<_> = others.iter().map(|&slot| who(&world, slot)).collect();
        assert_eq!(before, after, "seed {seed}: others were fenced");
        assert!(world.store.view.term() > term, "seed {seed}: there was no other controller");
        for (shard, leader) in world.store.view.led() {
            assert!(after.contains(&Some(leader)), "seed {seed}: shard {shard}");
        }
    }
}

#[test]
fn who_slept_while_entries_of_the_cluster_log_went_does_not_trust_what_it_reads() {
    for seed in (1..=100).step_by(3) {
        assert!(asleep(seed, None).is_ok(), "seed {seed}");
    }
}

#[test]
fn the_same_seed_gives_the_same_history() {
    for seed in 1..=5 {
        assert_eq!(run(seed, None), run(seed, None), "seed {seed}");
    }
}

#[test]
fn each_break_is_seen() {
    for which in BREAKS {
        let late = SEEN_LATE.iter().find(|(one, _)| *one == which);
        let from = late.map_or(1, |&(_, from)| from);
        let history = if which == Break::BehindGoesOn { asleep } else { run };
        let seen = (from..=SEEDS_FOR_A_BREAK).find_map(|seed| history(seed, Some(which)).err());
        assert!(seen.is_some(), "{which:?} was not seen in {SEEDS_FOR_A_BREAK} seeds");
    }
}
