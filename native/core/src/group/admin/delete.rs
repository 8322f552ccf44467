//! DeleteGroups (states section 9.3), and the tombstone by which a group goes.

use std::collections::BTreeSet;

use crate::error::ErrorCode;
use crate::group::Machine;
use crate::group::classic::state::State;
use crate::offset::{GroupOffsets, GroupScope, delete};
use crate::record::GroupMetadataKey;
use crate::request::{DeleteGroupsRequest, RequestContext};
use crate::response::{DeleteGroupsResponse, Response};

impl Machine {
    /// One atomic append for all groups that can go, each once.
    pub fn delete_groups(
        &mut self,
        now_ms: i64,
        context: &RequestContext<'_>,
        request: &DeleteGroupsRequest<'_>,
    ) {
        let mut seen = BTreeSet::new();
        let mut results = Vec::with_capacity(request.groups_names.len());
        for group_id in request.groups_names.iter().filter(|group_id| seen.insert(**group_id)) {
            results.push((Box::from(*group_id), self.delete_group(now_ms, group_id)));
        }
        let response = Response::DeleteGroups(DeleteGroupsResponse { results });
        self.respond_for_absent(context.ticket, response);
    }

    fn delete_group(&mut self, now_ms: i64, group_id: &str) -> ErrorCode {
        let group = match self.find_classic(group_id) {
            Ok(group) => group,
            Err(None) => return ErrorCode::GroupIdNotFound,
            // Whether it has members is not known here.
            Err(Some(_)) => return ErrorCode::NonEmptyGroup,
        };
        if self.group(group).state != State::Empty {
            return ErrorCode::NonEmptyGroup;
        }
        let start_offset = self.outbox.next_offset();
        let of = &mut self.registry.groups[group];
        if let Some(offsets) = &mut of.offsets {
            let tables = &mut self.offsets;
            let mut scope = GroupScope { group_id: of.id.as_str(), offsets, tables };
            delete::delete_all(&mut scope, now_ms, &mut self.outbox);
        }
        self.offsets_written(group, start_offset);
        self.emit_group_tombstone(now_ms, group);
        ErrorCode::None
    }

    /// The end of a group that has no members and no offsets.
    pub fn emit_group_tombstone(&mut self, now_ms: i64, group: u32) {
        self.scratch_key.clear();
        let key = GroupMetadataKey { group: self.registry.groups[group].id.as_str() };
        key.encode(&mut self.scratch_key);
        let offset = self.outbox.emit(now_ms, &self.scratch_key, None);
        self.last_tombstone_end = offset + 1;
        self.apply_group_tombstone(group);
    }

    /// Takes the group out, with the ids that were handed out in it. Offsets that are still there
    /// (Kafka writes their tombstones first, but for a group that changes its type) stay as those
    /// of a group of nobody.
    pub fn apply_group_tombstone(&mut self, group: u32) {
        if let Some(soft) = self.group_mut(group).rebalance.take() {
            self.wheel.cancel(soft.join_timer);
            self.wheel.cancel(soft.sync_timer);
            for pending in soft.pending.sorted_rows() {
                let removed = self.registry.members.remove(pending);
                self.wheel.cancel(removed.timer);
            }
        }
        for member in self.group(group).member_rows().to_vec() {
            let removed = self.registry.detach_member(member);
            debug_assert!(removed.timer.is_none(), "a live group goes without members");
        }
        let removed = self.registry.remove(group);
        // Kafka before 4.0 also let a group go whose only offsets were pending.
        let is_kept = |kept: &GroupOffsets| !kept.is_empty() || kept.has_open_transactions();
        if removed.offsets.as_deref().is_some_and(is_kept) {
            let group = self.registry.create(removed.id.as_str());
            self.group_mut(group).offsets = removed.offsets;
        }
    }
}
