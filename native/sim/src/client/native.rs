//! A client of the consumer protocol (KIP-848): tells what it owns when that has changed, gives partitions
//! up when it is told to, in its own time, and does with each error code what Kafka's clients do.

use std::collections::BTreeSet;
use std::rc::Rc;

use kcoord_core::ErrorCode;
use kcoord_core::response::{ConsumerGroupHeartbeatResponse, Refusal};
use rand::RngExt;
use rand_xorshift::XorShiftRng;

use super::{Around, Client};
use crate::ask::{Ask, Body};
use crate::breaks::Break;
use crate::plan::{Quirk, TOPICS};

/// Id of a topic, and a partition.
pub type Place = (u128, i32);

const JOINS: i32 = 0;
const LEAVES: i32 = -1;
const LEFT_FOR_A_WHILE: i32 = -2;

/// Longer than a request can be on its way: after a lost connection the next one must not overtake it.
pub const OVERTAKING_MS: i64 = 4_000;

/// Seconds, far above a session: the other one is alive.
const MOST_UNRELEASED: u32 = 30;

pub struct Native {
    pub member_id: Rc<str>,
    /// 0: it joins with its next request.
    pub epoch: i32,
    /// What it reads.
    pub owned: BTreeSet<Place>,
    /// What it is to read, and since when it gives up the rest.
    assigned: BTreeSet<Place>,
    gives_up_ms: Option<i64>,
    /// What it owns has changed since it told.
    must_tell: bool,
    topics: Vec<usize>,
    must_tell_topics: bool,
    is_fenced: bool,
    /// How often, since all is calm, another one had its instance id.
    unreleased: u32,
    lives: u32,
    past_epochs: Vec<i32>,
}

impl Native {
    pub fn new(rng: &mut XorShiftRng, id: usize) -> Native {
        let topics: Vec<usize> = (0..TOPICS.len()).filter(|_| rng.random_ratio(2, 3)).collect();
        Native {
            member_id: member_id(id, 0),
            epoch: JOINS,
            owned: BTreeSet::new(),
            assigned: BTreeSet::new(),
            gives_up_ms: None,
            must_tell: false,
            topics: if topics.is_empty() { vec![0] } else { topics },
            must_tell_topics: false,
            is_fenced: false,
            unreleased: 0,
            lives: 0,
            past_epochs: Vec::new(),
        }
    }

    pub fn subscribes_to(&self, topic: usize) -> bool {
        self.topics.contains(&topic)
    }

    /// It must not come back: another one has its instance id.
    pub fn is_fenced(&self) -> bool {
        self.is_fenced
    }

    /// It reads nothing any more, and says that it goes.
    pub fn leave(&mut self, for_a_while: bool) {
        self.lose_all();
        self.epoch = if for_a_while { LEFT_FOR_A_WHILE } else { LEAVES };
    }

    /// It reads nothing any more, and joins anew.
    fn lose_all(&mut self) {
        self.epoch = JOINS;
        self.owned.clear();
        self.assigned.clear();
        self.gives_up_ms = None;
        self.must_tell = false;
        self.past_epochs.clear();
    }

    /// Another process comes in its place.
    pub fn be_reborn(&mut self, id: usize) {
        self.lose_all();
        self.lives += 1;
        self.member_id = member_id(id, self.lives);
    }
}

fn member_id(client: usize, life: u32) -> Rc<str> {
    format!("native-{client:02}-{life:04}").into()
}

impl Client {
    /// What it sends now.
    pub(super) fn consume_natively(&mut self, around: &mut Around<'_>) -> Option<Body> {
        if self.native.is_fenced {
            self.wake_ms = i64::MAX;
            return None;
        }
        if self.native.epoch > JOINS
            && !around.is_calm
            && let Some(body) = self.change_its_ways(around)
        {
            return body;
        }
        self.give_up(around);
        let native = &mut self.native;
        let joins = native.epoch == JOINS;
        let tells_all = joins || self.rng.random_ratio(1, 20);
        let tells_owned = tells_all || std::mem::take(&mut native.must_tell);
        let tells_topics = tells_all || std::mem::take(&mut native.must_tell_topics);
        let owned = match around.broken {
            // What it was told to give up it goes on to read.
            Some(Break::ReadsOn) => native.owned.intersection(&native.assigned).copied().collect(),
            _ => native.owned.iter().copied().collect(),
        };
        Some(Body::Beat {
            rebalance_timeout_ms: if tells_all { self.spec.rebalance_timeout_ms } else { -1 },
            topics: tells_topics.then(|| native.topics.clone()),
            owned: tells_owned.then_some(owned),
        })
    }

    /// Now and then it leaves, dies, or subscribes to something else.
    #[allow(clippy::option_option, reason = "whether, and what")]
    fn change_its_ways(&mut self, around: &Around<'_>) -> Option<Option<Body>> {
        match self.rng.random_range(0..200) {
            0 => {
                self.native.be_reborn(self.id);
                self.wake_ms = around.now_ms + self.rng.random_range(100..12_000);
                Some(None)
            }
            1 | 2 => {
                let is_static = self.spec.instance_id.is_some() && self.rng.random_ratio(2, 3);
                self.native.leave(is_static);
                Some(Some(Body::Beat { rebalance_timeout_ms: -1, topics: None, owned: None }))
            }
            3 => {
                self.native.topics = vec![self.rng.random_range(0..TOPICS.len())];
                self.native.must_tell_topics = true;
                None
            }
            _ => None,
        }
    }

    /// What it is to give up goes when its time has come; what it got is read at once.
    fn give_up(&mut self, around: &Around<'_>) {
        let native = &mut self.native;
        if native.gives_up_ms.is_some_and(|at_ms| at_ms <= around.now_ms) {
            native.gives_up_ms = None;
            if around.broken != Some(Break::ReadsOn) {
                native.owned.retain(|place| native.assigned.contains(place));
            }
            native.must_tell = true;
        }
    }

    /// Now and then: an epoch of before.
    pub(super) fn go_back_natively(&mut self, ask: &mut Ask) {
        if ask.generation_id > JOINS && self.rng.random_ratio(1, 6) {
            let past = &self.native.past_epochs;
            let later = self.rng.random_ratio(1, 4).then_some(ask.generation_id + 3);
            ask.generation_id = later.or(past.last().copied()).unwrap_or(ask.generation_id);
        }
    }

    pub(super) fn learn_natively(
        &mut self,
        around: &mut Around<'_>,
        answer: &Result<ConsumerGroupHeartbeatResponse, Refusal>,
    ) {
        match answer {
            Ok(beaten) if beaten.member_epoch > JOINS => self.told(around, beaten),
            Ok(_) => {
                self.native.be_reborn(self.id);
                self.wake_ms = around.now_ms + self.rng.random_range(100..8_000);
            }
            Err(refusal) => match refusal.error_code {
                ErrorCode::FencedMemberEpoch => self.native.lose_all(),
                ErrorCode::UnknownMemberId | ErrorCode::GroupIdNotFound => {
                    self.native.be_reborn(self.id);
                }
                ErrorCode::FencedInstanceId => {
                    self.native.be_reborn(self.id);
                    self.native.is_fenced = around.is_calm || self.rng.random_ratio(1, 2);
                    self.wake_ms = around.now_ms + self.rng.random_range(1_000..10_000);
                }
                ErrorCode::UnreleasedInstanceId | ErrorCode::GroupMaxSizeReached => {
                    self.native.lose_all();
                    if around.is_calm && refusal.error_code == ErrorCode::UnreleasedInstanceId {
                        self.native.unreleased += 1;
                        self.native.is_fenced = self.rng.random_ratio(1, 20)
                            || self.native.unreleased > MOST_UNRELEASED;
                    }
                    self.wake_ms = around.now_ms + 1_000;
                }
                // Loading, or not there: the same again, with all that it tried to tell.
                _ => {
                    self.native.must_tell = true;
                    self.native.must_tell_topics = true;
                    if self.native.epoch < JOINS {
                        self.native.be_reborn(self.id);
                    }
                }
            },
        }
    }

    fn told(&mut self, around: &Around<'_>, beaten: &ConsumerGroupHeartbeatResponse) {
        let native = &mut self.native;
        if native.epoch != beaten.member_epoch {
            native.past_epochs.push(native.epoch);
            native.epoch = beaten.member_epoch;
        }
        let Some(assignment) = &beaten.assignment else { return };
        native.assigned = assignment.iter().map(|at| (at.topic_id().0, at.partition)).collect();
        native.owned.extend(&native.assigned);
        // Also to tell that it has got what it was given.
        let in_ms = match self.spec.quirk {
            Quirk::Slow => self.rng.random_range(0..8_000),
            _ => self.rng.random_range(0..400),
        };
        native.gives_up_ms = Some(around.now_ms + in_ms);
    }

    /// Its connection is gone: what it said may have been heard or not.
    pub(super) fn disconnected_natively(&mut self, now_ms: i64) {
        self.native.must_tell = true;
        self.native.must_tell_topics = true;
        if self.native.epoch < JOINS {
            self.native.be_reborn(self.id);
        }
        self.wake_ms = now_ms + OVERTAKING_MS;
    }
}
