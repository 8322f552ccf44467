//! OffsetFetch (offsets section 4).

use kcoord_core::error::ErrorCode;
use kcoord_core::offset::fetch;
use kcoord_core::request::{OffsetCommitPartition, Uuid};
use kcoord_core::response::{OffsetFetchResponse, OffsetFetchResponsePartition};

use crate::story::*;

fn partition_of(
    response: &OffsetFetchResponse,
    topic: usize,
    partition: usize,
) -> OffsetFetchResponsePartition<'_> {
    response.topics().nth(topic).unwrap().partitions.nth(partition).unwrap()
}

#[test]
fn what_is_not_there_is_not_an_error() {
    let mut story = Story::new();
    story.committed("t", &[(0, 10)]);
    let wanted = vec![("u", Uuid::ZERO, vec![4]), ("t", Uuid::ZERO, vec![1, 0, 0])];
    let found = story.fetch(&fetch_request(Some(wanted.clone()), false));
    assert_eq!(
        found,
        [
            ("u".into(), vec![(4, -1, NONE)]),
            ("t".into(), vec![(1, -1, NONE), (0, 10, NONE), (0, 10, NONE)]),
        ]
    );
    let absent =
        fetch::fetch(None, &story.tables.topics, &fetch_request(Some(wanted), false), usize::MAX);
    let partition = partition_of(&absent, 1, 1);
    assert_eq!(partition, OffsetFetchResponsePartition::absent(0, NONE));
    let all = fetch::fetch(None, &story.tables.topics, &fetch_request(None, true), usize::MAX);
    assert!(all.topics().next().is_none() && all.error_code() == NONE);
}

/// One after the other, with gaps, backwards, again, and over several chunks of the store.
#[test]
fn partitions_are_answered_in_any_order_as_each_alone() {
    let mut story = Story::new();
    let committed: Vec<(i32, i64)> =
        (0..400).filter(|at| at % 5 != 3).map(|at| (at, 1_000 + i64::from(at))).collect();
    story.committed("t", &committed);
    story.committed("u", &[(0, 7)]);
    let forwards = 0..402;
    let backwards = (0..402).rev();
    let jumps = (0..402).map(|at| at * 7 % 402);
    let again = (0..402).flat_map(|at| [at, at, at + 2]);
    let asked: Vec<i32> = forwards.chain(backwards).chain(jumps).chain(again).collect();
    let offset = |at: i32| if at < 400 && at % 5 != 3 { 1_000 + i64::from(at) } else { -1 };
    let expected = asked.iter().map(|&at| (at, offset(at), NONE)).collect();
    let wanted = vec![("t", Uuid::ZERO, asked)];
    assert_eq!(story.fetch(&fetch_request(Some(wanted), false)), [("t".into(), expected)]);
}

#[test]
fn all_are_listed_by_name_and_partition() {
    let mut story = Story::new();
    story.committed("zebra", &[(2, 1), (0, 2)]);
    story.committed("ant", &[(7, 3), (3, 4)]);
    assert_eq!(
        story.fetch_all(),
        [
            ("ant".into(), vec![(3, 4, NONE), (7, 3, NONE)]),
            ("zebra".into(), vec![(0, 2, NONE), (2, 1, NONE)]),
        ]
    );
}

#[test]
fn leader_epoch_and_metadata_come_back() {
    let mut story = Story::new();
    let noted = OffsetCommitPartition { committed_metadata: Some("m"), ..partition(0, 1) };
    story.commit(&request(vec![("t", ID, vec![noted])]));
    let response = fetch::fetch(
        Some(&story.offsets),
        &story.tables.topics,
        &fetch_request(None, false),
        usize::MAX,
    );
    let partition = partition_of(&response, 0, 0);
    assert_eq!((partition.committed_leader_epoch, partition.metadata), (5, "m"));
    // null takes the metadata away.
    story.committed("t", &[(0, 2)]);
    let response = fetch::fetch(
        Some(&story.offsets),
        &story.tables.topics,
        &fetch_request(None, false),
        usize::MAX,
    );
    assert_eq!(partition_of(&response, 0, 0).metadata, "");
}

/// Probe O8.
#[test]
fn require_stable_hides_what_a_transaction_may_change() {
    let mut story = Story::new();
    story.committed("t", &[(0, 1)]);
    story.pending(9, "t", 0, 2);
    story.pending(9, "t", 1, 3);
    let unstable = ErrorCode::UnstableOffsetCommit;
    let wanted = Some(vec![("t", Uuid::ZERO, vec![0, 1, 2])]);
    assert_eq!(
        story.fetch(&fetch_request(wanted.clone(), true)),
        [("t".into(), vec![(0, -1, unstable), (1, -1, unstable), (2, -1, NONE)])]
    );
    assert_eq!(
        story.fetch(&fetch_request(wanted, false)),
        [("t".into(), vec![(0, 1, NONE), (1, -1, NONE), (2, -1, NONE)])]
    );
    assert_eq!(story.fetch(&fetch_request(None, true)), [("t".into(), vec![(0, -1, unstable)])]);
    let only_pending = Some(vec![("u", Uuid::ZERO, vec![0])]);
    story.pending(9, "u", 0, 4);
    assert_eq!(
        story.fetch(&fetch_request(only_pending, true)),
        [("u".into(), vec![(0, -1, unstable)])]
    );
}

#[test]
fn an_offset_of_another_incarnation_is_as_none() {
    let mut story = Story::new();
    story.committed("t", &[(0, 10)]);
    story.with(|scope, _, _| scope.apply("t", 1, Some(&value(11)), 1, None));
    for (wanted, expected) in [(ID, 10), (Uuid::ZERO, 10), (OTHER_ID, -1)] {
        let request = fetch_request(Some(vec![("t", wanted, vec![0, 1])]), false);
        // Partition 1 was stored without an id: good for any.
        let partitions = vec![(0, expected, NONE), (1, 11, NONE)];
        assert_eq!(story.fetch(&request), [("t".into(), partitions)]);
    }
    let request = fetch_request(Some(vec![("t", OTHER_ID, vec![0])]), false);
    let response = fetch::fetch(Some(&story.offsets), &story.tables.topics, &request, usize::MAX);
    assert_eq!(response.topics().next().unwrap().topic_id, OTHER_ID);
}

#[test]
fn a_refusal_is_the_groups() {
    let wanted = fetch_request(Some(vec![("t", ID, vec![0])]), false);
    let response = fetch::refuse(&wanted, ErrorCode::UnknownMemberId);
    assert_eq!(response.error_code(), ErrorCode::UnknownMemberId);
    assert!(response.topics().next().is_none());
}
