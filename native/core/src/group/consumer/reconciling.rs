//! A member's step towards its target, written down where it is one.

use kcoord_timer::slab::Slab;

use super::ConsumerGroup;
use super::member::Member;
use super::reconcile::{Goal, Next, Surroundings, reconcile};
use super::topics::SubscribedIds;
use crate::catalogue::known;
use crate::group::Machine;
use crate::topic_partition::{AssignedPartition, TopicPartition};

/// The other members of a group, and the topics.
struct Around<'a> {
    group: &'a ConsumerGroup,
    subscribed: SubscribedIds<'a>,
}

impl Surroundings for Around<'_> {
    fn is_subscribed(&self, partition: TopicPartition) -> bool {
        self.subscribed.holds(partition)
    }

    fn is_owned(&self, partition: TopicPartition) -> bool {
        self.group.is_owned(partition)
    }
}

/// What became of a member.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemberStep {
    pub is_written: bool,
    /// It is to read other partitions than before.
    pub has_other_partitions: bool,
}

impl Machine {
    /// Brings a member closer to its target.
    pub fn reconcile_member(
        &mut self,
        now_ms: i64,
        row: u32,
        reported: Option<&[TopicPartition]>,
        has_subscription_changed: bool,
    ) -> MemberStep {
        let group = self.registry.consumer_members[row].group;
        let next = self.next_of_member(group, row, reported, has_subscription_changed);
        let Some(next) = next else { return MemberStep::default() };
        let member = &self.registry.consumer_members[row];
        let at = |had: &AssignedPartition| had.at;
        let is_same = next.assigned.iter().map(at).eq(member.assigned.iter().map(at));
        self.watch_step(now_ms, row, &next);
        self.emit_current(now_ms, group, row, &next.as_current());
        self.tell_member_step(row, &next);
        MemberStep { is_written: true, has_other_partitions: !is_same }
    }

    fn next_of_member(
        &mut self,
        group: u32,
        row: u32,
        reported: Option<&[TopicPartition]>,
        has_subscription_changed: bool,
    ) -> Option<Next> {
        let (of, members) = self.registry.consumer_and_members(group);
        let assignment_epoch = of.assignment_epoch;
        if members[row].is_reconciled_to(assignment_epoch) && !has_subscription_changed {
            return None;
        }
        of.know_owned(members);
        let (of, members): (&ConsumerGroup, &Slab<Member>) = (of, members);
        let member = &members[row];
        let goal = Goal {
            target: member.target(),
            target_epoch: assignment_epoch,
            reported,
            has_subscription_changed,
        };
        let subscribed = SubscribedIds::new(of, member, known(&self.catalogue));
        let around = Around { group: of, subscribed };
        let next = reconcile(member.current(), goal, &around);
        next.expect("who is not understood was refused before")
    }
}
