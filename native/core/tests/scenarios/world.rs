//! A shard and its host: a clock, a log, connections, and the names that a scenario gives members.

use std::collections::BTreeMap;
use std::sync::Arc;

use kcoord_core::assignment_rules::{GroupStrategy, Pattern};
use kcoord_core::catalogue::CatalogueTopic;
use kcoord_core::config::MigrationPolicy;
use kcoord_core::group_configs::{GroupConfig, GroupConfigs};
use kcoord_core::record::batch::{Attributes, BatchHeader};
use kcoord_core::request::{Ticket, Uuid};
use kcoord_core::response::Response;
use kcoord_core::views::GroupView;
use kcoord_core::{Catalogue, Config, Shard};

use crate::command::Command;
use crate::consumer::topic_id;
use crate::request::partition_and_offset;
use crate::script::Scenario;
use crate::trace::{self, Names};

#[derive(Clone, Copy, PartialEq)]
pub enum Restarts {
    Never,
    /// After each commit, where no soft state would be lost.
    WhereNobodyNotices,
}

/// Everything durable, to be compared.
#[derive(Debug, PartialEq)]
pub struct Durable {
    groups: Vec<GroupView>,
    /// Of consumer groups.
    records: Vec<Vec<(Vec<u8>, Vec<u8>)>>,
    offsets: BTreeMap<Box<str>, Vec<String>>,
}

pub struct World {
    title: String,
    config: Config,
    pub shard: Shard,
    pub now_ms: i64,
    pub log: Vec<u8>,
    pub next_offset: i64,
    topics: BTreeMap<Box<str>, CatalogueTopic>,
    /// What the shard was told of them.
    catalogue: Option<Arc<Catalogue>>,
    group_configs: Arc<GroupConfigs>,
    /// Appended and not committed yet: the log grows, its committed part does not.
    is_held: bool,
    tells_events: bool,
    has_topic_ids: bool,
    restarts: Restarts,
    pub tickets: u64,
    pub waiting: BTreeMap<Ticket, (String, &'static str)>,
    pub names: Names,
    pub generations: BTreeMap<String, i32>,
    trace: String,
}

impl World {
    pub fn new(scenario: &Scenario, restarts: Restarts) -> Self {
        let mut world = World {
            title: scenario.title.clone(),
            config: Config::default(),
            shard: Shard::new(Config::default()),
            now_ms: 0,
            log: Vec::new(),
            next_offset: 0,
            topics: BTreeMap::new(),
            catalogue: None,
            group_configs: Arc::default(),
            is_held: false,
            tells_events: false,
            has_topic_ids: false,
            restarts,
            tickets: 0,
            waiting: BTreeMap::new(),
            names: Names::default(),
            generations: BTreeMap::new(),
            trace: String::new(),
        };
        for line in &scenario.config {
            world.configure(&Command::parse(line));
        }
        world.restart();
        world
    }

    pub fn take_trace(&mut self) -> String {
        let wake = match self.shard.poll_timeout() {
            Some(time_ms) => format!("wake {time_ms}\n"),
            None => String::new(),
        };
        std::mem::take(&mut self.trace) + &wake
    }

    pub fn run(&mut self, line: &str) {
        let command = Command::parse(line);
        match command.verb {
            "sleep" => self.sleep(command.words[0].parse().unwrap()),
            "hold" => self.is_held = true,
            "commit" => self.is_held = false,
            "restart" => self.restart(),
            "topics" => self.change_topics(&command),
            "group-config" => self.set_group_config(&command),
            "ends" => self.change_ends(&command),
            "racks" => self.change_racks(&command),
            "abandon" => self.abandon(command.words[0]),
            "drop" => self.drop_shard(),
            "LogOffset" => self.log_offset(&command),
            "LogMarker" => self.log_marker(&command),
            "LogRecord" => self.log_record(&command),
            "LogGroup" => self.log_group(&command),
            _ => self.request(&command),
        }
        command.done();
        self.settle();
    }

    fn configure(&mut self, command: &Command<'_>) {
        if command.words.contains(&"no-restarts") {
            self.restarts = Restarts::Never;
        }
        self.tells_events |= command.words.contains(&"events");
        self.has_topic_ids |= command.words.contains(&"topic-ids");
        for (key, _) in command.pairs() {
            let config = &mut self.config;
            match *key {
                "initial_delay" => {
                    config.group_initial_rebalance_delay_ms = command.number(key, 0);
                }
                "max_size" => config.group_max_size = command.number(key, 0),
                "retention" => config.offsets_retention_ms = command.number(key, 0),
                "check_interval" => {
                    config.offsets_retention_check_interval_ms = command.number(key, 0);
                }
                "min_session" => config.group_min_session_timeout_ms = command.number(key, 0),
                "assign" => config.assignment.groups.push(rule(command.option(key).unwrap())),
                "capacity" => {
                    let (pattern, capacity) =
                        { command.option(key).unwrap() }.split_once(':').unwrap();
                    let rule = (Pattern::new(pattern), capacity.parse().unwrap());
                    config.assignment.capacities.push(rule);
                }
                "interval" => {
                    config.consumer.assignment_interval_ms = command.number(key, 0);
                }
                "consumer_max_size" => config.consumer.max_size = command.number(key, 0),
                "policy" => {
                    let policy = MigrationPolicy::of_name(command.option(key).unwrap());
                    config.consumer.migration_policy = policy.expect("a policy of Kafka's");
                }
                "rebalance_interval" => config.storm.min_interval_ms = command.number(key, 0),
                "flaps" => config.storm.quarantine_flaps = command.number(key, 0),
                "quarantine" => config.storm.quarantine_ms = command.number(key, 0),
                "quarantine_max" => config.storm.quarantine_max_ms = command.number(key, 0),
                "window" => config.storm.quarantine_window_ms = command.number(key, 0),
                "check" => config.checks_leaders = command.number(key, true),
                "metadata_max" => config.offset_metadata_max_bytes = command.number(key, 0),
                _ => panic!("config knows no {key}"),
            }
        }
    }

    /// Time passes; the shard is woken whenever it asked to be.
    fn sleep(&mut self, duration_ms: i64) {
        let end_ms = self.now_ms + duration_ms;
        while let Some(wake_ms) = self.shard.poll_timeout().filter(|wake_ms| *wake_ms <= end_ms) {
            self.now_ms = wake_ms.max(self.now_ms);
            self.shard.handle_timeout(self.now_ms);
            let before = self.trace.len();
            self.settle();
            if self.trace.len() > before {
                self.trace.insert_str(before, &format!("at {}\n", self.now_ms));
            }
        }
        self.now_ms = end_ms;
    }

    fn abandon(&mut self, name: &str) {
        let ticket = *self.waiting.iter().find(|(_, (who, _))| who == name).expect("waits").0;
        self.waiting.remove(&ticket);
        self.shard.abandon(ticket);
    }

    fn drop_shard(&mut self) {
        let dropped = self.shard.drop_parked();
        assert_eq!(dropped.len(), self.waiting.len(), "{}: who waits is told", self.title);
        self.answered(dropped);
        self.restart();
    }

    pub fn restart(&mut self) {
        self.waiting.clear();
        self.serve();
    }

    /// A shard that has read the log, and was told of the topics.
    fn serve(&mut self) {
        self.shard = self.load();
        if let Some(catalogue) = &self.catalogue {
            self.shard.handle_topics(self.now_ms, catalogue);
        }
    }

    /// `topics t1=3 t2=2`: these, and no others.
    fn change_topics(&mut self, command: &Command<'_>) {
        let mut topics = BTreeMap::new();
        for (name, _) in command.pairs() {
            let partitions = command.number(name, 0);
            let id = if self.has_topic_ids { topic_id(name) } else { Uuid::ZERO };
            let topic = CatalogueTopic { id, partitions, ..CatalogueTopic::default() };
            let name = name.split_once('#').map_or(*name, |(name, _)| name);
            topics.insert(Box::from(name), topic);
        }
        self.topics = topics;
        self.tell_topics();
    }

    /// `group-config g session=9000`: what is set for the one group that has settings of its own.
    fn set_group_config(&mut self, command: &Command<'_>) {
        let number = |name| command.option(name).map(|text| text.parse().expect("a number"));
        let config = GroupConfig {
            session_timeout_ms: number("session"),
            heartbeat_interval_ms: number("heartbeat"),
            assignment_interval_ms: number("interval"),
        };
        self.group_configs = Arc::new(GroupConfigs::new([(command.words[0].into(), config)]));
        self.shard.handle_group_configs(&self.group_configs);
    }

    /// `racks t1=a,b,a`: the rack of each partition.
    fn change_racks(&mut self, command: &Command<'_>) {
        for (name, _) in command.pairs() {
            let racks = command.option(name).expect("it is there");
            let topic = self.topics.get_mut(*name).expect("a topic");
            topic.racks = racks.split(',').map(|rack| [Box::from(rack)].into()).collect();
        }
        self.tell_topics();
    }

    /// `ends t1:0=5`: the partition ends there.
    fn change_ends(&mut self, command: &Command<'_>) {
        for word in &command.words {
            let (topic, partition, offset) = partition_and_offset(word);
            let topic = self.topics.get_mut(topic).expect("a topic");
            topic.end_offsets.insert(partition, offset);
        }
        self.tell_topics();
    }

    /// Zero in scenarios without topic ids.
    pub fn topic_id(&self, name: &str) -> Uuid {
        self.topics.get(name).map(|topic| topic.id).unwrap_or_default()
    }

    fn tell_topics(&mut self) {
        let catalogue = Arc::new(Catalogue::new(self.topics.clone()));
        self.shard.handle_topics(self.now_ms, &catalogue);
        self.catalogue = Some(catalogue);
    }

    fn load(&self) -> Shard {
        let mut shard = Shard::new(self.config.clone());
        shard.replay(&self.log).unwrap_or_else(|error| panic!("{}: {error}", self.title));
        shard.tell_events(self.tells_events);
        shard.handle_group_configs(&self.group_configs);
        shard.loaded(self.now_ms, self.next_offset);
        shard
    }

    /// Takes out what the shard has, until it has nothing more.
    fn settle(&mut self) {
        self.drain_responses();
        self.drain_events();
        if self.is_held {
            return;
        }
        // Several where transactions begin and end in one turn.
        let mut appended = false;
        while let Some(append) = self.shard.poll_append() {
            appended = true;
            let start = self.log.len();
            BatchHeader::of(&append).encode(&append.records, &mut self.log);
            self.trace.push_str(&trace::records(&self.log[start..], &self.names));
            self.next_offset = append.end_offset();
            self.shard.handle_committed(self.now_ms, self.next_offset);
            self.drain_responses();
            self.drain_events();
        }
        if appended {
            self.check_replay();
            if self.restarts == Restarts::WhereNobodyNotices && self.is_at_rest() {
                self.serve();
            }
        }
    }

    fn drain_events(&mut self) {
        while let Some(event) = self.shard.poll_event(self.now_ms) {
            self.trace.push_str(&trace::event(&event, &self.names));
        }
    }

    fn drain_responses(&mut self) {
        let shard = &mut self.shard;
        let responses: Vec<_> = std::iter::from_fn(|| shard.poll_response()).collect();
        let given_up: Vec<_> = std::iter::from_fn(|| shard.poll_given_up()).collect();
        self.answered(responses);
        for ticket in given_up {
            self.waiting.remove(&ticket).expect("given up once, and never answered");
        }
    }

    /// Names first: a response may name a member whose own answer comes after it.
    fn answered(&mut self, responses: Vec<(Ticket, Response)>) {
        for (ticket, response) in &responses {
            let name = &self.waiting[ticket].0;
            if let Response::ConsumerGroupHeartbeat(Ok(beaten)) = response {
                self.names.learn(name, &beaten.member_id);
                self.generations.insert(name.clone(), beaten.member_epoch);
            }
            let Response::JoinGroup(joined) = response else { continue };
            if !joined.member_id.is_empty() {
                self.names.learn(name, &joined.member_id);
            }
            if joined.generation_id >= 0 {
                self.generations.insert(name.clone(), joined.generation_id);
            }
        }
        for (ticket, response) in responses {
            let (name, api) = self.waiting.remove(&ticket).expect("one answer for each request");
            let text = trace::response(&response, &self.names);
            self.trace.push_str(&format!("{name} {api}: {text}\n"));
        }
    }

    /// Nobody waits, no group is in a rebalance, no id was handed out.
    fn is_at_rest(&self) -> bool {
        let members: usize = self.shard.groups().map(|group| group.members.len()).sum();
        self.waiting.is_empty()
            && members == self.shard.member_count()
            && self.shard.groups().all(|group| is_durable(&group) || has_no_record(&group))
            && !self
                .shard
                .groups()
                .any(|group| has_no_record(&group) && self.offsets_of(&group).is_empty())
    }

    /// A shard that replays the log has the same groups and offsets.
    fn check_replay(&self) {
        let loaded = self.load();
        for group in self.shard.groups() {
            let title = &self.title;
            if is_durable(&group) && !has_no_record(&group) {
                let found = loaded.group(&group.group_id);
                assert_eq!(found.as_ref(), Some(&group), "{title}: after replay");
            }
            let records = |shard: &Shard| shard.consumer_records(&group.group_id);
            assert_eq!(records(&loaded), records(&self.shard), "{title}: records after replay");
            assert_eq!(
                offsets(&loaded, &group.group_id),
                self.offsets_of(&group),
                "{title}: offsets after replay"
            );
        }
        let open = |shard: &Shard| (shard.open_transactions(), shard.unstable());
        assert_eq!(open(&loaded), open(&self.shard), "{}: transactions after replay", self.title);
        let ids = |shard: &Shard| -> Vec<Box<str>> {
            let there = shard.groups().filter(|group| {
                !has_no_record(group) || !offsets(shard, &group.group_id).is_empty()
            });
            there.map(|group| group.group_id).collect()
        };
        assert_eq!(ids(&loaded), ids(&self.shard), "{}: groups after replay", self.title);
    }

    pub fn durable(&self) -> Durable {
        let groups: Vec<GroupView> = self.shard.groups().collect();
        let offsets =
            groups.iter().map(|group| (group.group_id.clone(), self.offsets_of(group))).collect();
        // When a group reached its state may differ by what a restart delays.
        let timeless = |group| GroupView { current_state_timestamp_ms: 0, ..group };
        let records = groups.iter().map(|group| self.shard.consumer_records(&group.group_id));
        let records = records.collect();
        Durable { records, groups: groups.into_iter().map(timeless).collect(), offsets }
    }

    fn offsets_of(&self, group: &GroupView) -> Vec<String> {
        offsets(&self.shard, &group.group_id)
    }
}

/// `g*:sticky`.
fn rule(text: &str) -> (Pattern, GroupStrategy) {
    let (pattern, strategy) = text.rsplit_once(':').expect("PATTERN:STRATEGY");
    (Pattern::new(pattern), GroupStrategy::of_name(strategy).expect("a strategy"))
}

/// Whether what is seen is what the group's last record says.
fn is_durable(group: &GroupView) -> bool {
    group.group_type == "consumer" || matches!(group.state, "Empty" | "Stable")
}

/// A group that only offsets made, or nothing that was written.
fn has_no_record(group: &GroupView) -> bool {
    group.state == "Empty"
        && group.protocol_type.is_empty()
        && group.current_state_timestamp_ms == -1
}

fn offsets(shard: &Shard, group_id: &str) -> Vec<String> {
    shard.offsets(group_id).map(|found| format!("{found:?}")).collect()
}

/// A batch without a producer, of records of one time.
pub fn header(base_offset: i64, count: i32, timestamp: i64) -> BatchHeader {
    BatchHeader {
        base_offset,
        partition_leader_epoch: 0,
        crc: 0,
        attributes: Attributes(0),
        last_offset_delta: count - 1,
        base_timestamp: timestamp,
        max_timestamp: timestamp,
        producer_id: -1,
        producer_epoch: -1,
        base_sequence: 0,
        records_count: count,
    }
}
