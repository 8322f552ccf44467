//! OffsetCommit: may this caller commit to this group (spec/offsets.md 2.1 steps 5 and 6, 2.2)?

use crate::error::ErrorCode;
use crate::group::Machine;
use crate::group::classic::state::State;
use crate::limits::MAX_STRING_BYTES;
use crate::offset::commit;
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
        let accepted = self.group_to_commit_to(context, request).and_then(|group| {
            let member = self.committing_member(group, request)?;
            Ok((group, member))
        });
        let (group, member) = match accepted {
            Ok(accepted) => accepted,
            Err(error_code) => {
                let response = Response::OffsetCommit(commit::refuse(request, error_code));
                return self.outbox.respond(context.ticket, response);
            }
        };
        if let Some(member) = member {
            self.renew_session(member, now_ms);
        }
        let start_offset = self.outbox.next_offset();
        let of = &mut self.registry.groups[group];
        let mut scope = of.offset_scope(&mut self.offsets);
        let response = commit::commit(&mut scope, &self.config, request, now_ms, &mut self.outbox);
        self.offsets_written(group, start_offset);
        let response = Response::OffsetCommit(response);
        if self.outbox.next_offset() == start_offset {
            // Nothing but errors: they wait for nobody.
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

    /// A group that is not there is made if nobody claims to be its member ("simple" use).
    fn group_to_commit_to(
        &mut self,
        context: &RequestContext<'_>,
        request: &OffsetCommitRequest<'_>,
    ) -> Result<u32, ErrorCode> {
        match self.find_classic(request.group_id) {
            Ok(group) => Ok(group),
            // Its members are not known here, so none is.
            Err(Some(_)) => Err(ErrorCode::UnknownMemberId),
            Err(None) if request.generation_id_or_member_epoch >= 0 => {
                let knows_code = context.api_version >= GROUP_ID_NOT_FOUND_VERSION;
                Err(if knows_code {
                    ErrorCode::GroupIdNotFound
                } else {
                    ErrorCode::IllegalGeneration
                })
            }
            Err(None) if request.group_id.len() > MAX_STRING_BYTES => {
                Err(ErrorCode::InvalidGroupId)
            }
            Err(None) => {
                let group = self.registry.create(request.group_id);
                // Nobody may learn that the one before is gone until that is durable.
                self.group_mut(group).last_record_end = self.last_tombstone_end;
                Ok(group)
            }
        }
    }

    /// `ClassicGroup.validateOffsetCommit`: the member that commits, if one does.
    fn committing_member(
        &self,
        group: u32,
        request: &OffsetCommitRequest<'_>,
    ) -> Result<Option<u32>, ErrorCode> {
        let of = self.group(group);
        let generation_id = request.generation_id_or_member_epoch;
        if generation_id < 0 && of.state == State::Empty {
            return Ok(None);
        }
        let names_member = !request.member_id.is_empty() || request.group_instance_id.is_some();
        if generation_id < 0 && !names_member {
            return Err(ErrorCode::UnknownMemberId);
        }
        let member = self.identify(group, request.member_id, request.group_instance_id)?;
        if generation_id != of.generation_id {
            return Err(ErrorCode::IllegalGeneration);
        }
        match of.state {
            State::CompletingRebalance => Err(ErrorCode::RebalanceInProgress),
            State::Empty | State::PreparingRebalance | State::Stable => Ok(Some(member)),
        }
    }
}
