//! The node's side of a run: turns, writes, syncs, answers, and the ways in which all of it is
//! lost. A crash may come between any two steps.

use kcoord_core::targets::TargetJob;
use kcoord_node::Turn;
use rand::RngExt;
use rand_xorshift::XorShiftRng;

use super::World;
use super::shown::shown;
use crate::agenda::Event;
use crate::breaks::{Break, Check};
use crate::checker::replay;
use crate::checker::replay::unreplayed;
use crate::coverage::Event as Met;
use crate::faults::Fault;
use crate::network::{Network, Sent};
use crate::plan::random;

/// Turns between two comparisons of live and replayed state.
const COMPARE_TURNS: u64 = 512;

/// Where a crash waits for its moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// The node has decided; nothing is written.
    Stepped,
    /// Written, not synced.
    Written,
    /// Synced, and not yet reported to the node.
    Synced,
    /// Answers are made, and not sent.
    Answered,
}

pub struct Server {
    rng: XorShiftRng,
    crash_at: Option<Moment>,
    paused_until_ms: i64,
    /// When the next turn is planned.
    turn_at_ms: Option<i64>,
    /// By the node's clock.
    timeout_ms: Option<i64>,
    /// The catalogue or a shard has changed: a turn has something to do without requests.
    is_stirred: bool,
}

impl Server {
    pub fn new(seed: u64) -> Server {
        Server {
            rng: random(seed, 2),
            crash_at: None,
            paused_until_ms: 0,
            turn_at_ms: None,
            timeout_ms: None,
            is_stirred: false,
        }
    }
}

impl World {
    pub fn node_ms(&self) -> i64 {
        self.now_ms + self.host.skew_ms
    }

    pub fn plan_turn(&mut self, at_ms: i64) {
        let at_ms = at_ms.max(self.now_ms).max(self.server.paused_until_ms);
        if self.server.turn_at_ms.is_none_or(|planned_ms| at_ms < planned_ms) {
            self.server.turn_at_ms = Some(at_ms);
            self.plan(at_ms, Event::Turn);
        }
    }

    pub fn turn_is_due(&mut self) -> Check {
        if self.server.turn_at_ms != Some(self.now_ms) {
            return Ok(());
        }
        self.server.turn_at_ms = None;
        if self.host.node.is_none() {
            return Ok(());
        }
        if self.server.paused_until_ms > self.now_ms {
            self.plan_turn(self.server.paused_until_ms);
            return Ok(());
        }
        let is_due = self.server.timeout_ms.is_some_and(|at_ms| at_ms <= self.node_ms());
        let is_idle = self.host.inbox.is_empty() && self.host.committed.is_empty();
        if is_idle && !is_due && !std::mem::take(&mut self.server.is_stirred) {
            self.plan_timeout();
            return Ok(());
        }
        self.turn()
    }

    fn plan_timeout(&mut self) {
        if let Some(at_ms) = self.server.timeout_ms {
            self.plan_turn(at_ms - self.host.skew_ms);
        }
    }

    fn turn(&mut self) -> Check {
        let node_ms = self.node_ms();
        self.coverage.turns += 1;
        if self.host.inbox.len() > 1 {
            self.coverage.event(Met::BusyTurn);
        }
        self.checker.begin_turn(&self.host.now(node_ms));
        for arrived in &self.host.inbox {
            self.checker.asked(arrived.ticket, &arrived.ask, &self.host.now(node_ms));
        }
        let turn = self.host.turn(node_ms);
        self.trace.mix_number(self.now_ms);
        self.trace.mix(&turn.buffer);
        if self.crashes(Moment::Stepped) {
            return self.crash();
        }
        let failed = self.write(&turn)?;
        self.checker.end_turn(&self.host.now(node_ms));
        if self.crashes(Moment::Written) {
            return self.crash();
        }
        self.server.timeout_ms = turn.next_timeout_ms;
        self.compute_targets();
        self.ask_coordinators(&turn);
        (0..self.host.shards).for_each(|shard| self.begin_sync(shard));
        self.reply(&turn)?;
        if self.crashes(Moment::Answered) {
            return self.crash();
        }
        for shard in failed {
            self.drop_shard(shard)?;
        }
        self.plan_timeout();
        if self.coverage.turns.is_multiple_of(COMPARE_TURNS) {
            self.compare_all()?;
        }
        Ok(())
    }

    /// The host asks transaction coordinators, which take their time.
    fn ask_coordinators(&mut self, turn: &Turn) {
        for of in &turn.verifications {
            let in_ms = self.server.rng.random_range(0..300);
            self.plan(self.now_ms + in_ms, Event::Verified(self.host.boots, of.ticket));
        }
    }

    pub fn verified(&mut self, boot: u64, ticket: u64) {
        if boot == self.host.boots
            && let Some(node) = &mut self.host.node
        {
            node.verified(ticket, None);
            self.server.is_stirred = true;
            self.plan_turn(self.now_ms);
        }
    }

    /// The host computes what the node hands out, and takes its time.
    fn compute_targets(&mut self) {
        let node = self.host.node.as_mut().expect("the node is there");
        let jobs: Vec<_> = std::iter::from_fn(|| node.poll_target_job()).collect();
        for job in jobs {
            let in_ms = self.server.rng.random_range(0..700);
            self.plan(self.now_ms + in_ms, Event::Computed(self.host.boots, Box::new(job)));
        }
    }

    pub fn computed(&mut self, boot: u64, job: &TargetJob) {
        if boot == self.host.boots
            && let Some(node) = &mut self.host.node
        {
            node.bring_targets(job.number, Ok(job.input.compute()));
            self.coverage.event(Met::ComputedAside);
            self.server.is_stirred = true;
            self.plan_turn(self.now_ms);
        }
    }

    fn crashes(&mut self, moment: Moment) -> bool {
        self.server.crash_at == Some(moment)
    }

    /// Writes what the turn appended; the shards whose log failed.
    fn write(&mut self, turn: &Turn) -> Result<Vec<usize>, crate::breaks::Violation> {
        let mut failed = Vec::new();
        let node_ms = self.node_ms();
        for (shard, append) in &turn.appends {
            let mut decided = append.clone();
            self.host.mangle_decision(&mut decided.records);
            let append = &decided;
            self.trace.mix(&append.records);
            let now = self.host.now(node_ms);
            self.checker.appended(*shard, append, &now)?;
            if failed.contains(shard) {
                continue;
            }
            let log = &mut self.host.logs[*shard];
            if self.faults.strikes(Fault::FullDisk) {
                let kept = self.faults.draw(Fault::FullDisk, 0..1 << 20) as usize;
                log.write_torn(append, kept);
                failed.push(*shard);
                let line = || format!("FAULT full-disk: shard {shard} loses its append");
                self.trace.note(self.now_ms, line);
                continue;
            }
            let end = append.end_offset();
            match self.broken {
                Some(
                    Break::MangleRecord
                    | Break::MangleRack
                    | Break::KeepClassic
                    | Break::OtherMarker
                    | Break::MangleEpoch,
                ) => {
                    let mut mangled = append.clone();
                    self.host.mangle_records(&mut mangled);
                    self.host.logs[*shard].write(&mangled);
                }
                _ => log.write(append),
            }
            self.trace.note(self.now_ms, || {
                format!("    node writes shard {shard}, offsets {} to {}", append.base_offset, end)
            });
            if self.broken == Some(Break::ReleaseEarly) {
                self.host.committed.push((*shard, end));
                self.plan_turn(self.now_ms);
            }
        }
        Ok(failed)
    }

    fn begin_sync(&mut self, shard: usize) {
        // What a dropped shard has left is for its recovery.
        if !self.host.is_active[shard] || !self.host.logs[shard].begin_sync() {
            return;
        }
        let mut takes_ms = self.server.rng.random_range(0..8);
        if self.faults.strikes(Fault::SlowDisk) {
            takes_ms += self.faults.draw(Fault::SlowDisk, 50..4_000);
        }
        self.plan(self.now_ms + takes_ms, Event::Synced(shard, self.host.epochs[shard]));
    }

    pub fn synced(&mut self, shard: usize, epoch: u64) -> Check {
        if self.host.epochs[shard] != epoch {
            return Ok(());
        }
        if self.faults.strikes(Fault::SyncFails) {
            self.trace.note(self.now_ms, || format!("FAULT sync-fails: shard {shard}"));
            let kept = self.faults.draw(Fault::SyncFails, 0..1 << 20) as usize;
            self.host.logs[shard].lose(Some(kept), None);
            return self.drop_shard(shard);
        }
        let end = self.host.logs[shard].end_sync();
        self.trace.note(self.now_ms, || format!("    disk has shard {shard} below {end}"));
        if self.crashes(Moment::Synced) {
            return self.crash();
        }
        let is_swallowed = self.broken == Some(Break::SwallowCommits) && self.faults.is_calm();
        if !(is_swallowed && shard == 0) {
            self.host.committed.push((shard, end));
        }
        self.begin_sync(shard);
        self.plan_turn(self.now_ms);
        Ok(())
    }

    /// Checks the answers of a turn, and sends them.
    fn reply(&mut self, turn: &Turn) -> Check {
        for (ticket, ask, answer) in self.host.answers(turn) {
            self.coverage.answer(ask.api(), &answer);
            self.trace.note(self.now_ms, || {
                format!("c{:<2} answer  {:?} -> {}", ask.client, ask.api(), shown(&answer))
            });
            let now = self.host.now(self.node_ms());
            self.checker.answered(ticket, &ask, &answer, &now)?;
            if !self.network.is_open(ticket) {
                continue;
            }
            let reply = || Event::Reply(ticket, Box::new((ask, answer)));
            match self.network.send(self.now_ms, ticket, false, &mut self.faults) {
                Sent::Arrives(at_ms) => self.plan(at_ms, reply()),
                Sent::Lost { arrives_ms, sender_notices_ms, receiver_notices_ms } => {
                    if let Some(at_ms) = arrives_ms {
                        self.plan(at_ms, reply());
                    }
                    self.plan(receiver_notices_ms, Event::Lost(ticket));
                    self.plan(sender_notices_ms, Event::Gone(ticket));
                }
            }
        }
        for (ticket, _) in &turn.invalid {
            self.coverage.event(Met::InvalidFrame);
            self.host.asked.remove(*ticket);
            self.network.close(*ticket);
            self.plan(self.now_ms + 1, Event::Lost(*ticket));
        }
        Ok(())
    }

    /// A connection is gone, and the node notices.
    pub fn gone(&mut self, ticket: u64) {
        self.network.close(ticket);
        self.host.inbox.retain(|arrived| arrived.ticket != ticket);
        let node_ms = self.node_ms();
        if let Some(ask) = self.host.asked.remove(ticket)
            && let Some(node) = &mut self.host.node
        {
            node.abandon(ticket);
            self.checker.abandoned(ticket, &ask, &self.host.now(node_ms));
            self.coverage.event(Met::Abandoned);
        }
    }

    /// A shard's log failed: it is given up, and loaded again.
    fn drop_shard(&mut self, shard: usize) -> Check {
        self.host.epochs[shard] += 1;
        self.host.is_active[shard] = false;
        self.host.committed.retain(|(of, _)| *of != shard);
        self.host.logs[shard].lose(None, None);
        let node = self.host.node.as_mut().expect("the node is there");
        let turn = node.drop_shard(shard);
        self.trace.mix(&turn.buffer);
        self.server.timeout_ms = turn.next_timeout_ms;
        self.reply(&turn)?;
        let in_ms = self.server.rng.random_range(1..1_500);
        self.plan(self.now_ms + in_ms, Event::Load(shard, self.host.epochs[shard]));
        self.plan_timeout();
        Ok(())
    }

    pub fn boot(&mut self) {
        // What differs from run to run: an address, as a bug would have it.
        let here = Box::new(0u8);
        let address = std::ptr::from_ref(&*here).addr() as u64;
        let other = if self.broken == Some(Break::OtherEntropy) { address } else { 0 };
        if self.faults.strikes(Fault::ClockBack) {
            self.host.skew_ms -= self.faults.draw(Fault::ClockBack, 1..20_000);
        }
        self.trace.note(self.now_ms, || "the node starts".to_owned());
        self.host.boot(&self.catalogue, other);
        for shard in 0..self.host.shards {
            let in_ms = self.server.rng.random_range(0..300);
            self.plan(self.now_ms + in_ms, Event::Load(shard, self.host.epochs[shard]));
        }
    }

    pub fn load(&mut self, shard: usize, epoch: u64) -> Check {
        if self.host.epochs[shard] != epoch {
            return Ok(());
        }
        if self.faults.strikes(Fault::CrashInLoad) {
            self.trace.note(self.now_ms, || format!("FAULT crash-in-load: shard {shard}"));
            return self.crash();
        }
        let flipped = self.faults.strikes(Fault::FlippedRead);
        let bit = flipped.then(|| self.faults.draw(Fault::FlippedRead, 0..1 << 40) as usize);
        let node_ms = self.node_ms();
        let log = &mut self.host.logs[shard];
        let synced_end = log.synced_end();
        let Ok(recovered) = log.recover(bit) else {
            // Refused, until the operator has put the log right.
            self.coverage.event(Met::LogRefused);
            self.plan(self.now_ms + 100, Event::Load(shard, epoch));
            return Ok(());
        };
        let (next_offset, cut_bytes) = (recovered.next_offset, recovered.cut_bytes);
        if cut_bytes > 0 {
            self.coverage.event(Met::TailCut);
        }
        if next_offset > synced_end {
            self.coverage.event(Met::Survived);
        }
        let node = self.host.node.as_mut().expect("its shard is loaded");
        node.replay(shard, recovered.bytes).map_err(|error| unreplayed(&error))?;
        node.loaded(shard, node_ms, next_offset);
        self.host.is_active[shard] = true;
        self.coverage.event(Met::ShardReloaded);
        self.trace.note(self.now_ms, || {
            format!(
                "    shard {shard} is loaded, and ends at {next_offset} ({cut_bytes} bytes cut)"
            )
        });
        let now = self.host.now(node_ms);
        let node = self.host.node.as_ref().expect("its shard is loaded");
        self.checker.reloaded(shard, next_offset, node.shard(shard), &now)?;
        self.server.is_stirred = true;
        self.plan_turn(self.now_ms);
        Ok(())
    }

    /// A fault of the node or its clock.
    pub fn strike(&mut self, fault: Fault) -> Check {
        match fault {
            Fault::Crash => {
                let moments = [Moment::Stepped, Moment::Written, Moment::Synced, Moment::Answered];
                let at = self.faults.draw(fault, 0..5) as usize;
                self.server.crash_at = moments.get(at).copied();
                if self.server.crash_at.is_none() {
                    return self.crash();
                }
            }
            Fault::Pause => {
                let for_ms = self.faults.draw(fault, 100..8_000);
                self.server.paused_until_ms = self.now_ms + for_ms;
            }
            Fault::ClockJump => {
                self.host.skew_ms += self.faults.draw(fault, 1..15_000);
                self.server.is_stirred = true;
                self.plan_turn(self.now_ms);
            }
            other => unreachable!("{other} is no fault of the node"),
        }
        Ok(())
    }

    /// The node is lost, and what was not synced may be.
    fn crash(&mut self) -> Check {
        self.server.crash_at = None;
        if self.host.node.is_none() {
            return Ok(());
        }
        self.trace.note(self.now_ms, || "the node is lost".to_owned());
        self.absorb_counters();
        self.host.lose();
        for log in &mut self.host.logs {
            // The power goes, the process goes (the page cache stays), or a write is cut short.
            let torn = self.faults.strikes(Fault::TornWrite);
            let torn = torn.then(|| self.faults.draw(Fault::TornWrite, 0..1 << 20) as usize);
            let keeps_all = self.server.rng.random_ratio(1, 3);
            let kept = torn.or((!keeps_all).then_some(0));
            let flips = self.faults.strikes(Fault::FlippedTail);
            let bit = flips.then(|| self.faults.draw(Fault::FlippedTail, 0..1 << 40) as usize);
            log.lose(kept, bit);
            if self.broken == Some(Break::ForgetLastBatch) {
                log.forget_last_batch();
            }
        }
        self.checker.crashed();
        self.server.timeout_ms = None;
        self.server.paused_until_ms = 0;
        for ticket in self.network.close_all() {
            let client = Network::client_of(ticket) as i64;
            self.plan(self.now_ms + 1 + client % 7, Event::Lost(ticket));
        }
        let in_ms = self.server.rng.random_range(10..3_000);
        self.plan(self.now_ms + in_ms, Event::Boot);
        Ok(())
    }

    /// Live state is replayed state, and fits together.
    pub fn compare_all(&self) -> Check {
        let Some(node) = &self.host.node else { return Ok(()) };
        for shard in (0..self.host.shards).filter(|shard| self.host.is_active[*shard]) {
            let live = node.shard(shard);
            live.assert_consistent();
            replay::compare(live, self.host.logs[shard].bytes())?;
        }
        Ok(())
    }

    /// What keeps the node's side from rest.
    pub fn server_unrest(&self) -> Option<String> {
        let Some(node) = &self.host.node else { return Some("the node is down".to_owned()) };
        for shard in 0..self.host.shards {
            if !self.host.is_active[shard] {
                return Some(format!("shard {shard} is not loaded"));
            }
            for group in node.shard(shard).groups() {
                if !matches!(group.state, "Stable" | "Empty") {
                    return Some(format!("{} is {}", group.group_id, group.state));
                }
            }
        }
        None
    }

    /// Counts what the node counted, before it is gone.
    pub fn absorb_counters(&mut self) {
        let Some(node) = &self.host.node else { return };
        let counters = node.stats().counters;
        let rebalances = counters.rebalances().map(|(_, count)| count).sum();
        self.coverage.events(Met::Rebalance, rebalances);
        self.coverage.events(Met::MemberExpired, counters.members_expired);
    }
}
