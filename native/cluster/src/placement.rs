//! Which node is to lead which shard: arithmetic.

use std::collections::BTreeMap;

use crate::{Incarnation, Shard};

/// Shard to node, for all shards; empty if there are no nodes. `current` is what is so by now;
/// nodes that are not among `nodes` are gone.
///
/// What is led stays where it is while its node lives: a move is a short gap for its groups. At
/// most `moves` shards move only because a node has too many. Loads differ by at most one once
/// this was asked often enough. Equal nodes are taken in the order of `nodes`.
pub fn place(
    shards: u32,
    nodes: &[Incarnation],
    current: &BTreeMap<Shard, Incarnation>,
    moves: usize,
) -> BTreeMap<Shard, Incarnation> {
    let mut loads: Vec<(Incarnation, Vec<Shard>)> =
        nodes.iter().map(|&node| (node, Vec::new())).collect();
    if loads.is_empty() {
        return BTreeMap::new();
    }
    let mut homeless = Vec::new();
    for shard in 0..shards {
        let at = current.get(&shard);
        match loads.iter_mut().find(|(node, _)| Some(node) == at) {
            Some((_, load)) => load.push(shard),
            None => homeless.push(shard),
        }
    }
    for shard in homeless {
        let least = least(&loads);
        loads[least].1.push(shard);
    }
    for _ in 0..moves {
        let (least, most) = (least(&loads), most(&loads));
        if loads[most].1.len() - loads[least].1.len() < 2 {
            break;
        }
        let moved = loads[most].1.pop().expect("it has two more than another");
        loads[least].1.push(moved);
    }
    let placed = loads.into_iter();
    placed.flat_map(|(node, load)| load.into_iter().map(move |shard| (shard, node))).collect()
}

fn least(loads: &[(Incarnation, Vec<Shard>)]) -> usize {
    (0..loads.len()).min_by_key(|&at| loads[at].1.len()).expect("there are nodes")
}

fn most(loads: &[(Incarnation, Vec<Shard>)]) -> usize {
    (0..loads.len()).rev().max_by_key(|&at| loads[at].1.len()).expect("there are nodes")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loads(placed: &BTreeMap<Shard, Incarnation>, node: Incarnation) -> usize {
        placed.values().filter(|&&at| at == node).count()
    }

    #[test]
    fn all_shards_have_a_node_and_none_has_two_more_than_another() {
        let placed = place(50, &[7, 8, 9], &BTreeMap::new(), 4);
        assert_eq!((loads(&placed, 7), loads(&placed, 8), loads(&placed, 9)), (17, 17, 16));
        assert!(place(50, &[], &placed, 4).is_empty());
    }

    #[test]
    fn what_a_living_node_leads_stays() {
        let before = place(50, &[7, 8, 9], &BTreeMap::new(), 4);
        let after = place(50, &[7, 9], &before, 0);
        assert!(before.iter().all(|(shard, node)| *node == 8 || after[shard] == *node));
        assert_eq!((loads(&after, 7), loads(&after, 9)), (25, 25));
    }

    #[test]
    fn a_new_node_gets_its_share_in_steps() {
        let mut placed = place(12, &[7], &BTreeMap::new(), 4);
        for steps in [4, 6, 6] {
            placed = place(12, &[7, 8], &placed, 4);
            assert_eq!(loads(&placed, 8), steps);
        }
    }
}
