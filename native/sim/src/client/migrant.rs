//! A client that changes its protocol: it leaves, or dies, and is started again with the other one. A static
//! one goes without a word, and the next takes its place.

use kcoord_core::ErrorCode;
use kcoord_wire::api::ResponseBody;
use rand::RngExt;
use rand_xorshift::XorShiftRng;

use super::native::OVERTAKING_MS;
use super::{Around, Client};
use crate::ask::{Ask, Body};
use crate::plan::Role;

/// So often in a row a group refuses the protocol before the client is started with the other one.
const MOST_REFUSALS: u32 = 3;

pub struct Migrant {
    speaks_natively: bool,
    /// With the next answer, or none, it is gone.
    leaves: bool,
    refusals: u32,
}

impl Migrant {
    pub fn new(rng: &mut XorShiftRng, role: Role) -> Migrant {
        let speaks_natively = match role {
            Role::Native => true,
            Role::Migrant => rng.random_ratio(1, 3),
            _ => false,
        };
        Migrant { speaks_natively, leaves: false, refusals: 0 }
    }
}

impl Client {
    /// Whether it speaks the consumer protocol now.
    pub fn speaks_natively(&self) -> bool {
        self.migrant.speaks_natively
    }

    pub(super) fn migrate(&mut self, around: &mut Around<'_>) -> Option<Body> {
        if !around.is_calm && self.rng.random_ratio(1, 60) {
            if self.rng.random_ratio(1, 2) && self.is_in_group() {
                self.migrant.leaves = true;
                return Some(self.farewell());
            }
            self.change_protocol();
            self.wake_ms = around.now_ms + self.rng.random_range(100..6_000);
            return None;
        }
        match self.migrant.speaks_natively {
            true => self.consume_natively(around),
            false => self.consume(around),
        }
    }

    fn is_in_group(&self) -> bool {
        match self.migrant.speaks_natively {
            true => self.native.epoch > 0,
            false => !self.consumer.member_id.is_empty(),
        }
    }

    /// It gives up all, and says so.
    fn farewell(&mut self) -> Body {
        if !self.migrant.speaks_natively {
            self.consumer.stop_reading();
            return Body::Leave;
        }
        let is_static = self.spec.instance_id.is_some();
        self.native.leave(is_static && self.rng.random_ratio(2, 3));
        Body::Beat { rebalance_timeout_ms: -1, topics: None, owned: None }
    }

    fn change_protocol(&mut self) {
        self.consumer.forget();
        self.native.be_reborn(self.id);
        self.migrant.speaks_natively = !self.migrant.speaks_natively;
        self.migrant.leaves = false;
        self.migrant.refusals = 0;
    }

    pub(super) fn learn_as_it_speaks(
        &mut self,
        around: &mut Around<'_>,
        ask: &Ask,
        answer: &ResponseBody,
    ) {
        if self.migrant.leaves {
            self.change_protocol();
            self.wake_ms = around.now_ms + self.rng.random_range(100..4_000);
            return;
        }
        let refused = match answer {
            ResponseBody::JoinGroup(joined) => {
                joined.error_code == ErrorCode::InconsistentGroupProtocol
            }
            ResponseBody::ConsumerGroupHeartbeat(answer) => answer
                .as_ref()
                .is_err_and(|refusal| refusal.error_code == ErrorCode::GroupIdNotFound),
            _ => false,
        };
        match answer {
            ResponseBody::ConsumerGroupHeartbeat(answer) => self.learn_natively(around, answer),
            _ => self.learn(around, ask, answer),
        }
        self.migrant.refusals = if refused { self.migrant.refusals + 1 } else { 0 };
        if self.migrant.refusals >= MOST_REFUSALS && self.rng.random_ratio(1, 2) {
            self.change_protocol();
        }
    }

    pub(super) fn disconnected_as_it_speaks(&mut self, now_ms: i64) {
        if self.migrant.leaves {
            self.change_protocol();
        } else if self.migrant.speaks_natively {
            return self.disconnected_natively(now_ms);
        }
        self.wake_ms = now_ms + OVERTAKING_MS;
    }
}
