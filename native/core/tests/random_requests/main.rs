//! Random histories: requests of confused clients, time, crashes. Whatever they do,
//!
//! * the same inputs give the same bytes: for another hash seed, and in batches or one by one;
//! * what was committed is what a shard that replays it has;
//! * groups that the coordinator assigns have every partition once, as their members subscribe;
//! * nothing is told before it is durable, nobody is answered twice, and in the end nobody waits.

mod calls;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kcoord_core::assignment_rules::{AssignmentRules, GroupStrategy, Pattern};
use kcoord_core::assignor;
use kcoord_core::catalogue::CatalogueTopic;
use kcoord_core::consumer_protocol::{Assignment, Subscription};
use kcoord_core::record::batch::BatchHeader;
use kcoord_core::record::{Producer, TransactionResult};
use kcoord_core::request::*;
use kcoord_core::response::Response;
use kcoord_core::views::{GroupView, MemberView};
use kcoord_core::{Catalogue, Config, ErrorCode, Shard};
use proptest::prelude::*;

use calls::{Call, Client, GROUPS, call, request};

const START_MS: i64 = 1_700_000_000_000;

#[derive(Clone, Debug)]
enum Step {
    /// Sent in one turn, in this order.
    Turn(Vec<Call>),
    Sleep(i64),
    /// All that was appended is durable.
    Commit,
    Abandon(prop::sample::Index),
    /// So many partitions of two topics.
    Topics(u32, u32),
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => prop::collection::vec(call(), 1..6).prop_map(Step::Turn),
        // Beyond every window in which a batch is looked up.
        1 => prop::collection::vec(call(), 6..140).prop_map(Step::Turn),
        3 => prop_oneof![0..20i64, 0..12_000i64].prop_map(Step::Sleep),
        4 => Just(Step::Commit),
        1 => any::<prop::sample::Index>().prop_map(Step::Abandon),
        1 => (0..5u32, 0..3u32).prop_map(|(t, u)| Step::Topics(t, u)),
        1 => Just(Step::Crash),
    ]
}

struct World {
    /// The same shard twice: one by one, and in batches with another hash seed.
    shards: [Shard; 2],
    now_ms: i64,
    tickets: Ticket,
    waiting: BTreeMap<Ticket, (usize, usize)>,
    clients: BTreeMap<(usize, usize), Client>,
    log: Vec<u8>,
    written_offset: i64,
    committed_offset: i64,
    uncommitted: Vec<(i64, Vec<u8>)>,
    topics: Option<Arc<Catalogue>>,
}

fn config(hash_seed: [u64; 2]) -> Config {
    Config {
        group_initial_rebalance_delay_ms: 50,
        group_max_size: 3,
        offsets_retention_ms: 20_000,
        offsets_retention_check_interval_ms: 3_000,
        assignment: AssignmentRules {
            groups: vec![
                (Pattern::new("g"), GroupStrategy::Kafka(assignor::Strategy::Sticky)),
                (Pattern::new("h"), GroupStrategy::Weighted),
            ],
            capacities: vec![(Pattern::new("app"), 2)],
        },
        hash_seed,
        ..Config::default()
    }
}

impl World {
    fn new() -> World {
        let mut world = World {
            shards: [Shard::new(config([1, 2])), Shard::new(config([77, 78]))],
            now_ms: START_MS,
            tickets: 0,
            waiting: BTreeMap::new(),
            clients: BTreeMap::new(),
            log: Vec::new(),
            written_offset: 0,
            committed_offset: 0,
            uncommitted: Vec::new(),
            topics: None,
        };
        world.load();
        world
    }

    fn load(&mut self) {
        for (shard, seed) in self.shards.iter_mut().zip([[1, 2], [77, 78]]) {
            *shard = Shard::new(config(seed));
            shard.replay(&self.log).unwrap();
            shard.loaded(self.now_ms, self.committed_offset);
        }
        self.tell_topics();
    }

    fn tell_topics(&mut self) {
        if let Some(topics) = &self.topics {
            self.shards.iter_mut().for_each(|shard| shard.handle_topics(self.now_ms, topics));
            self.drain();
        }
    }

    fn run(&mut self, step: &Step) {
        match step {
            Step::Turn(calls) => self.turn(calls),
            Step::Sleep(duration_ms) => self.sleep(*duration_ms),
            Step::Commit => self.commit(),
            Step::Abandon(index) => {
                if !self.waiting.is_empty() {
                    let ticket = *index.get(&self.waiting.keys().copied().collect::<Vec<_>>());
                    self.waiting.remove(&ticket);
                    self.shards.iter_mut().for_each(|shard| shard.abandon(ticket));
                }
            }
            Step::Topics(t, u) => {
                let topics = [("t", *t), ("u", *u)].map(|(name, partitions)| {
                    (name.into(), CatalogueTopic { partitions, ..CatalogueTopic::default() })
                });
                self.topics = Some(Arc::new(Catalogue::new(topics)));
                self.tell_topics();
            }
            Step::Crash => {
                // Requests that were replaced by later ones of the same member are never answered.
                let [one, two] = self.shards.each_mut().map(Shard::drop_parked);
                assert_eq!(one, two);
                assert!(one.iter().all(|(ticket, _)| self.waiting.contains_key(ticket)));
                self.waiting.clear();
                self.uncommitted.clear();
                self.written_offset = self.committed_offset;
                self.load();
            }
        }
        self.shards.iter().for_each(Shard::assert_consistent);
        self.check_assignments();
    }

    /// What the coordinator assigned is whole, disjoint, and what members subscribe to. Leaders here
    /// assign bytes that are no assignment, and cannot be mistaken for it.
    fn check_assignments(&self) {
        let Some(topics) = &self.topics else { return };
        for group in self.shards[0].groups().filter(|group| group.state == "Stable") {
            let read = |member: &MemberView| {
                let subscription = Subscription::decode(&member.subscription).ok()?;
                let topics = subscription.topics.into_iter().map(String::from).collect();
                let assignment = Assignment::decode(&member.assignment).ok()?;
                let assigned = assignment.assigned_partitions.into_iter();
                let assigned = assigned.map(|(topic, numbers)| (topic.to_owned(), numbers));
                Some((topics, assigned.collect()))
            };
            type Part = (BTreeSet<String>, Vec<(String, Vec<i32>)>);
            let parts: Option<Vec<Part>> = group.members.iter().map(read).collect();
            let Some(parts) = parts else { continue };
            let mut given = BTreeSet::new();
            for (subscribed, assigned) in &parts {
                for (topic, numbers) in assigned {
                    assert!(subscribed.contains(topic), "{group:?}");
                    for number in numbers {
                        assert!(given.insert((topic.as_str(), *number)), "{group:?}: twice");
                    }
                }
            }
            let wanted: BTreeSet<&String> = parts.iter().flat_map(|part| &part.0).collect();
            let wanted = wanted.into_iter().flat_map(|topic| {
                (0..topics.partitions(topic) as i32).map(move |number| (topic.as_str(), number))
            });
            assert_eq!(given, wanted.collect(), "{group:?}");
        }
    }

    fn turn(&mut self, calls: &[Call]) {
        let known: Vec<Client> = calls
            .iter()
            .map(|call| self.clients.get(&(call.group, call.member)).cloned().unwrap_or_default())
            .collect();
        let mut requests = Vec::new();
        for (call, client) in calls.iter().zip(&known) {
            self.tickets += 1;
            self.waiting.insert(self.tickets, (call.group, call.member));
            requests.push(request(self.tickets, call, client));
        }
        for (context, request) in &requests {
            self.shards[0].handle_request(self.now_ms, context, request);
        }
        self.shards[1].handle_batch(self.now_ms, &requests);
        self.drain();
    }

    fn sleep(&mut self, duration_ms: i64) {
        let end_ms = self.now_ms + duration_ms;
        loop {
            let wake_ms = self.shards[0].poll_timeout().unwrap();
            assert_eq!(self.shards[1].poll_timeout(), Some(wake_ms));
            if wake_ms > end_ms {
                break;
            }
            self.now_ms = wake_ms.max(self.now_ms);
            self.shards.iter_mut().for_each(|shard| shard.handle_timeout(self.now_ms));
            self.drain();
        }
        self.now_ms = end_ms;
    }

    /// Takes out what there is; both shards must have the same.
    fn drain(&mut self) {
        loop {
            let [one, two] = self.shards.each_mut().map(Shard::poll_append);
            assert_eq!(one, two, "appends differ");
            let Some(append) = one else { break };
            assert_eq!(append.base_offset, self.written_offset);
            self.written_offset = append.end_offset();
            let mut batch = Vec::new();
            BatchHeader::of(&append).encode(&append.records, &mut batch);
            self.uncommitted.push((append.end_offset(), batch));
        }
        loop {
            let [one, two] = self.shards.each_mut().map(Shard::poll_response);
            assert_eq!(one, two, "responses differ");
            let Some((ticket, response)) = one else { return };
            let client = self.waiting.remove(&ticket).expect("one answer for each request");
            self.learn(client, &response);
        }
    }

    fn learn(&mut self, client: (usize, usize), response: &Response) {
        let Response::JoinGroup(joined) = response else { return };
        let client = self.clients.entry(client).or_default();
        if matches!(joined.error_code, ErrorCode::None | ErrorCode::MemberIdRequired) {
            client.member_id = joined.member_id.clone().into();
            client.generation_id = joined.generation_id;
        } else if joined.error_code == ErrorCode::UnknownMemberId {
            *client = Client::default();
        }
    }

    fn commit(&mut self) {
        for (end_offset, batch) in std::mem::take(&mut self.uncommitted) {
            self.log.extend(batch);
            self.committed_offset = end_offset;
            self.shards
                .iter_mut()
                .for_each(|shard| shard.handle_committed(self.now_ms, end_offset));
            self.drain();
        }
        self.check_replay();
    }

    /// A fresh shard with the log has the groups that are at rest, and all offsets.
    fn check_replay(&self) {
        let mut loaded = Shard::new(config([5, 6]));
        loaded.replay(&self.log).unwrap();
        let shard = &self.shards[0];
        for group in shard.groups().filter(|group| matches!(group.state, "Empty" | "Stable")) {
            if group.current_state_timestamp_ms != -1 {
                assert_eq!(loaded.group(&group.group_id).as_ref(), Some(&group));
            }
        }
        let ids = |shard: &Shard| -> BTreeSet<Box<str>> {
            let is_there = |group: &GroupView| {
                group.current_state_timestamp_ms != -1 || shard.offsets(&group.group_id).count() > 0
            };
            shard.groups().filter(is_there).map(|group| group.group_id).collect()
        };
        let in_memory_only: Vec<_> = ids(shard).difference(&ids(&loaded)).cloned().collect();
        for id in in_memory_only {
            // Joined where only offsets were, which are gone by now: written with its first members.
            let state = shard.group(&id).unwrap().state;
            assert!(state.ends_with("Rebalance"), "{id} is {state} and not durable");
        }
        assert!(ids(&loaded).is_subset(&ids(shard)));
        for id in GROUPS {
            let offsets = |shard: &Shard| format!("{:?}", shard.offsets(id).collect::<Vec<_>>());
            assert_eq!(offsets(&loaded), offsets(shard));
        }
        assert_eq!(loaded.open_transactions(), shard.open_transactions());
        assert_eq!(loaded.unstable(), shard.unstable());
    }

    /// All clients are gone and all writes succeed: nobody may be left.
    fn end(&mut self) {
        for producer_id in [0, 1] {
            self.tickets += 1;
            self.waiting.insert(self.tickets, (0, 0));
            let producer = Producer { id: producer_id, epoch: i16::MAX };
            let marker = Request::WriteTxnMarkers(TransactionMarker {
                producer,
                result: TransactionResult::Abort,
                coordinator_epoch: i32::MAX,
                transaction_version: 2,
            });
            let context = RequestContext {
                ticket: self.tickets,
                api_version: 2,
                client_id: "",
                client_host: "",
                uuid: 0,
            };
            for shard in &mut self.shards {
                shard.handle_request(self.now_ms, &context, &marker);
            }
            self.drain();
        }
        self.commit();
        assert_eq!(self.shards[0].unstable(), []);
        for _ in 0..40 {
            self.sleep(30_000);
            self.commit();
        }
        assert_eq!(self.shards[0].drop_parked(), []);
        assert_eq!(self.shards[0].member_count(), 0);
        assert_eq!(self.shards[0].group_count(), 0, "{:?}", self.shards[0].groups().next());
    }
}

proptest! {
    #[test]
    fn random_histories(steps in prop::collection::vec(step(), 1..80)) {
        let mut world = World::new();
        for step in &steps {
            world.run(step);
        }
        world.end();
    }
}
