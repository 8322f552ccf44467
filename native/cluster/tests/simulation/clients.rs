//! Clients of registers, and what they may see. The value of a register only rises, as each commit
//! is larger than all before: a read must show at least what was acknowledged before it was asked.

use std::collections::BTreeMap;

use kcoord_cluster::{Epoch, Shard};

use crate::breaks::Invariant;
use crate::process::{Reply, Request};
use crate::random::Random;

struct Client {
    shard: Shard,
    writes: bool,
    /// In which slot it believes the leader to be.
    target: usize,
    number: u64,
    acknowledged_before: u64,
}

pub struct Clients {
    clients: Vec<Client>,
    /// The newest value that was acknowledged, in all, and by who led in an epoch; and the newest
    /// epoch that was answered in.
    acknowledged: BTreeMap<Shard, u64>,
    acknowledged_in: BTreeMap<(Shard, Epoch), u64>,
    answered_in: BTreeMap<Shard, Epoch>,
    issued: u64,
    /// When each shard was written last.
    pub written_at: BTreeMap<Shard, u64>,
}

/// So many of each shard: one writes, the others read.
const PER_SHARD: u32 = 3;

impl Clients {
    pub fn new(shards: u32, slots: usize, random: &mut Random) -> Self {
        let client = |number: u32, random: &mut Random| Client {
            shard: number / PER_SHARD,
            writes: number.is_multiple_of(PER_SHARD),
            target: random.index(slots),
            number: 0,
            acknowledged_before: 0,
        };
        Clients {
            clients: (0..shards * PER_SHARD).map(|number| client(number, random)).collect(),
            acknowledged: BTreeMap::new(),
            acknowledged_in: BTreeMap::new(),
            answered_in: BTreeMap::new(),
            issued: 0,
            written_at: BTreeMap::new(),
        }
    }

    pub fn len(&self) -> usize {
        self.clients.len()
    }

    pub fn acknowledged(&self, shard: Shard) -> u64 {
        self.acknowledged.get(&shard).copied().unwrap_or(0)
    }

    /// The newest value that was acknowledged in this epoch or an older one.
    pub fn acknowledged_up_to(&self, shard: Shard, epoch: Epoch) -> u64 {
        let up_to = self.acknowledged_in.range((shard, Epoch::MIN)..=(shard, epoch));
        up_to.map(|(_, &value)| value).max().unwrap_or(0)
    }

    /// The next request of a client, and to which slot. Readers ask others now and then: what an
    /// old leader still answers is to be seen.
    pub fn next(&mut self, client: usize, slots: usize, random: &mut Random) -> (usize, Request) {
        let shard = self.clients[client].shard;
        let acknowledged_before = self.acknowledged(shard);
        self.issued += 1;
        let one = &mut self.clients[client];
        one.number += 1;
        one.acknowledged_before = acknowledged_before;
        let wanders = !one.writes && random.chance(150);
        let target = if wanders { random.index(slots) } else { one.target };
        let commit = one.writes.then_some(self.issued);
        (target, Request { client, number: one.number, shard, commit })
    }

    /// The leader moved, or did not answer.
    pub fn turn_to(&mut self, client: usize, target: usize) {
        self.clients[client].target = target;
    }

    pub fn shard(&self, client: usize) -> Shard {
        self.clients[client].shard
    }

    pub fn waits_for(&self, request: &Request) -> bool {
        self.clients[request.client].number == request.number
    }

    /// It has given up: the answer is nobody's any more.
    pub fn give_up(&mut self, client: usize) {
        self.clients[client].number += 1;
    }

    /// Check what is answered at the moment when a node lets go of it.
    pub fn check(&mut self, reply: &Reply) -> Result<(), (Invariant, String)> {
        let shard = reply.request.shard;
        let Some(value) = reply.value else { return Ok(()) };
        if reply.request.commit.is_none() {
            let newest = self.answered_in.entry(shard).or_insert(-1);
            if reply.epoch < *newest {
                let text = format!("shard {shard} in epoch {}, after {newest}", reply.epoch);
                return Err((Invariant::OneLeader, text));
            }
            *newest = reply.epoch;
            let before = self.clients[reply.request.client].acknowledged_before;
            if self.waits_for(&reply.request) && value < before {
                let text = format!("shard {shard}: {value} was read after {before}");
                return Err((Invariant::Linear, text));
            }
        }
        Ok(())
    }

    /// A commit's answer has left its node.
    pub fn acknowledge(&mut self, reply: &Reply, now: u64) {
        if let (Some(_), Some(value)) = (reply.value, reply.request.commit) {
            let newest = self.acknowledged.entry(reply.request.shard).or_default();
            *newest = value.max(*newest);
            let shard = reply.request.shard;
            let newest = self.acknowledged_in.entry((shard, reply.epoch)).or_default();
            *newest = value.max(*newest);
            self.written_at.insert(reply.request.shard, now);
        }
    }
}
