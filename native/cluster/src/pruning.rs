//! Which rounds nobody needs any more, and which snapshots are due so that rounds become such.
//!
//! A round may go once each shard with records in it has two snapshots that have them: who takes
//! the shard reads the older one if the newer cannot be read.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::{Action, Change, Epoch, Incarnation, Kept, Millis, Settings, Shard, Stretch, View};

/// Where a snapshot stands: the epoch of who wrote it, and the number of the first round of its
/// journal that is not in it. All records of older epochs are in it.
pub type Place = (Epoch, u64);

/// After so long what the store did not answer is given up.
const SILENCE_MS: Millis = 10_000;

/// What is around the decision, at one time.
#[derive(Debug)]
pub(crate) struct Around<'a> {
    pub view: &'a View,
    pub own: Incarnation,
    pub journal_next: u64,
    /// The shards that are answered.
    pub serves: Vec<Shard>,
    pub controls: bool,
    pub settings: &'a Settings,
}

/// The rounds of the own journal that have records of one leadership.
#[derive(Clone, Copy, Debug)]
struct Written {
    first: u64,
    last: u64,
}

/// When the next snapshot of a shard is due.
#[derive(Debug)]
struct Due {
    at: Millis,
    /// Rounds of it since the last one, and the journal's next number then.
    rounds: u64,
    from: u64,
    is_writing: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Pruning {
    /// Of the own journal, from its floor on.
    written: BTreeMap<(Shard, Epoch), Written>,
    /// Up to where a shard has two snapshots that can be read, as far as this node knows.
    covered: BTreeMap<Shard, Place>,
    due: BTreeMap<Shard, Due>,
    check_at: Option<Millis>,
    /// It is to be decided what goes, once the snapshots of these shards are known.
    decides: bool,
    looking: BTreeSet<Shard>,
    looking_since: Millis,
    /// Journals with rounds to be deleted; the first one is under way since then.
    sweeps: VecDeque<Incarnation>,
    sweeping: Option<Millis>,
    sweep_at: Option<Millis>,
}

impl Pruning {
    /// A round of the own journal stands that has records of these leaderships.
    pub fn wrote(&mut self, index: u64, leaderships: &[(Shard, Epoch)]) {
        for &(shard, epoch) in leaderships {
            let written = self.written.entry((shard, epoch));
            written.or_insert(Written { first: index, last: index }).last = index;
            if let Some(due) = self.due.get_mut(&shard) {
                due.rounds += 1;
            }
        }
    }

    /// The newest snapshots of the shard that can be read, the newest first; `None`: not known.
    pub fn snapshots(&mut self, shard: Shard, places: Option<&[Place]>) {
        self.looking.remove(&shard);
        if let Some(due) = self.due.get_mut(&shard) {
            due.is_writing = false;
        }
        if let Some(&[_, second, ..]) = places {
            let covered = self.covered.entry(shard).or_insert(second);
            *covered = second.max(*covered);
        }
    }

    /// The cluster log says that rounds of a journal go.
    pub fn pruned(&mut self, around: &Around<'_>, incarnation: Incarnation, below: u64) {
        if incarnation == around.own {
            self.written.retain(|_, written| written.last >= below);
            for written in self.written.values_mut() {
                written.first = written.first.max(below);
            }
        }
        if incarnation == around.own || around.controls {
            self.sweeps.push_back(incarnation);
        }
    }

    /// Delete what was to be deleted of the nodes that are gone: who began with it may have ended,
    /// and what was put late may have come since.
    pub fn sweep_gone(&mut self, view: &View) {
        let pruned = view.gone().keys().filter(|&&one| view.floor(one) > 0);
        self.sweeps = pruned.copied().collect();
        self.sweeping = None;
    }

    /// Some were deleted; `is_done`: there are no more.
    pub fn deleted(&mut self, incarnation: Incarnation, is_done: bool) {
        if self.sweeping.take().is_some() && is_done && self.sweeps.front() == Some(&incarnation) {
            self.sweeps.pop_front();
        }
    }

    /// Ask for what is due. True: a round of the own journal is to be put, so that the next
    /// snapshot has another place.
    pub fn tick(&mut self, now: Millis, around: &Around<'_>, actions: &mut Vec<Action>) -> bool {
        let before = actions.len();
        self.write_snapshots(now, around, actions);
        let has_written = actions.len() > before;
        self.look(now, around, actions);
        self.sweep(now, around, actions);
        has_written
    }

    /// What is to be put in the cluster log, if anything.
    pub fn changes(&mut self, around: &Around<'_>) -> Vec<Change> {
        let mut changes = Vec::new();
        if !self.decides || !self.looking.is_empty() {
            return changes;
        }
        let (own, below) = (around.own, self.own_floor(around));
        if below >= around.view.floor(own) + around.settings.prune_rounds {
            changes.push(Change::Pruned { incarnation: own, below, kept: self.own_kept(below) });
        }
        for (incarnation, end) in unpruned(around) {
            let stretches = stretches_of(around.view, incarnation);
            if stretches.iter().all(|(shard, one)| self.covers(*shard, one)) {
                let kept = |(shard, one): &(Shard, Stretch)| Kept {
                    shard: *shard,
                    epoch: one.epoch,
                    below: end,
                };
                let kept = stretches.iter().map(kept).collect();
                changes.push(Change::Pruned { incarnation, below: end, kept });
            }
        }
        self.decides = !changes.is_empty();
        changes
    }

    fn write_snapshots(&mut self, now: Millis, around: &Around<'_>, actions: &mut Vec<Action>) {
        self.due.retain(|shard, _| around.serves.contains(shard));
        for &shard in &around.serves {
            let at = now + around.settings.snapshot_ms;
            let from = around.journal_next;
            let new = Due { at, rounds: 0, from, is_writing: false };
            let due = self.due.entry(shard).or_insert(new);
            let many = due.rounds >= around.settings.snapshot_rounds
                || due.rounds > 0
                    && around.journal_next - due.from >= around.settings.snapshot_journal_rounds;
            if due.is_writing || !many && now < due.at {
                continue;
            }
            *due = Due { at, rounds: 0, from, is_writing: false };
            let Some((_, epoch)) = around.view.leader(shard) else { continue };
            if self.is_uncovered(shard, around) {
                self.due.entry(shard).and_modify(|due| due.is_writing = true);
                let lineage = around.view.lineage(shard).to_vec();
                actions.push(Action::Snapshot { shard, epoch, lineage });
            }
        }
    }

    /// Whether rounds stand that could go if the shard had newer snapshots.
    fn is_uncovered(&self, shard: Shard, around: &Around<'_>) -> bool {
        let own = self.written.range((shard, Epoch::MIN)..=(shard, Epoch::MAX));
        let own_is =
            own.into_iter().any(|(&(_, epoch), one)| self.rest(shard, epoch, one).is_some());
        own_is
            || around.view.lineage(shard).iter().any(|one| {
                one.incarnation != around.own && !one.is_empty() && !self.covers(shard, one)
            })
    }

    fn look(&mut self, now: Millis, around: &Around<'_>, actions: &mut Vec<Action>) {
        if !self.looking.is_empty() && now >= self.looking_since + SILENCE_MS {
            self.looking.clear();
        }
        let check_at = *self.check_at.get_or_insert(now + around.settings.prune_ms);
        if now < check_at || !self.looking.is_empty() {
            return;
        }
        self.check_at = Some(now + around.settings.prune_ms);
        let grown = around.journal_next - around.view.floor(around.own);
        if grown >= around.settings.prune_rounds {
            self.decides = true;
            let open = self
                .written
                .iter()
                .filter(|((shard, epoch), one)| self.rest(*shard, *epoch, one).is_some());
            self.looking = open.map(|(&(shard, _), _)| shard).collect();
        }
        for (incarnation, _) in unpruned(around) {
            self.decides = true;
            for (shard, stretch) in stretches_of(around.view, incarnation) {
                if !self.covers(shard, &stretch) {
                    self.looking.insert(shard);
                }
            }
        }
        self.looking_since = now;
        actions.extend(self.looking.iter().map(|&shard| Action::Look { shard }));
    }

    fn sweep(&mut self, now: Millis, around: &Around<'_>, actions: &mut Vec<Action>) {
        let sweep_at = *self.sweep_at.get_or_insert(now + around.settings.sweep_ms);
        if now >= sweep_at {
            self.sweep_at = Some(now + around.settings.sweep_ms);
            if around.controls && self.sweeps.is_empty() {
                self.sweep_gone(around.view);
            }
        }
        if self.sweeping.is_some_and(|since| now < since + SILENCE_MS) {
            return;
        }
        if let Some(&incarnation) = self.sweeps.front() {
            self.sweeping = Some(now);
            let below = around.view.floor(incarnation);
            actions.push(Action::Delete { incarnation, below });
        }
    }

    /// All rounds of the own journal below are in two snapshots of each shard.
    fn own_floor(&self, around: &Around<'_>) -> u64 {
        let written = self.written.iter();
        let rests = written.filter_map(|((shard, epoch), one)| self.rest(*shard, *epoch, one));
        rests.fold(around.journal_next, u64::min)
    }

    /// The first round of a leadership that is not in two snapshots.
    fn rest(&self, shard: Shard, epoch: Epoch, written: &Written) -> Option<u64> {
        match self.covered.get(&shard) {
            Some(&(covered, _)) if covered > epoch => None,
            Some(&(covered, index)) if covered == epoch => {
                (index <= written.last).then_some(index.max(written.first))
            }
            _ => Some(written.first),
        }
    }

    /// What there is in rounds of the own journal below.
    fn own_kept(&self, below: u64) -> Vec<Kept> {
        let there = self.written.iter().filter(|(_, one)| one.first < below);
        let kept = |(&(shard, epoch), one): (&(Shard, Epoch), &Written)| Kept {
            shard,
            epoch,
            below: below.min(one.last + 1),
        };
        there.map(kept).collect()
    }

    /// Whether a stretch that has ended is in two snapshots.
    fn covers(&self, shard: Shard, stretch: &Stretch) -> bool {
        let end = stretch.end.unwrap_or(u64::MAX);
        self.covered.get(&shard).is_some_and(|&covered| covered >= (stretch.epoch, end))
    }
}

/// The journals of nodes that are gone whose rounds stand, each with its end.
fn unpruned<'a>(around: &'a Around<'_>) -> impl Iterator<Item = (Incarnation, u64)> + 'a {
    let gone = around.view.gone().iter().filter(|_| around.controls);
    gone.map(|(&one, &end)| (one, end)).filter(|&(one, end)| around.view.floor(one) < end)
}

/// What has rounds in a journal.
fn stretches_of(view: &View, incarnation: Incarnation) -> Vec<(Shard, Stretch)> {
    let all = (0..view.shards()).flat_map(|shard| {
        let its = view.lineage(shard).iter().filter(|one| one.incarnation == incarnation);
        its.filter(|one| !one.is_empty()).map(move |&one| (shard, one))
    });
    all.collect()
}
