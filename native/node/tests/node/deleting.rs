//! A group of many offsets is deleted in slices: nobody sees a half of it, and a crash leaves what can
//! be deleted again.

use kcoord_core::ErrorCode;
use kcoord_wire::api::ResponseBody;

use crate::ask::*;
use crate::host::{Host, frame};

const OFFSETS: i32 = 30_000;
const BUSY: ErrorCode = ErrorCode::CoordinatorLoadInProgress;

/// Turns are asked for one by one; the group `large` has many offsets, `other` one.
fn host() -> Host {
    let mut host = Host::new(1);
    let all: Vec<i32> = (0..OFFSETS).collect();
    host.ask(9, &commit("large", &[("t", 0, &all)]));
    host.ask(9, &commit("other", &[("t", 0, &[0])]));
    host.is_turn_by_turn = true;
    host
}

fn offsets(host: &Host, group_id: &str) -> usize {
    host.node.shard(0).offset_count_of(group_id)
}

fn fetch_code(host: &mut Host) -> ErrorCode {
    fetched(host.ask(8, &fetch(&[("large", None)])))[0].1
}

fn commit_code(host: &mut Host) -> ErrorCode {
    let ticket = host.send(9, &commit("large", &[("t", 0, &[0])]));
    while host.waits(ticket) {
        host.sleep(0);
    }
    committed(host.take(ticket))[0].2[0].1
}

fn code_of(answer: ResponseBody) -> ErrorCode {
    match answer {
        ResponseBody::OffsetFetch(groups) => groups[0].error_code(),
        ResponseBody::OffsetCommit(answer) => answer.topics[0].partitions[0].1,
        ResponseBody::JoinGroup(joined) => joined.error_code,
        ResponseBody::ConsumerGroupHeartbeat(Err(refusal)) => refusal.error_code,
        ResponseBody::OffsetDelete(answer) => answer.error_code,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_group_that_is_deleted_in_slices_is_seen_by_nobody_meanwhile() {
    let mut host = host();
    let ticket = host.send(2, &delete(&["large", "other", "absent"]));
    let mut turns = 0;
    while host.waits(ticket) {
        if offsets(&host, "large") > 0 {
            let asked = [
                frame(8, &fetch(&[("large", None)])),
                frame(9, &commit("large", &[("t", 0, &[0])])),
                frame(3, &join("large", "")),
                frame(1, &beat("large", "AAAAAAAAAAAAAAAAAAAAAA", 0)),
                frame(0, &delete_offsets("large", &[("t", &[0])])),
            ];
            // The first goes on with the deletion, the others do not wait for it.
            for asked in [&asked[..1], &asked[1..]] {
                if offsets(&host, "large") == 0 {
                    break;
                }
                for ticket in host.send_frames(asked) {
                    assert_eq!(code_of(host.take(ticket)), BUSY);
                }
            }
            turns += 1;
        }
        host.sleep(0);
    }
    assert!(turns > 0, "it was not done in one turn");
    let found = |code| String::from(code);
    let codes = [ErrorCode::None, ErrorCode::None, ErrorCode::GroupIdNotFound];
    let names = ["large", "other", "absent"].map(found);
    assert_eq!(deleted(host.take(ticket)), names.into_iter().zip(codes).collect::<Vec<_>>());
    assert_eq!(fetch_code(&mut host), ErrorCode::None);
    assert_eq!((commit_code(&mut host), offsets(&host, "large")), (ErrorCode::None, 1));
}

#[test]
fn a_crash_at_any_slice_leaves_the_rest_of_the_group_and_it_can_be_deleted_again() {
    let mut host = host();
    let ticket = host.send(2, &delete(&["large"]));
    let mut half = 0;
    while host.waits(ticket) {
        let mut after = host.restarted();
        after.node.shard(0).assert_consistent();
        let left = offsets(&host, "large");
        assert_eq!(offsets(&after, "large"), left);
        if (1..OFFSETS as usize).contains(&left) {
            half += 1;
            for topic in &fetched(after.ask(8, &fetch(&[("large", None)])))[0].2 {
                assert_eq!(topic.partitions.len(), left);
                for partition in &topic.partitions {
                    assert_eq!(*partition, value(partition.0, i64::from(partition.0) * 10));
                }
            }
            assert_eq!(commit_code(&mut after), ErrorCode::None);
        }
        if left > 0 {
            after.is_turn_by_turn = false;
            let answer = after.ask(2, &delete(&["large"]));
            assert_eq!(deleted(answer), [("large".into(), ErrorCode::None)]);
            assert_eq!(offsets(&after, "large"), 0);
        }
        host.sleep(0);
    }
    assert!(half > 0);
}

#[test]
fn a_deletion_is_acknowledged_when_every_tombstone_is_durable() {
    let mut host = host();
    host.is_held = true;
    let ticket = host.send(2, &delete(&["large"]));
    while offsets(&host, "large") > 0 {
        host.sleep(0);
    }
    (0..3).for_each(|_| host.sleep(0));
    assert!(host.waits(ticket));
    host.release();
    assert_eq!(deleted(host.take(ticket)), [("large".into(), ErrorCode::None)]);
}

#[test]
fn a_deletion_that_has_begun_ends_also_if_its_client_is_gone() {
    let mut host = host();
    let ticket = host.send(2, &delete(&["large", "other"]));
    assert!((1..OFFSETS as usize).contains(&offsets(&host, "large")));
    host.node.abandon(ticket);
    for _ in 0..100 {
        host.sleep(0);
    }
    assert_eq!((offsets(&host, "large"), offsets(&host, "other")), (0, 1));
    assert_eq!(fetch_code(&mut host), ErrorCode::None);
    assert_eq!(commit_code(&mut host), ErrorCode::None);
    assert!(host.next_timeout_ms.is_none_or(|due_ms| due_ms > host.now_ms));
}

#[test]
fn two_clients_delete_the_same_group_and_one_has_done_it() {
    let mut host = host();
    let tickets = [host.send(2, &delete(&["large"])), host.send(2, &delete(&["large"]))];
    while tickets.iter().any(|ticket| host.waits(*ticket)) {
        host.sleep(0);
    }
    let codes = tickets.map(|ticket| deleted(host.take(ticket))[0].1);
    assert!(codes.contains(&ErrorCode::None), "{codes:?}");
    assert_eq!(offsets(&host, "large"), 0);
}

#[test]
fn a_group_with_members_keeps_all_its_offsets() {
    let mut host = host();
    let joined = host.send(3, &join("large", ""));
    host.sleep(0);
    assert!(!host.waits(joined), "it is a member");
    let ticket = host.send(2, &delete(&["large"]));
    while host.waits(ticket) {
        host.sleep(0);
    }
    assert_eq!(deleted(host.take(ticket)), [("large".into(), ErrorCode::NonEmptyGroup)]);
    assert_eq!(offsets(&host, "large"), OFFSETS as usize);
    assert_eq!(fetch_code(&mut host), ErrorCode::None);
}

#[test]
fn a_shard_that_goes_in_the_middle_comes_back_with_the_rest() {
    let mut host = host();
    let ticket = host.send(2, &delete(&["large"]));
    host.sleep(0);
    host.drop_shard(0);
    for _ in 0..10 {
        host.sleep(0);
    }
    assert_eq!(deleted(host.take(ticket)), [("large".into(), BUSY)]);
    host.load(0);
    assert!(offsets(&host, "large") > 0);
    assert_eq!(commit_code(&mut host), ErrorCode::None);
}
