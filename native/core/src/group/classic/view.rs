//! A classic group for people and tables.

use kcoord_timer::slab::{NO_ROW, Slab};

use super::group::ClassicGroup;
use super::member::Member;
use crate::views::{GroupView, MemberView};

impl ClassicGroup {
    /// Fills in what only a classic group has.
    pub fn view(&self, members: &Slab<Member>, bare: GroupView) -> GroupView {
        let protocol_name = self.protocol_name();
        let mut views: Vec<MemberView> = self
            .member_rows()
            .map(|row| view_member(&members[row], protocol_name.unwrap_or_default()))
            .collect();
        views.sort_unstable_by(|a, b| a.member_id.cmp(&b.member_id));
        let leader = (self.leader != NO_ROW).then(|| members[self.leader].member_id().into());
        GroupView {
            protocol_name: protocol_name.map(Into::into),
            leader,
            current_state_timestamp_ms: self.state_timestamp_ms,
            members: views,
            ..bare
        }
    }
}

fn view_member(member: &Member, protocol_name: &str) -> MemberView {
    let details = member.details();
    MemberView {
        member_id: details.member_id.into(),
        group_instance_id: details.group_instance_id.map(Into::into),
        client_id: details.client_id.into(),
        client_host: details.client_host.into(),
        session_timeout_ms: member.session_timeout_ms,
        rebalance_timeout_ms: member.rebalance_timeout_ms,
        subscription: member.metadata(protocol_name).into(),
        assignment: details.assignment.into(),
        consumer: None,
    }
}
