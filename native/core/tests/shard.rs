//! A shard from outside: the way of one consumer, and what a host sees of it.

use kcoord_core::budget::AnswerBudget;
use kcoord_core::record::batch::BatchHeader;
use kcoord_core::request::*;
use kcoord_core::response::Response;
use kcoord_core::{Config, ErrorCode, Shard};

fn context(ticket: Ticket) -> RequestContext<'static> {
    RequestContext {
        ticket,
        api_version: 9,
        client_id: "app",
        client_host: "/127.0.0.1",
        uuid: ticket.into(),
    }
}

fn join<'a>(member_id: &'a str) -> Request<'a> {
    Request::JoinGroup(JoinGroupRequest {
        group_id: "g",
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 60_000,
        member_id,
        group_instance_id: None,
        protocol_type: "consumer",
        protocols: vec![JoinGroupProtocol { name: "range", metadata: b"m" }],
        reason: None,
    })
}

fn heartbeat<'a>(member_id: &'a str) -> Request<'a> {
    Request::Heartbeat(HeartbeatRequest {
        group_id: "g",
        generation_id: 1,
        member_id,
        group_instance_id: None,
    })
}

fn joined(shard: &mut Shard) -> (Ticket, kcoord_core::response::JoinGroupResponse) {
    match shard.poll_response() {
        Some((ticket, Response::JoinGroup(response))) => (ticket, *response),
        other => panic!("{other:?} is no answer to a JoinGroup"),
    }
}

/// A Stable group of one, its records, and its member's id.
fn stable_shard() -> (Shard, Vec<u8>, Box<str>) {
    let mut shard = Shard::new(Config::default());
    let mut log = Vec::new();
    shard.loaded(0, 0);
    shard.handle_request(0, &context(1), &join(""));
    let (_, required) = joined(&mut shard);
    assert_eq!(required.error_code, ErrorCode::MemberIdRequired);
    shard.handle_request(1, &context(2), &join(&required.member_id));
    assert_eq!(shard.poll_response(), None);
    assert_eq!(shard.poll_timeout(), Some(3_001));
    shard.handle_timeout(3_001);
    assert_eq!(shard.poll_response(), None, "the group is not durable yet");
    commit(&mut shard, &mut log);
    let (ticket, response) = joined(&mut shard);
    assert_eq!((ticket, response.generation_id), (2, 1));
    let sync = Request::SyncGroup(SyncGroupRequest {
        group_id: "g",
        generation_id: 1,
        member_id: &response.member_id,
        group_instance_id: None,
        protocol_type: Some("consumer"),
        protocol_name: Some("range"),
        assignments: vec![SyncGroupAssignment {
            member_id: &response.member_id,
            assignment: b"t-0",
        }],
    });
    shard.handle_request(3_001, &context(3), &sync);
    assert_eq!(shard.poll_response(), None, "the assignment is not durable yet");
    commit(&mut shard, &mut log);
    match shard.poll_response() {
        Some((3, Response::SyncGroup(response))) => assert_eq!(*response.assignment, *b"t-0"),
        other => panic!("{other:?} is no answer to the SyncGroup"),
    }
    (shard, log, response.member_id)
}

/// What a host does with an append: frames it, makes it durable, and says so.
fn commit(shard: &mut Shard, log: &mut Vec<u8>) {
    let append = shard.poll_append().expect("something was emitted");
    BatchHeader::of(&append).encode(&append.records, log);
    shard.handle_committed(append.max_timestamp, append.end_offset());
}

/// The log of groups of one: `g000`, `g001`, ...
fn log_of_groups(count: usize) -> Vec<u8> {
    let mut shard = Shard::new(Config { group_initial_rebalance_delay_ms: 0, ..Config::default() });
    shard.loaded(0, 0);
    let ids: Vec<String> = (0..count).map(|at| format!("g{at:03}")).collect();
    let mut log = Vec::new();
    for (ticket, group_id) in (1..).zip(&ids) {
        let Request::JoinGroup(request) = join("") else { unreachable!() };
        let asks_once = RequestContext { api_version: 3, ..context(ticket) };
        shard.handle_request(
            0,
            &asks_once,
            &Request::JoinGroup(JoinGroupRequest { group_id, ..request }),
        );
        shard.handle_timeout(0);
        commit(&mut shard, &mut log);
        let (_, response) = joined(&mut shard);
        let sync = SyncGroupRequest {
            group_id,
            generation_id: 1,
            member_id: &response.member_id,
            group_instance_id: None,
            protocol_type: None,
            protocol_name: None,
            assignments: Vec::new(),
        };
        shard.handle_request(0, &context(ticket), &Request::SyncGroup(sync));
        commit(&mut shard, &mut log);
        shard.poll_response().expect("the answer to the SyncGroup");
    }
    log
}

/// When timers of a shard are due that was just loaded, until all of its sessions have ended; and
/// the time at which they did.
fn wake_ups_after_load(groups: usize) -> (Vec<i64>, i64) {
    let mut shard = Shard::new(Config::default());
    shard.replay(&log_of_groups(groups)).unwrap();
    shard.loaded(5_000, 2 * groups as i64);
    assert_eq!(shard.member_count(), groups);
    let mut wake_ups = Vec::new();
    while shard.member_count() == groups {
        let due_ms = shard.poll_timeout().expect("sessions run");
        shard.handle_timeout(due_ms);
        shard.assert_consistent();
        wake_ups.push(due_ms);
    }
    assert_eq!(shard.member_count(), 0, "they end together");
    let mut ended = Vec::new();
    while let Some(append) = shard.poll_append() {
        ended.extend(append.records);
    }
    let places = (0..groups).map(|at| {
        let id = format!("g{at:03}").into_bytes();
        ended.windows(4).position(|part| part == id).expect("its record")
    });
    assert!(places.is_sorted(), "in the order of their ids");
    (wake_ups.clone(), *wake_ups.last().unwrap())
}

#[test]
fn few_sessions_that_were_loaded_have_exact_timers() {
    assert_eq!(wake_ups_after_load(100), (vec![15_000], 15_000));
}

/// A million timers in one millisecond would hold everybody up.
#[test]
fn many_sessions_that_were_loaded_are_looked_at_over_time() {
    let (wake_ups, ended) = wake_ups_after_load(500);
    assert_eq!(ended, 15_000);
    assert_eq!(wake_ups.len(), 501, "each looked at by itself, and all at the end");
    assert!(wake_ups.is_sorted() && wake_ups[0] >= 10_000);
}

#[test]
fn a_heartbeat_waits_for_nobody_and_keeps_the_member() {
    let (mut shard, _, member_id) = stable_shard();
    shard.handle_batch(12_000, &[(context(4), heartbeat(&member_id))]);
    assert_eq!(shard.poll_response(), Some((4, Response::Heartbeat(ErrorCode::None))));
    // The timer of the time before that heartbeat is still in the wheel, and does nothing.
    assert_eq!(shard.poll_timeout(), Some(13_001));
    shard.handle_timeout(13_001);
    assert_eq!(shard.member_count(), 1);
    assert_eq!(shard.poll_timeout(), Some(22_000));
    shard.handle_timeout(22_000);
    assert_eq!((shard.member_count(), shard.group("g").unwrap().state), (0, "Empty"));
}

#[test]
fn a_loaded_shard_has_the_same_groups() {
    let (shard, log, member_id) = stable_shard();
    let mut loaded = Shard::new(Config::default());
    loaded.replay(&log).unwrap();
    loaded.loaded(5_000, 2);
    assert!(loaded.groups().eq(shard.groups()));
    loaded.handle_request(5_000, &context(9), &heartbeat(&member_id));
    assert_eq!(loaded.poll_response(), Some((9, Response::Heartbeat(ErrorCode::None))));
    assert_eq!(loaded.poll_timeout(), Some(15_000));
}

#[test]
fn a_dropped_shard_owes_an_answer_to_all_who_wait() {
    let (mut shard, _, _) = stable_shard();
    shard.handle_request(4_000, &context(10), &join(""));
    let (_, required) = joined(&mut shard);
    shard.handle_request(4_000, &context(11), &join(&required.member_id));
    let gone = Request::JoinGroup(JoinGroupRequest {
        group_instance_id: Some("i"),
        ..match join("") {
            Request::JoinGroup(request) => request,
            _ => unreachable!(),
        }
    });
    shard.handle_request(4_000, &context(12), &gone);
    shard.abandon(12);
    let dropped = Response::Dropped(ErrorCode::NotCoordinator);
    assert_eq!(shard.drop_parked(), [(11, dropped)]);
}

/// A JoinGroup with one thing beyond its limit is refused, and makes no group.
#[test]
fn what_a_client_can_make_grow_is_limited() {
    use kcoord_core::limits::*;
    let Request::JoinGroup(usual) = join("") else { unreachable!() };
    let long = "x".repeat(MAX_STRING_BYTES + 1);
    let metadata = vec![0; MAX_METADATA_BYTES_PER_MEMBER + 1];
    let protocol = usual.protocols[0];
    let many = vec![protocol; MAX_PROTOCOLS_PER_MEMBER + 1];
    let large = vec![JoinGroupProtocol { metadata: &metadata, ..protocol }];
    let named = vec![JoinGroupProtocol { name: &long, ..protocol }];
    let inconsistent = ErrorCode::InconsistentGroupProtocol;
    let requests = [
        (JoinGroupRequest { protocols: many, ..usual.clone() }, inconsistent),
        (JoinGroupRequest { protocols: large, ..usual.clone() }, inconsistent),
        (JoinGroupRequest { protocols: named, ..usual.clone() }, inconsistent),
        (JoinGroupRequest { protocol_type: &long, ..usual.clone() }, inconsistent),
        (JoinGroupRequest { group_id: &long, ..usual.clone() }, ErrorCode::InvalidGroupId),
        (
            JoinGroupRequest { group_instance_id: Some(&long), ..usual.clone() },
            ErrorCode::InvalidRequest,
        ),
    ];
    let mut shard = Shard::new(Config::default());
    shard.loaded(0, 0);
    for (ticket, (request, error_code)) in requests.into_iter().enumerate() {
        shard.handle_request(0, &context(ticket as Ticket), &Request::JoinGroup(request));
        assert_eq!(joined(&mut shard).1.error_code, error_code);
    }
    assert_eq!((shard.group_count(), shard.poll_append()), (0, None));
    let at_limit = vec![protocol; MAX_PROTOCOLS_PER_MEMBER];
    let request = JoinGroupRequest { protocols: at_limit, ..usual };
    shard.handle_request(0, &context(99), &Request::JoinGroup(request));
    assert_eq!(joined(&mut shard).1.error_code, ErrorCode::MemberIdRequired);
}

/// A static member that comes back with another subscription changes nothing: the topics that its
/// generation began with are remembered, and a group that remembers them is at rest all the same.
#[test]
fn a_group_whose_static_member_came_back_with_other_topics_is_at_rest() {
    let mut shard = Shard::new(Config::default());
    let mut log = Vec::new();
    shard.loaded(0, 0);
    let join = |metadata: &'static [u8]| {
        let Request::JoinGroup(join) = join("") else { unreachable!("a join") };
        let protocols = vec![JoinGroupProtocol { name: "range", metadata }];
        Request::JoinGroup(JoinGroupRequest { group_instance_id: Some("i"), protocols, ..join })
    };
    shard.handle_request(0, &context(1), &join(b"\0\0\0\0\0\x01\0\x01t\xff\xff\xff\xff"));
    shard.handle_timeout(3_000);
    commit(&mut shard, &mut log);
    let (_, leader) = joined(&mut shard);
    shard.handle_request(
        3_000,
        &context(2),
        &Request::SyncGroup(SyncGroupRequest {
            group_id: "g",
            generation_id: leader.generation_id,
            member_id: &leader.member_id,
            group_instance_id: Some("i"),
            protocol_type: None,
            protocol_name: None,
            assignments: Vec::new(),
        }),
    );
    commit(&mut shard, &mut log);
    assert!(matches!(shard.poll_response(), Some((2, Response::SyncGroup(_)))));
    shard.handle_request(3_000, &context(3), &join(b"\0\0\0\0\0\x01\0\x01u\xff\xff\xff\xff"));
    commit(&mut shard, &mut log);
    assert_eq!(joined(&mut shard).1.generation_id, leader.generation_id);
    assert_eq!(shard.group("g").unwrap().state, "Stable");
    shard.assert_consistent();
}

#[test]
fn a_leader_whose_answer_never_fits_hears_an_error_that_ends_its_attempts() {
    let config = Config { group_initial_rebalance_delay_ms: 0, ..Config::default() };
    let mut shard = Shard::new(config);
    shard.commit_at_once();
    shard.loaded(0, 0);
    let metadata = [7; 5_000];
    let join = |member_id| {
        let Request::JoinGroup(mut request) = join(member_id) else { unreachable!() };
        request.protocols[0].metadata = &metadata;
        Request::JoinGroup(request)
    };
    shard.handle_request(0, &context(1), &join(""));
    let leader = joined(&mut shard).1.member_id;
    shard.handle_request(0, &context(2), &join(&leader));
    shard.handle_timeout(1);
    assert_eq!(joined(&mut shard).1.error_code, ErrorCode::None);
    let mut told = |all_bytes, ticket| {
        *shard.budget() = AnswerBudget::new(1_000, all_bytes, 0);
        shard.handle_request(2, &context(ticket), &join(&leader));
        joined(&mut shard).1.error_code
    };
    assert_eq!(told(metadata.len(), 3), ErrorCode::UnknownServerError);
    assert_eq!(told(2 * metadata.len(), 4), ErrorCode::None);
}
