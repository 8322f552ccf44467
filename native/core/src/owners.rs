//! Who had the partitions of a classic group before a rebalance, and what became of them: figures
//! for events. Nothing is decided by it.

use std::collections::BTreeMap;

use kcoord_timer::slab::NO_ROW;

use crate::consumer_protocol::Assignment;
use crate::event::Moves;
use crate::shared_bytes::SharedBytes;

/// Larger assignments of a group are not followed.
const MAX_BYTES: usize = 1 << 20;

/// The owners of a group's partitions while it rebalances, and partitions without one since.
#[derive(Debug, Default)]
pub struct Owners {
    had: Vec<Had>,
    /// What the last generation gave to nobody.
    orphans: Vec<Orphan>,
    is_too_large: bool,
}

#[derive(Debug)]
struct Had {
    /// Of the member; `NO_ROW` once it is gone.
    row: u32,
    assignment: SharedBytes,
    /// When it gave up all that it had; `None`: it has not.
    given_up_ms: Option<i64>,
}

#[derive(Debug)]
struct Orphan {
    topic: Box<str>,
    partition: i32,
    row: u32,
    since_ms: i64,
}

/// A partition, who had it, and since when nobody does.
type Before<'a> = (&'a str, i32, u32, i64);

impl Owners {
    /// Whether the owners before this rebalance are known.
    pub fn are_known(&self) -> bool {
        !self.had.is_empty() || self.is_too_large
    }

    /// What members have before a rebalance.
    pub fn had(&mut self, members: impl Iterator<Item = (u32, SharedBytes)>) {
        let had = |(row, assignment)| Had { row, assignment, given_up_ms: None };
        self.had.extend(members.map(had));
        let bytes: usize = self.had.iter().map(|had| had.assignment.len()).sum();
        if bytes > MAX_BYTES {
            *self = Owners { is_too_large: true, ..Owners::default() };
        }
    }

    /// A member has given up all that it had.
    pub fn gave_up(&mut self, row: u32, now_ms: i64) {
        for had in self.had.iter_mut().filter(|had| had.row == row) {
            had.given_up_ms.get_or_insert(now_ms);
        }
    }

    /// A member that gave up what it had has it again.
    pub fn kept(&mut self, row: u32) {
        for had in self.had.iter_mut().filter(|had| had.row == row) {
            had.given_up_ms = None;
        }
    }

    /// A member is gone, and its row may be another's soon.
    pub fn gone(&mut self, row: u32, now_ms: i64) {
        self.gave_up(row, now_ms);
        for had in self.had.iter_mut().filter(|had| had.row == row) {
            had.row = NO_ROW;
        }
        for orphan in self.orphans.iter_mut().filter(|orphan| orphan.row == row) {
            orphan.row = NO_ROW;
        }
    }

    /// The next generation has its assignments. `None`: they are not followed.
    pub fn settled(&mut self, now_ms: i64, members: &[(u32, SharedBytes)]) -> Option<Moves> {
        let bytes: usize = members.iter().map(|(_, assignment)| assignment.len()).sum();
        if self.is_too_large || bytes > MAX_BYTES {
            *self = Owners::default();
            return None;
        }
        let (had, orphans) = (std::mem::take(&mut self.had), std::mem::take(&mut self.orphans));
        let mut before: Vec<Before<'_>> = Vec::new();
        let mut is_read = true;
        for had in &had {
            let since_ms = had.given_up_ms.unwrap_or(now_ms);
            is_read &= each(&had.assignment, |topic, partition| {
                before.push((topic, partition, had.row, since_ms));
            });
        }
        before.extend(orphans.iter().map(|of| (&*of.topic, of.partition, of.row, of.since_ms)));
        before.sort_unstable();
        before.dedup_by_key(|of| (of.0, of.1));
        let mut after: Vec<(&str, i32, u32)> = Vec::new();
        for (row, assignment) in members {
            is_read &= each(assignment, |topic, partition| after.push((topic, partition, *row)));
        }
        if !is_read {
            return None;
        }
        after.sort_unstable();
        after.dedup_by_key(|of| (of.0, of.1));
        let (moves, orphans) = compared(now_ms, &before, &after);
        self.orphans = orphans;
        Some(moves)
    }

    /// Whether there is nothing to remember until the next rebalance.
    pub fn is_empty(&self) -> bool {
        self.had.is_empty() && self.orphans.is_empty() && !self.is_too_large
    }
}

/// Each partition of an assignment. False: it is not the consumer protocol's.
fn each<'a>(assignment: &'a SharedBytes, mut found: impl FnMut(&'a str, i32)) -> bool {
    if assignment.is_empty() {
        return true;
    }
    let Ok(assignment) = Assignment::decode(assignment) else { return false };
    for (topic, partitions) in assignment.assigned_partitions {
        partitions.into_iter().for_each(|partition| found(topic, partition));
    }
    true
}

/// Both are sorted, each partition once.
fn compared(
    now_ms: i64,
    before: &[Before<'_>],
    after: &[(&str, i32, u32)],
) -> (Moves, Vec<Orphan>) {
    let mut moves = Moves { partitions: after.len() as u64, ..Moves::default() };
    let mut orphans = Vec::new();
    // Had and has, by member.
    let mut counts: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    after.iter().for_each(|(_, _, row)| counts.entry(*row).or_default().1 += 1);
    let mut rest = after;
    for &(topic, partition, row, since_ms) in before {
        let at = rest.partition_point(|of| (of.0, of.1) < (topic, partition));
        rest = &rest[at..];
        let Some((_, _, owner)) = rest.first().filter(|of| (of.0, of.1) == (topic, partition))
        else {
            orphans.push(Orphan { topic: topic.into(), partition, row, since_ms });
            continue;
        };
        moves.moved += u64::from(*owner != row);
        match row {
            NO_ROW => moves.least += 1,
            _ => counts.entry(row).or_default().0 += 1,
        }
        if since_ms < now_ms {
            let unowned_ms = (now_ms - since_ms) as u64;
            moves.unowned += 1;
            moves.unowned_ms += unowned_ms;
            moves.longest_ms = moves.longest_ms.max(unowned_ms);
        }
    }
    moves.least += counts.values().map(|(had, has)| had.saturating_sub(*has)).sum::<u64>();
    (moves, orphans)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(partitions: &[i32]) -> SharedBytes {
        let assigned_partitions = vec![("t", partitions.to_vec())];
        let assignment = Assignment { version: 0, assigned_partitions, user_data: None };
        let mut bytes = Vec::new();
        assignment.encode(&mut bytes);
        bytes.into()
    }

    #[test]
    fn counts_what_moved_what_had_to_and_how_long_nobody_had_it() {
        let mut owners = Owners::default();
        owners.had([(1, of(&[0, 1])), (2, of(&[2, 3]))].into_iter());
        owners.gave_up(1, 100);
        owners.gave_up(2, 150);
        // A third one comes, and all are shuffled: one partition had to move, three did.
        let after = [(1, of(&[0, 2])), (2, of(&[3])), (3, of(&[1]))];
        let moves = owners.settled(200, &after).expect("small");
        let sums = (moves.unowned, moves.unowned_ms, moves.longest_ms);
        assert_eq!((moves.partitions, moves.moved, moves.least, sums), (4, 2, 1, (4, 300, 100)));
        assert!(owners.is_empty());
    }

    #[test]
    fn a_cooperative_rebalance_leaves_a_gap_for_what_moves_only() {
        let mut owners = Owners::default();
        owners.had([(1, of(&[0, 1, 2, 3]))].into_iter());
        let first = owners.settled(100, &[(1, of(&[0, 1])), (2, of(&[]))]).expect("small");
        assert_eq!((first.moved, first.least, first.unowned), (0, 0, 0));
        owners.had([(1, of(&[0, 1])), (2, of(&[]))].into_iter());
        let second = owners.settled(160, &[(1, of(&[0, 1])), (2, of(&[2, 3]))]).expect("small");
        assert_eq!((second.moved, second.least, second.unowned), (2, 2, 2));
        assert_eq!((second.unowned_ms, second.longest_ms), (120, 60));
    }

    #[test]
    fn what_a_member_had_that_is_gone_has_to_move() {
        let mut owners = Owners::default();
        owners.had([(1, of(&[0])), (2, of(&[1]))].into_iter());
        owners.gone(2, 10);
        let moves = owners.settled(30, &[(1, of(&[0, 1])), (2, of(&[]))]).expect("small");
        assert_eq!((moves.moved, moves.least, moves.unowned_ms), (1, 1, 20));
    }
}
