//! Peers that go away while they wait.

use std::time::Instant;

use kcoord_core::ErrorCode;
use kcoord_wire::api::ResponseBody;

use crate::ask::*;
use crate::host::{Host, frame};

#[test]
fn an_abandoned_join_leaves_its_member_and_frees_its_answer() {
    let mut host = Host::new(5);
    let first = stable(&mut host, "g");
    let second = host.send(3, &join("g", ""));
    assert!(host.waits(second));
    host.node.abandon(second);
    host.node.abandon(second);
    let again = host.send(3, &join("g", &first));
    let ResponseBody::JoinGroup(joined) = host.take(again) else { panic!() };
    assert_eq!(joined.members.len(), 2, "the member stays");
    assert!(host.waits(second), "nobody is left to read it");
}

#[test]
fn an_abandoned_commit_is_still_committed() {
    let mut host = Host::new(5);
    host.is_held = true;
    let ticket = host.send(9, &commit("g", &[("t", 0, &[1])]));
    host.node.abandon(ticket);
    host.release();
    assert!(host.waits(ticket));
    let (_, _, topics) = fetched(host.ask(9, &fetch(&[("g", None)]))).remove(0);
    assert_eq!(topics[0].partitions, [value(1, 10)]);
}

#[test]
fn an_abandoned_gathering_is_forgotten_in_all_its_shards() {
    let mut host = Host::new(50);
    let (one, other) = host.apart();
    host.is_held = true;
    host.send(9, &commit(&one, &[("t", 0, &[1])]));
    host.send(9, &commit(&other, &[("t", 0, &[1])]));
    let ticket = host.send(5, &describe(&[&one, &other, "absent"]));
    host.node.abandon(ticket);
    // Its slot is taken by the next peer, which hears only what it asked for.
    let next = host.send(9, &fetch(&[(&one, None)]));
    host.release();
    assert!(host.waits(ticket));
    assert_eq!(fetched(host.take(next)).len(), 1);
}

#[test]
fn a_peer_may_leave_with_very_many_parts() {
    let mut host = Host::new(5);
    host.is_held = true;
    host.send(9, &commit("g", &[("t", 0, &[1])]));
    let ticket = host.send(5, &describe(&["g"; 200_000]));
    assert!(host.waits(ticket));
    let started = Instant::now();
    host.node.abandon(ticket);
    // With a search for each part it would take minutes.
    assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
    host.release();
    assert!(host.waits(ticket));
}

#[test]
fn an_unknown_ticket_is_nobody() {
    let mut host = Host::new(5);
    host.node.abandon(12345);
    let ticket = host.send(4, &heartbeat("g", "m", 1));
    host.node.abandon(ticket);
    let answer = host.take(ticket);
    assert_eq!(answer, ResponseBody::Heartbeat(ErrorCode::UnknownMemberId));
}

#[test]
fn all_peers_may_leave_at_once() {
    // 20,000 JoinGroups wait for the first member of their group; then all connections close.
    // With a search among those that wait, this would take a minute.
    let mut host = Host::new(50);
    let groups: Vec<String> = (0..200).map(|n| format!("g-{n}")).collect();
    for group in &groups {
        stable(&mut host, group);
    }
    let frames: Vec<Vec<u8>> =
        (0..20_000).map(|n| frame(3, &join(&groups[n % groups.len()], ""))).collect();
    let tickets = host.send_frames(&frames);
    assert!(tickets.iter().all(|ticket| host.waits(*ticket)));
    let started = Instant::now();
    tickets.iter().for_each(|ticket| host.node.abandon(*ticket));
    assert!(started.elapsed().as_secs() < 10, "{:?}", started.elapsed());
    host.drop_shard(0);
    assert!(tickets.iter().all(|ticket| host.waits(*ticket)), "nobody is there to be told");
}

#[test]
fn many_ids_that_nobody_came_back_with_end_at_once() {
    let mut host = Host::new(1);
    let asked = frame(4, &join("g", ""));
    host.send_frames(&vec![asked; 200_000]);
    assert_eq!(host.node.shard(0).member_count(), 200_000);
    let started = Instant::now();
    host.sleep(10_000);
    // With a search among all of them it would take most of a minute.
    assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
    assert_eq!(host.node.shard(0).member_count(), 0);
    host.node.shard(0).assert_consistent();
}

#[test]
fn many_may_ask_to_join_a_large_group_at_rest() {
    let mut host = Host::new(1);
    let tickets = host.send_frames(&vec![frame(3, &join("g", "")); 10_000]);
    host.sleep(0);
    let ResponseBody::JoinGroup(leader) = host.take(tickets[0]) else { panic!() };
    host.ask(3, &sync("g", &leader.member_id, 1));
    let started = Instant::now();
    host.send_frames(&vec![frame(4, &join("g", "")); 10_000]);
    // With all members' protocols counted for each it would take many seconds.
    assert!(started.elapsed().as_secs() < 3, "{:?}", started.elapsed());
    assert_eq!(host.node.shard(0).member_count(), 20_000);
    host.node.shard(0).assert_consistent();
}
