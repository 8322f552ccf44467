//! Answers of many MiB: ordinary large groups are told, and turns stay short.

use kcoord_core::ErrorCode;
use kcoord_core::limits::MAX_ANSWER_BYTES;
use kcoord_core::request::{JoinGroupProtocol, JoinGroupRequest};
use kcoord_wire::api::describing::Described;
use kcoord_wire::api::{RequestBody, ResponseBody};

use crate::ask::*;
use crate::host::{Host, frame};

fn join_with<'a>(group_id: &'a str, metadata: &'a [u8]) -> RequestBody<'a> {
    RequestBody::JoinGroup(JoinGroupRequest {
        group_id,
        session_timeout_ms: 30_000,
        rebalance_timeout_ms: 20_000,
        member_id: "",
        group_instance_id: None,
        protocol_type: "consumer",
        protocols: vec![JoinGroupProtocol { name: "range", metadata }],
        reason: None,
    })
}

/// Turns without anything new; in none of them more than one of these is answered.
fn answered_one_by_one(host: &mut Host, tickets: &[u64]) {
    let waiting = |host: &Host| tickets.iter().filter(|ticket| host.waits(**ticket)).count();
    let mut before = tickets.len();
    loop {
        let now = waiting(host);
        assert!(before - now <= 1, "{} long answers in one turn", before - now);
        if now == 0 {
            return;
        }
        before = now;
        host.sleep(0);
    }
}

#[test]
fn a_group_of_ten_thousand_members_with_long_subscriptions_is_described() {
    let (mut host, metadata) = (Host::new(50), vec![7; 2 << 10]);
    let frames = vec![frame(3, &join_with("g", &metadata)); 10_000];
    let tickets = host.send_frames(&frames);
    host.sleep(20_001);
    let joined = tickets.iter().filter(|ticket| !host.waits(**ticket)).copied();
    let answers: Vec<ResponseBody> =
        joined.collect::<Vec<_>>().into_iter().map(|ticket| host.take(ticket)).collect();
    let leader = answers.iter().find_map(|answer| match answer {
        ResponseBody::JoinGroup(joined) if joined.members.len() > 9_000 => Some(joined),
        _ => None,
    });
    let leader = leader.expect("it is told of all members");
    host.ask(3, &sync("g", &leader.member_id, leader.generation_id));
    let ticket = host.send(5, &describe(&["g"]));
    answered_one_by_one(&mut host, &[ticket]);
    let ResponseBody::DescribeGroups(Described { groups, .. }) = host.take(ticket) else {
        panic!()
    };
    assert_eq!((groups[0].error_code, groups[0].group_state), (ErrorCode::None, "Stable"));
    assert_eq!(groups[0].members.len(), leader.members.len());
    assert!(groups[0].members.iter().all(|member| *member.member_metadata == *metadata));
}

#[test]
fn a_turn_makes_one_long_answer_however_short_the_requests_are() {
    let (mut host, metadata) = (Host::new(50), vec![7; 12 << 20]);
    let ResponseBody::JoinGroup(joined) = host.ask(3, &join_with("fat", &metadata)) else {
        panic!()
    };
    host.ask(3, &sync("fat", &joined.member_id, 1));
    let frames = vec![frame(5, &describe(&["fat", "fat"])); 6];
    let tickets = host.send_frames(&frames);
    answered_one_by_one(&mut host, &tickets);
    for ticket in tickets {
        let codes: Vec<ErrorCode> =
            described(host.take(ticket)).into_iter().map(|(_, _, code)| code).collect();
        assert_eq!(codes, [ErrorCode::None; 2]);
    }
}

#[test]
fn what_a_refused_group_would_have_told_is_work_as_well() {
    let (mut host, metadata) = (Host::new(50), vec![7; 12 << 20]);
    let ResponseBody::JoinGroup(joined) = host.ask(3, &join_with("fat", &metadata)) else {
        panic!()
    };
    host.ask(3, &sync("fat", &joined.member_id, 1));
    // Of each request two fit, and the third is refused.
    const { assert!(MAX_ANSWER_BYTES / (12 << 20) == 2) };
    let frames = vec![frame(5, &describe(&["fat", "fat", "fat", "fat"])); 3];
    let tickets = host.send_frames(&frames);
    answered_one_by_one(&mut host, &tickets);
    for ticket in tickets {
        let codes: Vec<ErrorCode> =
            described(host.take(ticket)).into_iter().map(|(_, _, code)| code).collect();
        let (told, refused) = ([ErrorCode::None; 2], [ErrorCode::UnknownServerError; 2]);
        assert_eq!(codes, [told, refused].concat());
    }
}

#[test]
fn a_leader_that_asks_again_at_any_rate_makes_no_long_turn() {
    let (mut host, metadata) = (Host::new(50), vec![7; 12 << 20]);
    let ResponseBody::JoinGroup(joined) = host.ask(3, &join_with("fat", &metadata)) else {
        panic!()
    };
    let RequestBody::JoinGroup(mut again) = join_with("fat", &metadata) else { panic!() };
    again.member_id = &joined.member_id;
    let frames = vec![frame(3, &RequestBody::JoinGroup(again)); 5];
    for _ in 0..2 {
        let tickets = host.send_frames(&frames);
        let told = |ticket| match host.take(ticket) {
            ResponseBody::JoinGroup(joined) => joined.error_code,
            other => panic!("{other:?}"),
        };
        let codes: Vec<ErrorCode> = tickets.into_iter().map(told).collect();
        // Two fit, and the others come back.
        let (told, refused) = ([ErrorCode::None; 2], [ErrorCode::CoordinatorLoadInProgress; 3]);
        assert_eq!(codes, [&told[..], &refused].concat());
    }
}
