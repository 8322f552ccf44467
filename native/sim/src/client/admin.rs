//! An administrator: looks at groups, deletes them and their offsets, and removes static members.

use rand::RngExt;

use super::{Around, Client};
use crate::ask::Body;
use crate::plan::{GROUPS, Quirk};

impl Client {
    pub(super) fn administer(&mut self, around: &mut Around<'_>) -> Option<Body> {
        self.spec.quirk = Quirk::None;
        self.spec.group = self.rng.random_range(0..GROUPS.len());
        let other = self.rng.random_range(0..GROUPS.len());
        Some(match self.rng.random_range(0..12) {
            0..3 => Body::Describe(vec![self.spec.group, other]),
            3..5 => Body::List,
            5..7 => Body::DeleteGroups(vec![self.spec.group, other]),
            7 => Body::Leave,
            8..11 => Body::DeleteOffsets(self.some_partitions(around)),
            _ => Body::Fetch { topics: None, other_group: Some(other) },
        })
    }
}
