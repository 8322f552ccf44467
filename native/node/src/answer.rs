//! A core response becomes a reply frame: at once, or when the last of its parts is there.

use kcoord_core::response::{
    ConsumerGroupDescribeResponse, DescribeGroupResponse, LeaveGroupResponse, Response,
};

use super::gather::{Gather, Parts};
use super::leaving::is_long;
use super::pieces::{Piece, Pieces};
use super::slots::Header;
use super::turn::LONG_REPLY_BYTES;
use super::{Node, Turn};
use crate::outcome::Outcome;
use kcoord_wire::api;
use kcoord_wire::api::describing::{begin_groups, end_groups};
use kcoord_wire::header::{ApiKey, begin_response};

impl Node {
    /// Writes the reply that `response` makes possible; an abandoned request's is dropped.
    pub(super) fn answer(&mut self, core_ticket: u64, response: Response, turn: &mut Turn) {
        let Some((header, gather, part)) = self.slots.find(core_ticket) else { return };
        let start;
        let mut outcome = None;
        if let Some(gather) = gather {
            if !gather.take(part, response, &self.topics) {
                return;
            }
            let gather = self.slots.take_gather(core_ticket);
            let pieces = encode_gathered(&header, gather);
            if self.sends_in_parts && is_long(pieces.bytes()) {
                return self.leaving.push_encoded(core_ticket, &header, pieces);
            }
            self.slots.close(core_ticket);
            self.budget.release(core_ticket);
            return turn.push_reply(header.ticket, pieces);
        } else {
            let bytes = match turn.outcomes {
                None => self.budget.held_bytes_of(core_ticket).max(size(&response)),
                Some(_) => 0, // such replies lie behind one another, however long
            };
            if self.sends_in_parts && is_long(bytes) {
                return self.leave_in_parts(core_ticket, &header, response, bytes);
            }
            self.slots.close(core_ticket);
            self.budget.release(core_ticket);
            if bytes > LONG_REPLY_BYTES {
                let mut pieces = Pieces::default();
                let out = pieces.room(bytes);
                begin_response(out, header.api, header.version, header.correlation_id);
                api::encode_whole(out, header.version, header.api, &response);
                return turn.push_reply(header.ticket, pieces);
            }
            let out = &mut turn.buffer;
            start = begin_response(out, header.api, header.version, header.correlation_id);
            api::encode_whole(out, header.version, header.api, &response);
            if turn.outcomes.is_some() {
                outcome = Outcome::of_response(response);
            }
        }
        turn.end_reply(header.ticket, start, outcome);
    }
}

impl Node {
    /// Its slot and what it took of the budget are given back with its last part.
    #[cold]
    fn leave_in_parts(
        &mut self,
        core_ticket: u64,
        header: &Header,
        response: Response,
        bytes: usize,
    ) {
        match response {
            Response::JoinGroup(joined) => self.leaving.push_joined(core_ticket, header, *joined),
            Response::OffsetFetch(group) => {
                let (mut pieces, version) = (Pieces::default(), header.version);
                let out = pieces.room(64);
                begin_response(out, header.api, version, header.correlation_id);
                api::offset_fetch::begin_groups(out, version, 1);
                let group = api::offset_fetch::GroupInSteps::new(version, group);
                pieces.push(Piece::InSteps(Box::new(group)));
                api::offset_fetch::end_groups(pieces.room(1), version);
                self.leaving.push_encoded(core_ticket, header, pieces);
            }
            response => {
                let mut pieces = Pieces::default();
                let out = pieces.room(bytes);
                begin_response(out, header.api, header.version, header.correlation_id);
                api::encode_whole(out, header.version, header.api, &response);
                self.leaving.push_encoded(core_ticket, header, pieces);
            }
        }
    }
}

/// Of a member in an answer to its leader, besides its subscription: about.
const MEMBER_BYTES: usize = 64;

/// Bytes of what may be long and is in no budget: subscriptions of all members, to their leader, and
/// what a member is assigned.
fn size(response: &Response) -> usize {
    match response {
        Response::JoinGroup(joined) => {
            joined.members.iter().map(|member| MEMBER_BYTES + member.metadata.len()).sum()
        }
        Response::ConsumerGroupHeartbeat(Ok(beaten)) => {
            api::consumer_group_heartbeat::assignment_bytes(beaten)
        }
        _ => 0,
    }
}

/// A whole frame, except for its length.
fn encode_gathered(header: &Header, gather: Gather) -> Pieces {
    let (version, count) = (header.version, gather.shards.len());
    let mut front = Vec::with_capacity(64);
    begin_response(&mut front, header.api, version, header.correlation_id);
    let out = &mut front;
    let mut pieces = Pieces::default();
    match gather.parts {
        Parts::OffsetCommit(response) if header.api == ApiKey::TxnOffsetCommit => {
            api::txn_offset_commit::encode_response(out, version, &response);
        }
        Parts::WriteTxnMarkers { response, .. } => {
            api::write_txn_markers::encode_response(out, version, &response);
        }
        Parts::OffsetCommit(response) => {
            api::offset_commit::encode_response(out, version, &response);
        }
        Parts::OffsetDelete(response) => {
            api::offset_delete::encode_response(out, version, &response);
        }
        Parts::OffsetFetch { groups, .. } => {
            pieces = groups.into_pieces();
            api::offset_fetch::begin_groups(out, version, count);
            api::offset_fetch::end_groups(pieces.room(1), version);
        }
        Parts::DescribeGroups { groups, .. } => {
            pieces = groups.into_pieces();
            if header.api == ApiKey::ConsumerGroupDescribe {
                begin_groups::<ConsumerGroupDescribeResponse>(out, version, count);
                end_groups::<ConsumerGroupDescribeResponse>(pieces.room(1), version);
            } else {
                begin_groups::<DescribeGroupResponse>(out, version, count);
                end_groups::<DescribeGroupResponse>(pieces.room(1), version);
            }
        }
        Parts::DeleteGroups { results, .. } => {
            let (count, encoded) = results.into_pieces();
            pieces = encoded;
            api::delete_groups::begin_results(out, version, count);
            api::delete_groups::end_results(pieces.room(1), version);
        }
        Parts::LeaveGroup { error_code: Some(error_code), .. } => {
            let response = LeaveGroupResponse { error_code, members: Vec::new() };
            api::leave_group::encode_response(out, version, &response);
        }
        Parts::LeaveGroup { count, members, .. } => {
            pieces = members.into_pieces();
            api::leave_group::begin_members(out, version, count);
            api::leave_group::end_members(pieces.room(1), version);
        }
        Parts::ListGroups { error_code, count, groups, .. } => {
            pieces = groups;
            api::list_groups::begin_groups(out, version, error_code, count);
            api::list_groups::end_groups(pieces.room(1), version);
        }
    }
    pieces.push_front(front);
    pieces
}
