//! What the members of a group can speak (states section 6): support and the vote.

use std::collections::BTreeMap;

use super::state::State;
use crate::group::Machine;
use crate::java_hash::java_hash;
use crate::java_order;
use crate::request::{JoinGroupProtocol, JoinGroupRequest};

/// Protocol name -> number of members that list it. Kept only while a group is not at rest.
pub type ProtocolCounts = BTreeMap<Box<str>, usize>;

impl Machine {
    /// Whether a member with these protocols can be in the group (`supportsProtocols`). The caller
    /// itself, if it is a member, counts with its old list.
    pub fn supports_protocols(&mut self, group: u32, request: &JoinGroupRequest<'_>) -> bool {
        if self.classic(group).state == State::Empty {
            return !request.protocol_type.is_empty() && !request.protocols.is_empty();
        }
        let has_type = self.classic(group).protocol_type.is_some();
        if !has_type || self.classic(group).protocol_type() != request.protocol_type {
            return false;
        }
        let member_count = self.classic(group).member_count();
        let counts = self.protocol_counts(group);
        let count = |name| counts.get(name).copied().unwrap_or(0);
        request.protocols.iter().any(|protocol| count(protocol.name) == member_count)
    }

    /// The protocol that the members would choose (`selectProtocol`): each votes for the first of
    /// its own list that all of them have; of equals the first in Java's `HashMap` order wins.
    pub fn select_protocol(&mut self, group: u32) -> Option<Box<str>> {
        if let Some(member) = self.classic(group).sole() {
            return self.registry.members[member].protocols().next().map(|(name, _)| name.into());
        }
        let member_count = self.classic(group).member_count();
        self.protocol_counts(group);
        let of = self.classic(group);
        let counts = of.rebalance.as_ref().and_then(|soft| soft.protocol_counts.as_ref())?;
        let mut votes = Vec::with_capacity(member_count);
        for row in of.member_rows() {
            let mut names = self.registry.members[row].protocols().map(|(name, _)| name);
            votes.push(names.find(|name| counts.get(*name) == Some(&member_count))?);
        }
        most_voted(votes.into_iter()).map(Into::into)
    }

    /// Counts, or counts again after a member came, went or changed.
    fn protocol_counts(&mut self, group: u32) -> &ProtocolCounts {
        let counted = self.classic(group).rebalance.as_ref();
        if counted.is_none_or(|soft| soft.protocol_counts.is_none()) {
            let mut counts = ProtocolCounts::new();
            for row in self.classic(group).member_rows() {
                self.names_of(row).into_iter().for_each(|name| add(&mut counts, name, 1));
            }
            self.rebalance_mut(group).protocol_counts = Some(counts);
        }
        self.rebalance_mut(group).protocol_counts.as_ref().expect("just counted")
    }

    /// A member with these protocols came or (with `-1`) is about to go.
    pub fn count_protocols(&mut self, member: u32, difference: isize) {
        let group = self.registry.members[member].group;
        let soft = self.classic_mut(group).rebalance.as_mut();
        let Some(mut counts) = soft.and_then(|soft| soft.protocol_counts.take()) else { return };
        for name in self.names_of(member) {
            add(&mut counts, name, difference);
        }
        self.rebalance_mut(group).protocol_counts = Some(counts);
    }

    /// Each name once, however often the member listed it.
    fn names_of(&self, member: u32) -> Vec<&str> {
        let mut names: Vec<&str> =
            self.registry.members[member].protocols().map(|(name, _)| name).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// Of equals the first in Java's `HashMap` order.
pub fn most_voted<'a>(votes: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut tally: Vec<(&str, usize)> = Vec::new();
    for vote in votes {
        match tally.iter_mut().find(|(name, _)| *name == vote) {
            Some((_, count)) => *count += 1,
            None => tally.push((vote, 1)),
        }
    }
    in_hash_map_order(&mut tally);
    let most = tally.iter().map(|(_, count)| *count).max()?;
    tally.iter().find(|(_, count)| *count == most).map(|(name, _)| *name)
}

fn add(counts: &mut ProtocolCounts, name: &str, difference: isize) {
    let counted = |count: usize| count.checked_add_signed(difference).expect("counted as it came");
    match counts.get_mut(name) {
        Some(1) if difference < 0 => _ = counts.remove(name),
        Some(count) => *count = counted(*count),
        None => _ = counts.insert(name.into(), counted(0)),
    }
}

/// Whether a stored list is the one offered: same names, same metadata, same order.
pub fn protocols_match<'a>(
    stored: impl Iterator<Item = (&'a str, &'a [u8])>,
    offered: &'a [JoinGroupProtocol<'a>],
) -> bool {
    stored.eq(offered.iter().map(|protocol| (protocol.name, protocol.metadata)))
}

/// Sorts as a Java `HashMap` with these keys, put in this order, would iterate (assignors
/// section 2): by bucket, and in order of arrival within one.
fn in_hash_map_order<T: Copy>(entries: &mut [(&str, T)]) {
    if entries.len() < 2 {
        return;
    }
    let hashes: Vec<u32> = entries.iter().map(|(name, _)| java_hash(name)).collect();
    let order = java_order::map_order(&hashes).into_iter();
    let ordered: Vec<(&str, T)> = order.map(|at| entries[at as usize]).collect();
    entries.copy_from_slice(&ordered);
}

#[cfg(test)]
mod tests {
    use super::in_hash_map_order;

    #[test]
    fn orders_names_as_java_does() {
        let names = ["C0", "C1", "C2", "consumer1", "consumer2", "consumer3", "Aa", "BB"];
        let mut entries = names.map(|name| (name, ()));
        in_hash_map_order(&mut entries);
        let expected = ["Aa", "BB", "consumer3", "consumer2", "consumer1", "C0", "C1", "C2"];
        assert_eq!(entries.map(|(name, ())| name), expected);
    }

    #[test]
    fn grows_at_thirteen_names() {
        let names: Vec<String> = (0..13).map(|number| format!("m{number:02}")).collect();
        let mut entries: Vec<(&str, ())> = names.iter().map(|name| (name.as_str(), ())).collect();
        in_hash_map_order(&mut entries);
        let order: Vec<&str> = entries.iter().map(|(name, ())| &name[1..]).collect();
        assert_eq!(order.join(" "), "00 11 10 02 01 12 04 03 06 05 08 07 09");
    }
}
