//! What the API layer says of topics before any group is asked (offsets.md sections 2.1, 4, 5).

use kcoord_core::Config;
use kcoord_core::ErrorCode::{self, *};
use kcoord_core::assignment_rules::{AssignmentRules, GroupStrategy, Pattern};
use kcoord_core::assignor::Strategy;
use kcoord_core::consumer_protocol::{Assignment, Subscription};
use kcoord_core::request::{JoinGroupProtocol, Uuid};
use kcoord_node::Topic;
use kcoord_wire::api::RequestBody;
use kcoord_wire::api::ResponseBody;

use crate::ask::*;
use crate::host::{Host, frame};

const ORDERS: u128 = 0x0123_4567_89ab_cdef;
const NOWHERE: u128 = 99;

fn host() -> Host {
    let mut host = Host::new(5);
    host.topics(&[("orders", ORDERS, 3), ("returns", 2, 1)]);
    host
}

#[test]
fn a_commit_lists_what_does_not_exist_first_and_merges_the_rest() {
    let topics: [(&str, u128, &[i32]); 3] =
        [("returns", 0, &[0]), ("orders", 0, &[1, 7, 2]), ("nothing", 0, &[0])];
    let answer = host().ask(9, &commit("g", &topics));
    let unknown = UnknownTopicOrPartition;
    let expected = vec![
        ("orders".to_string(), 0, vec![(7, unknown), (1, None), (2, None)]),
        ("nothing".to_string(), 0, vec![(0, unknown)]),
        ("returns".to_string(), 0, vec![(0, None)]),
    ];
    assert_eq!(committed(answer), expected);
}

#[test]
fn a_topic_named_twice_is_listed_once_where_it_is_refused() {
    let topics: [(&str, u128, &[i32]); 3] =
        [("orders", 0, &[7]), ("nothing", 0, &[0]), ("orders", 0, &[8, 1])];
    let answer = host().ask(9, &commit("g", &topics));
    let unknown = UnknownTopicOrPartition;
    let expected = vec![
        ("orders".to_string(), 0, vec![(7, unknown), (8, unknown), (1, None)]),
        ("nothing".to_string(), 0, vec![(0, unknown)]),
    ];
    assert_eq!(committed(answer), expected);
}

#[test]
fn a_commit_by_id_knows_ids_from_partitions() {
    let topics: [(&str, u128, &[i32]); 5] = [
        ("", ORDERS, &[0]),
        ("", NOWHERE, &[0, 1]),
        ("", 0, &[0]),
        ("", ORDERS, &[3]),
        ("", NOWHERE, &[2]),
    ];
    let answer = host().ask(10, &commit("g", &topics));
    let expected = vec![
        (
            String::new(),
            NOWHERE,
            vec![(0, UnknownTopicId), (1, UnknownTopicId), (2, UnknownTopicId)],
        ),
        (String::new(), 0, vec![(0, UnknownTopicId)]),
        (String::new(), ORDERS, vec![(3, UnknownTopicOrPartition), (0, None)]),
    ];
    assert_eq!(committed(answer), expected);
}

#[test]
fn with_nothing_left_to_commit_the_group_is_not_asked() {
    let mut host = host();
    let member = stable(&mut host, "g");
    assert!(!member.is_empty());
    // Nobody may commit without membership there, but nobody looks.
    let answer = host.ask(9, &commit("g", &[("nothing", 0, &[0])]));
    let expected = vec![("nothing".to_string(), 0, vec![(0, UnknownTopicOrPartition)])];
    assert_eq!(committed(answer), expected);
    assert_eq!(committed(host.ask(9, &commit("g", &[]))), []);
    let answer = host.ask(9, &commit("g", &[("orders", 0, &[0])]));
    assert_eq!(committed(answer), [("orders".to_string(), 0, vec![(0, UnknownMemberId)])]);
}

#[test]
fn without_a_catalogue_every_topic_passes() {
    let answer = Host::new(1).ask(9, &commit("g", &[("whatever", 0, &[0, 2_000_000])]));
    let expected = vec![("whatever".to_string(), 0, vec![(0, None), (2_000_000, None)])];
    assert_eq!(committed(answer), expected);
}

#[test]
fn many_topics_with_one_missing_partition_each_are_merged_without_searching() {
    let mut host = host();
    let names: Vec<String> = (0..20_000).map(|n| format!("t-{n}")).collect();
    let topics: Vec<(&str, u128, i32)> = names.iter().map(|name| (&**name, 0, 1)).collect();
    host.topics(&topics);
    let both: &[i32] = &[0, 1];
    let topics: Vec<(&str, u128, &[i32])> = names.iter().map(|name| (&**name, 0, both)).collect();
    let answer = committed(host.ask(9, &commit("g", &topics)));
    assert_eq!(answer.len(), names.len());
    let merged = vec![(1, UnknownTopicOrPartition), (0, None)];
    assert!(answer.iter().all(|(_, _, partitions)| *partitions == merged));
}

#[test]
fn offset_delete_asks_the_group_even_when_nothing_is_left() {
    let mut host = host();
    let ask = |host: &mut Host, topics: &[(&'static str, &[i32])]| {
        let ResponseBody::OffsetDelete(answer) = host.ask(0, &delete_offsets("g", topics)) else {
            panic!()
        };
        let topics = answer.topics.into_iter();
        let topics: Vec<(String, Vec<(i32, ErrorCode)>)> =
            topics.map(|topic| (topic.name.into(), topic.partitions)).collect();
        (answer.error_code, topics)
    };
    assert_eq!(ask(&mut host, &[("nothing", &[0])]), (GroupIdNotFound, vec![]));
    host.ask(9, &commit("g", &[("orders", 0, &[0, 1])]));
    let unknown = UnknownTopicOrPartition;
    assert_eq!(
        ask(&mut host, &[("nothing", &[0])]),
        (None, vec![("nothing".to_string(), vec![(0, unknown)])])
    );
    assert_eq!(
        ask(&mut host, &[("returns", &[0]), ("orders", &[0, 5])]),
        (
            None,
            vec![
                ("orders".to_string(), vec![(5, unknown), (0, None)]),
                ("returns".to_string(), vec![(0, None)]),
            ]
        )
    );
}

#[test]
fn a_topic_without_an_id_is_not_found_by_none() {
    let mut host = host();
    host.topics(&[("t", 0, 1)]);
    let answer = host.ask(10, &commit("g", &[("", 0, &[0])]));
    let ResponseBody::OffsetCommit(answer) = answer else { panic!("{answer:?}") };
    assert_eq!(answer.topics[0].partitions, [(0, UnknownTopicId)]);
}

#[test]
fn a_fetch_by_id_lists_unknown_ids_last() {
    let mut host = host();
    host.ask(9, &commit("g", &[("orders", 0, &[1])]));
    let topics: [(&str, u128, &[i32]); 2] = [("", NOWHERE, &[4]), ("", ORDERS, &[1, 2])];
    let answer = fetched(host.ask(10, &fetch(&[("g", Some(&topics)), ("absent", Some(&topics))])));
    for ((group, code, topics), offset) in answer.into_iter().zip([10, -1]) {
        assert_eq!(code, None, "{group}");
        let ids: Vec<u128> = topics.iter().map(|topic| topic.topic_id).collect();
        assert_eq!(ids, [ORDERS, NOWHERE]);
        assert_eq!(topics[0].partitions, [value(1, offset), value(2, -1)]);
        assert_eq!(topics[1].partitions, [(4, -1, -1, String::new(), UnknownTopicId)]);
    }
}

#[test]
fn a_fetch_of_all_by_id_leaves_out_what_the_catalogue_never_knew() {
    let mut host = Host::new(5);
    host.ask(9, &commit("g", &[("orders", 0, &[1]), ("returns", 0, &[0])]));
    host.topics(&[("returns", 2, 1)]);
    let names = |version: i16, host: &mut Host| {
        let (_, _, topics) = fetched(host.ask(version, &fetch(&[("g", Option::None)]))).remove(0);
        topics.into_iter().map(|topic| (topic.name, topic.topic_id)).collect::<Vec<_>>()
    };
    assert_eq!(names(10, &mut host), [(String::new(), 2)]);
    let known: Vec<String> = names(9, &mut host).into_iter().map(|(name, _)| name).collect();
    assert_eq!(known, ["orders", "returns"]);
}

#[test]
fn offsets_of_a_topic_that_the_catalogue_forgot_are_gone() {
    let mut host = host();
    host.ask(9, &commit("g", &[("orders", 0, &[1]), ("returns", 0, &[0])]));
    host.topics(&[("returns", 2, 1)]);
    host.sleep(0);
    let (_, _, topics) = fetched(host.ask(9, &fetch(&[("g", Option::None)]))).remove(0);
    let names: Vec<&str> = topics.iter().map(|topic| &*topic.name).collect();
    assert_eq!(names, ["returns"]);
}

#[test]
fn changes_alone_come_to_what_the_whole_catalogue_comes_to() {
    let mut host = host();
    host.ask(9, &commit("g", &[("orders", 0, &[1]), ("returns", 0, &[0])]));
    host.change_topics(&[("new", 7, 1), ("returns", 2, 2)], &["orders"]);
    let partitions: &[i32] = &[0, 1];
    let asked = [("orders", 0, partitions), ("returns", 0, partitions), ("new", 0, partitions)];
    let answer = host.ask(9, &commit("g", &asked));
    let unknown = UnknownTopicOrPartition;
    let of = |name: &str, errors| (name.to_string(), 0, errors);
    let expected = vec![
        of("orders", vec![(0, unknown), (1, unknown)]),
        of("new", vec![(1, unknown), (0, None)]),
        of("returns", vec![(0, None), (1, None)]),
    ];
    assert_eq!(committed(answer), expected);
    // What was committed for the topic that is gone went with it, and comes back with none.
    host.change_topics(&[("orders", 99, 3)], &[]);
    host.change_topics(&[("new", 8, 1)], &[]);
    host.sleep(0);
    let (_, _, topics) = fetched(host.ask(9, &fetch(&[("g", Option::None)]))).remove(0);
    let mut names: Vec<&str> = topics.iter().map(|topic| &*topic.name).collect();
    names.sort_unstable();
    assert_eq!(names, ["returns"]);
}

/// What two members get of a topic whose partitions are in racks b, b, a and a; the first is in
/// rack a, the second in b.
fn assigned_by_racks(racks: &[&str]) -> [Vec<i32>; 2] {
    let rule = (Pattern::new("*"), GroupStrategy::Kafka(Strategy::Range));
    let assignment = AssignmentRules { groups: vec![rule], capacities: Vec::new() };
    let mut host = Host::loading_with(Config { assignment, ..Config::default() }, 1);
    host.node.set_topics([Topic {
        name: "orders".into(),
        id: Uuid(ORDERS),
        partitions: 4,
        end_offsets: Vec::new(),
        racks: racks.iter().map(|rack| Box::from([Box::from(*rack)])).collect(),
    }]);
    host.load(0);
    let joins = ["a", "b"].map(|rack| {
        let mut metadata = Vec::new();
        Subscription {
            version: 3,
            topics: vec!["orders"],
            user_data: Option::None,
            owned_partitions: Vec::new(),
            generation_id: -1,
            rack_id: Some(rack),
        }
        .encode(&mut metadata);
        let RequestBody::JoinGroup(mut joins) = join("g", "") else { unreachable!() };
        joins.protocols = vec![JoinGroupProtocol { name: "range", metadata: &metadata }];
        frame(3, &RequestBody::JoinGroup(joins))
    });
    let tickets = host.send_frames(&joins);
    host.sleep(1);
    [tickets[0], tickets[1]].map(|ticket| {
        let ResponseBody::JoinGroup(joined) = host.take(ticket) else { panic!() };
        let answer = host.ask(3, &sync("g", &joined.member_id, joined.generation_id));
        let ResponseBody::SyncGroup(synced) = answer else { panic!() };
        let assignment = Assignment::decode(&synced.assignment).expect("an assignment");
        assignment.assigned_partitions.into_iter().flat_map(|(_, numbers)| numbers).collect()
    })
}

/// What one member gets of the topic.
fn assigned_alone(host: &mut Host, group_id: &str) -> Vec<i32> {
    let mut joining = join(group_id, "");
    if let RequestBody::JoinGroup(join) = &mut joining {
        join.protocols[0].metadata = b"\0\0\0\0\0\x01\0\x06orders\xff\xff\xff\xff";
    }
    let ticket = host.send(3, &joining);
    host.sleep(1);
    let ResponseBody::JoinGroup(joined) = host.take(ticket) else { panic!() };
    let answer = host.ask(3, &sync(group_id, &joined.member_id, joined.generation_id));
    let ResponseBody::SyncGroup(synced) = answer else { panic!() };
    let assignment = Assignment::decode(&synced.assignment).expect("an assignment");
    assignment.assigned_partitions.into_iter().flat_map(|(_, numbers)| numbers).collect()
}

#[test]
fn shards_that_missed_changes_hear_of_all_of_them() {
    let rule = (Pattern::new("*"), GroupStrategy::Kafka(Strategy::Range));
    let assignment = AssignmentRules { groups: vec![rule], capacities: Vec::new() };
    let mut host = Host::loading_with(Config { assignment, ..Config::default() }, 2);
    let (first, second) = host.apart();
    let late = usize::from(host.shard_of(&first) == 0);
    host.load(1 - late);
    host.topics(&[("orders", ORDERS, 1)]);
    assert_eq!(assigned_alone(&mut host, &first), [0]);
    host.change_topics(&[("orders", ORDERS, 2)], &[]);
    host.change_topics(&[("orders", ORDERS, 3), ("more", 5, 4)], &[]);
    host.load(late);
    host.change_topics(&[], &["more"]);
    host.sleep(1);
    assert_eq!(assigned_alone(&mut host, &second), [0, 1, 2]);
}

#[test]
fn racks_reach_the_assignor() {
    assert_eq!(assigned_by_racks(&["b", "b", "a", "a"]), [vec![2, 3], vec![0, 1]]);
    assert_eq!(assigned_by_racks(&["a", "a", "b", "b"]), [vec![0, 1], vec![2, 3]]);
    // Racks of some partitions are none.
    let mut shares = assigned_by_racks(&["b", "b"]);
    shares.sort();
    assert_eq!(shares, [vec![0, 1], vec![2, 3]]);
}

#[test]
fn what_is_due_goes_by_the_topics_of_its_turn() {
    let groups = vec![(Pattern::new("*"), GroupStrategy::ALL[0])];
    let config = Config {
        group_initial_rebalance_delay_ms: 100,
        assignment: AssignmentRules { groups, capacities: Vec::new() },
        ..Config::default()
    };
    let mut host = Host::of(config, 1);
    host.load(0);
    host.topics(&[("orders", ORDERS, 1)]);
    let mut joining = join("g", "");
    if let RequestBody::JoinGroup(join) = &mut joining {
        join.protocols[0].metadata = b"\0\0\0\0\0\x01\0\x06orders\xff\xff\xff\xff";
    }
    let ticket = host.send(3, &joining);
    host.sleep(99);
    assert!(host.waits(ticket));
    // The join phase is over in the turn in which the node hears of the topic's growth.
    host.topics(&[("orders", ORDERS, 3)]);
    host.sleep(1);
    let ResponseBody::JoinGroup(joined) = host.take(ticket) else { panic!("another answer") };
    assert_eq!(joined.error_code, None);
    let syncing = sync("g", &joined.member_id, joined.generation_id);
    let ResponseBody::SyncGroup(synced) = host.ask(3, &syncing) else { panic!("another answer") };
    assert_eq!(synced.error_code, None, "the growth came before the assignment, not behind it");
    let assignment = Assignment::decode(&synced.assignment).expect("the coordinator's");
    let (_, partitions) = &assignment.assigned_partitions[0];
    assert_eq!(partitions.len(), 3);
}
