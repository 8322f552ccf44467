//! The shared store: what stands where, and what must never come to stand there.

use std::collections::BTreeMap;

use kcoord_cluster::{Entry, Epoch, Incarnation, Shard, Stretch, View};

use crate::breaks::Invariant;

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

#[derive(Default)]
pub struct Store {
    entries: Vec<String>,
    journals: BTreeMap<(Incarnation, u64), Object>,
    /// The first fence of each journal.
    fences: BTreeMap<Incarnation, u64>,
    /// What the cluster log amounts to, all of it.
    pub view: View,
}

impl Store {
    pub fn put_entry(&mut self, index: u64, entry: &Entry) -> Result<bool, (Invariant, String)> {
        if index != self.entries.len() as u64 {
            assert!(index < self.entries.len() as u64, "an entry leaves a gap");
            return Ok(false);
        }
        self.entries.push(entry.to_text());
        self.view.apply(entry).map_err(|error| (Invariant::View, error.to_string()))?;
        Ok(true)
    }

    pub fn entries(&self, from: u64) -> Vec<Entry> {
        let texts = self.entries.iter().skip(from as usize);
        texts.map(|text| Entry::of_text(text).expect("an entry is whole")).collect()
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

    pub fn prune_fence(&mut self, incarnation: Incarnation) {
        if let Some(index) = self.fences.remove(&incarnation) {
            self.journals.remove(&(incarnation, index));
        }
    }

    /// What the shard's register amounts to.
    pub fn read(&self, shard: Shard, lineage: &[Stretch], own_end: u64) -> u64 {
        let mut value = 0;
        for stretch in lineage {
            let end = stretch.end.unwrap_or(own_end);
            for index in stretch.from..end {
                let Some(Object::Round(parts)) = self.object(stretch.incarnation, index) else {
                    continue;
                };
                let its = parts.iter().filter(|p| p.shard == shard && p.epoch == stretch.epoch);
                value = its.map(|part| part.value).fold(value, u64::max);
            }
        }
        value
    }
}
