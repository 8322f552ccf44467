//! Targets of consumer groups that shards hand out: who computes them, and how they come back.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use kcoord_core::config::ServerAssignor;
use kcoord_core::targets::{NewTargets, TargetInput, TargetJob};

use super::Node;

/// Targets that cost more, in members, partitions and subscriptions, are computed aside.
pub const ASIDE_ABOVE: usize = 8_192;

/// How often the node looks whether its thread has finished something.
const LOOK_MS: i64 = 1;

type Computed = (u64, Result<NewTargets, String>);

/// Who computes targets that cost much; those of the host's own assignors are always the host's.
#[derive(Debug, Default)]
enum Aside {
    /// Nobody: all are computed in the turn that asks for them.
    #[default]
    Nobody,
    /// A thread of the node: when they are there depends on the machine.
    Thread(Option<Thread>),
    /// The host, as with its own assignors: those that cost more than this.
    Host(usize),
}

/// A thread that computes one after the other.
#[derive(Debug)]
struct Thread {
    asks: Sender<(u64, Arc<TargetInput>)>,
    answers: Arc<Mutex<Vec<Computed>>>,
    /// What it has not done yet.
    asked: usize,
}

impl Thread {
    fn start() -> Thread {
        let (asks, asked) = channel::<(u64, Arc<TargetInput>)>();
        let answers = Arc::new(Mutex::new(Vec::new()));
        let computed = Arc::clone(&answers);
        let work = move || {
            for (number, input) in asked {
                // Whoever waits for it must hear of it.
                let targets = catch_unwind(AssertUnwindSafe(|| input.compute()));
                let targets = targets.map_err(|_| "it panicked".into());
                computed.lock().unwrap_or_else(PoisonError::into_inner).push((number, targets));
            }
        };
        let thread = thread::Builder::new().name("kcoord-targets".into());
        drop(thread.spawn(work).expect("a thread can be started"));
        Thread { asks, answers, asked: 0 }
    }
}

/// What shards have handed out and not heard of yet.
#[derive(Debug, Default)]
pub struct Targets {
    aside: Aside,
    last_number: u64,
    /// Of the last turn.
    now_ms: i64,
    /// By the node's number: the shard, and its own number.
    waiting: BTreeMap<u64, (usize, u64)>,
    /// To be taken out by the host.
    for_host: VecDeque<TargetJob>,
    /// What the host has brought since the last turn.
    brought: Vec<Computed>,
}

impl Targets {
    /// Whether something is on its way, or has been brought.
    #[inline]
    pub fn are_due(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The earlier of a time and of when the node is to look for what the thread has done.
    #[cold]
    pub fn due_before(&self, timeout_ms: Option<i64>) -> Option<i64> {
        let look_ms = match &self.aside {
            Aside::Thread(Some(thread)) if thread.asked > 0 => Some(self.now_ms + LOOK_MS),
            _ => None,
        };
        timeout_ms.into_iter().chain(look_ms).min()
    }

    /// The shard is dropped: nobody waits there.
    pub fn forget(&mut self, shard: usize) {
        self.waiting.retain(|_, (of, _)| *of != shard);
    }

    fn take_brought(&mut self) -> Vec<Computed> {
        let mut brought = std::mem::take(&mut self.brought);
        if let Aside::Thread(Some(thread)) = &mut self.aside
            && thread.asked > 0
        {
            let mut answers = thread.answers.lock().unwrap_or_else(PoisonError::into_inner);
            thread.asked -= answers.len();
            brought.append(&mut answers);
        }
        brought
    }
}

impl Node {
    /// From now on, targets of consumer groups that cost much are computed by a thread of the node.
    pub fn compute_targets_aside(&mut self) {
        self.targets.aside = Aside::Thread(None);
        (0..self.shards.len()).for_each(|shard| self.hand_out_of(shard));
    }

    pub(super) fn hand_out_of(&mut self, shard: usize) {
        match self.targets.aside {
            Aside::Nobody => {}
            Aside::Thread(_) => self.shards[shard].hand_targets_out(ASIDE_ABOVE),
            Aside::Host(above) => self.shards[shard].hand_targets_out(above),
        }
    }

    /// From now on, targets that cost more than this are the host's to compute, as those of its own
    /// assignors are ([`poll_target_job`](Node::poll_target_job)). For hosts that say themselves when a
    /// computation ends.
    pub fn hand_targets_out(&mut self, above: usize) {
        self.targets.aside = Aside::Host(above);
        (0..self.shards.len()).for_each(|shard| self.hand_out_of(shard));
    }

    /// The next targets that the host is to have computed; to be asked until there are none, at the end
    /// of a turn.
    pub fn poll_target_job(&mut self) -> Option<TargetJob> {
        self.targets.for_host.pop_front()
    }

    /// What came of one of these jobs, or why nothing did: the next turn tells the shard.
    pub fn bring_targets(&mut self, number: u64, computed: Result<NewTargets, String>) {
        self.targets.brought.push((number, computed));
    }

    /// The thread has finished some, or the host has brought some.
    #[cold]
    pub(super) fn take_targets(&mut self, now_ms: i64) {
        self.targets.now_ms = now_ms;
        for (number, computed) in self.targets.take_brought() {
            let Some((shard, of_shard)) = self.targets.waiting.remove(&number) else { continue };
            self.shards[shard].handle_targets(now_ms, of_shard, computed);
            self.status[shard].touched = true;
        }
    }

    /// What a shard has handed out in this turn.
    #[cold]
    pub(super) fn pass_targets_on(&mut self, shard: usize) {
        while let Some(job) = self.shards[shard].poll_target_job() {
            let targets = &mut self.targets;
            targets.last_number += 1;
            let number = targets.last_number;
            targets.waiting.insert(number, (shard, job.number));
            let is_own = matches!(job.input.assignor(), ServerAssignor::Own(_));
            match &mut targets.aside {
                Aside::Thread(thread) if !is_own => {
                    let thread = thread.get_or_insert_with(Thread::start);
                    thread.asked += 1;
                    let asked = thread.asks.send((number, job.input));
                    asked.expect("it goes on while the node is there");
                }
                _ => targets.for_host.push_back(TargetJob { number, ..job }),
            }
        }
    }
}
