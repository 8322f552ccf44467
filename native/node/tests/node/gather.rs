//! Requests that reach several shards: split, and put together again in the order asked.

use kcoord_core::ErrorCode;

use crate::ask::*;
use crate::host::Host;

const GROUPS: [&str; 6] = ["a", "b", "c", "group-17", "消费组", ""];

#[test]
fn a_fetch_of_many_groups_keeps_their_order() {
    let mut host = Host::new(50);
    for group in GROUPS.iter().skip(1) {
        host.ask(9, &commit(group, &[("t", 0, &[3])]));
    }
    let topics: [(&str, u128, &[i32]); 1] = [("t", 0, &[3])];
    let groups: Vec<FetchedGroup<'_>> = GROUPS.iter().map(|g| (*g, Some(&topics[..]))).collect();
    let answer = fetched(host.ask(8, &fetch(&groups)));
    assert_eq!(answer.len(), GROUPS.len());
    for ((group, code, topics), asked) in answer.iter().zip(GROUPS) {
        assert_eq!((&**group, *code), (asked, ErrorCode::None));
        let offset = if asked == "a" { -1 } else { 30 };
        assert_eq!(topics[0].partitions, [value(3, offset)]);
    }
    assert_eq!(fetched(host.ask(8, &fetch(&[]))), []);
}

#[test]
fn a_group_fetched_twice_is_answered_twice() {
    let mut host = Host::new(50);
    host.ask(9, &commit("a", &[("t", 0, &[3])]));
    let answer = fetched(host.ask(9, &fetch(&[("a", None), ("b", None), ("a", None)])));
    let offsets: Vec<usize> = answer.iter().map(|(_, _, topics)| topics.len()).collect();
    assert_eq!(offsets, [1, 0, 1]);
}

#[test]
fn descriptions_keep_the_order_and_wait_for_every_commit() {
    let mut host = Host::new(50);
    let (one, other) = host.apart();
    stable(&mut host, &one);
    host.is_held = true;
    host.send(9, &commit(&other, &[("t", 0, &[0])]));
    let ticket = host.send(5, &describe(&[&other, "absent", &one, &other]));
    assert!(host.waits(ticket), "an offset of one group is not durable");
    host.release();
    let expected = [
        (other.clone(), "Empty", ErrorCode::None),
        ("absent".to_string(), "Dead", ErrorCode::None),
        (one, "Stable", ErrorCode::None),
        (other, "Empty", ErrorCode::None),
    ];
    assert_eq!(described(host.take(ticket)), expected);
    assert_eq!(described(host.ask(5, &describe(&[]))), []);
}

#[test]
fn groups_to_delete_count_once_each() {
    let mut host = Host::new(50);
    for group in ["a", "b"] {
        host.ask(9, &commit(group, &[("t", 0, &[3])]));
    }
    stable(&mut host, "busy");
    let answer = deleted(host.ask(2, &delete(&["b", "x", "b", "busy", "a", "x"])));
    let expected = [
        ("b".to_string(), ErrorCode::None),
        ("x".to_string(), ErrorCode::GroupIdNotFound),
        ("busy".to_string(), ErrorCode::NonEmptyGroup),
        ("a".to_string(), ErrorCode::None),
    ];
    assert_eq!(answer, expected);
    assert_eq!(listed(host.ask(5, &list())), (ErrorCode::None, vec!["busy".to_string()]));
    assert_eq!(deleted(host.ask(2, &delete(&[]))), []);
}

#[test]
fn a_list_is_of_all_shards() {
    let mut host = Host::new(50);
    for group in GROUPS {
        host.ask(9, &commit(group, &[("t", 0, &[3])]));
    }
    let mut all: Vec<String> = GROUPS.map(String::from).into();
    all.sort();
    assert_eq!(listed(host.ask(5, &list())), (ErrorCode::None, all));
}

#[test]
fn many_heartbeats_are_answered_in_their_order() {
    let mut host = Host::new(50);
    let groups: Vec<String> = (0..3000).map(|n| format!("g-{n}")).collect();
    let member = stable(&mut host, "g-2999");
    let beats = groups.iter().map(|group| (&**group, &*member, 1));
    let codes = host.node.heartbeat_many(host.now_ms, beats);
    assert_eq!(codes.len(), groups.len());
    assert_eq!(codes[2999], ErrorCode::None);
    assert!(codes[..2999].iter().all(|code| *code == ErrorCode::UnknownMemberId));
    let odd = [("g-2999", &*member, 2), ("", &*member, 1)];
    let codes = host.node.heartbeat_many(host.now_ms, odd.into_iter());
    assert_eq!(codes, [ErrorCode::IllegalGeneration, ErrorCode::InvalidGroupId]);
}

/// At and beside the sizes of the windows in which they are looked up.
#[test]
fn heartbeats_hear_together_what_each_hears_alone() {
    let mut host = Host::new(1);
    let known: Vec<_> = (0..5).map(|n| format!("g-{n}")).collect();
    let members: Vec<_> = known.iter().map(|group| stable(&mut host, group)).collect();
    for count in [1, 2, 7, 8, 9, 63, 64, 65, 130] {
        let beats: Vec<(&str, &str, i32)> = (0..count)
            .map(|at| match at % 9 {
                5 => ("nobody's", &*members[0], 1),
                6 => (&*known[0], "nobody", 1),
                7 => (&*known[at % 5], &*members[at % 5], 2),
                8 => ("", &*members[0], 1),
                own => (&*known[own], &*members[own], 1),
            })
            .collect();
        let together = host.node.heartbeat_many(host.now_ms, beats.iter().copied());
        let alone =
            beats.iter().map(|one| host.node.heartbeat_many(host.now_ms, [*one].into_iter()));
        assert_eq!(together, alone.collect::<Vec<_>>().concat(), "of {count}");
        assert!(together.iter().take(5).all(|code| *code == ErrorCode::None));
    }
}

#[test]
fn a_heartbeat_among_many_keeps_its_member_alive() {
    let mut host = Host::new(4);
    let member = stable(&mut host, "g");
    for _ in 0..5 {
        host.sleep(9_000);
        let codes = host.node.heartbeat_many(host.now_ms, [("g", &*member, 1)].into_iter());
        assert_eq!(codes, [ErrorCode::None]);
    }
    host.sleep(10_001);
    let codes = host.node.heartbeat_many(host.now_ms, [("g", &*member, 1)].into_iter());
    assert_eq!(codes, [ErrorCode::UnknownMemberId]);
}
