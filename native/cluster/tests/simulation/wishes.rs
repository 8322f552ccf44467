//! What operators want: a shard on a node, a node that leads nothing.

use std::collections::BTreeSet;

use kcoord_cluster::{Change, Entry, NodeId};

use crate::world::{Event, World};

/// Not the incarnation of any node.
const OPERATOR: u64 = u64::MAX;

impl World {
    /// Put an entry by which something is wanted of a node, or is no longer.
    pub fn want(&mut self) {
        if self.calm {
            return;
        }
        let wait = self.random.range(100, 2_000);
        self.later(wait, Event::Wish);
        if self.store.view.shards() == 0 {
            return;
        }
        let node_id = self.random.index(self.slots.len()) as NodeId;
        let shard = self.random.range(0, u64::from(self.shards)) as u32;
        let change = match self.random.range(0, 6) {
            0..=2 => Change::Pin { shard, node_id: Some(node_id) },
            3 => Change::Pin { shard, node_id: None },
            4 => Change::Drain { node_id, is_drained: true },
            _ => Change::Drain { node_id, is_drained: false },
        };
        let entry = Entry { writer: OPERATOR, changes: vec![change] };
        let index = self.store.view.next_index();
        let is_put = self.store.put_entry(index, &entry);
        assert_eq!(is_put.ok(), Some(true), "what operators want can always stand");
    }

    /// A shard that is not where it is wanted, or is where it is not.
    pub fn misplaced(&self) -> Option<String> {
        let view = &self.store.view;
        let id = |incarnation| view.members()[&incarnation].node_id;
        let staying = self.slots.iter().filter_map(|slot| slot.process.as_ref());
        let staying = staying.filter(|one| !one.leaves && view.members().contains_key(&one.own));
        let takers = staying.map(|one| id(one.own)).filter(|one| !view.drained().contains(one));
        let takers: BTreeSet<NodeId> = takers.collect();
        if takers.is_empty() {
            return None; // somebody must lead
        }
        (0..view.shards()).find_map(|shard| {
            let leader = id(view.leader(shard)?.0);
            let wanted = view.pins().get(&shard).filter(|one| takers.contains(one));
            let is_wrong = !takers.contains(&leader) || wanted.is_some_and(|one| *one != leader);
            is_wrong.then(|| format!("shard {shard} is led by {leader}; {wanted:?}, {takers:?}"))
        })
    }
}
