//! OffsetCommit: may this caller commit to this group (offsets sections 2.1, 2.2)?

use crate::error::ErrorCode;
use crate::group::Machine;
use crate::group::watching::Asking;
use crate::limits::{MAX_STRING_BYTES, check_partitions};
use crate::offset::commit;
use crate::record::Plain;
use crate::request::{OffsetCommitRequest, RequestContext};
use crate::response::Response;

/// From this version on clients know GROUP_ID_NOT_FOUND here.
const GROUP_ID_NOT_FOUND_VERSION: i16 = 9;

impl Machine {
    pub fn commit_offsets(
        &mut self,
        now_ms: i64,
        context: &RequestContext<'_>,
        request: &OffsetCommitRequest<'_>,
    ) {
        let partitions = request.topics.iter().map(|topic| topic.partitions.len()).sum();
        let knows_code = context.api_version >= GROUP_ID_NOT_FOUND_VERSION;
        let found = check_partitions(partitions)
            .and_then(|()| self.group_to_commit_to(knows_code, request));
        let accepted = found.and_then(|group| {
            self.check_is_whole(group)?;
            self.admit_commit(now_ms, context.api_version, group, request)?;
            Ok(group)
        });
        let group = match accepted {
            Ok(group) => group,
            Err(error_code) => {
                let of = (request.group_id, request.member_id, request.group_instance_id);
                let asking = Asking::of(context, of.0, of.1, of.2);
                self.tell_refused("OffsetCommit", asking, error_code);
                let response = Response::OffsetCommit(commit::refuse(request, error_code));
                return self.outbox.respond(context.ticket, response);
            }
        };
        let start_offset = self.outbox.next_offset();
        let of = &mut self.registry.groups[group];
        let mut scope = of.offset_scope(&mut self.offsets);
        let response =
            commit::commit(&mut scope, &self.config, request, Plain, now_ms, &mut self.outbox);
        self.offsets_written(group, start_offset);
        let response = Response::OffsetCommit(response);
        if self.outbox.next_offset() == start_offset {
            // Nothing but errors: no record holds them back.
            return self.outbox.respond(context.ticket, response);
        }
        self.respond_for_group(group, context.ticket, response);
    }

    /// Notes what was written since for a group's offsets, and drops their store if it is empty.
    pub fn offsets_written(&mut self, group: u32, start_offset: i64) {
        let next_offset = self.outbox.next_offset();
        let of = self.group_mut(group);
        if next_offset != start_offset {
            of.last_record_end = next_offset;
        }
        of.offsets.take_if(|offsets| offsets.is_empty() && !offsets.has_open_transactions());
    }

    /// A group that does not exist is made if the request names no member ("simple" use).
    #[inline(always)]
    pub(super) fn group_to_commit_to(
        &mut self,
        knows_code: bool,
        request: &OffsetCommitRequest<'_>,
    ) -> Result<u32, ErrorCode> {
        match self.registry.find(request.group_id) {
            Some(group) => Ok(group),
            None if request.generation_id_or_member_epoch >= 0 => Err(if knows_code {
                ErrorCode::GroupIdNotFound
            } else {
                ErrorCode::IllegalGeneration
            }),
            None if request.group_id.len() > MAX_STRING_BYTES => Err(ErrorCode::InvalidGroupId),
            None => {
                let group = self.registry.create(request.group_id);
                // No answer may show that the earlier group is gone until that is durable.
                self.group_mut(group).last_record_end = self.last_tombstone_end;
                self.tell_group_created(group);
                Ok(group)
            }
        }
    }
}
