//! Regular expressions over very many topics hold up no other group (consumer-protocol section 4.2).

use std::sync::Arc;

use kcoord_core::catalogue::CatalogueTopic;
use kcoord_core::request::{ConsumerGroupHeartbeatRequest, Request, RequestContext, Uuid};
use kcoord_core::response::{ConsumerGroupHeartbeatResponse, Response};
use kcoord_core::{Catalogue, Config, Shard};

const TOPICS: u128 = 20_000;

fn topics() -> Arc<Catalogue> {
    let topic = |id| CatalogueTopic { id: Uuid(id), partitions: 1, ..CatalogueTopic::default() };
    let named = (1..=TOPICS).map(|id| (format!("topic-{id:05}").into(), topic(id)));
    Arc::new(Catalogue::new(named))
}

fn beats(
    shard: &mut Shard,
    now_ms: i64,
    request: ConsumerGroupHeartbeatRequest<'_>,
) -> ConsumerGroupHeartbeatResponse {
    let context = RequestContext {
        ticket: 1,
        api_version: 1,
        client_id: "c",
        client_host: "/127.0.0.1",
        uuid: 0,
    };
    shard.handle_request(now_ms, &context, &Request::ConsumerGroupHeartbeat(request));
    append(shard);
    match shard.poll_response() {
        Some((_, Response::ConsumerGroupHeartbeat(Ok(response)))) => response,
        other => panic!("{other:?}"),
    }
}

/// How many records were written.
fn append(shard: &mut Shard) -> i64 {
    let mut records = 0;
    while let Some(append) = shard.poll_append() {
        records += append.end_offset() - append.base_offset;
        shard.handle_committed(0, append.end_offset());
    }
    records
}

fn joins(regex: &str) -> ConsumerGroupHeartbeatRequest<'_> {
    ConsumerGroupHeartbeatRequest {
        group_id: "g",
        member_id: "m",
        rebalance_timeout_ms: 60_000,
        subscribed_topic_names: Some(Vec::new()),
        subscribed_topic_regex: Some(regex),
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    }
}

fn says_nothing(member_epoch: i32) -> ConsumerGroupHeartbeatRequest<'static> {
    ConsumerGroupHeartbeatRequest {
        group_id: "g",
        member_id: "m",
        member_epoch,
        rebalance_timeout_ms: -1,
        ..Default::default()
    }
}

#[test]
fn a_look_at_many_topics_is_cut_into_turns_and_told_at_its_end() {
    let mut shard = Shard::new(Config::default());
    shard.handle_topics(0, &topics());
    assert_eq!(beats(&mut shard, 0, joins(".*0")).member_epoch, 1);

    let mut turns = 0;
    loop {
        let due_ms = shard.poll_timeout().expect("a look is due, or the session");
        shard.handle_timeout(due_ms);
        turns += 1;
        if append(&mut shard) > 0 {
            break;
        }
        assert!(due_ms < 100, "the look goes on at once");
        assert_eq!(beats(&mut shard, due_ms, says_nothing(1)).member_epoch, 1);
    }
    assert!((4..=8).contains(&turns), "{turns} turns");

    // The first target is a second old.
    let response = beats(&mut shard, 2_000, says_nothing(1));
    assert_eq!(response.member_epoch, 2);
    assert_eq!(response.assignment.map(|partitions| partitions.len()), Some(2_000));
}

#[test]
fn a_member_that_leaves_during_a_look_leaves_no_expression() {
    let mut shard = Shard::new(Config::default());
    shard.handle_topics(0, &topics());
    beats(&mut shard, 0, joins(".*0"));
    shard.handle_timeout(0);
    assert_eq!(append(&mut shard), 0, "the look has begun");
    beats(&mut shard, 1, ConsumerGroupHeartbeatRequest { member_epoch: -1, ..joins("") });

    let mut records = 0;
    while let Some(due_ms) = shard.poll_timeout().filter(|due_ms| *due_ms < 1_000) {
        shard.handle_timeout(due_ms);
        records += append(&mut shard);
    }
    assert_eq!(records, 0, "nothing is written of an expression without a member");
}

#[test]
fn an_expression_in_place_of_a_fresh_one_is_looked_up_with_the_next_heartbeat() {
    let mut shard = Shard::new(Config::default());
    shard.handle_topics(0, &topics());
    beats(&mut shard, 0, joins(".*0"));
    let mut now_ms = 0;
    while append(&mut shard) == 0 {
        now_ms = shard.poll_timeout().expect("a look is due");
        shard.handle_timeout(now_ms);
    }

    let is_looking = |shard: &mut Shard| shard.poll_timeout().is_some_and(|due_ms| due_ms < 1_000);
    let other =
        ConsumerGroupHeartbeatRequest { subscribed_topic_regex: Some(".*1"), ..says_nothing(1) };
    let epoch = beats(&mut shard, now_ms, other).member_epoch;
    assert!(!is_looking(&mut shard), "the last look was just now");
    beats(&mut shard, now_ms, says_nothing(epoch));
    assert!(is_looking(&mut shard), "no expression is left that was looked up");
}
