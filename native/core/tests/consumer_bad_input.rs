//! What members of consumer groups should not send, and what should not happen to them: Kafka's error or a
//! clear refusal, nothing lost, and nobody else waits.

use std::sync::Arc;

use kcoord_core::catalogue::CatalogueTopic;
use kcoord_core::config::MigrationPolicy;
use kcoord_core::record::batch::BatchHeader;
use kcoord_core::request::*;
use kcoord_core::response::{ConsumerGroupHeartbeatResponse, Response};
use kcoord_core::topic_partition::TopicPartition;
use kcoord_core::{Catalogue, Config, ErrorCode, Shard};

struct World {
    shard: Shard,
    now_ms: i64,
    log: Vec<u8>,
    next_offset: i64,
}

type Beaten = Result<ConsumerGroupHeartbeatResponse, ErrorCode>;

impl World {
    fn new() -> World {
        World::with(Config::default(), Vec::new(), 0)
    }

    fn with(mut config: Config, log: Vec<u8>, next_offset: i64) -> World {
        config.consumer.assignment_interval_ms = 0;
        let mut shard = Shard::new(config);
        shard.replay(&log).expect("its own log");
        shard.handle_topics(0, &catalogue(&[("orders", 1, 4), ("audit", 2, 2)]));
        shard.loaded(0, next_offset);
        World { shard, now_ms: 0, log, next_offset }
    }

    /// The process ends, and another one comes with these settings.
    fn restarted(self, config: Config) -> World {
        World::with(config, self.log, self.next_offset)
    }

    fn settle(&mut self) {
        while let Some(append) = self.shard.poll_append() {
            BatchHeader::of(&append).encode(&append.records, &mut self.log);
            self.next_offset = append.end_offset();
            self.shard.handle_committed(self.now_ms, append.end_offset());
        }
        self.shard.assert_consistent();
    }

    fn ask(&mut self, request: &Request<'_>) -> Response {
        let context = RequestContext {
            ticket: 1,
            api_version: 1,
            client_id: "c",
            client_host: "/127.0.0.1",
            uuid: 7,
        };
        self.shard.handle_request(self.now_ms, &context, request);
        self.settle();
        self.shard.poll_response().expect("it is answered").1
    }

    fn beats(&mut self, request: ConsumerGroupHeartbeatRequest<'_>) -> Beaten {
        match self.ask(&Request::ConsumerGroupHeartbeat(request)) {
            Response::ConsumerGroupHeartbeat(answer) => {
                answer.map_err(|refusal| refusal.error_code)
            }
            other => panic!("{other:?}"),
        }
    }

    /// All records of the group.
    fn records(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.shard.consumer_records("g")
    }
}

fn catalogue(topics: &[(&str, u128, u32)]) -> Arc<Catalogue> {
    let topic = |(name, id, partitions): &(&str, u128, u32)| {
        let topic =
            CatalogueTopic { id: Uuid(*id), partitions: *partitions, ..CatalogueTopic::default() };
        ((*name).into(), topic)
    };
    Arc::new(Catalogue::new(topics.iter().map(topic)))
}

fn joins(member_id: &str) -> ConsumerGroupHeartbeatRequest<'_> {
    ConsumerGroupHeartbeatRequest {
        group_id: "g",
        member_id,
        rebalance_timeout_ms: 60_000,
        subscribed_topic_names: Some(vec!["orders"]),
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    }
}

fn beat(member_id: &str, member_epoch: i32) -> ConsumerGroupHeartbeatRequest<'_> {
    ConsumerGroupHeartbeatRequest {
        group_id: "g",
        member_id,
        member_epoch,
        rebalance_timeout_ms: -1,
        ..Default::default()
    }
}

fn at(topic: u128, partition: i32) -> TopicPartition {
    TopicPartition::new(Uuid(topic), partition)
}

fn code(beaten: Beaten) -> ErrorCode {
    beaten.expect_err("it is refused")
}

#[test]
fn epochs_from_the_future_and_below_every_meaning_change_nothing() {
    let mut world = World::new();
    assert_eq!(world.beats(joins("a")).map(|beaten| beaten.member_epoch), Ok(2));
    let before = world.records();
    for epoch in [3, 1_000, i32::MAX] {
        assert_eq!(code(world.beats(beat("a", epoch))), ErrorCode::FencedMemberEpoch);
    }
    for epoch in [-3, i32::MIN] {
        assert_eq!(code(world.beats(beat("a", epoch))), ErrorCode::InvalidRequest);
    }
    assert_eq!(world.records(), before);
    assert_eq!(world.beats(beat("a", 2)).map(|beaten| beaten.member_epoch), Ok(2));
}

#[test]
fn partitions_that_were_never_given_are_not_believed() {
    let mut world = World::new();
    world.beats(joins("a")).expect("it joins");
    let strange = vec![at(1, 0), at(1, 77), at(9, 0), at(u128::MAX, i32::MAX)];
    let before = world.records();
    let says = |epoch| ConsumerGroupHeartbeatRequest {
        topic_partitions: Some(strange.clone()),
        ..beat("a", epoch)
    };
    // At its epoch it may say what it will; what others get does not depend on it.
    assert!(world.beats(says(2)).is_ok());
    assert_eq!(world.records(), before);
    // One epoch behind, it must not own more than it was given.
    assert_eq!(code(world.beats(says(1))), ErrorCode::FencedMemberEpoch);
    world.beats(joins("b")).expect("it joins");
    let revoking = world.beats(beat("a", 2)).expect("it is a member");
    assert_eq!(revoking.assignment.as_ref().map(|all| all.len()), Some(2));
    // What it was to give up is not in what it names: it is free, though it names much else.
    let kept = revoking.assignment.into_iter().flat_map(Vec::from);
    let owned = kept.chain([at(9, 0), at(u128::MAX, i32::MAX)]).collect();
    let told = ConsumerGroupHeartbeatRequest { topic_partitions: Some(owned), ..beat("a", 2) };
    assert_eq!(world.beats(told).map(|beaten| beaten.member_epoch), Ok(3));
    let b = world.beats(beat("b", 3)).expect("it is a member");
    assert_eq!(b.assignment.map(|all| all.len()), Some(2));
}

#[test]
fn expressions_without_bound_are_refused_and_leave_no_group() {
    let mut world = World::new();
    let long = "a".repeat(64 << 10);
    let nested = "((((a{1,100}){1,100}){1,100}){1,100}){1,100}";
    let deep = format!("{}a{}", "(".repeat(2_000), ")".repeat(2_000));
    for regex in [&*long, nested, &deep, "(a", r"a(?=b)", r"(a)\1"] {
        let asks =
            ConsumerGroupHeartbeatRequest { subscribed_topic_regex: Some(regex), ..joins("a") };
        assert_eq!(code(world.beats(asks)), ErrorCode::InvalidRegularExpression);
        assert!(world.shard.group("g").is_none());
    }
}

#[test]
fn ids_of_any_letters_are_ids() {
    let mut world = World::new();
    let ids = ["\u{202e}drawkcab", "e\u{301}", "\u{e9}", "a\nb", "\u{1f980}\u{200d}", "\u{10ffff}"];
    for id in ids {
        world.beats(joins(id)).expect("it joins");
    }
    let view = world.shard.group("g").expect("it is there");
    let mut sorted = ids;
    sorted.sort_unstable();
    assert_eq!(view.members.iter().map(|member| &*member.member_id).collect::<Vec<_>>(), sorted);
    let before = world.records();
    let again = world.restarted(Config::default());
    assert_eq!(again.records(), before);
}

#[test]
fn a_hundred_thousand_topics_that_match_hold_nobody_up() {
    let mut world = World::new();
    let topics = (0..100_000u128).map(|id| {
        let topic = CatalogueTopic { id: Uuid(id + 1), partitions: 1, ..CatalogueTopic::default() };
        (format!("topic-{id:06}").into(), topic)
    });
    world.shard.handle_topics(0, &Arc::new(Catalogue::new(topics)));
    world.shard.hand_targets_out(8_192);
    let all = ConsumerGroupHeartbeatRequest {
        subscribed_topic_names: Some(Vec::new()),
        subscribed_topic_regex: Some("topic-.*"),
        ..joins("a")
    };
    assert_eq!(world.beats(all).map(|beaten| beaten.member_epoch), Ok(1));
    let mut slices = 0;
    let job = loop {
        world.now_ms += 1;
        world.shard.handle_timeout(world.now_ms);
        world.settle();
        slices += 1;
        let beaten = world.beats(beat("a", 1)).expect("it is answered in between");
        assert_eq!(beaten.member_epoch, 1);
        if let Some(job) = world.shard.poll_target_job() {
            break job;
        }
    };
    assert!(slices >= 20, "{slices} slices");
    world.shard.handle_targets(world.now_ms, job.number, Ok(job.input.compute()));
    world.settle();
    let beaten = world.beats(beat("a", 1)).expect("it is a member");
    assert_eq!(beaten.assignment.map(|all| all.len()), Some(100_000));
}

#[test]
fn a_topic_that_is_deleted_while_its_partitions_move_holds_nobody_up() {
    let mut world = World::new();
    let both = |id| ConsumerGroupHeartbeatRequest {
        subscribed_topic_names: Some(vec!["audit", "orders"]),
        ..joins(id)
    };
    world.beats(both("a")).expect("it joins");
    world.beats(both("b")).expect("it joins");
    let revoking = world.beats(beat("a", 2)).expect("it is a member");
    assert_eq!(revoking.member_epoch, 2, "it has partitions of both topics to give up");
    world.shard.handle_topics(0, &catalogue(&[("audit", 2, 2)]));
    world.shard.handle_topic_deleted(0, "orders", Uuid(1));
    // It goes on as if the topic were there, and comes to a target without it.
    let mut epochs = [2, 3];
    for _ in 0..4 {
        for (at, id) in ["a", "b"].into_iter().enumerate() {
            let owned: Vec<TopicPartition> = world.shard.group("g").expect("it is there").members
                [at]
                .consumer
                .iter()
                .flat_map(|of| of.assigned.iter())
                .flat_map(|of| of.partitions.iter().map(|n| TopicPartition::new(of.topic_id, *n)))
                .collect();
            let told = ConsumerGroupHeartbeatRequest {
                topic_partitions: Some(owned),
                ..beat(id, epochs[at])
            };
            epochs[at] = world.beats(told).expect("it is a member").member_epoch;
        }
    }
    let view = world.shard.group("g").expect("it is there");
    assert_eq!((view.state, epochs), ("Stable", [4, 4]));
    let assigned = view.members.iter().flat_map(|member| {
        let of = member.consumer.as_ref().expect("of the consumer protocol");
        of.assigned.iter().map(|of| (of.topic_id, of.partitions.len()))
    });
    assert_eq!(assigned.collect::<Vec<_>>(), [(Uuid(2), 1), (Uuid(2), 1)]);
}

#[test]
fn a_mixed_group_lives_on_under_another_policy() {
    let metadata = b"\0\0\0\0\0\x01\0\x06orders\xff\xff\xff\xff";
    let classic = |member_id| {
        Request::JoinGroup(JoinGroupRequest {
            group_id: "g",
            session_timeout_ms: 45_000,
            rebalance_timeout_ms: 60_000,
            member_id,
            group_instance_id: None,
            protocol_type: "consumer",
            protocols: vec![JoinGroupProtocol { name: "range", metadata }],
            reason: None,
        })
    };
    let mut world = World::new();
    world.beats(joins("a")).expect("it joins");
    let Response::JoinGroup(joined) = world.ask(&classic("")) else { panic!("a join") };
    assert_eq!(joined.error_code, ErrorCode::None);
    let before = world.records();
    let mut config = Config::default();
    config.consumer.migration_policy = MigrationPolicy::Disabled;
    let mut world = world.restarted(config);
    assert_eq!(world.records(), before, "nobody is thrown out");
    let heartbeat = Request::Heartbeat(HeartbeatRequest {
        group_id: "g",
        generation_id: joined.generation_id,
        member_id: &joined.member_id,
        group_instance_id: None,
    });
    let answer = world.ask(&heartbeat);
    let welcome = [ErrorCode::None, ErrorCode::RebalanceInProgress];
    assert!(matches!(answer, Response::Heartbeat(code) if welcome.contains(&code)), "{answer:?}");
    let Response::JoinGroup(refused) = world.ask(&classic("")) else { panic!("a join") };
    assert_eq!(refused.error_code, ErrorCode::InconsistentGroupProtocol);
    assert!(world.beats(beat("a", 2)).is_ok());
}
