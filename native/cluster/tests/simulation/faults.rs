//! What goes wrong: once in a while one of these, for up to some seconds.

use crate::world::{Event, World};

/// One fault, and when the next one comes.
pub fn strike(world: &mut World) {
    if world.calm {
        return;
    }
    let wait = world.random.range(100, 1_500);
    world.later(wait, Event::Fault);
    let slots = world.slots.len();
    let slot = world.random.index(slots);
    let until = world.now + world.random.range(50, 3_000);
    match world.random.range(0, 9) {
        0 => {
            let wait = world.random.range(50, 3_000);
            world.crash(slot, wait);
        }
        1 | 2 => world.slots[slot].paused_until = until,
        3 => world.slots[slot].cut_from_store_until = until,
        4 => world.slots[slot].stalls_until = until,
        5 => {
            let to = world.random.index(slots);
            world.cuts.insert((slot, to), until);
        }
        6 => {
            for other in 0..slots {
                world.cuts.insert((slot, other), until);
                world.cuts.insert((other, slot), until);
            }
        }
        7 => {
            let shard = world.random.range(0, u64::from(world.shards)) as u32;
            let which = world.random.index(2);
            world.store.damage_snapshot(shard, which);
            world.store.log.damage(which);
        }
        _ => world.leave(slot),
    }
}

/// All is well from now on.
pub fn end(world: &mut World) {
    world.calm = true;
    world.cuts.clear();
    let now = world.now;
    for slot in &mut world.slots {
        slot.paused_until = slot.paused_until.min(now);
        slot.cut_from_store_until = 0;
        slot.stalls_until = 0;
        if let Some(process) = &slot.process {
            world.calm_at.insert(process.own, process.journal_next());
        }
    }
}

impl World {
    pub fn crash(&mut self, slot: usize, wait: u64) {
        self.slots[slot].process = None;
        self.slots[slot].paused_until = 0;
        self.later(wait, Event::Start(slot));
    }

    /// The process is asked to end, as for a rolling restart.
    pub fn leave(&mut self, slot: usize) {
        let now = self.clock(slot);
        if self.slots[slot].paused_until <= self.now
            && let Some(process) = &mut self.slots[slot].process
        {
            process.leaves = true;
            process.node.leave(now);
        }
    }
}
