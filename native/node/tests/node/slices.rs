//! Long requests are done in slices, and what answers take is bounded.

use std::collections::BTreeSet;

use kcoord_core::ErrorCode;
use kcoord_core::limits::MAX_ENTRIES_PER_REQUEST;
use kcoord_core::limits::{MAX_ANSWER_BYTES, MAX_UNSENT_BYTES};
use kcoord_core::request::{
    JoinGroupProtocol, JoinGroupRequest, LeaveGroupMember, LeaveGroupRequest, ListGroupsRequest,
};
use kcoord_node::slices::{MAX_FRAME_BYTES, TURN_ENTRIES};
use kcoord_wire::api::{RequestBody, ResponseBody};

use crate::ask::*;
use crate::host::{Host, frame};

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("group-{number:06}")).collect()
}

fn borrowed(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

/// Turns without anything new, until the ticket is answered; how many.
fn turns_until(host: &mut Host, ticket: u64) -> usize {
    let mut turns = 0;
    while host.waits(ticket) {
        assert_eq!(host.next_timeout_ms, Some(host.now_ms), "it wants to go on at once");
        host.sleep(0);
        turns += 1;
    }
    turns
}

/// So many names are checked in a turn, and somewhat more.
const CHECKED_NAMES: usize = 8 * TURN_ENTRIES;

#[test]
fn many_names_are_checked_in_slices() {
    let mut host = Host::new(50);
    let names = names(10 * CHECKED_NAMES);
    let whole = frame(5, &describe(&borrowed(&names)));
    let mut cut = whole.clone();
    cut.pop();
    let ticket = host.send_frames(&[cut])[0];
    let mut turns = 0;
    while host.invalid.is_empty() {
        assert!(host.waits(ticket));
        host.sleep(0);
        turns += 1;
    }
    assert!((8..12).contains(&turns), "{turns} turns");
    let [(refused, reason)] = &host.invalid[..] else { panic!("{:?}", host.invalid) };
    assert_eq!(*refused, ticket);
    assert!(reason.starts_with("DescribeGroups v5: tagged"), "{reason}");
    assert_eq!(host.node.waiting_bytes(), 0);
    assert_ne!(host.next_timeout_ms, Some(host.now_ms), "nothing of it is left to do");

    let ticket = host.send_frames(std::slice::from_ref(&whole))[0];
    turns_until(&mut host, ticket);
    assert_eq!(described(host.take(ticket)).len(), names.len());

    let ticket = host.send_frames(&[whole])[0];
    assert!(host.node.waiting_bytes() > 0);
    host.node.abandon(ticket);
    assert_eq!(host.node.waiting_bytes(), 0);
    host.sleep(0);
    assert_eq!(host.invalid.len(), 1);
    assert_ne!(host.next_timeout_ms, Some(host.now_ms));
}

fn commit_to(host: &mut Host, groups: &[String]) {
    let frames: Vec<Vec<u8>> =
        groups.iter().map(|group| frame(9, &commit(group, &[("t", 0, &[0])]))).collect();
    for ticket in host.send_frames(&frames) {
        host.take(ticket);
    }
}

#[test]
fn a_long_request_leaves_the_turns_to_others() {
    let mut host = Host::new(50);
    let member = stable(&mut host, "group-000007");
    let names = names(5 * TURN_ENTRIES);
    let ticket = host.send(6, &describe(&borrowed(&names)));
    assert!(host.waits(ticket));
    let ResponseBody::Heartbeat(code) = host.ask(3, &heartbeat("group-000007", &member, 1)) else {
        panic!()
    };
    assert_eq!(code, ErrorCode::None);
    assert!(host.waits(ticket), "a turn of somebody else's is one turn");
    let turns = turns_until(&mut host, ticket);
    assert!((3..10).contains(&turns), "{turns} turns");
    let answer = described(host.take(ticket));
    assert_eq!(answer.len(), names.len());
    for (number, ((group, state, code), asked)) in answer.iter().zip(&names).enumerate() {
        let there = number == 7;
        let code_expected = if there { ErrorCode::None } else { ErrorCode::GroupIdNotFound };
        assert_eq!((group, *code), (asked, code_expected));
        assert_eq!(*state == "Stable", there);
    }
}

#[test]
fn who_asks_for_little_waits_for_no_slice_and_slices_go_on_all_the_same() {
    let mut host = Host::new(50);
    let member = stable(&mut host, "group-000007");
    let names = names(20 * TURN_ENTRIES);
    let request = describe(&borrowed(&names));
    let alone = host.send(6, &request);
    let alone = turns_until(&mut host, alone);
    let beat = heartbeat("group-000007", &member, 1);
    let ticket = host.send(6, &request);
    let mut turns = 0;
    while host.waits(ticket) {
        let ResponseBody::Heartbeat(ErrorCode::None) = host.ask(3, &beat) else { panic!() };
        turns += 1;
    }
    // Every other turn is without a slice, and no more.
    assert!((2 * alone - 4..2 * alone + 4).contains(&turns), "{turns} turns, {alone} alone");
}

#[test]
fn long_requests_of_several_peers_take_no_longer_turns() {
    let mut host = Host::new(50);
    let names = names(2 * TURN_ENTRIES);
    let frames = vec![frame(5, &describe(&borrowed(&names))); 4];
    let tickets = host.send_frames(&frames);
    let mut turns = 0;
    while tickets.iter().any(|ticket| host.waits(*ticket)) {
        host.sleep(0);
        turns += 1;
        assert!(turns < 20);
    }
    assert!(turns >= 7, "{turns} turns are less than the work of four");
}

#[test]
fn a_group_described_often_is_told_as_often_as_fits() {
    let mut host = Host::new(50);
    let metadata = vec![7; 4 << 20];
    let fat = RequestBody::JoinGroup(JoinGroupRequest {
        group_id: "fat",
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 20_000,
        member_id: "",
        group_instance_id: None,
        protocol_type: "consumer",
        protocols: vec![JoinGroupProtocol { name: "range", metadata: &metadata }],
        reason: None,
    });
    let ResponseBody::JoinGroup(joined) = host.ask(3, &fat) else { panic!() };
    host.ask(3, &sync("fat", &joined.member_id, 1));
    for (version, times) in [(5, 30), (6, 600)] {
        let ticket = host.send(version, &describe(&vec!["fat"; times]));
        turns_until(&mut host, ticket);
        let codes: Vec<ErrorCode> =
            described(host.take(ticket)).into_iter().map(|(_, _, code)| code).collect();
        let fit = MAX_ANSWER_BYTES / metadata.len() - 1;
        let (told, refused) = codes.split_at(fit);
        assert!(told.iter().all(|code| *code == ErrorCode::None));
        assert!(refused.iter().all(|code| *code == ErrorCode::UnknownServerError));
    }
}

#[test]
fn a_consumer_group_described_often_is_told_as_often_as_fits() {
    let mut host = Host::new(1);
    // What the member has and what it is to have: 4 MB together.
    host.topics(&[("t", 1, 500_000)]);
    host.ask(1, &beat("fat", "AAAAAAAAAAAAAAAAAAAAAA", 0));
    let ticket = host.send(1, &describe_consumer(&["fat"; 30]));
    turns_until(&mut host, ticket);
    let ResponseBody::ConsumerGroupDescribe(told) = host.take(ticket) else { panic!() };
    let codes: Vec<ErrorCode> = told.groups.iter().map(|group| group.error_code).collect();
    let told = codes.iter().take_while(|code| **code == ErrorCode::None).count();
    assert!((2..=MAX_ANSWER_BYTES / 4_000_000).contains(&told), "{told}");
    assert!(codes[told..].iter().all(|code| *code == ErrorCode::UnknownServerError), "{codes:?}");
}

#[test]
fn what_is_unsent_counts_and_what_was_answered_does_not() {
    let mut host = Host::new(50);
    stable(&mut host, "g");
    let many: Vec<&str> = vec!["g"; 100];
    let code = |host: &mut Host| {
        let answer = described(host.ask(5, &describe(&many)));
        let codes: BTreeSet<i16> = answer.into_iter().map(|(_, _, code)| code.code()).collect();
        assert_eq!(codes.len(), 1);
        codes.into_iter().next().and_then(ErrorCode::from_code)
    };
    host.node.set_unsent(MAX_UNSENT_BYTES);
    assert_eq!(code(&mut host), Some(ErrorCode::CoordinatorLoadInProgress));
    let (listed_code, groups) = listed(host.ask(4, &list()));
    assert_eq!((listed_code, groups.len()), (ErrorCode::CoordinatorLoadInProgress, 0));
    // Enough for one answer: none of those before holds anything.
    host.node.set_unsent(MAX_UNSENT_BYTES - 100 * 700);
    (0..3).for_each(|_| assert_eq!(code(&mut host), Some(ErrorCode::None)));
    assert_eq!(listed(host.ask(4, &list())), (ErrorCode::None, vec!["g".to_owned()]));
}

#[test]
fn offsets_with_metadata_are_told_as_often_as_fits() {
    let mut host = Host::new(50);
    let text = "x".repeat(4_096);
    let RequestBody::OffsetCommit(mut request) = commit("g", &[("t", 0, &[0])]) else { panic!() };
    request.topics[0].partitions[0].committed_metadata = Some(&text);
    host.ask(9, &RequestBody::OffsetCommit(request));
    let partitions = vec![0; MAX_ANSWER_BYTES / text.len() + 1];
    let fits: [(&str, u128, &[i32]); 1] = [("t", 0, &partitions[..5_000])];
    let too_many: [(&str, u128, &[i32]); 1] = [("t", 0, &partitions)];
    let groups: [FetchedGroup<'_>; 3] =
        [("g", Some(&fits)), ("g", Some(&too_many)), ("other", None)];
    let ticket = host.send(8, &fetch(&groups));
    turns_until(&mut host, ticket);
    let answer = fetched(host.take(ticket));
    let codes: Vec<ErrorCode> = answer.iter().map(|(_, code, _)| *code).collect();
    assert_eq!(codes, [ErrorCode::None, ErrorCode::UnknownServerError, ErrorCode::None]);
    assert_eq!(answer[0].2[0].partitions.len(), 5_000);
}

#[test]
fn many_members_leave_in_slices_and_each_is_told() {
    let mut host = Host::new(50);
    let frames = vec![frame(3, &join("g", "")); 3 * TURN_ENTRIES];
    let tickets = host.send_frames(&frames);
    host.sleep(0);
    let mut ids = Vec::new();
    for ticket in tickets {
        if host.waits(ticket) {
            host.sleep(20_001);
        }
        let ResponseBody::JoinGroup(joined) = host.take(ticket) else { panic!() };
        ids.push(String::from(joined.member_id));
    }
    ids.push(ids[0].clone());
    let member = |id| LeaveGroupMember { member_id: id, group_instance_id: None, reason: None };
    let members = borrowed(&ids).into_iter().map(member).collect();
    let request = RequestBody::LeaveGroup(LeaveGroupRequest { group_id: "g", members });
    let ticket = host.send(4, &request);
    assert!(host.waits(ticket));
    turns_until(&mut host, ticket);
    let ResponseBody::LeaveGroup(left) = host.take(ticket) else { panic!() };
    assert_eq!(left.error_code, ErrorCode::None);
    let told: Vec<&str> = left.members.iter().map(|member| &*member.member_id).collect();
    assert_eq!(told, borrowed(&ids));
    let (last, others) = left.members.split_last().expect("somebody left");
    assert!(others.iter().all(|member| member.error_code == ErrorCode::None));
    assert_eq!(last.error_code, ErrorCode::UnknownMemberId);
    host.node.shard(host.shard_of("g")).assert_consistent();
    assert_eq!(described(host.ask(5, &describe(&["g"])))[0].1, "Empty");
}

#[test]
fn many_groups_are_deleted_each_once() {
    let mut host = Host::new(50);
    let mut names = names(3_000);
    commit_to(&mut host, &names[..2_000]);
    names.extend_from_within(..500);
    let ticket = host.send(2, &delete(&borrowed(&names)));
    turns_until(&mut host, ticket);
    let answer = deleted(host.take(ticket));
    assert_eq!(answer.len(), 3_000);
    for (number, ((group, code), asked)) in answer.iter().zip(&names).enumerate() {
        let expected = if number < 2_000 { ErrorCode::None } else { ErrorCode::GroupIdNotFound };
        assert_eq!((group, *code), (asked, expected));
    }
    let ticket = host.send(4, &list());
    turns_until(&mut host, ticket);
    assert_eq!(listed(host.take(ticket)), (ErrorCode::None, Vec::new()));
}

#[test]
fn a_list_of_many_groups_holds_each_once_while_others_come_and_go() {
    for shards in [1, 50] {
        let mut host = Host::new(shards);
        let names = names(4 * TURN_ENTRIES);
        commit_to(&mut host, &names);
        let ticket = host.send(4, &list());
        assert!(host.waits(ticket));
        host.ask(2, &delete(&[&names[names.len() - 1]]));
        host.ask(9, &commit("group-new", &[("t", 0, &[0])]));
        turns_until(&mut host, ticket);
        let (code, groups) = listed(host.take(ticket));
        assert_eq!(code, ErrorCode::None);
        let told: BTreeSet<String> = groups.iter().cloned().collect();
        assert_eq!(told.len(), groups.len(), "each once");
        assert!(names[..names.len() - 1].iter().all(|name| told.contains(name)));
        assert!(told.len() <= names.len() + 1);
    }
}

#[test]
fn a_list_may_be_longer_than_other_answers() {
    let mut host = Host::new(50);
    const LONG: usize = 30_000;
    let names: Vec<String> = (0..MAX_ANSWER_BYTES / LONG + 50)
        .map(|number| format!("{number:04}-{}", "g".repeat(LONG)))
        .collect();
    commit_to(&mut host, &names);
    let ticket = host.send(4, &list());
    turns_until(&mut host, ticket);
    let (code, groups) = listed(host.take(ticket));
    assert_eq!((code, groups.len()), (ErrorCode::None, names.len()));
}

#[test]
fn a_filter_of_many_names_accepts_what_it_names() {
    let mut host = Host::new(50);
    commit_to(&mut host, &names(10));
    let unknown = vec!["Unheard"; 10_000];
    for (mut states_filter, count) in [(unknown.clone(), 0), (unknown, 10)] {
        if count > 0 {
            states_filter.push(" empty ");
        }
        let request = ListGroupsRequest { states_filter, types_filter: Vec::new() };
        let (code, groups) = listed(host.ask(4, &RequestBody::ListGroups(request)));
        assert_eq!((code, groups.len()), (ErrorCode::None, count));
    }
}

#[test]
fn nobody_goes_on_for_a_client_that_is_gone() {
    let mut host = Host::new(50);
    let names = names(5 * TURN_ENTRIES);
    let ticket = host.send(5, &describe(&borrowed(&names)));
    assert_eq!(host.next_timeout_ms, Some(host.now_ms));
    host.node.abandon(ticket);
    host.sleep(0);
    assert!(host.waits(ticket));
    assert_ne!(host.next_timeout_ms, Some(host.now_ms));
}

#[test]
fn a_shard_that_goes_away_refuses_the_rest() {
    let mut host = Host::new(2);
    let (one, other) = host.apart();
    let groups: Vec<&str> = std::iter::repeat_n([&*one, &*other], TURN_ENTRIES).flatten().collect();
    let ticket = host.send(5, &describe(&groups));
    host.drop_shard(host.shard_of(&one));
    turns_until(&mut host, ticket);
    let answer = described(host.take(ticket));
    assert_eq!(answer.len(), groups.len());
    assert_eq!(answer[0].2, ErrorCode::None);
    assert_eq!(answer[answer.len() - 2].2, ErrorCode::CoordinatorLoadInProgress);
    assert_eq!(answer[answer.len() - 1].2, ErrorCode::None);
}

#[test]
fn more_entries_than_anybody_has_are_refused() {
    let mut host = Host::new(50);
    for (count, length) in
        [(MAX_ENTRIES_PER_REQUEST + 1, 1), (2 + MAX_FRAME_BYTES / 30_000, 30_000)]
    {
        let name = "g".repeat(length);
        let ticket = host.send(5, &describe(&vec![&*name; count]));
        assert!(host.waits(ticket));
        let (refused, reason) = host.invalid.pop().expect("its connection is closed");
        assert_eq!(refused, ticket);
        assert!(reason.contains("are served"), "{reason}");
    }
}
