//! Clients: each is asked what it wants to send when its time has come, and gets the outcome.
//! They know what a client over the network knows, and nothing of the node.

mod admin;
mod consumer;
mod migrant;
pub mod native;
mod reading;
mod simple;
mod transactional;

use kcoord_wire::api::ResponseBody;
use rand::RngExt;
use rand_xorshift::XorShiftRng;

use crate::ask::{Ask, Body, Named, Versions};
use crate::breaks::Break;
use crate::catalogue::Catalogue;
use crate::plan::{PARTITIONS, Quirk, Role, Spec, TOPICS, random};
use consumer::Consumer;
use migrant::Migrant;
use native::Native;

/// What a client sees of the world.
pub struct Around<'a> {
    pub now_ms: i64,
    pub catalogue: &'a Catalogue,
    /// No two commits have the same offset: it shows which commit is read.
    pub next_value: &'a mut i64,
    pub is_calm: bool,
    pub broken: Option<Break>,
}

impl Around<'_> {
    fn value(&mut self) -> i64 {
        *self.next_value += 1;
        *self.next_value
    }
}

pub struct Client {
    pub id: usize,
    pub spec: Spec,
    pub rng: XorShiftRng,
    versions: Versions,
    /// When it wants to act next.
    pub wake_ms: i64,
    consumer: Consumer,
    pub native: Native,
    producer: transactional::Producer,
    migrant: Migrant,
}

impl Client {
    pub fn new(seed: u64, id: usize, spec: &Spec) -> Client {
        let mut rng = random(seed, 1_000 + id as u64);
        let versions = Versions::draw(&mut rng, spec.instance_id.is_some());
        let consumer = Consumer::new(&mut rng, spec.quirk);
        let wake_ms = rng.random_range(0..3_000);
        let native = Native::new(&mut random(seed, 30_000 + id as u64), id);
        let migrant = Migrant::new(&mut random(seed, 40_000 + id as u64), spec.role);
        Client {
            id,
            spec: spec.clone(),
            rng,
            versions,
            wake_ms,
            consumer,
            native,
            migrant,
            producer: Default::default(),
        }
    }

    /// Whether it must be served well once it is calm.
    pub fn is_well_behaved(&self) -> bool {
        self.spec.quirk == Quirk::None && self.spec.role != Role::Admin
    }

    /// What it sends now, if anything; `wake_ms` is moved.
    pub fn act(&mut self, around: &mut Around<'_>) -> Option<Ask> {
        if around.is_calm && !self.is_well_behaved() {
            self.wake_ms = i64::MAX;
            return None;
        }
        let body = match self.spec.role {
            Role::Consumer => self.consume(around),
            Role::Native => self.consume_natively(around),
            Role::Migrant => self.migrate(around),
            Role::Simple => self.use_simply(around),
            Role::Transactional => self.transact(around),
            Role::Admin => self.administer(around),
        }?;
        Some(self.ask(body))
    }

    /// The answer to what it asked.
    pub fn answered(&mut self, around: &mut Around<'_>, ask: &Ask, answer: &ResponseBody) {
        self.wake_ms = around.now_ms + self.pace_ms();
        match (self.spec.role, answer) {
            (Role::Consumer, _) => self.learn(around, ask, answer),
            (Role::Migrant, _) => self.learn_as_it_speaks(around, ask, answer),
            (_, ResponseBody::ConsumerGroupHeartbeat(answer)) => {
                self.learn_natively(around, answer)
            }
            (_, ResponseBody::WriteTxnMarkers(written)) => self.learn_of_end(around, written),
            (Role::Simple, ResponseBody::OffsetCommit(committed)) => {
                let mut codes = committed.topics.iter().flat_map(|topic| &topic.partitions);
                if codes.all(|(_, code)| !code.is_error()) {
                    self.consumer.committed_ms = around.now_ms;
                }
            }
            _ => {}
        }
    }

    /// The connection is gone, or no answer came: it tries again on another one.
    pub fn disconnected(&mut self, now_ms: i64) {
        if self.spec.role == Role::Migrant {
            return self.disconnected_as_it_speaks(now_ms);
        }
        if self.spec.role == Role::Native {
            return self.disconnected_natively(now_ms);
        }
        self.wake_ms = now_ms + self.rng.random_range(10..500);
    }

    fn ask(&mut self, body: Body) -> Ask {
        let version = self.versions.of(body.api());
        let consumer = &self.consumer;
        let is_member = matches!(self.spec.role, Role::Consumer | Role::Migrant);
        let mut ask = Ask {
            client: self.id,
            version,
            group: self.spec.group,
            generation_id: if is_member { consumer.generation_id } else { -1 },
            member_id: consumer.member_id.clone(),
            instance_id: self.spec.instance_id.filter(|_| is_member),
            body,
        };
        if self.speaks_natively() {
            ask.generation_id = self.native.epoch;
            ask.member_id = self.native.member_id.clone();
            ask.instance_id = self.spec.instance_id;
            if self.spec.quirk == Quirk::Stale {
                self.go_back_natively(&mut ask);
            }
            return ask;
        }
        if matches!(ask.body, Body::Leave) && !is_member {
            ask.instance_id = Some(["i0", "i1", "i2", "i3"][self.rng.random_range(0..4)]);
        }
        if self.spec.quirk == Quirk::Stale {
            self.go_back(&mut ask);
        }
        ask
    }

    /// Time between an answer and the next request.
    fn pace_ms(&mut self) -> i64 {
        match self.spec.quirk {
            Quirk::Slow => self.rng.random_range(0..8_000),
            _ => self.rng.random_range(50..600),
        }
    }

    /// Some partitions, of a topic that may not exist.
    fn some_partitions(&mut self, _around: &Around<'_>) -> Named {
        let topic = self.rng.random_range(0..TOPICS.len());
        let first = self.rng.random_range(0..PARTITIONS as i32);
        let count = self.rng.random_range(1..=2).min(PARTITIONS as i32 - first);
        (topic, (first..first + count).collect())
    }

    /// What it was assigned in the generation it is in, while it is in one.
    pub fn assignment(&self) -> Option<(i32, &[Named])> {
        self.consumer.assignment()
    }

    /// It must not come back: another one has its instance id.
    pub fn is_fenced(&self) -> bool {
        if self.speaks_natively() { self.native.is_fenced() } else { self.consumer.is_fenced() }
    }

    /// Topics that its group must own, if it leads it by this catalogue.
    pub fn wanted(&self, catalogue_version: u32) -> &[usize] {
        self.consumer.wanted(catalogue_version)
    }

    /// Whether it subscribes to a topic.
    pub fn subscribes_to(&self, topic: usize) -> bool {
        if self.speaks_natively() {
            self.native.subscribes_to(topic)
        } else {
            self.consumer.topics.contains(&topic)
        }
    }

    /// When its last commit was acknowledged.
    pub fn committed_ms(&self) -> i64 {
        self.consumer.committed_ms
    }
}
