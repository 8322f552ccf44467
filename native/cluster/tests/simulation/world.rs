//! N nodes, one store, a network and clients, on one clock of the world.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use kcoord_cluster::{Answer, Ask, Entry, Incarnation, Place, Seat, Settings};

use crate::breaks::{Break, Invariant, Violation};
use crate::clients::Clients;
use crate::process::{Call, Out, Process, Reply, Request};
use crate::random::Random;
use crate::store::Store;
use crate::storing::settings;
use crate::trimming;

const TICK_MS: u64 = 25;
const CLIENT_TIMEOUT_MS: u64 = 700;

pub type Check = Result<(), (Invariant, String)>;

pub enum Event {
    Tick(usize, Incarnation),
    Land(usize, Incarnation, u64, Call),
    Done(usize, Incarnation, u64, Call, Done),
    Ask(usize, usize, Incarnation, Incarnation, Ask),
    Answer(usize, Incarnation, Incarnation, Answer),
    Refused(usize, Incarnation, Incarnation),
    Request(usize, Request),
    Reply(Reply),
    Client(usize),
    GiveUp(usize, u64),
    Start(usize),
    Fault,
    Wish,
}

/// What the store answers.
pub enum Done {
    Entries(Vec<Entry>),
    /// A snapshot of the cluster log.
    Log(String),
    LogSnapshots(Vec<u64>),
    Put(bool),
    IsOwn(Option<bool>),
    /// A fence stands there: the journal ends.
    Fence(u64),
    /// A round stands there; all below this number do, too.
    Rounds(u64),
    Value(u64),
    Places(Vec<Place>),
    Deleted,
    Unknown,
}

pub struct Slot {
    pub process: Option<Process>,
    pub paused_until: u64,
    /// The slot's clock began then, and runs so many parts in a million faster than the world's.
    boot: u64,
    drift: i64,
    pub cut_from_store_until: u64,
    pub stalls_until: u64,
}

pub struct World {
    pub now: u64,
    pub random: Random,
    pub slots: Vec<Slot>,
    pub store: Store,
    pub clients: Clients,
    pub shards: u32,
    pub cuts: BTreeMap<(usize, usize), u64>,
    pub calm: bool,
    /// How far each journal was when faults stopped.
    pub calm_at: BTreeMap<Incarnation, u64>,
    pub settings: Settings,
    pub breaks: Option<Break>,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, Event>,
    pub numbers: u64,
    incarnations: u64,
    pub calls: BTreeMap<u64, ()>,
    /// A digest of all that happened: the same seed gives the same.
    pub trace: u64,
}

impl World {
    pub fn new(seed: u64, breaks: Option<Break>) -> Self {
        let mut random = Random::new(seed);
        let (slots, shards) = (random.range(2, 6) as usize, random.range(3, 9) as u32);
        let slot = |random: &mut Random| Slot {
            process: None,
            paused_until: 0,
            boot: random.range(0, 1_000_000_000),
            drift: random.range(0, 40_001) as i64 - 20_000,
            cut_from_store_until: 0,
            stalls_until: 0,
        };
        let mut world = World {
            now: 0,
            slots: (0..slots).map(|_| slot(&mut random)).collect(),
            store: Store::default(),
            clients: Clients::new(shards, slots, &mut random),
            shards,
            cuts: BTreeMap::new(),
            calm: false,
            calm_at: BTreeMap::new(),
            settings: trimming::settings(seed, breaks, settings(seed, &mut random)),
            breaks,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            numbers: 0,
            incarnations: 0,
            calls: BTreeMap::new(),
            trace: 0,
            random,
        };
        for slot in 0..slots {
            world.later(slot as u64 * 10, Event::Start(slot));
        }
        for client in 0..world.clients.len() {
            let at = world.random.range(500, 1_000);
            world.later(at, Event::Client(client));
        }
        world
    }

    pub fn later(&mut self, wait: u64, event: Event) {
        self.numbers += 1;
        self.queue.push(Reverse((self.now + wait, self.numbers)));
        self.events.insert(self.numbers, event);
    }

    /// All that happens before `end`.
    pub fn run_until(&mut self, end: u64) -> Result<(), Violation> {
        while let Some(&Reverse((at, number))) = self.queue.peek()
            && at < end
        {
            self.queue.pop();
            self.now = at;
            self.trace = (self.trace ^ at ^ number << 20).wrapping_mul(0x0000_0100_0000_01b3);
            let event = self.events.remove(&number).expect("an event has a number");
            let happened = self.happen(event);
            happened.map_err(|(invariant, message)| Violation { invariant, at, message })?;
        }
        self.now = end;
        Ok(())
    }

    pub fn clock(&self, slot: usize) -> u64 {
        let slot = &self.slots[slot];
        let drift = self.now as i64 * slot.drift / 1_000_000;
        (slot.boot as i64 + self.now as i64 + drift) as u64
    }

    /// Where the event is one of a process that does not run now: when it runs again.
    fn paused(&self, event: &Event) -> Option<u64> {
        let slot = match event {
            Event::Tick(slot, _)
            | Event::Done(slot, ..)
            | Event::Answer(slot, ..)
            | Event::Refused(slot, ..)
            | Event::Request(slot, _) => *slot,
            Event::Ask(_, to, ..) => *to,
            _ => return None,
        };
        let until = self.slots[slot].paused_until;
        (until > self.now).then(|| until - self.now)
    }

    fn happen(&mut self, event: Event) -> Check {
        if let Some(wait) = self.paused(&event) {
            self.later(wait, event);
            return Ok(());
        }
        match event {
            Event::Tick(slot, own) => {
                let now = self.clock(slot);
                let Some(process) = self.process(slot, own) else { return Ok(()) };
                process.tick(now);
                self.later(TICK_MS, Event::Tick(slot, own));
                self.after(slot)
            }
            Event::Land(slot, own, number, call) => self.land(slot, own, number, call),
            Event::Done(slot, own, number, call, done) => {
                if self.calls.remove(&number).is_none() {
                    return Ok(()); // it came after the process had given up
                }
                self.done(slot, own, call, done)
            }
            Event::Ask(from, to, asker, asked, ask) => self.ask(from, to, asker, asked, ask),
            Event::Answer(slot, own, from, answer) => {
                let now = self.clock(slot);
                let Some(process) = self.process(slot, own) else { return Ok(()) };
                process.node.answered(now, from, answer);
                process.act(now);
                self.after(slot)
            }
            Event::Refused(slot, own, to) => {
                let now = self.clock(slot);
                let Some(process) = self.process(slot, own) else { return Ok(()) };
                process.node.refused(now, to);
                process.act(now);
                self.after(slot)
            }
            Event::Request(slot, request) => {
                let now = self.clock(slot);
                if let Some(process) = &mut self.slots[slot].process {
                    process.requested(now, request);
                    return self.after(slot);
                }
                Ok(())
            }
            Event::Reply(reply) => self.reply(reply),
            Event::Client(client) => {
                let slots = self.slots.len();
                let (to, request) = self.clients.next(client, slots, &mut self.random);
                let wait = self.random.range(1, 4);
                self.later(wait, Event::Request(to, request));
                self.later(CLIENT_TIMEOUT_MS, Event::GiveUp(client, request.number));
                Ok(())
            }
            Event::GiveUp(client, number) => {
                let shard = self.clients.shard(client);
                let request = Request { client, number, shard, commit: None };
                if self.clients.waits_for(&request) {
                    self.clients.give_up(client);
                    self.try_elsewhere(client);
                }
                Ok(())
            }
            Event::Start(slot) => {
                self.start(slot);
                Ok(())
            }
            Event::Fault => {
                crate::faults::strike(self);
                Ok(())
            }
            Event::Wish => {
                self.want();
                Ok(())
            }
        }
    }

    pub fn process(&mut self, slot: usize, own: Incarnation) -> Option<&mut Process> {
        self.slots[slot].process.as_mut().filter(|process| process.own == own)
    }

    fn start(&mut self, slot: usize) {
        if self.slots[slot].process.is_some() {
            return;
        }
        self.incarnations += 1;
        let own = self.incarnations;
        let host = "h".to_owned();
        let seat = Seat {
            node_id: slot as i32,
            host: host.clone(),
            port: 1,
            control_host: host,
            control_port: slot as u16,
        };
        let now = self.clock(slot);
        self.slots[slot].process =
            Some(Process::new(own, seat, self.shards, self.breaks, self.settings, now));
        self.later(1, Event::Tick(slot, own));
    }

    pub fn is_cut(&self, from: usize, to: usize) -> bool {
        self.cuts.get(&(from, to)).is_some_and(|&until| until > self.now)
    }

    /// Hand on what a process wants, and start it again if it has ended.
    pub fn after(&mut self, slot: usize) -> Check {
        let Some(process) = &mut self.slots[slot].process else { return Ok(()) };
        let (own, out) = (process.own, std::mem::take(&mut process.out));
        let has_ended = process.node.stop().is_some();
        for one in out {
            match one {
                Out::Call(call) => self.call(slot, own, call, 0),
                Out::CallLater(call) => self.call(slot, own, call, 50),
                Out::Ask(to, ask) => self.send(slot, own, to, ask),
                Out::Reply(reply) => {
                    self.clients.check(&reply)?;
                    self.clients.acknowledge(&reply, self.now);
                    let wait = self.random.range(1, 4);
                    self.later(wait, Event::Reply(reply));
                }
                Out::Taken(shard, epoch, value) => {
                    let acknowledged = self.clients.acknowledged_up_to(shard, epoch);
                    if value < acknowledged {
                        let text = format!("shard {shard}: {value} taken after {acknowledged}");
                        return Err((Invariant::Acknowledged, text));
                    }
                }
            }
        }
        if has_ended {
            self.crash(slot, 100);
        }
        Ok(())
    }

    fn send(&mut self, slot: usize, own: Incarnation, to: Incarnation, ask: Ask) {
        let Some(process) = &self.slots[slot].process else { return };
        let Some(seat) = process.node.view().members().get(&to) else { return };
        let target = usize::from(seat.control_port);
        let wait = self.random.range(1, 4);
        if self.is_cut(slot, target) || (!self.calm && self.random.chance(5)) {
            return;
        }
        if self.slots[target].process.is_none() {
            self.later(wait, Event::Refused(slot, own, to));
        } else {
            self.later(wait, Event::Ask(slot, target, own, to, ask));
        }
    }

    fn ask(
        &mut self,
        from: usize,
        to: usize,
        asker: Incarnation,
        asked: Incarnation,
        ask: Ask,
    ) -> Check {
        let (now, term) = (self.clock(to), ask.term);
        let Some(process) = &mut self.slots[to].process else { return Ok(()) };
        let delivered = if self.breaks == Some(Break::OldTermObeyed) { u64::MAX } else { term };
        let answer = process.asked(now, ask);
        if answer.term <= delivered {
            if term < process.obeyed_term {
                let text = format!("term {term} after {}", process.obeyed_term);
                return Err((Invariant::Term, text));
            }
            process.obeyed_term = term;
        }
        let wait = self.random.range(1, 4);
        if !self.is_cut(to, from) {
            self.later(wait, Event::Answer(from, asker, asked, answer));
        }
        self.after(to)
    }

    fn reply(&mut self, reply: Reply) -> Check {
        let client = reply.request.client;
        if !self.clients.waits_for(&reply.request) {
            return Ok(());
        }
        self.clients.give_up(client); // of the time limit
        if reply.value.is_none() {
            self.try_elsewhere(client);
        } else {
            let wait = self.random.range(5, 60);
            self.later(wait, Event::Client(client));
        }
        Ok(())
    }

    /// As by FindCoordinator of some node.
    fn try_elsewhere(&mut self, client: usize) {
        let shard = self.clients.shard(client);
        let asked = self.random.index(self.slots.len());
        let leader = self.slots[asked].process.as_ref().and_then(|process| {
            let (leader, _) = process.node.view().leader(shard)?;
            process.node.view().members().get(&leader).map(|seat| seat.node_id as usize)
        });
        let target = leader.unwrap_or_else(|| self.random.index(self.slots.len()));
        self.clients.turn_to(client, target);
        let wait = self.random.range(10, 50);
        self.later(wait, Event::Client(client));
    }
}
