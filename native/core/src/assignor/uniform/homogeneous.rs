//! `uniform` for members with the same subscription (`UniformHomogeneousAssignmentBuilder`,
//! assignors section 11.1): everybody keeps up to its quota, the rest fills whoever is below.
//! Linear.

use super::super::group::{Group, NONE};
use super::current_owners;

/// The owner of every partition.
pub fn assign(group: &Group<'_>, order: &[u32]) -> Vec<u32> {
    // Whatever topic somebody subscribes to, everybody does.
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

    // What nobody keeps goes to those below their quota, in order.
    let mut unfilled = unfilled.into_iter();
    let mut next = (NONE, 0);
    for owner in &mut owners {
        if *owner != NONE && kept[*owner as usize] > 0 {
            kept[*owner as usize] -= 1;
            continue;
        }
        if next.1 == 0 {
            next = unfilled.next().expect("quotas add up to all partitions");
        }
        *owner = next.0;
        next.1 -= 1;
    }
    owners
}
