//! Long requests wait for each other: each is in its turn, in bounded memory, and is forgotten with
//! its client.

use kcoord_core::ErrorCode;
use kcoord_node::slices::{MAX_FRAME_BYTES, MAX_WAITING_BYTES, TURN_ENTRIES};

use crate::ask::*;
use crate::host::{Host, frame};

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("group-{number:06}")).collect()
}

fn borrowed(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

/// A request as long as they may be.
fn longest() -> Vec<u8> {
    let name = "g".repeat(30_000);
    let names = vec![&*name; MAX_FRAME_BYTES / 30_010];
    frame(5, &describe(&names))
}

#[test]
fn a_short_request_does_not_wait_for_the_end_of_long_ones() {
    let mut host = Host::new(50);
    let names = names(10 * TURN_ENTRIES);
    let long = host.send_frames(&vec![frame(5, &describe(&borrowed(&names))); 5]);
    let short = host.send(5, &describe(&borrowed(&names[..TURN_ENTRIES / 10])));
    let mut turns = 0;
    while host.waits(short) {
        host.sleep(0);
        turns += 1;
        assert!(turns < 5, "a slice in {turns} turns");
    }
    assert!(long.iter().all(|ticket| host.waits(*ticket)));
    host.take(short);
    // As many turns as it takes, and all of the same length: they end together.
    while long.iter().any(|ticket| host.waits(*ticket)) {
        host.sleep(0);
        turns += 1;
    }
    assert!((45..70).contains(&turns), "{turns} turns");
    for ticket in long {
        assert_eq!(described(host.take(ticket)).len(), names.len());
    }
}

#[test]
fn requests_wait_in_bounded_memory_and_beyond_it_clients_come_back() {
    let mut host = Host::new(50);
    let tickets = host.send_frames(&vec![longest(); MAX_WAITING_BYTES / MAX_FRAME_BYTES + 2]);
    assert!(host.node.waiting_bytes() <= MAX_WAITING_BYTES);
    let refused: Vec<u64> = tickets.iter().copied().filter(|at| !host.waits(*at)).collect();
    assert!(!refused.is_empty() && refused.len() <= 3, "{}", refused.len());
    for ticket in &refused {
        let codes = described(host.take(*ticket));
        assert!(codes.iter().all(|(_, _, code)| *code == ErrorCode::CoordinatorLoadInProgress));
    }
    // What is short is never refused.
    assert_eq!(described(host.ask(5, &describe(&["g"])))[0].2, ErrorCode::None);
    tickets.iter().for_each(|ticket| host.node.abandon(*ticket));
    assert_eq!(host.node.waiting_bytes(), 0, "of clients that are gone nothing waits");
    let [again] = host.send_frames(&[longest()])[..] else { panic!() };
    while host.waits(again) {
        host.sleep(0);
    }
    let codes = described(host.take(again));
    assert!(codes.iter().all(|(_, _, code)| *code == ErrorCode::None));
    assert_eq!(host.node.waiting_bytes(), 0);
}

#[test]
fn groups_of_many_offsets_are_deleted_and_fetched_in_turns() {
    let mut host = Host::new(1);
    let names = names(40);
    let partitions: Vec<i32> = (0..4_000).collect();
    for group in &names {
        host.ask(9, &commit(group, &[("t", 0, &partitions)]));
    }
    let all: Vec<FetchedGroup<'_>> = names.iter().map(|group| (&**group, None)).collect();
    let all_of_them = host.send(8, &fetch(&all));
    let turns = turns_until(&mut host, all_of_them);
    assert!(turns >= 5, "{turns} turns");
    let groups = fetched(host.take(all_of_them));
    assert_eq!(groups.len(), names.len());
    assert!(groups.iter().all(|(_, _, topics)| topics[0].partitions.len() == partitions.len()));
    host.is_held = true;
    let gone = host.send(2, &delete(&borrowed(&names)));
    let mut turns = 0;
    while host.node.waiting_bytes() > 0 {
        host.sleep(0);
        turns += 1;
    }
    assert!(turns >= 10, "{turns} turns");
    host.release();
    let codes = deleted(host.take(gone));
    assert!(codes.iter().all(|(_, code)| *code == ErrorCode::None));
    assert_eq!(listed(host.ask(4, &list())), (ErrorCode::None, Vec::new()));
}

fn turns_until(host: &mut Host, ticket: u64) -> usize {
    let mut turns = 0;
    while host.waits(ticket) {
        host.sleep(0);
        turns += 1;
    }
    turns
}
