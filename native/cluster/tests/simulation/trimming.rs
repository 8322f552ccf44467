//! The cluster log, of which entries go: what stands in the gap, and snapshots of the log.

use std::collections::BTreeMap;

use kcoord_cluster::{Entry, Incarnation, Settings};

use crate::breaks::{Break, Invariant};
use crate::world::{Check, Done, World};

/// One history of three deletes entries, so soon that it happens while faults last.
pub fn settings(seed: u64, breaks: Option<Break>, settings: Settings) -> Settings {
    if seed % 3 != 1 {
        return Settings { log_entries: u64::MAX, ..settings };
    }
    let behind_ms = settings.poll_ms + 500 + seed % 7 * 100;
    let trim_ms = 2 * behind_ms;
    Settings {
        log_entries: 4 + seed % 13,
        trim_ms: if breaks == Some(Break::TrimAtOnce) { 0 } else { trim_ms },
        behind_ms: if breaks == Some(Break::BehindGoesOn) { u64::MAX / 2 } else { behind_ms },
        ..settings
    }
}

/// What is deleted of the cluster log, and the snapshots of it.
#[derive(Default)]
pub struct Trimmed {
    /// The first number that is deleted, and the first behind it that is not.
    gap: (u64, u64),
    /// What was put in the gap, as there was nothing.
    late: BTreeMap<u64, String>,
    snapshots: BTreeMap<u64, Snapshot>,
}

struct Snapshot {
    text: String,
    is_readable: bool,
    made_at: u64,
}

/// After so long a controller that is there has seen a snapshot, with `trim_ms` to pass then.
const SEEN_MS: u64 = 5_000;

impl Trimmed {
    pub fn is_gap(&self, index: u64) -> bool {
        (self.gap.0..self.gap.1).contains(&index)
    }

    pub fn put_in_gap(&mut self, index: u64, entry: &Entry) -> bool {
        let is_new = !self.late.contains_key(&index);
        self.late.entry(index).or_insert_with(|| entry.to_text());
        is_new
    }

    pub fn in_gap(&self, index: u64) -> Option<&String> {
        self.late.get(&index)
    }

    /// The newest snapshot that can be read.
    pub fn newest(&self) -> Option<String> {
        let mut readable = self.snapshots.values().rev().filter(|one| one.is_readable);
        readable.next().map(|one| one.text.clone())
    }

    /// The numbers of the newest two that can be read and were made before, the newest first.
    fn readable(&self, before: u64) -> Vec<u64> {
        let known = |one: &Snapshot| one.is_readable && one.made_at < before;
        let readable = self.snapshots.iter().rev().filter(|(_, one)| known(one));
        readable.map(|(&index, _)| index).take(2).collect()
    }

    fn trim(&mut self, head: u64, below: u64) {
        if below > self.gap.1.max(head + 1) {
            self.gap = (head + 1, below);
        }
        self.late.retain(|&index, _| index >= below);
        self.snapshots.retain(|&index, _| index >= below);
    }

    /// One of the newest two cannot be read any more, if both could.
    pub fn damage(&mut self, which: usize) {
        let mut newest: Vec<_> = self.snapshots.values_mut().rev().take(2).collect();
        if newest.len() == 2 && newest.iter().all(|one| one.is_readable) {
            newest[which].is_readable = false;
        }
    }
}

impl World {
    pub fn log_snapshots(&self) -> Done {
        let mut readable = self.store.log.readable(u64::MAX);
        if self.breaks == Some(Break::TrimWithOneSnapshot)
            && let Some(&newest) = readable.first()
        {
            readable = vec![newest; 2];
        }
        Done::LogSnapshots(readable)
    }

    pub fn put_log_snapshot(&mut self, index: u64, text: &str) -> Check {
        let truth = self.store.view_at(index).to_text();
        if text != truth {
            return Err((Invariant::View, format!("{text} is not {truth}")));
        }
        let made = Snapshot { text: truth, is_readable: true, made_at: self.now };
        self.store.log.snapshots.entry(index).or_insert(made);
        Ok(())
    }

    pub fn trim(&mut self, head: u64, below: u64) {
        self.store.log.trim(head, below);
    }

    /// Nobody takes what stands in the gap for an entry of the log.
    pub fn check_gap(&self, slot: usize, own: Incarnation, index: u64) -> Check {
        let process = self.slots[slot].process.as_ref().filter(|process| process.own == own);
        let knows = process.is_some_and(|one| one.node.view().next_index() == index + 1);
        if knows && self.store.log.is_gap(index) && self.store.log.late.contains_key(&index) {
            let message = format!("{own} believes in entry {index}, where another was deleted");
            return Err((Invariant::View, message));
        }
        Ok(())
    }

    /// What of the cluster log should have gone since faults have stopped.
    pub fn untrimmed(&self) -> Option<String> {
        let before = self.now.saturating_sub(self.settings.trim_ms.saturating_add(SEEN_MS));
        let second = self.store.log.readable(before).get(1).copied()?;
        let (_, end) = self.store.log.gap;
        let is_kept = end < second && second > self.store.view.trims()? + 1;
        is_kept.then(|| format!("entries below {second} stand from {end} on"))
    }
}
