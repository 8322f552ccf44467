//! Which node is to lead which shard: arithmetic.

use std::collections::BTreeMap;

use crate::{Incarnation, Shard};

/// Shard to node, for all shards; empty if there are no nodes. `current` is what is so by now;
/// nodes that are not among `nodes` are gone. `pins` are shards that are to be at one of `nodes`,
/// whatever the others come to.
///
/// What is led stays where it is while its node lives: a move is a short gap for its groups. At
/// most `moves` shards move only because a node has too many. Loads differ by at most one once
/// this was asked often enough, unless pins are in the way. Equal nodes are taken in the order of
/// `nodes`.
pub fn place(
    shards: u32,
    nodes: &[Incarnation],
    current: &BTreeMap<Shard, Incarnation>,
    pins: &BTreeMap<Shard, Incarnation>,
    moves: usize,
) -> BTreeMap<Shard, Incarnation> {
    let mut loads: Vec<Load> = nodes.iter().map(|&node| Load::new(node)).collect();
    if loads.is_empty() {
        return BTreeMap::new();
    }
    let mut homeless = Vec::new();
    for shard in 0..shards {
        let at = pins.get(&shard).or_else(|| current.get(&shard));
        match loads.iter_mut().find(|load| Some(&load.node) == at) {
            Some(load) if pins.contains_key(&shard) => load.pinned.push(shard),
            Some(load) => load.free.push(shard),
            None => homeless.push(shard),
        }
    }
    for shard in homeless {
        let least = least(&loads);
        loads[least].free.push(shard);
    }
    for _ in 0..moves {
        let least = least(&loads);
        let Some(most) = most(&loads) else { break };
        if loads[most].len() < loads[least].len() + 2 {
            break;
        }
        let moved = loads[most].free.pop().expect("it has some that may move");
        loads[least].free.push(moved);
    }
    let placed = loads.into_iter();
    placed.flat_map(|load| load.all().map(move |shard| (shard, load.node))).collect()
}

struct Load {
    node: Incarnation,
    pinned: Vec<Shard>,
    free: Vec<Shard>,
}

impl Load {
    fn new(node: Incarnation) -> Self {
        Load { node, pinned: Vec::new(), free: Vec::new() }
    }

    fn len(&self) -> usize {
        self.pinned.len() + self.free.len()
    }

    fn all(&self) -> impl Iterator<Item = Shard> + use<> {
        [&self.pinned[..], &self.free[..]].concat().into_iter()
    }
}

fn least(loads: &[Load]) -> usize {
    (0..loads.len()).min_by_key(|&at| loads[at].len()).expect("there are nodes")
}

/// Of those that have shards that may move.
fn most(loads: &[Load]) -> Option<usize> {
    let some = (0..loads.len()).rev().filter(|&at| !loads[at].free.is_empty());
    some.max_by_key(|&at| loads[at].len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loads(placed: &BTreeMap<Shard, Incarnation>, node: Incarnation) -> usize {
        placed.values().filter(|&&at| at == node).count()
    }

    #[test]
    fn all_shards_have_a_node_and_none_has_two_more_than_another() {
        let placed = place(50, &[7, 8, 9], &BTreeMap::new(), &BTreeMap::new(), 4);
        assert_eq!((loads(&placed, 7), loads(&placed, 8), loads(&placed, 9)), (17, 17, 16));
        assert!(place(50, &[], &placed, &BTreeMap::new(), 4).is_empty());
    }

    #[test]
    fn what_a_living_node_leads_stays() {
        let before = place(50, &[7, 8, 9], &BTreeMap::new(), &BTreeMap::new(), 4);
        let after = place(50, &[7, 9], &before, &BTreeMap::new(), 0);
        assert!(before.iter().all(|(shard, node)| *node == 8 || after[shard] == *node));
        assert_eq!((loads(&after, 7), loads(&after, 9)), (25, 25));
    }

    #[test]
    fn a_new_node_gets_its_share_in_steps() {
        let mut placed = place(12, &[7], &BTreeMap::new(), &BTreeMap::new(), 4);
        for steps in [4, 6, 6] {
            placed = place(12, &[7, 8], &placed, &BTreeMap::new(), 4);
            assert_eq!(loads(&placed, 8), steps);
        }
    }

    #[test]
    fn what_is_pinned_is_there_and_the_others_make_up_for_it() {
        let mut placed = place(12, &[7, 8, 9], &BTreeMap::new(), &BTreeMap::new(), 4);
        let pins = (0..6).map(|shard| (shard, 9)).collect();
        for _ in 0..6 {
            placed = place(12, &[7, 8, 9], &placed, &pins, 4);
            assert!((0..6).all(|shard| placed[&shard] == 9));
        }
        assert_eq!((loads(&placed, 7), loads(&placed, 8), loads(&placed, 9)), (3, 3, 6));
        let without = place(12, &[7, 8], &placed, &BTreeMap::new(), 0);
        assert_eq!((loads(&without, 7), loads(&without, 8)), (6, 6));
    }
}
