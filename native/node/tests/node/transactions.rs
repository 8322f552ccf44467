//! TxnOffsetCommit and WriteTxnMarkers: whom the host has to ask, and how the answers are put together.

use kcoord_core::ErrorCode;
use kcoord_core::record::{Producer, TransactionResult};
use kcoord_core::request::{OffsetCommitRequest, TransactionMarker, TxnOffsetCommitRequest};
use kcoord_node::{Transactions, Verification};
use kcoord_wire::api::write_txn_markers::{self, Markers};
use kcoord_wire::api::{RequestBody, ResponseBody};

use crate::ask::{CommittedTopic, commit, fetched};
use crate::host::{Host, frame};

const PRODUCER: Producer = Producer { id: 7, epoch: 3 };
const NONE: ErrorCode = ErrorCode::None;

/// A host of transactions, with the topics `t` (id 1) and `u` (id 2).
fn host(mode: Transactions) -> Host {
    let mut host = Host::new(3);
    host.topics(&[("t", 1, 2), ("u", 2, 2)]);
    host.node.serve_transactions(mode);
    host
}

fn in_transaction<'a>(of: RequestBody<'a>, producer: Producer) -> RequestBody<'a> {
    let RequestBody::OffsetCommit(commit) = of else { panic!("{of:?}") };
    let commit = OffsetCommitRequest { retention_time_ms: -1, ..commit };
    let transactional_id = "transactions";
    RequestBody::TxnOffsetCommit(TxnOffsetCommitRequest { transactional_id, producer, commit })
}

fn told(answer: ResponseBody) -> Vec<CommittedTopic> {
    let ResponseBody::TxnOffsetCommit(answer) = answer else { panic!("{answer:?}") };
    let topics = answer.topics.into_iter();
    topics.map(|topic| (topic.name.into(), topic.topic_id.0, topic.partitions)).collect()
}

fn marker(partitions: Vec<i32>) -> RequestBody<'static> {
    let marker = TransactionMarker {
        producer: PRODUCER,
        result: TransactionResult::Commit,
        coordinator_epoch: 0,
        transaction_version: 0,
    };
    let topics = vec![("__consumer_offsets", partitions), ("t", vec![0])];
    RequestBody::WriteTxnMarkers(write_txn_markers::Request {
        markers: vec![Markers { marker, topics }],
    })
}

type Results = Vec<(i32, ErrorCode)>;

/// Partitions of `__consumer_offsets` with their codes, and those of `t`.
fn written(answer: ResponseBody) -> (Results, Results) {
    let ResponseBody::WriteTxnMarkers(answer) = answer else { panic!("{answer:?}") };
    let [of] = &answer.markers[..] else { panic!("{answer:?}") };
    assert_eq!(of.producer_id, PRODUCER.id);
    (of.topics[0].1.clone(), of.topics[1].1.clone())
}

fn offset_of(host: &mut Host, group_id: &str) -> i64 {
    let request = kcoord_core::request::OffsetFetchRequest {
        group_id,
        member_id: None,
        member_epoch: -1,
        topics: None,
        require_stable: true,
    };
    let answer = host.ask(8, &RequestBody::OffsetFetch(vec![request]));
    fetched(answer)[0].2.first().map_or(-1, |topic| topic.partitions[0].1)
}

#[test]
fn without_a_transaction_coordinator_they_are_the_hosts_to_refuse() {
    let mut host = host(Transactions::Unserved);
    let commit = in_transaction(commit("g", &[("t", 0, &[0])]), PRODUCER);
    let tickets = [host.send(3, &commit), host.send(1, &marker(vec![0]))];
    assert_eq!(host.foreign, tickets);
    assert!(tickets.iter().all(|ticket| host.waits(*ticket)));
    // Nor does one in bad health get another answer.
    host.send(3, &in_transaction(crate::ask::commit("", &[("t", 0, &[0])]), PRODUCER));
    assert_eq!(host.foreign.len(), 3);
}

#[test]
fn whoever_is_trusted_commits_without_a_question_but_nobody_adds_a_partition() {
    let mut host = host(Transactions::Trusted);
    let commit = in_transaction(commit("g", &[("t", 0, &[1])]), PRODUCER);
    assert_eq!(told(host.ask(4, &commit)), [("t".into(), 0, vec![(1, NONE)])]);
    assert_eq!(offset_of(&mut host, "g"), -1);
    let shard = host.shard_of("g") as i32;
    assert_eq!(written(host.ask(2, &marker(vec![shard]))).0, [(shard, NONE)]);
    assert_eq!(offset_of(&mut host, "g"), 10);
    let ticket = host.send(5, &commit);
    let reason = "TxnOffsetCommit is served up to version 4 here".to_owned();
    assert_eq!(host.invalid, [(ticket, reason)]);
}

#[test]
fn a_commit_waits_for_the_transaction_coordinator_once_in_a_transaction() {
    let mut host = host(Transactions::Verified);
    let commit = in_transaction(commit("g", &[("t", 0, &[1])]), PRODUCER);
    let ticket = host.send(5, &commit);
    let verification = Verification {
        ticket,
        transactional_id: "transactions".into(),
        producer: PRODUCER,
        shard: host.shard_of("g"),
        adds_partition: true,
        api_version: 5,
    };
    assert_eq!(host.verifications, [verification]);
    assert!(host.waits(ticket));
    host.node.verified(ticket, None);
    host.sleep(0);
    assert_eq!(told(host.take(ticket)), [("t".into(), 0, vec![(1, NONE)])]);
    // The transaction has records here: nothing more is asked in it.
    assert_eq!(told(host.ask(4, &commit)), [("t".into(), 0, vec![(1, NONE)])]);
    assert_eq!(host.verifications.len(), 1);
    let shard = host.shard_of("g") as i32;
    host.ask(2, &marker(vec![shard]));
    let ticket = host.send(4, &commit);
    assert_eq!(host.verifications.len(), 2);
    assert!(!host.verifications[1].adds_partition);
    // Nobody waits any more.
    host.node.abandon(ticket);
    host.node.verified(ticket, None);
    host.sleep(0);
    assert!(host.waits(ticket));
    assert_eq!(host.node.shard(shard as usize).open_transactions(), []);
}

#[test]
fn what_the_coordinator_refuses_is_told_behind_what_does_not_exist() {
    let mut host = host(Transactions::Verified);
    let topics: [(&str, u128, &[i32]); 3] = [("t", 1, &[0, 9]), ("", 5, &[0]), ("u", 2, &[1])];
    let of = in_transaction(commit("g", &topics), PRODUCER);
    let ticket = host.send(6, &of);
    host.node.verified(ticket, Some(ErrorCode::InvalidProducerIdMapping));
    host.sleep(0);
    let (unknown, mapping) =
        (ErrorCode::UnknownTopicOrPartition, ErrorCode::InvalidProducerIdMapping);
    let expected = [
        (String::new(), 1, vec![(9, unknown), (0, mapping)]),
        (String::new(), 5, vec![(0, ErrorCode::UnknownTopicId)]),
        (String::new(), 2, vec![(1, mapping)]),
    ];
    assert_eq!(told(host.take(ticket)), expected);
    // If nothing exists, nobody is asked.
    let asked = host.verifications.len();
    let nothing = in_transaction(commit("g", &[("t", 0, &[9])]), PRODUCER);
    assert_eq!(told(host.ask(5, &nothing)), [("t".into(), 0, vec![(9, unknown)])]);
    assert_eq!(host.verifications.len(), asked);
}

/// As a log of Kafka does: it looks at its own producers before the transaction coordinator is asked.
#[test]
fn an_epoch_that_another_has_passed_here_is_refused_and_nobody_is_asked() {
    let mut host = host(Transactions::Verified);
    let of = |epoch| {
        let producer = Producer { epoch, ..PRODUCER };
        in_transaction(commit("g", &[("t", 0, &[1])]), producer)
    };
    let ticket = host.send(5, &of(PRODUCER.epoch));
    host.node.verified(ticket, None);
    host.sleep(0);
    assert_eq!(told(host.take(ticket)), [("t".into(), 0, vec![(1, NONE)])]);
    let fenced = told(host.ask(5, &of(PRODUCER.epoch - 1)));
    assert_eq!(fenced, [("t".into(), 0, vec![(1, ErrorCode::InvalidProducerEpoch)])]);
    assert_eq!(host.verifications.len(), 1);
    let later = host.send(5, &of(PRODUCER.epoch + 1));
    assert_eq!(host.verifications.len(), 2);
    assert!(host.waits(later));
}

/// Kafka's verification guard: what was verified before a marker must not begin a transaction behind it.
#[test]
fn a_marker_outruns_what_was_verified_before_it() {
    let mut host = host(Transactions::Verified);
    let commit = in_transaction(commit("g", &[("t", 0, &[1])]), PRODUCER);
    let ticket = host.send(5, &commit);
    let shard = host.shard_of("g") as i32;
    host.ask(2, &marker(vec![shard]));
    host.node.verified(ticket, None);
    host.sleep(0);
    let refused = vec![(1, ErrorCode::InvalidTxnState)];
    assert_eq!(told(host.take(ticket)), [("t".into(), 0, refused)]);
    // One of another shard does not.
    let ticket = host.send(5, &commit);
    host.ask(2, &marker(vec![(shard + 1) % 3]));
    host.node.verified(ticket, None);
    host.sleep(0);
    assert_eq!(told(host.take(ticket)), [("t".into(), 0, vec![(1, NONE)])]);
}

#[test]
fn a_marker_is_answered_for_each_partition_once_it_is_durable() {
    let mut host = host(Transactions::Trusted);
    let unknown = ErrorCode::UnknownTopicOrPartition;
    assert_eq!(
        written(host.ask(1, &marker(vec![2, 9, 0, -1]))),
        (vec![(2, NONE), (9, unknown), (0, NONE), (-1, unknown)], vec![(0, unknown)])
    );
    host.is_held = true;
    let ticket = host.send(1, &marker(vec![0, 1]));
    assert!(host.waits(ticket));
    // A lost append, and a shard that is not there: the leader has moved.
    host.drop_shard(1);
    assert!(host.waits(ticket));
    host.drop_shard(0);
    let moved = ErrorCode::NotLeaderOrFollower;
    assert_eq!(written(host.take(ticket)).0, [(0, moved), (1, moved)]);
    host.release();
    assert_eq!(written(host.ask(1, &marker(vec![0, 2]))).0, [(0, moved), (2, NONE)]);
    let empty = RequestBody::WriteTxnMarkers(write_txn_markers::Request::default());
    let ResponseBody::WriteTxnMarkers(answer) = host.ask(1, &empty) else { panic!() };
    assert_eq!(answer.markers, []);
}

#[test]
fn a_shard_that_is_not_there_is_told_by_version() {
    let mut host = Host::loading(3);
    host.node.serve_transactions(Transactions::Verified);
    let of = in_transaction(commit("g", &[("t", 0, &[0])]), PRODUCER);
    for (version, code) in
        [(1, ErrorCode::CoordinatorNotAvailable), (2, ErrorCode::CoordinatorLoadInProgress)]
    {
        assert_eq!(told(host.ask(version, &of)), [("t".into(), 0, vec![(0, code)])]);
    }
    let empty = in_transaction(commit("", &[("t", 0, &[0])]), PRODUCER);
    let refused = vec![(0, ErrorCode::InvalidGroupId)];
    assert_eq!(told(host.ask(3, &empty)), [("t".into(), 0, refused)]);
    // It goes away while the coordinator is asked.
    let shard = host.shard_of("g");
    host.load(shard);
    let ticket = host.send(4, &of);
    host.drop_shard(shard);
    host.node.verified(ticket, None);
    host.sleep(0);
    let refused = vec![(0, ErrorCode::CoordinatorLoadInProgress)];
    assert_eq!(told(host.take(ticket)), [("t".into(), 0, refused)]);
}

/// Another that led it meanwhile may have written the marker, which nobody here saw.
#[test]
fn what_was_asked_before_another_led_the_shard_begins_no_transaction() {
    let mut host = host(Transactions::Verified);
    let of = in_transaction(commit("g", &[("t", 0, &[1])]), PRODUCER);
    let shard = host.shard_of("g");
    let (asked, decided) = (host.send(4, &of), host.send(4, &of));
    host.node.verified(decided, None);
    host.drop_shard(shard);
    host.load(shard);
    host.node.verified(asked, None);
    host.sleep(0);
    for ticket in [asked, decided] {
        let refused = vec![(1, ErrorCode::NotCoordinator)];
        assert_eq!(told(host.take(ticket)), [("t".into(), 0, refused)]);
    }
    assert_eq!(host.node.shard(shard).open_transactions(), []);
}

#[test]
fn commits_and_markers_of_one_turn_are_done_in_their_order() {
    let mut host = host(Transactions::Trusted);
    let shard = host.shard_of("g") as i32;
    let of = |index| in_transaction(commit("g", &[("t", 0, index)]), PRODUCER);
    let frames = [
        frame(4, &of(&[1])),
        frame(2, &marker(vec![shard])),
        frame(4, &of(&[0])),
        frame(2, &marker(vec![shard])),
    ];
    let tickets = host.send_frames(&frames);
    assert!(tickets.iter().all(|ticket| !host.waits(*ticket)));
    let again = host.restarted();
    for of in [&host, &again] {
        let shard = of.node.shard(shard as usize);
        assert_eq!((shard.offset_count_of("g"), shard.open_transactions()), (2, Vec::new()));
    }
}
