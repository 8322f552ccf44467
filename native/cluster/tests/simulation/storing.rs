//! What the world's store does with fences and snapshots, and what is gone from it in the end.

use kcoord_cluster::{Incarnation, Settings};

use crate::breaks::{Break, Invariant};
use crate::random::Random;
use crate::store::Object;
use crate::world::{Done, World};

/// So small that rounds go many times while a history lasts. One history of four has the waits of
/// an object store, where each read and each put costs money, one those of a folder.
pub fn settings(seed: u64, random: &mut Random) -> Settings {
    let usual = Settings::default();
    let waits = match seed % 4 {
        2 => Settings { poll_ms: 800, store_silence_ms: 1_500, ..usual },
        3 => Settings {
            lease_ms: 3_000,
            lease_margin_ms: 300,
            poll_ms: 1_000,
            store_silence_ms: 2_000,
            ..usual
        },
        _ => usual,
    };
    Settings {
        snapshot_rounds: random.range(3, 40),
        snapshot_journal_rounds: random.range(20, 60),
        snapshot_ms: random.range(100, 600),
        prune_rounds: random.range(1, 30),
        prune_ms: random.range(50, 400),
        sweep_ms: 1_000,
        ..waits
    }
}

impl World {
    pub fn places(&self, shard: u32) -> Done {
        Done::Places(self.store.snapshots(shard).iter().map(|&(place, _)| place).collect())
    }

    /// What of the journals should have gone since faults have stopped.
    pub fn unpruned(&self) -> Option<String> {
        let view = &self.store.view;
        let stays = |(&one, &next): (&Incarnation, &u64)| {
            let objects = self.store.objects(one);
            let is_short = match view.gone().get(&one) {
                Some(_) => objects <= 1,
                None => view.floor(one) + self.settings.prune_rounds >= next,
            };
            (!is_short).then(|| format!("journal {one} has {objects} objects, {next} when calm"))
        };
        view.gone().iter().chain(&self.calm_at).find_map(stays)
    }

    pub fn fence(
        &mut self,
        incarnation: Incarnation,
        index: u64,
    ) -> Result<Done, (Invariant, String)> {
        if self.breaks == Some(Break::NoFence) {
            return Ok(match self.store.object(incarnation, index) {
                None => Done::Fence(index),
                Some(_) => Done::Rounds(index + 1),
            });
        }
        let is_new = self.store.put(incarnation, index, Object::Fence)?;
        let is_fence = self.store.object(incarnation, index) == Some(&Object::Fence);
        let goes_on = !is_new && self.breaks == Some(Break::SecondFence);
        if is_fence && !goes_on {
            let takes_gaps = self.breaks == Some(Break::FenceBelowFloor);
            let floor = if takes_gaps { self.store.view.floor(incarnation) } else { 0 };
            return Ok(Done::Fence(index.max(floor)));
        }
        let late_by = self.random.range(0, 5);
        Ok(Done::Rounds(self.store.listed(incarnation, late_by).max(index + 1)))
    }
}
