//! One process of a node: `kcoord_cluster::Node`, a journal, and registers instead of groups.

use std::collections::BTreeMap;

use kcoord_cluster::{
    Action, Ask, Change, Entry, Epoch, Incarnation, JournalWriter, Millis, Node, Outcome, Place,
    Seat, Settings, Shard, Step, Stretch,
};

use crate::breaks::Break;
use crate::store::{Known, Part};

/// What a process asks of the store.
#[derive(Clone, Debug)]
pub enum Call {
    Follow {
        from: u64,
    },
    PutEntry {
        index: u64,
        entry: Entry,
    },
    PutRound {
        index: u64,
        parts: Vec<Part>,
    },
    ReadRound {
        index: u64,
    },
    PutFence {
        incarnation: Incarnation,
        index: u64,
    },
    /// To lead the shard, or to write a snapshot. `known`: the snapshot that was read, if any.
    Read {
        of: Reading,
        known: Option<Option<Known>>,
    },
    PutSnapshot {
        shard: Shard,
        place: Place,
        value: u64,
    },
    Look {
        shard: Shard,
    },
    Delete {
        incarnation: Incarnation,
        below: u64,
    },
    LookLog,
    SnapshotLog {
        index: u64,
        text: String,
    },
    Trim {
        head: u64,
        below: u64,
    },
}

/// A shard that is to be read up to `own_end` of the own journal.
#[derive(Clone, Debug)]
pub struct Reading {
    pub shard: Shard,
    pub epoch: Epoch,
    pub lineage: Vec<Stretch>,
    pub own_end: u64,
    pub is_take: bool,
}

/// What a client asks.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub client: usize,
    pub number: u64,
    pub shard: Shard,
    /// `None`: a read.
    pub commit: Option<u64>,
}

/// What the client hears: the register's value, or that this node does not lead.
#[derive(Clone, Copy, Debug)]
pub struct Reply {
    pub request: Request,
    pub value: Option<u64>,
    /// In which epoch it was answered.
    pub epoch: Epoch,
}

pub enum Out {
    Call(Call),
    CallLater(Call),
    Ask(Incarnation, Ask),
    Reply(Reply),
    /// A shard was taken to be led in this epoch, with this value.
    Taken(Shard, Epoch, u64),
}

struct Register {
    epoch: Epoch,
    value: u64,
    is_served: bool,
    /// See `Break::ReadsWhileReleased`.
    is_released: bool,
}

pub struct Process {
    pub own: Incarnation,
    pub node: Node,
    breaks: Option<Break>,
    journal: JournalWriter,
    registers: BTreeMap<Shard, Register>,
    waiting: Vec<Request>,
    round: Option<(Vec<Part>, Vec<Request>, Millis)>,
    wants_proof: bool,
    reads: Vec<Request>,
    releases: Vec<(Shard, Epoch)>,
    takes: Vec<(Shard, Epoch, Vec<Stretch>)>,
    pub obeyed_term: u64,
    /// It was asked to end.
    pub leaves: bool,
    pub out: Vec<Out>,
}

impl Process {
    pub fn new(
        own: Incarnation,
        seat: Seat,
        shards: u32,
        breaks: Option<Break>,
        settings: Settings,
        now: Millis,
    ) -> Self {
        Process {
            own,
            node: Node::new(own, seat, shards, settings, now),
            breaks,
            journal: JournalWriter::new(),
            registers: BTreeMap::new(),
            waiting: Vec::new(),
            round: None,
            wants_proof: false,
            reads: Vec::new(),
            releases: Vec::new(),
            takes: Vec::new(),
            obeyed_term: 0,
            leaves: false,
            out: Vec::new(),
        }
    }

    fn has(&self, which: Break) -> bool {
        self.breaks == Some(which)
    }

    pub fn followed(&mut self, now: Millis, from: u64, mut entries: Vec<Entry>) {
        if from == 0 && self.has(Break::WishesForgotten) {
            let is_wish =
                |change: &Change| matches!(change, Change::Pin { .. } | Change::Drain { .. });
            for entry in &mut entries {
                entry.changes.retain(|change| !is_wish(change));
            }
        }
        self.node.followed(now, from, Some(&entries));
    }

    pub fn tick(&mut self, now: Millis) {
        self.node.tick(now);
        let view = self.node.view();
        self.registers.retain(|&shard, one| {
            !one.is_released || view.leader(shard) == Some((self.own, one.epoch))
        });
        self.act(now);
        self.answer_reads(now);
    }

    pub fn requested(&mut self, now: Millis, request: Request) {
        let Some(register) = self.registers.get(&request.shard).filter(|one| one.is_served) else {
            self.out.push(Out::Reply(Reply { request, value: None, epoch: -1 }));
            return;
        };
        if request.commit.is_some() && register.is_released {
            self.out.push(Out::Reply(Reply { request, value: None, epoch: -1 }));
        } else if request.commit.is_some() {
            if self.has(Break::AckBeforePut) {
                let epoch = register.epoch;
                self.out.push(Out::Reply(Reply { request, value: request.commit, epoch }));
            }
            self.waiting.push(request);
        } else {
            self.reads.push(request);
        }
        self.act(now);
        self.answer_reads(now);
    }

    fn answer_reads(&mut self, now: Millis) {
        if self.reads.is_empty() {
            return;
        }
        let may = self.node.may_answer(now) || self.has(Break::ServeWithoutLease);
        for request in std::mem::take(&mut self.reads) {
            let register = self.registers.get(&request.shard).filter(|one| one.is_served);
            match register {
                None => self.out.push(Out::Reply(Reply { request, value: None, epoch: -1 })),
                Some(one) if may => {
                    let (value, epoch) = (Some(one.value), one.epoch);
                    self.out.push(Out::Reply(Reply { request, value, epoch }));
                }
                Some(_) => self.reads.push(request),
            }
        }
        self.act(now);
    }

    /// Do what the node wants, and put what waits.
    pub fn act(&mut self, now: Millis) {
        loop {
            let actions = self.node.take_actions();
            if actions.is_empty() {
                break;
            }
            for action in actions {
                self.do_one(now, action);
            }
        }
        self.pump(now);
    }

    fn do_one(&mut self, now: Millis, action: Action) {
        match action {
            Action::Follow { from } => self.out.push(Out::Call(Call::Follow { from })),
            Action::PutEntry { index, entry } => {
                self.delete_early(&entry);
                self.out.push(Out::Call(Call::PutEntry { index, entry }));
            }
            Action::Ask { to, ask } => self.out.push(Out::Ask(to, ask)),
            Action::Fence { incarnation, from } => {
                self.out.push(Out::Call(Call::PutFence { incarnation, index: from }));
            }
            Action::Prove => self.wants_proof = true,
            Action::Take { shard, epoch, lineage } => self.takes.push((shard, epoch, lineage)),
            Action::Serve { shard, epoch } => {
                if let Some(one) = self.registers.get_mut(&shard).filter(|one| one.epoch == epoch) {
                    one.is_served = true;
                }
            }
            Action::Release { shard, epoch } => self.release(now, shard, epoch),
            Action::Snapshot { shard, epoch, lineage } => {
                let own_end = self.journal.next();
                let of = Reading { shard, epoch, lineage, own_end, is_take: false };
                self.out.push(Out::Call(Call::Read { of, known: None }));
            }
            Action::Look { shard } => self.out.push(Out::Call(Call::Look { shard })),
            Action::Delete { incarnation, below } => {
                self.out.push(Out::Call(Call::Delete { incarnation, below }));
            }
            Action::LookLog => self.out.push(Out::Call(Call::LookLog)),
            Action::SnapshotLog { index, text } => {
                self.out.push(Out::Call(Call::SnapshotLog { index, text }));
            }
            Action::Trim { head, below } => self.out.push(Out::Call(Call::Trim { head, below })),
        }
    }

    fn delete_early(&mut self, entry: &Entry) {
        for change in &entry.changes {
            if let &Change::Pruned { incarnation, below, .. } = change
                && self.has(Break::DeleteBeforeEntry)
            {
                self.out.push(Out::Call(Call::Delete { incarnation, below }));
            }
        }
    }

    pub fn journal_next(&self) -> u64 {
        self.journal.next()
    }

    /// The snapshots that stand, the newest first.
    pub fn looked(&mut self, now: Millis, shard: Shard, places: Option<Vec<Place>>) {
        let mut places = places;
        if let Some([first, rest @ ..]) = places.as_deref_mut()
            && self.breaks == Some(Break::PruneWithOneSnapshot)
        {
            let newest = *first;
            match rest {
                [second, ..] => *second = newest,
                [] => places = Some(vec![newest; 2]),
            }
        }
        self.node.snapshots(now, shard, places.as_deref());
    }

    fn release(&mut self, now: Millis, shard: Shard, epoch: Epoch) {
        match self.registers.get_mut(&shard) {
            Some(one) if self.breaks == Some(Break::ReadsWhileReleased) => one.is_released = true,
            _ => _ = self.registers.remove(&shard),
        }
        for request in std::mem::take(&mut self.waiting) {
            if request.shard == shard {
                self.out.push(Out::Reply(Reply { request, value: None, epoch: -1 }));
            } else {
                self.waiting.push(request);
            }
        }
        if self.has(Break::ReleaseEarly) {
            self.node.released(now, shard, epoch, self.journal.next());
        } else {
            self.releases.push((shard, epoch));
        }
    }

    /// One round at a time, with all that waits. What needs to know how the last one went is done
    /// between.
    fn pump(&mut self, now: Millis) {
        if self.journal.is_putting() || self.node.stop().is_some() {
            return;
        }
        for (shard, epoch) in std::mem::take(&mut self.releases) {
            self.node.released(now, shard, epoch, self.journal.next());
        }
        for (shard, epoch, lineage) in std::mem::take(&mut self.takes) {
            let own_end = self.journal.next();
            let of = Reading { shard, epoch, lineage, own_end, is_take: true };
            self.out.push(Out::Call(Call::Read { of, known: None }));
        }
        if !self.wants_proof && self.waiting.is_empty() {
            return;
        }
        let Some(index) = self.journal.begin() else { return };
        self.wants_proof = false;
        let requests = std::mem::take(&mut self.waiting);
        let part = |request: &Request| Part {
            shard: request.shard,
            epoch: self.registers[&request.shard].epoch,
            value: request.commit.expect("only commits are put"),
        };
        let parts: Vec<Part> = requests.iter().map(part).collect();
        self.out.push(Out::Call(Call::PutRound { index, parts: parts.clone() }));
        self.round = Some((parts, requests, now));
    }

    pub fn round_put(&mut self, now: Millis, outcome: Outcome) {
        if !self.journal.is_putting() {
            return;
        }
        let is_lost = outcome == Outcome::Unknown && self.has(Break::LostAnswerIsSuccess);
        let step = self.journal.answered(if is_lost { Outcome::Created } else { outcome });
        self.step(now, step);
    }

    pub fn round_read(&mut self, now: Millis, index: u64, is_own: Option<bool>) {
        match is_own {
            _ if !self.journal.is_putting() => {}
            Some(is_own) => {
                let step = self.journal.read(is_own);
                self.step(now, step);
            }
            None => self.out.push(Out::CallLater(Call::ReadRound { index })),
        }
    }

    fn step(&mut self, now: Millis, step: Step) {
        match step {
            Step::Read(index) => self.out.push(Out::Call(Call::ReadRound { index })),
            Step::PutAgain(index) => {
                self.node.prove_failed(now);
                let (parts, _, _) = self.round.as_ref().expect("a round is being put");
                let parts = parts.clone();
                self.out.push(Out::CallLater(Call::PutRound { index, parts }));
            }
            Step::Fenced(_) => {
                self.node.own_journal_fenced();
            }
            Step::Durable(index) => {
                let (parts, requests, started) = self.round.take().expect("a round is being put");
                self.apply(&parts, &requests);
                let counts_from = if self.has(Break::LeaseFromAnswerTime) { now } else { started };
                let mut leaderships: Vec<_> =
                    parts.iter().map(|part| (part.shard, part.epoch)).collect();
                leaderships.sort_unstable();
                leaderships.dedup();
                self.node.proved(now, counts_from, index + 1, &leaderships);
            }
        }
        self.act(now);
        self.answer_reads(now);
    }

    fn apply(&mut self, parts: &[Part], requests: &[Request]) {
        for (part, &request) in parts.iter().zip(requests) {
            let register = self.registers.get_mut(&part.shard);
            let Some(register) = register.filter(|one| one.epoch == part.epoch) else { continue };
            register.value = register.value.max(part.value);
            if self.breaks != Some(Break::AckBeforePut) {
                let reply = Reply { request, value: Some(part.value), epoch: part.epoch };
                self.out.push(Out::Reply(reply));
            }
        }
    }

    pub fn taken(&mut self, now: Millis, shard: Shard, epoch: Epoch, value: Option<u64>) {
        let Some(value) = value else {
            self.node.lost(now, shard, epoch);
            self.act(now);
            return;
        };
        let is_current = self.node.view().leader(shard) == Some((self.own, epoch));
        if is_current {
            let is_served = self.has(Break::NoWait);
            self.registers.insert(shard, Register { epoch, value, is_served, is_released: false });
            self.out.push(Out::Taken(shard, epoch, value));
        }
        self.node.taken(now, shard, epoch);
        self.act(now);
    }

    pub fn asked(&mut self, now: Millis, mut ask: Ask) -> kcoord_cluster::Answer {
        if self.has(Break::OldTermObeyed) {
            ask.term = ask.term.max(self.node.view().term()).max(self.obeyed_term);
        }
        let answer = self.node.asked(now, &ask);
        self.act(now);
        answer
    }
}
