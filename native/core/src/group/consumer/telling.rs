//! Events of consumer groups' members.

use super::member::Member;
use crate::event::{EventKind, EventMember, GoneCause, bounded_reason};
use crate::group::Machine;

impl Machine {
    /// To be called while the member is still there.
    pub fn tell_consumer_gone(&mut self, row: u32, cause: GoneCause, reason: Option<&str>) {
        if self.events.is_on() {
            let member = &self.registry.consumer_members[row];
            let (group, member) = (member.group, Box::new(described(member, reason)));
            self.push_event(group, EventKind::MemberGone { cause, member });
        }
    }
}

fn described(member: &Member, reason: Option<&str>) -> EventMember {
    EventMember {
        member_id: (*member.id).into(),
        group_instance_id: member.instance_id().map(Into::into),
        client_id: member.client_id().into(),
        client_host: member.client_host().into(),
        reason: reason.filter(|reason| !reason.is_empty()).map(bounded_reason),
    }
}
