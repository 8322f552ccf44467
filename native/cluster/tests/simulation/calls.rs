//! What processes ask of the store: done now or seconds later, and answered, or not.

use kcoord_cluster::{Incarnation, Outcome, View};

use crate::breaks::Break;
use crate::process::{Call, Out};
use crate::store::Object;
use crate::world::{Check, Done, Event, World};

const CALL_TIMEOUT_MS: u64 = 1_000;

impl World {
    /// Have the store do it: now or seconds later, with an answer or without.
    pub fn call(&mut self, slot: usize, own: Incarnation, call: Call, wait: u64) {
        self.numbers += 1;
        let number = self.numbers;
        self.calls.insert(number, ());
        let unknown = Event::Done(slot, own, number, call.clone(), Done::Unknown);
        self.later(wait + CALL_TIMEOUT_MS, unknown);
        let cut = self.slots[slot].cut_from_store_until > self.now;
        let stalls = self.slots[slot].stalls_until > self.now;
        // What was under way when the link was cut may have got through, or get through late.
        if cut && self.random.chance(900) {
            return;
        }
        let late = !self.calm && (stalls || self.random.chance(5));
        let slow = if late { self.random.range(50, 3_000) } else { self.random.range(1, 5) };
        self.later(wait + slow, Event::Land(slot, own, number, call));
    }

    pub fn land(&mut self, slot: usize, own: Incarnation, number: u64, call: Call) -> Check {
        let done = match &call {
            Call::Follow { from } => match self.store.log.newest().filter(|_| *from == 0) {
                Some(text) => Done::Log(text),
                None => Done::Entries(self.store.entries(*from)),
            },
            Call::PutEntry { index, entry } => Done::Put(self.store.put_entry(*index, entry)?),
            Call::PutRound { index, parts } => {
                Done::Put(self.store.put(own, *index, Object::Round(parts.clone()))?)
            }
            Call::ReadRound { index } => {
                let found = self.store.object(own, *index);
                Done::IsOwn(found.map(|object| matches!(object, Object::Round(_))))
            }
            Call::PutFence { incarnation, index } => self.fence(*incarnation, *index)?,
            Call::Read { of, known: None } => {
                let known = Some(self.store.snapshots(of.shard).first().copied());
                let wait = self.random.range(1, 30);
                let call = Call::Read { of: of.clone(), known };
                self.later(wait, Event::Land(slot, own, number, call));
                return Ok(());
            }
            Call::Read { of, known: Some(known) } => {
                let value = self.store.read(of.shard, &of.lineage, of.own_end, *known);
                value.map_or(Done::Unknown, Done::Value)
            }
            Call::PutSnapshot { shard, place, value } => {
                self.store.put_snapshot(*shard, *place, *value);
                self.places(*shard)
            }
            Call::Look { shard } => self.places(*shard),
            Call::Delete { incarnation, below } => {
                self.store.delete(*incarnation, *below);
                let is_gone = self.store.view.is_gone(*incarnation);
                if is_gone && self.breaks == Some(Break::FencePruned) {
                    self.store.delete_fence(*incarnation);
                }
                Done::Deleted
            }
            Call::LookLog => self.log_snapshots(),
            Call::SnapshotLog { index, text } => {
                self.put_log_snapshot(*index, text)?;
                self.log_snapshots()
            }
            Call::Trim { head, below } => {
                self.trim(*head, *below);
                Done::Deleted
            }
        };
        let stalls = self.slots[slot].stalls_until > self.now;
        let is_lost = self.slots[slot].cut_from_store_until > self.now
            || (!self.calm && self.random.chance(if stalls { 200 } else { 5 }));
        if !is_lost {
            let slow = stalls && self.random.chance(300);
            let wait = if slow { self.random.range(5, 900) } else { self.random.range(1, 5) };
            self.later(wait, Event::Done(slot, own, number, call, done));
        }
        Ok(())
    }

    pub fn done(&mut self, slot: usize, own: Incarnation, call: Call, done: Done) -> Check {
        let now = self.clock(slot);
        let Some(process) = self.process(slot, own) else { return Ok(()) };
        let outcome = match done {
            Done::Put(true) => Outcome::Created,
            Done::Put(false) => Outcome::Exists,
            _ => Outcome::Unknown,
        };
        match (call, done) {
            (Call::Follow { from }, Done::Entries(entries)) => {
                let indices = from..from + entries.len() as u64;
                process.followed(now, from, entries);
                for index in indices {
                    self.check_gap(slot, own, index)?;
                }
            }
            (Call::Follow { .. }, Done::Log(text)) => {
                process.node.restored(now, View::of_text(&text).expect("it is whole"));
            }
            (Call::Follow { from }, _) => process.node.followed(now, from, None),
            (Call::PutEntry { index, .. }, _) => {
                process.node.entry_put(now, index, outcome);
                self.check_gap(slot, own, index)?;
            }
            (Call::PutRound { .. }, _) => process.round_put(now, outcome),
            (Call::ReadRound { index }, Done::IsOwn(is_own)) => {
                process.round_read(now, index, is_own);
            }
            (Call::ReadRound { index }, _) => process.round_read(now, index, None),
            (Call::PutFence { incarnation, .. }, Done::Fence(end)) => {
                process.node.fenced(now, incarnation, end);
            }
            (Call::PutFence { incarnation, .. }, Done::Rounds(index)) => {
                process.out.push(Out::Call(Call::PutFence { incarnation, index }));
            }
            (Call::PutFence { incarnation, .. }, _) => process.node.fence_failed(now, incarnation),
            (Call::Read { of, .. }, done) => {
                let value = if let Done::Value(value) = done { Some(value) } else { None };
                match value {
                    _ if of.is_take => process.taken(now, of.shard, of.epoch, value),
                    None => process.looked(now, of.shard, None),
                    Some(value) => {
                        let (shard, place) = (of.shard, (of.epoch, of.own_end));
                        let call = Call::PutSnapshot { shard, place, value };
                        process.out.push(Out::Call(call));
                    }
                }
            }
            (Call::PutSnapshot { shard, .. } | Call::Look { shard }, done) => {
                let places = if let Done::Places(places) = done { Some(places) } else { None };
                process.looked(now, shard, places);
            }
            (Call::Delete { incarnation, .. }, done) => {
                process.node.deleted(now, incarnation, matches!(done, Done::Deleted));
            }
            (Call::LookLog | Call::SnapshotLog { .. }, done) => {
                let known = if let Done::LogSnapshots(known) = done { Some(known) } else { None };
                process.node.log_snapshots(now, known.as_deref());
            }
            (Call::Trim { .. }, done) => process.node.trimmed(now, matches!(done, Done::Deleted)),
        }
        if let Some(process) = self.process(slot, own) {
            process.act(now);
        }
        self.after(slot)
    }
}
