//! The shared store: what stands where, and what must never come to stand there.

use std::collections::BTreeMap;

use kcoord_cluster::{Entry, Epoch, Incarnation, Place, Shard, Stretch, View};

use crate::breaks::Invariant;
use crate::trimming::Trimmed;

/// What a round says of a shard: its register has this value now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub shard: Shard,
    pub epoch: Epoch,
    pub value: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    Round(Vec<Part>),
    Fence,
}

/// Where a snapshot stands, and the register's value in it.
pub type Known = (Place, u64);

#[derive(Clone, Copy, Debug)]
struct Snapshot {
    value: u64,
    is_readable: bool,
}

#[derive(Default)]
pub struct Store {
    entries: Vec<String>,
    journals: BTreeMap<(Incarnation, u64), Object>,
    /// The first fence of each journal.
    fences: BTreeMap<Incarnation, u64>,
    snapshots: BTreeMap<Shard, BTreeMap<Place, Snapshot>>,
    pub log: Trimmed,
    /// What the cluster log amounts to, all of it.
    pub view: View,
}

impl Store {
    pub fn put_entry(&mut self, index: u64, entry: &Entry) -> Result<bool, (Invariant, String)> {
        if self.log.is_gap(index) {
            return Ok(self.log.put_in_gap(index, entry));
        }
        if index != self.entries.len() as u64 {
            assert!(index < self.entries.len() as u64, "an entry leaves a gap");
            return Ok(false);
        }
        self.entries.push(entry.to_text());
        self.view.apply(entry).map_err(|error| (Invariant::View, error.to_string()))?;
        Ok(true)
    }

    /// What a reader finds from a number on, up to the first that is not there.
    pub fn entries(&self, from: u64) -> Vec<Entry> {
        let texts = (from..).map_while(|index| match self.log.is_gap(index) {
            true => self.log.in_gap(index),
            false => self.entries.get(index as usize),
        });
        texts.map(|text| Entry::of_text(text).expect("an entry is whole")).collect()
    }

    /// What the entries below a number amount to.
    pub fn view_at(&self, index: u64) -> View {
        let mut view = View::default();
        for text in &self.entries[..index as usize] {
            let entry = Entry::of_text(text).expect("an entry is whole");
            view.apply(&entry).expect("it was applied when it was put");
        }
        view
    }

    pub fn object(&self, incarnation: Incarnation, index: u64) -> Option<&Object> {
        self.journals.get(&(incarnation, index))
    }

    pub fn put(
        &mut self,
        incarnation: Incarnation,
        index: u64,
        object: Object,
    ) -> Result<bool, (Invariant, String)> {
        if self.journals.contains_key(&(incarnation, index)) {
            return Ok(false);
        }
        if index < self.view.floor(incarnation) {
            // It comes late, in the gap of what was deleted.
            self.journals.insert((incarnation, index), object);
            return Ok(true);
        }
        if self.fences.get(&incarnation).is_some_and(|&fence| fence < index) {
            return Err((Invariant::Closed, format!("{object:?} at {index} is behind a fence")));
        }
        match &object {
            Object::Fence => {
                self.fences.insert(incarnation, index);
            }
            Object::Round(parts) => self.check(incarnation, parts)?,
        }
        self.journals.insert((incarnation, index), object);
        Ok(true)
    }

    fn check(&self, incarnation: Incarnation, parts: &[Part]) -> Result<(), (Invariant, String)> {
        for part in parts {
            if self.view.leader(part.shard) != Some((incarnation, part.epoch)) {
                let epoch = self.view.epoch(part.shard);
                return Err((Invariant::Epoch, format!("{part:?} while the epoch is {epoch}")));
            }
        }
        Ok(())
    }

    /// What a listing says of where a journal goes on: it may be late by some rounds.
    pub fn listed(&self, incarnation: Incarnation, late_by: u64) -> u64 {
        let mut journal = self.journals.range((incarnation, 0)..=(incarnation, u64::MAX));
        let last = journal.rfind(|(_, object)| **object != Object::Fence);
        last.map_or(0, |((_, index), _)| (index + 1).saturating_sub(late_by))
    }

    pub fn delete(&mut self, incarnation: Incarnation, below: u64) {
        self.journals.retain(|&(one, index), _| one != incarnation || index >= below);
    }

    pub fn delete_fence(&mut self, incarnation: Incarnation) {
        if let Some(index) = self.fences.remove(&incarnation) {
            self.journals.remove(&(incarnation, index));
        }
    }

    /// How many objects a journal has.
    pub fn objects(&self, incarnation: Incarnation) -> usize {
        self.journals.range((incarnation, 0)..=(incarnation, u64::MAX)).count()
    }

    /// The snapshots that can be read, the newest first.
    pub fn snapshots(&self, shard: Shard) -> Vec<Known> {
        let all = self.snapshots.get(&shard).into_iter().flatten().rev();
        all.filter(|(_, one)| one.is_readable).map(|(&place, one)| (place, one.value)).collect()
    }

    /// Two that can be read stay, and all that are newer than those.
    pub fn put_snapshot(&mut self, shard: Shard, place: Place, value: u64) {
        let all = self.snapshots.entry(shard).or_default();
        all.entry(place).or_insert(Snapshot { value, is_readable: true });
        if let Some(&(second, _)) = self.snapshots(shard).get(1) {
            self.snapshots.entry(shard).or_default().retain(|&place, _| place >= second);
        }
    }

    /// One of the newest two cannot be read any more, if both could.
    pub fn damage_snapshot(&mut self, shard: Shard, which: usize) {
        let all = self.snapshots.entry(shard).or_default();
        let mut newest: Vec<_> = all.values_mut().rev().take(2).collect();
        if newest.len() == 2 && newest.iter().all(|one| one.is_readable) {
            newest[which].is_readable = false;
        }
    }

    /// What the shard's register amounts to; `None` if something of it is missing.
    pub fn read(
        &self,
        shard: Shard,
        lineage: &[Stretch],
        own_end: u64,
        known: Option<Known>,
    ) -> Option<u64> {
        let (place, mut value) = known.unwrap_or(((-1, 0), 0));
        for stretch in lineage.iter().filter(|one| one.epoch >= place.0) {
            let from = if stretch.epoch == place.0 { place.1 } else { 0 };
            if from < stretch.needed {
                return None;
            }
            for index in stretch.start().max(from)..stretch.end.unwrap_or(own_end) {
                if let Object::Round(parts) = self.object(stretch.incarnation, index)? {
                    let its = parts.iter().filter(|p| p.shard == shard && p.epoch == stretch.epoch);
                    value = its.map(|part| part.value).fold(value, u64::max);
                }
            }
        }
        Some(value)
    }
}
