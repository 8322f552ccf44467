//! Who may commit, fetch and delete offsets of a consumer group (offsets sections 2.2, 4, 5 and 6).

use super::member::Member;
use crate::error::ErrorCode;
use crate::group::Machine;
use crate::offset::commit;
use crate::offset::expiration::{ConsumedTopics, ExpirationBase};
use crate::request::{OffsetCommitRequest, OffsetFetchRequest};
use crate::topic_partition::{TopicPartition, find};

/// From this version on a member of the consumer protocol can commit.
const MEMBER_EPOCH_VERSION: i16 = 9;

impl Machine {
    /// `ConsumerGroup.validateOffsetCommit`, with KIP-1251: a commit that was under way when its
    /// member's epoch rose counts, for partitions that the member had at that epoch already.
    pub fn admit_consumer_commit(
        &self,
        api_version: i16,
        group: u32,
        request: &OffsetCommitRequest<'_>,
    ) -> Result<(), ErrorCode> {
        let Some(member) = self.committing_consumer(group, request)? else { return Ok(()) };
        if member.classic.is_none() && api_version < MEMBER_EPOCH_VERSION {
            return Err(ErrorCode::UnsupportedVersion);
        }
        self.admit_epoch(member, request)
    }

    /// The same in a transaction: also without a member, and in every version.
    pub fn admit_consumer_transactional_commit(
        &self,
        group: u32,
        request: &OffsetCommitRequest<'_>,
    ) -> Result<(), ErrorCode> {
        if request.names_nobody() {
            return Ok(());
        }
        let Some(member) = self.committing_consumer(group, request)? else { return Ok(()) };
        self.admit_epoch(member, request)
    }

    /// The member that commits; none is needed where there is none.
    fn committing_consumer(
        &self,
        group: u32,
        request: &OffsetCommitRequest<'_>,
    ) -> Result<Option<&Member>, ErrorCode> {
        let of = self.registry.consumer(group);
        if request.generation_id_or_member_epoch < 0 && of.members.is_empty() {
            return Ok(None);
        }
        let members = &self.registry.consumer_members;
        let row = of.find(members, request.member_id).ok_or(ErrorCode::UnknownMemberId)?;
        Ok(Some(&members[row]))
    }

    fn admit_epoch(
        &self,
        member: &Member,
        request: &OffsetCommitRequest<'_>,
    ) -> Result<(), ErrorCode> {
        let epoch = request.generation_id_or_member_epoch;
        if epoch == member.member_epoch {
            return Ok(());
        }
        if epoch > member.member_epoch || !self.had_all(member, request, epoch) {
            return Err(stale(member));
        }
        Ok(())
    }

    /// Whether the member has got all of a commit's partitions at that epoch or before, and has them
    /// still or has yet to give them up. What is refused by itself is not asked.
    fn had_all(&self, member: &Member, request: &OffsetCommitRequest<'_>, epoch: i32) -> bool {
        request.topics.iter().all(|topic| {
            let mut asked = topic.partitions.iter().filter(|at| commit::fits(&self.config, at));
            asked.all(|partition| {
                let at = TopicPartition::new(topic.topic_id, partition.partition_index);
                let had = find(&member.assigned, at).or_else(|| find(&member.revoking, at));
                had.is_some_and(|had| had.epoch <= epoch)
            })
        })
    }

    /// `ConsumerGroup.validateOffsetFetch`: an earlier epoch is not excused here.
    pub fn admit_consumer_fetch(
        &self,
        group: u32,
        request: &OffsetFetchRequest<'_>,
    ) -> Result<(), ErrorCode> {
        let Some(member_id) = request.member_id else {
            let is_nobody = request.member_epoch < 0;
            return if is_nobody { Ok(()) } else { Err(ErrorCode::UnknownServerError) };
        };
        let members = &self.registry.consumer_members;
        let row = self.registry.consumer(group).find(members, member_id);
        let member = &members[row.ok_or(ErrorCode::UnknownMemberId)?];
        if request.member_epoch == member.member_epoch { Ok(()) } else { Err(stale(member)) }
    }

    /// Topics that a member subscribes to keep their offsets.
    pub fn topics_of_consumer(&self, group: u32) -> ConsumedTopics {
        let topics = self.registry.consumer(group).subscribed_topics();
        ConsumedTopics::Named(topics.into_iter().map(Into::into).collect())
    }

    pub fn expiration_of_consumer(&self, group: u32) -> (ExpirationBase, ConsumedTopics) {
        (ExpirationBase::CommitTimestamp, self.topics_of_consumer(group))
    }
}

fn stale(member: &Member) -> ErrorCode {
    match member.classic {
        Some(_) => ErrorCode::IllegalGeneration,
        None => ErrorCode::StaleMemberEpoch,
    }
}
