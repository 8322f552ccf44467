//! Targets that cost much are computed aside and written in slices: other groups of the shard are served
//! in between, and whatever happens meanwhile, the group comes to the targets of those who are there.

use std::collections::BTreeMap;
use std::sync::Arc;

use kcoord_core::catalogue::CatalogueTopic;
use kcoord_core::config::ServerAssignor;
use kcoord_core::event::EventKind;
use kcoord_core::finding::FindingKind;
use kcoord_core::record::batch::BatchHeader;
use kcoord_core::request::{
    ConsumerGroupHeartbeatRequest, Preferences, Request, RequestContext, Uuid,
};
use kcoord_core::response::{ConsumerGroupHeartbeatResponse, Response};
use kcoord_core::targets::{Given, TargetJob};
use kcoord_core::{Catalogue, Config, Shard};

const TOPIC: Uuid = Uuid(7);

struct World {
    shard: Shard,
    now_ms: i64,
    jobs: Vec<TargetJob>,
    log: Vec<u8>,
}

impl World {
    fn new(partitions: u32, config: Config) -> World {
        let mut shard = Shard::new(config);
        let topic = CatalogueTopic { id: TOPIC, partitions, ..CatalogueTopic::default() };
        shard.handle_topics(0, &Arc::new(Catalogue::new([("orders".into(), topic)])));
        shard.loaded(0, 0);
        shard.hand_targets_out(100);
        World { shard, now_ms: 0, jobs: Vec::new(), log: Vec::new() }
    }

    /// How many records were written.
    fn settle(&mut self) -> usize {
        let mut records = 0;
        while let Some(append) = self.shard.poll_append() {
            records += append.record_count as usize;
            self.shard.handle_committed(self.now_ms, append.end_offset());
            BatchHeader::of(&append).encode(&append.records, &mut self.log);
        }
        self.jobs.extend(core::iter::from_fn(|| self.shard.poll_target_job()));
        self.shard.assert_consistent();
        records
    }

    fn beats(
        &mut self,
        request: ConsumerGroupHeartbeatRequest<'_>,
    ) -> ConsumerGroupHeartbeatResponse {
        let context = RequestContext {
            ticket: 1,
            api_version: 1,
            client_id: "c",
            client_host: "/127.0.0.1",
            uuid: 0,
        };
        let request = Request::ConsumerGroupHeartbeat(request);
        self.shard.handle_request(self.now_ms, &context, &request);
        self.settle();
        match self.shard.poll_response() {
            Some((_, Response::ConsumerGroupHeartbeat(Ok(response)))) => response,
            other => panic!("{other:?}"),
        }
    }

    /// A member of the group "g" that names itself and owns nothing yet.
    fn joins(&mut self, member_id: &str) -> ConsumerGroupHeartbeatResponse {
        self.beats(join("g", member_id))
    }

    /// At the epoch that it has.
    fn says_nothing(&mut self, member_id: &str) -> ConsumerGroupHeartbeatResponse {
        let view = self.shard.group("g").expect("it is there");
        let member = view.members.iter().find(|member| &*member.member_id == member_id);
        let of = member.and_then(|member| member.consumer.as_ref()).expect("it is a member");
        self.beats(at_rest("g", member_id, of.member_epoch))
    }

    fn leaves(&mut self, member_id: &str) {
        self.beats(ConsumerGroupHeartbeatRequest { member_epoch: -1, ..join("g", member_id) });
    }

    /// Computes what was handed out, and fires what is due until it is written.
    fn compute(&mut self) -> usize {
        let mut slices = 0;
        for job in core::mem::take(&mut self.jobs) {
            self.shard.handle_targets(self.now_ms, job.number, Ok(job.input.compute()));
            slices += 1;
            self.settle();
        }
        while self.shard.poll_timeout().is_some_and(|due_ms| due_ms <= self.now_ms + 1) {
            self.now_ms += 1;
            self.shard.handle_timeout(self.now_ms);
            slices += usize::from(self.settle() > 0);
        }
        slices
    }

    /// By member: how many partitions its target has, and the epochs of the group and its targets.
    fn group(&self) -> (BTreeMap<String, usize>, (i32, i32)) {
        let view = self.shard.group("g").expect("it is there");
        let epochs = view.consumer.as_ref().map(|of| (of.group_epoch, of.assignment_epoch));
        let sizes = view.members.iter().map(|member| {
            let of = member.consumer.as_ref().expect("of the consumer protocol");
            let size = of.target.iter().map(|topic| topic.partitions.len()).sum();
            (String::from(&*member.member_id), size)
        });
        (sizes.collect(), epochs.expect("a consumer group"))
    }
}

fn join<'a>(group_id: &'a str, member_id: &'a str) -> ConsumerGroupHeartbeatRequest<'a> {
    ConsumerGroupHeartbeatRequest {
        group_id,
        member_id,
        rebalance_timeout_ms: 60_000,
        subscribed_topic_names: Some(vec!["orders"]),
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    }
}

fn at_rest<'a>(
    group_id: &'a str,
    member_id: &'a str,
    member_epoch: i32,
) -> ConsumerGroupHeartbeatRequest<'a> {
    ConsumerGroupHeartbeatRequest {
        group_id,
        member_id,
        member_epoch,
        rebalance_timeout_ms: -1,
        ..Default::default()
    }
}

fn sizes<const N: usize>(of: [(&str, usize); N]) -> BTreeMap<String, usize> {
    of.map(|(id, size)| (id.into(), size)).into()
}

#[test]
fn another_group_is_answered_while_targets_are_computed_and_written() {
    let mut world = World::new(40_000, Config::default());
    for number in 0..4 {
        world.joins(&format!("m{number}"));
    }
    assert_eq!(world.jobs.len(), 1, "one at a time");
    assert_eq!(world.group().1.1, 1, "nothing is assigned yet");

    // Between two steps of the large group another one is made, and its member beats.
    let job = world.jobs.pop().expect("asked for");
    world.shard.handle_targets(world.now_ms, job.number, Ok(job.input.compute()));
    world.settle();
    assert_eq!(world.group().1.1, 2, "the first alone was there: one target is one slice");
    world.now_ms = 2_000;
    world.says_nothing("m0");
    let job = world.jobs.pop().expect("the others are to have theirs");
    world.shard.handle_targets(world.now_ms, job.number, Ok(job.input.compute()));
    world.settle();
    assert_eq!(world.group().1, (5, 2), "two of four targets are written");
    assert_eq!(world.beats(join("h", "other")).member_epoch, 1, "it waits for its own targets");
    assert_eq!(world.beats(at_rest("h", "other", 1)).member_epoch, 1);
    let slices = world.compute();
    assert!(slices >= 2, "{slices} slices");
    let quarter = 10_000;
    let all = [("m0", quarter), ("m1", quarter), ("m2", quarter), ("m3", quarter)];
    assert_eq!(world.group(), (sizes(all), (5, 5)));
    assert_eq!(world.beats(at_rest("h", "other", 1)).member_epoch, 2);
}

#[test]
fn no_slice_writes_more_than_its_bound() {
    let mut world = World::new(100_000, Config::default());
    for number in 0..100 {
        world.joins(&format!("m{number:02}"));
    }
    world.compute();
    world.now_ms = 2_000;
    world.says_nothing("m00");
    let job = world.jobs.pop().expect("asked for");
    world.shard.handle_targets(world.now_ms, job.number, Ok(job.input.compute()));
    let mut slices = Vec::new();
    loop {
        slices.push(world.settle());
        if world.group().1 == (101, 101) {
            break;
        }
        world.now_ms += 1;
        world.shard.handle_timeout(world.now_ms);
    }
    // 1,000 partitions a member: so many members in 16,384 partitions, and the epoch behind the last.
    assert!(slices.iter().all(|records| *records <= 18), "{slices:?}");
    assert_eq!(slices.iter().sum::<usize>(), 101);
}

#[test]
fn who_leaves_gets_nothing_and_who_joins_waits_for_the_next() {
    let mut world = World::new(200, Config::default());
    world.joins("a");
    world.joins("b");
    world.compute();
    world.now_ms = 2_000;
    world.says_nothing("a");
    assert_eq!(world.jobs.len(), 1);
    world.leaves("b");
    world.joins("c");
    world.says_nothing("a");
    assert_eq!(world.jobs.len(), 1, "nothing is computed twice at a time");
    world.compute();
    let (targets, epochs) = world.group();
    assert_eq!((targets, epochs), (sizes([("a", 100), ("c", 0)]), (5, 3)));
    world.now_ms += 1_001;
    world.says_nothing("a");
    world.compute();
    assert_eq!(world.group(), (sizes([("a", 100), ("c", 100)]), (5, 5)));
}

#[test]
fn a_static_member_that_is_replaced_meanwhile_hands_its_new_target_on() {
    let mut world = World::new(200, Config::default());
    let static_join =
        |id| ConsumerGroupHeartbeatRequest { instance_id: Some("i"), ..join("g", id) };
    world.beats(static_join("a"));
    world.compute();
    world.joins("b");
    world.now_ms = 2_000;
    world.says_nothing("b");
    assert_eq!(world.jobs.len(), 1);
    world.beats(ConsumerGroupHeartbeatRequest {
        member_epoch: -2,
        instance_id: Some("i"),
        ..at_rest("g", "a", -2)
    });
    world.beats(static_join("a2"));
    world.beats(ConsumerGroupHeartbeatRequest { instance_id: Some("i"), ..at_rest("g", "a2", -2) });
    world.beats(static_join("a3"));
    world.compute();
    let (targets, epochs) = world.group();
    assert_eq!((targets, epochs), (sizes([("a3", 100), ("b", 100)]), (3, 3)));
}

#[test]
fn targets_of_a_group_that_was_empty_meanwhile_are_dropped() {
    let mut world = World::new(200, Config::default());
    world.joins("a");
    let late = world.jobs.pop().expect("asked for");
    world.leaves("a");
    world.joins("b");
    assert!(world.jobs.is_empty(), "the first is still on its way");
    world.shard.handle_targets(world.now_ms, late.number, Ok(late.input.compute()));
    world.settle();
    world.says_nothing("b");
    world.compute();
    assert_eq!(world.group().0, sizes([("b", 200)]));

    // A group that is gone, and one of its name: what was computed for the first is nobody's.
    world.shard.handle_targets(world.now_ms, late.number, Ok(late.input.compute()));
    assert_eq!(world.settle(), 0);
}

#[test]
fn a_log_that_ends_between_two_slices_is_taken_up() {
    let mut world = World::new(40_000, Config::default());
    for number in 0..4 {
        world.joins(&format!("m{number}"));
    }
    world.compute();
    world.now_ms = 2_000;
    world.says_nothing("m0");
    let job = world.jobs.pop().expect("asked for");
    world.shard.handle_targets(world.now_ms, job.number, Ok(job.input.compute()));
    world.settle();
    assert_eq!(world.group().1, (5, 2), "two of four targets are written");
    let before = world.shard.consumer_records("g");

    let mut again = World {
        shard: Shard::new(Config::default()),
        now_ms: 3_001,
        ..World::new(1, Config::default())
    };
    again.shard.replay(&world.log).expect("what was written is read");
    let topic = CatalogueTopic { id: TOPIC, partitions: 40_000, ..CatalogueTopic::default() };
    again.shard.handle_topics(3_001, &Arc::new(Catalogue::new([("orders".into(), topic)])));
    again.shard.loaded(3_001, 1_000);
    again.shard.hand_targets_out(100);
    assert_eq!(again.shard.consumer_records("g"), before);
    again.says_nothing("m0");
    again.compute();
    let quarter = 10_000;
    let all = [("m0", quarter), ("m1", quarter), ("m2", quarter), ("m3", quarter)];
    assert_eq!(again.group(), (sizes(all), (5, 5)));
}

#[test]
fn a_clock_that_was_set_back_holds_no_target_up() {
    let mut world = World::new(10, Config::default());
    world.now_ms = 100_000;
    world.joins("a");
    world.joins("b");
    assert_eq!(world.group().1, (3, 2), "the second target waits for the interval");

    let mut again = World {
        shard: Shard::new(Config::default()),
        now_ms: 10_000,
        ..World::new(1, Config::default())
    };
    again.shard.replay(&world.log).expect("what was written is read");
    let topic = CatalogueTopic { id: TOPIC, partitions: 10, ..CatalogueTopic::default() };
    again.shard.handle_topics(10_000, &Arc::new(Catalogue::new([("orders".into(), topic)])));
    again.shard.loaded(10_000, 1_000);
    again.says_nothing("a");
    assert_eq!(again.group(), (sizes([("a", 5), ("b", 5)]), (3, 3)));
}

fn own_assignor() -> World {
    let mut config = Config::default();
    config.consumer.assignors = ["mine", "uniform"].map(ServerAssignor::of_name).to_vec();
    World::new(4, config)
}

/// What the host's own assignor gives: everything to one member.
fn all_to(member_id: &str) -> Given {
    [(member_id.into(), (0..4).map(|number| ("orders".into(), number)).collect())].into()
}

fn findings(shard: &mut Shard) -> Vec<String> {
    let events = core::iter::from_fn(|| shard.poll_event(0));
    let details = events.filter_map(|event| match event.kind {
        EventKind::Finding { kind: FindingKind::AssignorReplaced, detail, .. } => {
            Some(detail.into())
        }
        _ => None,
    });
    details.collect()
}

#[test]
fn the_hosts_own_assignor_is_asked() {
    let mut world = own_assignor();
    world.joins("a");
    let job = world.jobs.pop().expect("asked for, however small");
    assert_eq!((job.input.assignor().name(), &*job.group_id), ("mine", "g"));
    assert_eq!(job.input.topics(), [("orders", 4)]);
    let targets = job.input.accept(&all_to("a"));
    world.shard.handle_targets(world.now_ms, job.number, targets);
    world.settle();
    assert_eq!(world.says_nothing("a").assignment.map(|all| all.len()), Some(4));
    assert_eq!(findings(&mut world.shard), [""; 0]);
}

#[test]
fn an_assignor_that_is_late_or_fails_is_replaced_by_uniform() {
    let mut world = own_assignor();
    world.joins("a");
    let late = world.jobs.pop().expect("asked for");
    world.now_ms = 5_000;
    world.shard.handle_timeout(4_999);
    assert_eq!(world.settle(), 0, "it has its time");
    world.shard.handle_timeout(5_000);
    world.settle();
    assert_eq!(world.group(), (sizes([("a", 4)]), (2, 2)));
    assert_eq!(
        findings(&mut world.shard),
        ["mine: no answer in 5000 ms, group.consumer.assignor.timeout.ms"]
    );
    let targets = late.input.accept(&all_to("a"));
    world.shard.handle_targets(world.now_ms, late.number, targets);
    assert_eq!(world.settle(), 0, "it comes too late");

    world.joins("b");
    world.now_ms = 7_000;
    world.says_nothing("a");
    let job = world.jobs.pop().expect("asked for again");
    world.shard.handle_targets(world.now_ms, job.number, Err("ValueError: no".into()));
    world.settle();
    assert_eq!(world.group(), (sizes([("a", 2), ("b", 2)]), (3, 3)));
    assert_eq!(findings(&mut world.shard), ["mine: ValueError: no"]);
}

#[test]
fn nonsense_of_an_assignor_is_refused_in_words() {
    let mut world = own_assignor();
    world.joins("a");
    world.joins("b");
    let job = world.jobs.pop().expect("asked for");
    let refused = |given: Given| job.input.accept(&given).expect_err("it is nonsense");
    assert_eq!(refused(all_to("c")), "\"c\" is not a member");
    assert_eq!(refused(Given::new()), "4 of 4 partitions are given to nobody");
    let give = |partitions: &[(&str, i32)]| -> Given {
        let partitions = partitions.iter().map(|(topic, number)| ((*topic).into(), *number));
        [("a".into(), partitions.collect())].into()
    };
    assert_eq!(refused(give(&[("orders", 4)])), "orders-4 does not exist");
    assert_eq!(refused(give(&[("orders", -1)])), "orders--1 does not exist");
    assert_eq!(refused(give(&[("others", 0)])), "others-0 does not exist");
    assert_eq!(refused(give(&[("orders", 0), ("orders", 0)])), "orders-0 is given twice");
}

#[test]
fn a_member_may_ask_for_each_of_the_built_in_assignors() {
    let mut config = Config::default();
    config.consumer.assignors = ServerAssignor::BUILT_IN.to_vec();
    for name in ["uniform", "range", "sticky", "weighted", "lag-aware"] {
        for above in [0, usize::MAX] {
            let mut world = World::new(6, config.clone());
            world.shard.hand_targets_out(above);
            for member_id in ["a", "b", "c"] {
                let preferences = Preferences::of(None, Some(name));
                world.beats(ConsumerGroupHeartbeatRequest { preferences, ..join("g", member_id) });
            }
            world.compute();
            world.now_ms = 2_000;
            world.says_nothing("a");
            world.compute();
            let expected = sizes([("a", 2), ("b", 2), ("c", 2)]);
            assert_eq!(world.group().0, expected, "{name}, aside above {above}");
        }
    }
}
