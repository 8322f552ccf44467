//! DeleteGroups (states section 9.3), and how a group goes.

use std::collections::BTreeSet;

use crate::error::ErrorCode;
use crate::event::DeletionCause;
use crate::group::Machine;
use crate::offset::{GroupOffsets, GroupScope, delete};
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

    /// Begins to delete a group that can go, or goes on: some of its offsets. Until the rest goes by
    /// [`delete_groups`](Self::delete_groups), whoever asks of the group comes again: the group is
    /// seen whole, or not at all. After a crash it is there with the other offsets, as after an
    /// OffsetDelete.
    pub fn delete_some_of_group(&mut self, now_ms: i64, group_id: &str, most: usize) {
        let Some(group) = self.registry.find(group_id) else { return };
        if !self.group(group).is_empty() {
            return;
        }
        let start_offset = self.outbox.next_offset();
        let of = &mut self.registry.groups[group];
        if let Some(offsets) = &mut of.offsets {
            offsets.begin_to_go();
            let tables = &mut self.offsets;
            let mut scope = GroupScope { group_id: of.id.as_str(), offsets, tables };
            delete::delete_some(&mut scope, most, now_ms, &mut self.outbox);
        }
        self.offsets_written(group, start_offset);
    }

    /// COORDINATOR_LOAD_IN_PROGRESS, after which clients come again, while a part of the group is
    /// deleted.
    #[inline]
    pub fn check_is_whole(&self, group: u32) -> Result<(), ErrorCode> {
        match self.group(group).offsets.as_deref() {
            Some(offsets) if offsets.is_going() => Err(ErrorCode::CoordinatorLoadInProgress),
            _ => Ok(()),
        }
    }

    fn delete_group(&mut self, now_ms: i64, group_id: &str) -> ErrorCode {
        let Some(group) = self.registry.find(group_id) else { return ErrorCode::GroupIdNotFound };
        if !self.group(group).is_empty() {
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
        self.tell_group_deleted(group, DeletionCause::Requested);
        self.emit_group_tombstone(now_ms, group);
        ErrorCode::None
    }

    /// Takes the group out, with the ids that were handed out in it. Offsets that are still there
    /// (Kafka writes their tombstones first, but for a group that changes its type) stay as those
    /// of a group without members.
    pub fn apply_group_tombstone(&mut self, group: u32) {
        self.close_group(group);
        let removed = self.registry.remove(group);
        // Kafka before 4.0 also removed a group that had nothing but pending offsets.
        let is_kept = |kept: &GroupOffsets| !kept.is_empty() || kept.has_open_transactions();
        if removed.offsets.as_deref().is_some_and(is_kept) {
            let group = self.registry.create(removed.id.as_str());
            self.group_mut(group).offsets = removed.offsets;
        }
    }
}
