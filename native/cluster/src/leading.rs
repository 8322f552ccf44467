//! The shards that the cluster log gives to this node, and how far each has come.

use std::collections::BTreeMap;

use crate::{Action, Epoch, Incarnation, Millis, Released, Shard, View};

/// How far a shard has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Its records are being read.
    Taking,
    /// They are read; it waits until the leader before answers nothing any more.
    Loaded,
    /// Answered.
    Serving,
    /// Given up on demand: what is under way is being decided.
    Releasing,
    /// Given up on demand: who leads it next goes on from here.
    Released(u64),
    /// Taken again from then on.
    Failed(Millis),
}

#[derive(Clone, Copy, Debug)]
struct Led {
    epoch: Epoch,
    phase: Phase,
}

#[derive(Debug, Default)]
pub(crate) struct Leading {
    led: BTreeMap<Shard, Led>,
    /// Before then a shard is not answered: who led it before may still answer reads.
    clear_at: BTreeMap<Shard, Millis>,
}

impl Leading {
    /// These shards had a leader that was fenced.
    pub fn clear_from(&mut self, shards: impl Iterator<Item = Shard>, at: Millis) {
        for shard in shards {
            let clear = self.clear_at.entry(shard).or_default();
            *clear = at.max(*clear);
        }
    }

    /// Have what the view says: take what is new, give up what another leads.
    pub fn follow(&mut self, view: &View, own: Incarnation, actions: &mut Vec<Action>) {
        self.led.retain(|&shard, led| {
            let stays = view.leader(shard) == Some((own, led.epoch));
            if !stays && !matches!(led.phase, Phase::Released(_)) {
                actions.push(Action::Release { shard, epoch: led.epoch });
            }
            stays
        });
        for shard in 0..view.shards() {
            let Some((leader, epoch)) = view.leader(shard) else { continue };
            if leader == own && !self.led.contains_key(&shard) {
                self.led.insert(shard, Led { epoch, phase: Phase::Taking });
                actions.push(take(view, shard, epoch));
            }
        }
    }

    /// Serve what is read once it may be, take again what failed.
    pub fn tick(&mut self, view: &View, now: Millis, actions: &mut Vec<Action>) {
        for (&shard, led) in &mut self.led {
            match led.phase {
                Phase::Loaded if self.clear_at.get(&shard).is_none_or(|&at| at <= now) => {
                    led.phase = Phase::Serving;
                    actions.push(Action::Serve { shard, epoch: led.epoch });
                }
                Phase::Failed(at) if at <= now => {
                    led.phase = Phase::Taking;
                    actions.push(take(view, shard, led.epoch));
                }
                _ => {}
            }
        }
    }

    /// Its records are read.
    pub fn taken(&mut self, shard: Shard, epoch: Epoch) {
        if let Some(led) = self.of(shard, epoch)
            && led.phase == Phase::Taking
        {
            led.phase = Phase::Loaded;
        }
    }

    /// It could not be read, or not be written: it is not served now.
    pub fn lost(&mut self, shard: Shard, epoch: Epoch, again_at: Millis) {
        if let Some(led) = self.of(shard, epoch)
            && matches!(led.phase, Phase::Taking | Phase::Loaded | Phase::Serving)
        {
            led.phase = Phase::Failed(again_at);
        }
    }

    /// Give all up that is served, and take it again later.
    pub fn suspend(&mut self, again_at: Millis, actions: &mut Vec<Action>) {
        for (&shard, led) in &mut self.led {
            if led.phase == Phase::Serving {
                led.phase = Phase::Failed(again_at);
                actions.push(Action::Release { shard, epoch: led.epoch });
            }
        }
    }

    /// Give one up, for another node to lead it.
    pub fn give_up(&mut self, shard: Shard, epoch: Epoch, actions: &mut Vec<Action>) {
        if let Some(led) = self.of(shard, epoch)
            && !matches!(led.phase, Phase::Releasing | Phase::Released(_))
        {
            led.phase = Phase::Releasing;
            actions.push(Action::Release { shard, epoch });
        }
    }

    /// No records of it are under way any more.
    pub fn released(&mut self, shard: Shard, epoch: Epoch, end: u64) {
        if let Some(led) = self.of(shard, epoch)
            && led.phase == Phase::Releasing
        {
            led.phase = Phase::Released(end);
        }
    }

    /// What has been given up on demand.
    pub fn all_released(&self) -> Vec<Released> {
        let released = self.led.iter().filter_map(|(&shard, led)| match led.phase {
            Phase::Released(end) => Some(Released { shard, epoch: led.epoch, end }),
            _ => None,
        });
        released.collect()
    }

    /// The shards that are answered.
    pub fn serving(&self) -> impl Iterator<Item = Shard> + '_ {
        self.led.iter().filter(|(_, led)| led.phase == Phase::Serving).map(|(&shard, _)| shard)
    }

    pub fn is_empty(&self) -> bool {
        self.led.is_empty()
    }

    fn of(&mut self, shard: Shard, epoch: Epoch) -> Option<&mut Led> {
        self.led.get_mut(&shard).filter(|led| led.epoch == epoch)
    }
}

fn take(view: &View, shard: Shard, epoch: Epoch) -> Action {
    Action::Take { shard, epoch, lineage: view.lineage(shard).to_vec() }
}
