//! What expires, and what a deleted topic leaves, is removed some in each turn: nobody waits for all
//! of it.

use kcoord_core::Config;

use crate::ask::*;
use crate::host::Host;

/// More than have all that they may in one turn.
const SHARDS: usize = 10;
const GROUPS: usize = 40;
const OFFSETS: i32 = 2_000;
/// Tombstones of a turn: as many as a node removes, and what the last shard has in one go.
const MOST: usize = 2_048 + 512;
const DAY_MS: i64 = 24 * 3_600_000;

/// Groups of many offsets each, in several shards, of two topics.
fn host() -> Host {
    let config = Config { offsets_retention_ms: DAY_MS, ..Config::default() };
    let mut host = Host::loading_with(config, SHARDS);
    (0..SHARDS).for_each(|shard| host.load(shard));
    host.topics(&[("gone", 1, OFFSETS), ("kept", 2, OFFSETS)]);
    host.node.send_in_parts();
    let all: Vec<i32> = (0..OFFSETS).collect();
    for group in 0..GROUPS {
        host.ask(9, &commit(&format!("g-{group}"), &[("gone", 1, &all), ("kept", 2, &[0])]));
    }
    host.is_turn_by_turn = true;
    host
}

fn left(host: &Host) -> usize {
    let of = |group| {
        let group_id = format!("g-{group}");
        host.node.shard(host.shard_of(&group_id)).offset_count_of(&group_id)
    };
    (0..GROUPS).map(of).sum()
}

/// Turns until so many offsets are left; somebody is answered in each.
fn turns_until(host: &mut Host, wanted: usize) -> usize {
    let (mut turns, mut before) = (0, left(host));
    while left(host) > wanted {
        let beat = host.send(4, &heartbeat("somebody", "nobody", 1));
        assert!(!host.waits(beat), "it is answered in this turn");
        let now = left(host);
        assert!(before - now <= MOST, "{} tombstones in a turn", before - now);
        before = now;
        turns += 1;
        assert!(turns < 1_000, "it goes on");
        if now > wanted {
            let due = host.next_timeout_ms.is_some_and(|due_ms| due_ms <= host.now_ms);
            assert!(due, "the next turn comes at once");
        }
    }
    turns
}

#[test]
fn offsets_of_a_deleted_topic_are_removed_in_slices() {
    let mut host = host();
    host.topics(&[("kept", 2, OFFSETS)]);
    let turns = turns_until(&mut host, GROUPS);
    assert!(turns >= GROUPS * OFFSETS as usize / MOST, "{turns} turns");
    for group in 0..GROUPS {
        let answer = fetched(host.ask(8, &fetch(&[(&format!("g-{group}"), None)])));
        assert_eq!(answer[0].2.len(), 1);
        assert_eq!(&*answer[0].2[0].name, "kept");
    }
    (0..SHARDS).for_each(|shard| host.node.shard(shard).assert_consistent());
}

#[test]
fn expired_offsets_are_removed_in_slices_and_their_groups_with_them() {
    let mut host = host();
    host.sleep(2 * DAY_MS);
    let turns = turns_until(&mut host, 0);
    assert!(turns >= GROUPS * OFFSETS as usize / MOST, "{turns} turns");
    while host.next_timeout_ms.is_some_and(|due_ms| due_ms <= host.now_ms) {
        host.sleep(0);
    }
    let ticket = host.send(4, &list());
    while host.waits(ticket) {
        host.sleep(0);
    }
    assert_eq!(listed(host.take(ticket)).1, Vec::<String>::new());
    (0..SHARDS).for_each(|shard| host.node.shard(shard).assert_consistent());
    let next = host.next_timeout_ms.expect("it is looked again");
    assert!(next > host.now_ms, "not before the interval has passed");
}

#[test]
fn a_shard_that_goes_away_begins_again_when_it_is_back() {
    let mut host = host();
    host.topics(&[("kept", 2, OFFSETS)]);
    // What was removed so far is lost with the appends, and there again.
    host.is_held = true;
    host.sleep(0);
    host.sleep(0);
    assert!(left(&host) < GROUPS * (OFFSETS as usize + 1));
    host.is_held = false;
    for shard in 0..SHARDS {
        host.drop_shard(shard);
        host.load(shard);
    }
    assert_eq!(left(&host), GROUPS * (OFFSETS as usize + 1));
    turns_until(&mut host, GROUPS);
}
