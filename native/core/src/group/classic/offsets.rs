//! What a classic group says of its offsets: who may commit and delete, and from when on they age
//! (offsets sections 2.2, 5 and 6).

use super::group::ClassicGroup;
use super::state::State;
use super::subscription::CONSUMER_PROTOCOL_TYPE;
use crate::error::ErrorCode;
use crate::group::Machine;
use crate::offset::expiration::{ConsumedTopics, ExpirationBase};
use crate::request::OffsetCommitRequest;

impl ClassicGroup {
    pub fn admit_offset_delete(&self) -> Result<(), ErrorCode> {
        if self.state != State::Empty && self.protocol_type() != CONSUMER_PROTOCOL_TYPE {
            return Err(ErrorCode::NonEmptyGroup);
        }
        Ok(())
    }
}

impl Machine {
    /// `ClassicGroup.validateOffsetCommit`; a member that commits has its session renewed.
    pub fn admit_classic_commit(
        &mut self,
        now_ms: i64,
        group: u32,
        request: &OffsetCommitRequest<'_>,
    ) -> Result<(), ErrorCode> {
        if let Some(member) = self.committing_member(group, request)? {
            self.renew_session(member, now_ms);
        }
        Ok(())
    }

    /// The same in a transaction: also without a member, and while the group awaits its assignment.
    pub fn admit_classic_transactional_commit(
        &self,
        group: u32,
        request: &OffsetCommitRequest<'_>,
    ) -> Result<(), ErrorCode> {
        if request.names_nobody() {
            return Ok(());
        }
        match self.committing_member(group, request) {
            Err(ErrorCode::RebalanceInProgress) => Ok(()),
            admitted => admitted.map(|_| ()),
        }
    }

    /// The member that commits, if one does.
    #[inline(always)]
    fn committing_member(
        &self,
        group: u32,
        request: &OffsetCommitRequest<'_>,
    ) -> Result<Option<u32>, ErrorCode> {
        let of = self.classic(group);
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

    /// `isSubscribedToTopic`: consumers whose subscription is unknown count as subscribed to all.
    pub fn topics_of_classic(&self, group: u32) -> ConsumedTopics {
        match self.subscribed_topics(group) {
            Some(topics) => ConsumedTopics::Named(topics),
            None if self.classic(group).protocol_type() == CONSUMER_PROTOCOL_TYPE => {
                ConsumedTopics::Everything
            }
            None => ConsumedTopics::Nothing,
        }
    }

    pub fn expiration_of_classic(&self, group: u32) -> (ExpirationBase, ConsumedTopics) {
        let of = self.classic(group);
        let is_consumers = of.protocol_type() == CONSUMER_PROTOCOL_TYPE;
        let base = match of.state {
            _ if of.protocol_type.is_none() => ExpirationBase::CommitTimestamp,
            State::Empty if of.state_timestamp_ms == -1 => ExpirationBase::CommitTimestamp,
            State::Empty => ExpirationBase::CurrentStateTimestamp(of.state_timestamp_ms),
            State::Stable if is_consumers => {
                return match self.subscribed_topics(group) {
                    Some(topics) => {
                        (ExpirationBase::CommitTimestamp, ConsumedTopics::Named(topics))
                    }
                    None => (ExpirationBase::Never, ConsumedTopics::Everything),
                };
            }
            _ => ExpirationBase::Never,
        };
        (base, ConsumedTopics::Nothing)
    }
}
