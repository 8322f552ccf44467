//! Which partitions change hands, for groups that took the general way
//! (`CooperativeStickyAssignor.computePartitionsTransferringOwnership`, assignors section 9).

use super::super::group::{Assignment, Group, NONE};

/// Per partition its new owner if another member still holds it, else NONE.
pub fn transferred(group: &Group<'_>, order: &[u32], assignment: &Assignment) -> Vec<u32> {
    let known = group.partition_count() + group.phantoms.len();
    let mut added = vec![NONE; known];
    let mut revoked = vec![false; known];
    // Who was the last to have claimed a partition, or been assigned it.
    let mut claimed = vec![NONE; known];
    let mut assigned = vec![NONE; known];
    for &member in order {
        for &partition in group.claims_of(member) {
            claimed[partition as usize] = member;
        }
        for &partition in assignment.of(member as usize) {
            if claimed[partition as usize] != member {
                added[partition as usize] = member;
            }
            assigned[partition as usize] = member;
        }
        for &partition in group.claims_of(member) {
            revoked[partition as usize] |= assigned[partition as usize] != member;
        }
    }
    added.iter_mut().zip(revoked).for_each(|(added, revoked)| {
        if !revoked {
            *added = NONE;
        }
    });
    added
}
