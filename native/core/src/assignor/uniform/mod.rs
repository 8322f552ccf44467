//! The server's `uniform` assignor (KIP-848, assignors section 11): members' numbers of
//! partitions differ by as little as subscriptions allow, and few partitions move. Knows no racks.
//!
//! Java's order of members and topics is that of hash maps and promises nothing; here it is that
//! of member ids and names. Lists are in the order of (topic, number).

mod balancer;
mod heterogeneous;
mod homogeneous;

use super::Shape;
use super::group::{Assignment, Group, NONE};
use super::order::{id_order, is_homogeneous};

/// Assigns all partitions; what members own is their current target assignment.
pub fn assign(group: &Group<'_>, shape: Shape) -> Assignment {
    let order = id_order(group);
    let owners = match shape {
        Shape::Homogeneous => homogeneous::assign(group, &order),
        Shape::Heterogeneous => heterogeneous::assign(group, &order),
    };
    let owned = owners.iter().zip(0..).map(|(&owner, partition)| (owner, partition));
    Assignment::collect(group.members().len(), owned)
}

/// As far as the topics with partitions tell.
pub fn shape_of(group: &Group<'_>) -> Shape {
    if is_homogeneous(group) { Shape::Homogeneous } else { Shape::Heterogeneous }
}

/// Per partition the first member in `order` that owns it and may keep it, or NONE. A target
/// assignment holds no partition twice and none that does not exist, so whatever else is claimed
/// is passed over.
fn current_owners(
    group: &Group<'_>,
    order: &[u32],
    may_keep: impl Fn(u32, u32) -> bool,
) -> Vec<u32> {
    let mut owners = vec![NONE; group.partition_count()];
    for &member in order {
        for &partition in group.claims_of(member) {
            match owners.get_mut(partition as usize) {
                Some(owner) if *owner == NONE && may_keep(member, partition) => *owner = member,
                _ => {}
            }
        }
    }
    owners
}
