//! Consumer groups and their members in the registry.

use kcoord_timer::slab::Slab;

use super::ConsumerGroup;
use super::member::Member;
use crate::group::kind::GroupKind;
use crate::group::registry::Registry;

impl Registry {
    pub fn is_consumer(&self, group: u32) -> bool {
        matches!(self.groups[group].kind, GroupKind::Consumer(_))
    }

    /// # Panics
    /// If it is not a consumer group.
    #[inline]
    pub fn consumer(&self, group: u32) -> &ConsumerGroup {
        match &self.groups[group].kind {
            GroupKind::Consumer(of) => of,
            _ => not_consumer(),
        }
    }

    /// # Panics
    /// If it is not a consumer group.
    #[inline]
    pub fn consumer_mut(&mut self, group: u32) -> &mut ConsumerGroup {
        self.consumer_and_members(group).0
    }

    /// # Panics
    /// If it is not a consumer group.
    #[inline]
    pub fn consumer_and_members(&mut self, group: u32) -> (&mut ConsumerGroup, &mut Slab<Member>) {
        match &mut self.groups[group].kind {
            GroupKind::Consumer(of) => (of, &mut self.consumer_members),
            _ => not_consumer(),
        }
    }

    /// Makes a consumer group where no group is, or one without members, whose offsets it takes over.
    pub fn make_consumer(&mut self, group_id: &str) -> u32 {
        let group = self.find(group_id).unwrap_or_else(|| self.create(group_id));
        debug_assert!(self.groups[group].is_simple());
        self.groups[group].kind = GroupKind::Consumer(Box::default());
        group
    }
}

#[cold]
#[inline(never)]
fn not_consumer() -> ! {
    unreachable!("only a consumer group is asked for what consumer groups have")
}
