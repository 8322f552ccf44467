//! What a shard holds, for people and tables: owned copies, in sorted order.

use crate::group::classic::member::Member;
use crate::group::registry::{Group, GroupType};
use crate::offset::CommittedOffset;
use crate::shard::Shard;
use crate::slab::NO_ROW;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupView {
    pub group_id: Box<str>,
    /// `classic`, `consumer`, `share` or `streams`; only classic groups are interpreted.
    pub group_type: &'static str,
    /// Offsets only: no record of the group itself.
    pub is_simple: bool,
    /// As DescribeGroups names it; empty for a group that is not classic.
    pub state: &'static str,
    /// `""`: none.
    pub protocol_type: Box<str>,
    pub generation_id: i32,
    pub protocol_name: Option<Box<str>>,
    pub leader: Option<Box<str>>,
    /// When it entered its state, in milliseconds; -1: unknown.
    pub current_state_timestamp_ms: i64,
    /// Sorted by member id.
    pub members: Vec<MemberView>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberView {
    pub member_id: Box<str>,
    pub group_instance_id: Option<Box<str>>,
    pub client_id: Box<str>,
    pub client_host: Box<str>,
    pub session_timeout_ms: i32,
    pub rebalance_timeout_ms: i32,
    /// Its metadata for the group's protocol.
    pub subscription: Box<[u8]>,
    pub assignment: Box<[u8]>,
}

impl Shard {
    pub fn group_count(&self) -> usize {
        self.machine.registry.len()
    }

    /// Members of all groups, and ids that were handed out.
    pub fn member_count(&self) -> usize {
        self.machine.registry.members.len()
    }

    /// Committed offsets of all groups.
    pub fn offset_count(&self) -> usize {
        self.machine.offsets.committed_count
    }

    /// All groups, sorted by id.
    pub fn groups(&self) -> impl Iterator<Item = GroupView> {
        let rows = self.machine.registry.sorted_groups();
        rows.into_iter().map(|row| self.view(&self.machine.registry.groups[row]))
    }

    /// One group.
    pub fn group(&self, group_id: &str) -> Option<GroupView> {
        let row = self.machine.registry.find(group_id)?;
        Some(self.view(&self.machine.registry.groups[row]))
    }

    /// A group's committed offsets, by topic and partition; none for a group that is not there.
    pub fn offsets(
        &self,
        group_id: &str,
    ) -> impl Iterator<Item = (&str, i32, CommittedOffset<'_>)> {
        let row = self.machine.registry.find(group_id);
        let offsets = row.and_then(|row| self.machine.registry.groups[row].offsets.as_deref());
        let topics = &self.machine.offsets.topics;
        offsets.into_iter().flat_map(move |offsets| offsets.iter(topics))
    }

    fn view(&self, group: &Group) -> GroupView {
        let members = &self.machine.registry.members;
        let protocol_name = group.protocol_name();
        let mut views: Vec<MemberView> = group
            .member_rows()
            .iter()
            .map(|row| view_member(&members[*row], protocol_name.unwrap_or_default()))
            .collect();
        views.sort_unstable_by(|a, b| a.member_id.cmp(&b.member_id));
        let is_classic = group.group_type == GroupType::Classic;
        let leader = (group.leader != NO_ROW).then(|| members[group.leader].member_id().into());
        GroupView {
            group_id: group.id.as_str().into(),
            group_type: group.group_type.name(),
            is_simple: group.is_simple(),
            state: if is_classic { group.state.name() } else { "" },
            protocol_type: group.protocol_type().into(),
            generation_id: group.generation_id,
            protocol_name: protocol_name.map(Into::into),
            leader,
            current_state_timestamp_ms: group.state_timestamp_ms,
            members: views,
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
    }
}
