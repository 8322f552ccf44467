//! What a classic consumer reads, as long as its process lives: partitions by the id of their topic.

use std::collections::BTreeSet;

use rand::RngExt;

use super::consumer::Consumer;
use super::native::Place;
use super::{Around, Client};
use crate::ask::Named;
use crate::breaks::Break;
use crate::plan::{Quirk, TOPICS, is_cooperative};

impl Client {
    /// What it reads now, by either protocol.
    pub fn reads(&self) -> &BTreeSet<Place> {
        if self.speaks_natively() { &self.native.owned } else { &self.consumer.reads }
    }

    /// Its member id, and the epoch or generation that it reads in, if it is in one.
    pub fn reads_as(&self) -> Option<(&str, i32)> {
        if self.speaks_natively() {
            return Some((&self.native.member_id, self.native.epoch));
        }
        let consumer = &self.consumer;
        consumer.is_assigned().then_some((&*consumer.member_id, consumer.generation_id))
    }

    /// It has its assignment: it reads what is new at once, and the rest until it has given that up. What it
    /// does not know how to read, because the topic is another one by now, it asks for once more.
    pub(super) fn begin_to_read(&mut self, around: &Around<'_>) {
        let now = around.catalogue.ids();
        let consumer = &mut self.consumer;
        let is_known =
            |topic: &usize| now[*topic].is_some() && now[*topic] == consumer.known_ids[*topic];
        let all_known = consumer.assignment.iter().all(|(topic, _)| is_known(topic));
        let assigned = consumer.assigned_places(&now);
        let keeps_more = !assigned.is_superset(&consumer.reads);
        if is_cooperative(self.spec.group) {
            consumer.reads.extend(assigned);
        } else {
            consumer.reads = assigned;
        }
        consumer.gives_up_ms = None;
        if !all_known || (keeps_more && is_cooperative(self.spec.group)) {
            let in_ms = match self.spec.quirk {
                Quirk::Slow => self.rng.random_range(0..8_000),
                _ => self.rng.random_range(0..400),
            };
            self.consumer.gives_up_ms = Some(around.now_ms + in_ms);
        }
    }
}

impl Consumer {
    /// What it is assigned, of topics that are those of when it asked.
    fn assigned_places(&self, now: &[Option<u128>; TOPICS.len()]) -> BTreeSet<Place> {
        let known = self.assignment.iter().filter_map(|(topic, partitions)| {
            let id = now[*topic].filter(|id| self.known_ids[*topic] == Some(*id))?;
            Some(partitions.iter().map(move |partition| (id, *partition)))
        });
        known.flatten().collect()
    }

    /// It stops to read what it is not assigned.
    pub fn give_up(&mut self, around: &Around<'_>) {
        self.gives_up_ms = None;
        if around.broken != Some(Break::ClassicReadsOn) {
            let assigned = self.assigned_places(&around.catalogue.ids());
            self.reads.retain(|place| assigned.contains(place));
        }
    }

    /// What it says that it owns: what it reads, of topics that are there and that it subscribes to. It
    /// reads no other from now on.
    pub fn owned(&mut self, around: &Around<'_>) -> Vec<Named> {
        let now = around.catalogue.ids();
        let assigned = self.assigned_places(&now);
        let mut owned: Vec<Named> = Vec::new();
        for (topic, id) in now.into_iter().enumerate() {
            let Some(id) = id.filter(|_| self.topics.contains(&topic)) else { continue };
            let reads = self.reads.iter().filter(|place| place.0 == id);
            let told = reads.filter(|place| {
                around.broken != Some(Break::ClassicReadsOn) || assigned.contains(place)
            });
            owned.push((topic, told.map(|place| place.1).collect()));
        }
        owned.retain(|(_, partitions)| !partitions.is_empty());
        let is_read = |place: &Place| {
            let topic = now.iter().position(|id| *id == Some(place.0));
            topic.is_some_and(|topic| self.topics.contains(&topic))
        };
        self.reads.retain(is_read);
        owned
    }
}
