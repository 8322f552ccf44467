//! A consumer group for people and tables.

use kcoord_timer::slab::Slab;

use super::ConsumerGroup;
use super::member::Member;
use crate::views::{GroupView, MemberView};

impl ConsumerGroup {
    /// Fills in its members. What only a classic member has is empty.
    pub fn view(
        &self,
        members: &Slab<Member>,
        session_timeout_ms: i32,
        bare: GroupView,
    ) -> GroupView {
        let view = |row: &u32| {
            let member = &members[*row];
            MemberView {
                member_id: (*member.id).into(),
                group_instance_id: member.instance_id().map(Into::into),
                client_id: member.client_id().into(),
                client_host: member.client_host().into(),
                session_timeout_ms,
                rebalance_timeout_ms: member.rebalance_timeout_ms,
                subscription: Box::default(),
                assignment: Box::default(),
            }
        };
        GroupView { members: self.members.iter().map(view).collect(), ..bare }
    }
}
