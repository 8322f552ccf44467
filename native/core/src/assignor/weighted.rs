//! `weighted`: members get partitions in proportion to their capacities, and keep what they have
//! as far as that allows. Not an assignor of Kafka's.
//!
//! The law: no partition could go to another of its topic's subscribers and leave the larger of
//! both members' partitions per capacity smaller. With equal capacities and subscriptions, numbers
//! of partitions differ by at most one. Where all subscribe to the same, no fewer could move.

use super::group::{Assignment, Group};
use super::levelling::{Item, Levels};

/// Assigns all partitions. `capacities`: by member, each at least 1.
pub fn assign(group: &Group<'_>, capacities: &[u32]) -> Assignment {
    assert_eq!(capacities.len(), group.members().len(), "a capacity for every member");
    assert!(!capacities.contains(&0), "capacities are at least 1");
    let mut levels = Levels::new(group, capacities);
    let items = (0..group.partition_count() as u32).map(|partition| Item { weight: 1, partition });
    levels.level(items.collect(), 1, 0);
    levels.into_assignment()
}

/// Bytes before the number, in the user data of a subscription.
const CAPACITY: &[u8] = b"capacity=";

/// The capacity that a member states: its user data is `capacity=` and a decimal number from 1 on,
/// in ASCII. Anything else states nothing: the user data of other assignors is left in peace.
pub fn read_capacity(user_data: &[u8]) -> Option<u32> {
    let digits = user_data.strip_prefix(CAPACITY)?;
    let text = core::str::from_utf8(digits).ok()?;
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u32::MAX)).filter(|capacity| *capacity > 0)
}

#[cfg(test)]
mod tests {
    use super::read_capacity;

    #[test]
    fn a_capacity_is_read_and_nothing_else() {
        assert_eq!(read_capacity(b"capacity=4"), Some(4));
        assert_eq!(read_capacity(b"capacity=99999999999"), Some(u32::MAX));
        for other in
            [&b""[..], b"capacity=", b"capacity=0", b"capacity=-1", b"capacity= 1", b"\0\x01"]
        {
            assert_eq!(read_capacity(other), None);
        }
    }
}
