//! A shard that is loading, that failed, or that is loaded again (states sections 3.1 and 11).

use kcoord_core::ErrorCode::{self, *};
use kcoord_core::request::SyncGroupRequest;
use kcoord_wire::api::{RequestBody, ResponseBody};

use crate::ask::*;
use crate::host::Host;

fn code(answer: &ResponseBody) -> ErrorCode {
    let mut codes = Vec::new();
    answer.each_code(|code| codes.push(code));
    codes[0]
}

fn session(body: RequestBody<'static>, session_timeout_ms: i32) -> RequestBody<'static> {
    let RequestBody::JoinGroup(mut join) = body else { panic!() };
    join.session_timeout_ms = session_timeout_ms;
    RequestBody::JoinGroup(join)
}

fn unnamed() -> RequestBody<'static> {
    RequestBody::SyncGroup(SyncGroupRequest {
        group_id: "g",
        generation_id: 1,
        member_id: "m",
        group_instance_id: Option::None,
        protocol_type: Option::None,
        protocol_name: Some("range"),
        assignments: Vec::new(),
    })
}

#[test]
fn who_asks_a_loading_shard_is_told_so() {
    let loading = CoordinatorLoadInProgress;
    let t: [(&str, u128, &[i32]); 1] = [("t", 0, &[0])];
    for (version, request, expected) in [
        (9, join("g", ""), loading),
        (9, join("", ""), InvalidGroupId),
        (9, session(join("g", ""), 1), InvalidSessionTimeout),
        (5, sync("g", "m", 1), loading),
        (5, sync("", "m", 1), InvalidGroupId),
        (5, unnamed(), InconsistentGroupProtocol),
        (4, heartbeat("g", "m", 1), None),
        (4, heartbeat("", "m", 1), InvalidGroupId),
        (5, leave("g", "m"), loading),
        (5, leave("", "m"), InvalidGroupId),
        (9, commit("g", &t), loading),
        (9, commit("", &t), loading),
        (7, fetch(&[("g", Some(&t))]), loading),
        (10, fetch(&[("g", Option::None)]), loading),
        (0, delete_offsets("g", &[("t", &[0])]), loading),
        (0, delete_offsets("", &[("t", &[0])]), InvalidGroupId),
        (6, describe(&["g"]), loading),
        (2, delete(&["g"]), loading),
        (5, list(), loading),
        (1, beat("g", "m", 1), loading),
        (1, beat("", "m", 1), InvalidRequest),
        (1, beat("g", "", 1), InvalidRequest),
        (1, describe_consumer(&["g"]), loading),
    ] {
        let answer = Host::loading(3).ask(version, &request);
        assert_eq!(code(&answer), expected, "{request:?}");
    }
}

#[test]
fn who_asks_for_a_shard_of_another_node_is_told_so() {
    let t: [(&str, u128, &[i32]); 1] = [("t", 0, &[0])];
    for (version, request, expected) in [
        (9, join("g", ""), NotCoordinator),
        (9, join("", ""), InvalidGroupId),
        (9, session(join("g", ""), 1), InvalidSessionTimeout),
        (5, sync("g", "m", 1), NotCoordinator),
        (5, unnamed(), InconsistentGroupProtocol),
        (4, heartbeat("g", "m", 1), NotCoordinator),
        (4, heartbeat("", "m", 1), InvalidGroupId),
        (5, leave("g", "m"), NotCoordinator),
        (9, commit("g", &t), NotCoordinator),
        (7, fetch(&[("g", Some(&t))]), NotCoordinator),
        (10, fetch(&[("g", Option::None)]), NotCoordinator),
        (0, delete_offsets("g", &[("t", &[0])]), NotCoordinator),
        (6, describe(&["g"]), NotCoordinator),
        (2, delete(&["g"]), NotCoordinator),
        (5, list(), None),
        (1, beat("g", "m", 1), NotCoordinator),
        (1, beat("", "m", 1), InvalidRequest),
        (1, describe_consumer(&["g"]), NotCoordinator),
    ] {
        let mut host = Host::loading(3);
        (0..3).for_each(|shard| host.node.set_away(shard, true));
        assert_eq!(code(&host.ask(version, &request)), expected, "{request:?}");
    }
}

#[test]
fn a_shard_that_comes_back_loads_and_then_serves() {
    let mut host = Host::new(50);
    let (serving, moved) = host.apart();
    stable(&mut host, &serving);
    host.ask(9, &commit(&moved, &[("t", 0, &[0])]));
    let shard = host.shard_of(&moved);
    host.drop_shard(shard);
    host.node.set_away(shard, true);
    assert_eq!(listed(host.ask(5, &list())), (None, vec![serving.clone()]));
    assert_eq!(beats(&mut host, &[&moved, &serving]), [NotCoordinator, UnknownMemberId]);
    host.node.set_away(shard, false);
    assert_eq!(described(host.ask(5, &describe(&[&moved])))[0].2, CoordinatorLoadInProgress);
    host.load(shard);
    assert_eq!(described(host.ask(5, &describe(&[&moved])))[0].1, "Empty");
}

fn beats(host: &mut Host, groups: &[&str]) -> Vec<ErrorCode> {
    host.node.heartbeat_many(0, groups.iter().map(|group| (*group, "nobody", 1)))
}

#[test]
fn one_loading_shard_spoils_only_its_own_parts() {
    let mut host = Host::new(50);
    let (serving, loading) = host.apart();
    stable(&mut host, &serving);
    host.ask(9, &commit(&loading, &[("t", 0, &[0])]));
    let shard = host.shard_of(&loading);
    host.drop_shard(shard);

    let both = [&*loading, &*serving];
    let states = described(host.ask(5, &describe(&both)));
    assert_eq!(states[0].2, CoordinatorLoadInProgress);
    assert_eq!((states[1].1, states[1].2), ("Stable", None));
    let codes: Vec<ErrorCode> =
        deleted(host.ask(2, &delete(&both))).into_iter().map(|(_, code)| code).collect();
    assert_eq!(codes, [CoordinatorLoadInProgress, NonEmptyGroup]);
    let groups = [(&*loading, Option::None), (&*serving, Option::None)];
    let codes: Vec<ErrorCode> =
        fetched(host.ask(8, &fetch(&groups))).into_iter().map(|(_, code, _)| code).collect();
    assert_eq!(codes, [CoordinatorLoadInProgress, None]);
    assert_eq!(listed(host.ask(5, &list())), (CoordinatorLoadInProgress, vec![]));

    host.load(shard);
    let (code, groups) = listed(host.ask(5, &list()));
    assert_eq!((code, groups.len()), (None, 2));
    assert_eq!(described(host.ask(5, &describe(&[&loading])))[0].1, "Empty");
}

/// A topic that goes while a shard loads takes its offsets along there too, once it serves.
#[test]
fn a_loading_shard_hears_later_that_a_topic_was_deleted() {
    let mut host = Host::new(50);
    let (serving, loading) = host.apart();
    host.topics(&[("t", 1, 1), ("u", 2, 1)]);
    let both: [(&str, u128, &[i32]); 2] = [("t", 0, &[0]), ("u", 0, &[0])];
    host.ask(9, &commit(&serving, &both));
    host.ask(9, &commit(&loading, &both));
    let shard = host.shard_of(&loading);
    host.drop_shard(shard);
    host.topics(&[("u", 2, 1)]);
    host.sleep(1);
    host.load(shard);
    host.sleep(1);

    for group in [&*serving, &*loading] {
        let all = fetched(host.ask(7, &fetch(&[(group, Option::None)])));
        let names: Vec<&str> = all[0].2.iter().map(|topic| &*topic.name).collect();
        assert_eq!(names, ["u"], "{group}");
    }
}

#[test]
fn everything_that_waits_in_a_dropped_shard_is_refused_in_its_shape() {
    let mut host = Host::new(1);
    let member = stable(&mut host, "g");
    host.ask(9, &commit("simple", &[("t", 0, &[0])]));
    host.is_held = true;
    // A first commit that is not durable makes all who ask about its group wait.
    let t: [(&str, u128, &[i32]); 1] = [("t", 0, &[0])];
    let ResponseBody::JoinGroup(new) = host.ask(4, &join("g", "")) else { panic!() };
    assert_eq!(new.error_code, MemberIdRequired);
    let waiting = [
        host.send(9, &commit("simple", &[("t", 0, &[0]), ("u", 0, &[1])])),
        host.send(7, &fetch(&[("simple", Some(&t))])),
        host.send(9, &fetch(&[("simple", Option::None)])),
        host.send(6, &describe(&["simple"])),
        host.send(0, &delete_offsets("simple", &[("t", &[0])])),
        host.send(2, &delete(&["simple"])),
        host.send(4, &join("g", &new.member_id)),
        host.send(5, &list()),
    ];
    for ticket in waiting {
        assert!(host.waits(ticket), "ticket {ticket}");
    }
    host.drop_shard(0);
    for ticket in waiting {
        let answer = host.take(ticket);
        // A list goes without the groups of a shard that is gone.
        let expected =
            if matches!(answer, ResponseBody::ListGroups(_)) { None } else { NotCoordinator };
        assert_eq!(code(&answer), expected, "{answer:?}");
    }
    assert_eq!(host.next_timeout_ms, Option::None);

    // The log ends with what was durable; members have a new session.
    host.is_held = false;
    host.load(0);
    assert_eq!(code(&host.ask(4, &heartbeat("g", &member, 1))), None);
    assert!(host.next_timeout_ms.is_some());
    assert_eq!(fetched(host.ask(7, &fetch(&[("simple", Some(&t))])))[0].2[0].partitions.len(), 1);
    assert_eq!(code(&host.ask(5, &leave("g", &member))), None);
}

/// A host that is held up after a load: its first turn comes when sessions are over by then.
#[test]
fn a_session_that_ends_before_the_first_turn_after_a_load_has_ended() {
    let mut host = Host::new(1);
    let member = stable(&mut host, "g");
    host.drop_shard(0);
    host.load(0);
    host.now_ms += 10_001;
    assert_eq!(code(&host.ask(4, &heartbeat("g", &member, 1))), UnknownMemberId);
}

#[test]
fn joins_and_syncs_that_wait_for_members_are_refused_too() {
    let mut host = Host::new(1);
    let first = stable(&mut host, "g");
    let second = host.send(3, &join("g", ""));
    let again = host.send(3, &join("g", &first));
    let ResponseBody::JoinGroup(joined) = host.take(second) else { panic!() };
    assert!(!host.waits(again));
    let follower = host.send(3, &sync("g", &joined.member_id, 2));
    assert!(host.waits(follower));
    let third = host.send(3, &join("h", ""));
    host.answers.remove(&third);
    host.drop_shard(0);
    assert_eq!(code(&host.take(follower)), NotCoordinator);
    host.load(0);
    let joining = host.send(3, &join("g", ""));
    assert!(host.waits(joining), "the first member has not joined again");
    host.drop_shard(0);
    let ResponseBody::JoinGroup(refused) = host.take(joining) else { panic!() };
    assert_eq!((refused.error_code, refused.generation_id), (NotCoordinator, -1));
}

#[test]
#[should_panic(expected = "drop it before replaying")]
fn a_live_shard_is_not_replayed_into() {
    Host::new(1).load(0);
}
