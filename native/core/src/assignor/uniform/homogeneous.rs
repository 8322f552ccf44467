//! `uniform` for members with the same subscription (`UniformHomogeneousAssignmentBuilder`,
//! assignors section 11.1): each member keeps up to its quota, and the other partitions fill
//! the members below theirs. Linear.

use super::super::group::{Group, NONE};
use super::current_owners;

/// The owner of every partition.
pub fn assign(group: &Group<'_>, order: &[u32]) -> Vec<u32> {
    // All members subscribe to the same topics.
    let mut owners = current_owners(group, order, |_, _| true);
    let members = order.len();
    let min_quota = (owners.len() / members) as u32;
    let mut extra = owners.len() % members;
    let mut sizes = vec![0u32; members];
    owners.iter().filter(|&&owner| owner != NONE).for_each(|&owner| sizes[owner as usize] += 1);

    // What each may keep, and what each is still to get.
    let mut kept = vec![0u32; members];
    let mut unfilled: Vec<(u32, u32)> = Vec::new();
    for (place, &member) in order.iter().enumerate() {
        let has_extra = extra > 0;
        let quota = min_quota + u32::from(has_extra);
        let at = member as usize;
        kept[at] = sizes[at].min(quota);
        let mut missing = quota - kept[at];
        // Since 4.0 an extra waits for a member that holds as many already.
        let passed_on = missing > 0 && has_extra && members - place > extra;
        missing -= u32::from(passed_on);
        if missing > 0 {
            unfilled.push((member, missing));
        }
        extra -= usize::from(has_extra && !passed_on);
    }

    // Partitions without an owner go to members below their quota, and then those given up.
    let partitions = 0..owners.len() as u32;
    let mut free: Vec<u32> =
        partitions.filter(|&partition| owners[partition as usize] == NONE).collect();
    let given_up = give_up(&owners, sizes, &kept, order);
    free.extend(given_up);
    let mut free = free.into_iter();
    for (member, missing) in unfilled {
        free.by_ref().take(missing as usize).for_each(|p| owners[p as usize] = member);
    }
    debug_assert!(free.next().is_none(), "quotas add up to all partitions");
    owners
}

/// Member after member in `order` what it had beyond what it keeps, which is the lowest.
fn give_up(owners: &[u32], sizes: Vec<u32>, kept: &[u32], order: &[u32]) -> Vec<u32> {
    // Where each member's part begins, and then where its next partition goes.
    let mut places = sizes;
    let mut total = 0;
    for &member in order {
        let at = member as usize;
        let beyond = places[at] - kept[at];
        places[at] = total;
        total += beyond;
    }
    let mut given_up = vec![NONE; total as usize];
    if total == 0 {
        return given_up;
    }
    let mut kept = kept.to_vec();
    for (partition, &owner) in (0..).zip(owners) {
        if owner == NONE {
            continue;
        }
        let at = owner as usize;
        if kept[at] > 0 {
            kept[at] -= 1;
            continue;
        }
        given_up[places[at] as usize] = partition;
        places[at] += 1;
    }
    given_up
}
