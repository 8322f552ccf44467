//! Whose heartbeat it is (consumer-protocol sections 2, 3 and 6): the group, and the member in it. Reads
//! only: after an error nothing has changed.

use super::ConsumerGroup;
use super::member::Member;
use super::validate::JOINS;
use crate::error::ErrorCode;
use crate::group::Machine;
use crate::record::consumer::MemberState;
use crate::request::ConsumerGroupHeartbeatRequest;
use crate::response::Refusal;
use crate::topic_partition::is_subset;

/// Where the group is, or what has to be done that it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    Consumer(u32),
    /// An Empty classic group has the id: it goes first.
    EmptyClassic(u32),
    /// A classic group with members has the id: it becomes a consumer group, if it may.
    Classic(u32),
    Absent,
}

/// Which of its members it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    New,
    Known(u32),
    /// A static member that was away, and comes back: maybe with another id.
    Replaces(u32),
}

type Request<'a> = ConsumerGroupHeartbeatRequest<'a>;

impl Machine {
    pub fn locate(&self, request: &Request<'_>) -> Result<(Home, Who), Refusal> {
        let home = self.home_of(request)?;
        if let Home::Consumer(row) | Home::EmptyClassic(row) = home {
            let reason = "The group is being deleted.";
            self.check_is_whole(row).map_err(|error_code| Refusal::new(error_code, reason))?;
        }
        let Home::Consumer(group) = home else { return Ok((home, Who::New)) };
        let of = self.registry.consumer(group);
        let known = of.find(&self.registry.consumer_members, request.member_id);
        let is_back = || request.instance_id.is_some_and(|id| of.static_members.contains_key(id));
        if known.is_none() && !is_back() {
            self.check_capacity(of.members.len())?;
        }
        let who = match request.instance_id {
            Some(instance_id) => self.static_member(of, known, instance_id, request)?,
            None => match known {
                Some(row) => Who::Known(row),
                None if request.member_epoch == JOINS => Who::New,
                None => return Err(unknown_member(request)),
            },
        };
        if let Who::Known(row) = who {
            check_epoch(&self.registry.consumer_members[row], request)?;
        }
        Ok((home, who))
    }

    fn home_of(&self, request: &Request<'_>) -> Result<Home, Refusal> {
        let group_id = request.group_id;
        let not_found = |reason| Refusal::new(ErrorCode::GroupIdNotFound, reason);
        let Some(row) = self.registry.find(group_id) else {
            if request.member_epoch == JOINS {
                return Ok(Home::Absent);
            }
            return Err(not_found(format!("Consumer group {group_id} not found.")));
        };
        if self.registry.is_consumer(row) {
            return Ok(Home::Consumer(row));
        }
        if request.member_epoch == JOINS && self.group(row).as_classic().is_some() {
            let is_empty = self.group(row).is_empty();
            return Ok(if is_empty { Home::EmptyClassic(row) } else { Home::Classic(row) });
        }
        Err(not_found(format!("Group {group_id} is not a consumer group.")))
    }

    /// For a member that is new in a group of so many: not for a static one that comes back.
    pub fn check_capacity(&self, member_count: usize) -> Result<(), Refusal> {
        let max_size = self.config.consumer.max_size;
        if member_count < max_size {
            return Ok(());
        }
        let reason =
            format!("The consumer group has reached its maximum capacity of {max_size} members.");
        Err(Refusal::new(ErrorCode::GroupMaxSizeReached, reason))
    }

    fn static_member(
        &self,
        of: &ConsumerGroup,
        known: Option<u32>,
        instance_id: &str,
        request: &Request<'_>,
    ) -> Result<Who, Refusal> {
        let existing = of.static_members.get(instance_id).copied();
        match existing.map(|row| (row, &self.registry.consumer_members[row])) {
            None if request.member_epoch == JOINS => Ok(known.map_or(Who::New, Who::Known)),
            None => Err(unknown_instance(instance_id)),
            Some((row, member)) if request.member_epoch == JOINS => {
                if member.has_left_for_a_while() || member.classic.is_some() {
                    // Another member would lose what it has to this one.
                    if known.is_some_and(|other| other != row) {
                        return Err(fenced_instance(member, request.member_id, instance_id));
                    }
                    return Ok(Who::Replaces(row));
                }
                let reason = format!(
                    "Static member {} with instance id {instance_id} cannot join the group because the instance \
                     id is owned by {} member.",
                    request.member_id, member.id
                );
                Err(Refusal::new(ErrorCode::UnreleasedInstanceId, reason))
            }
            Some((_, member)) if *member.id != *request.member_id => {
                Err(fenced_instance(member, request.member_id, instance_id))
            }
            Some((row, _)) => Ok(Who::Known(row)),
        }
    }
}

pub fn unknown_member(request: &Request<'_>) -> Refusal {
    let (member_id, group_id) = (request.member_id, request.group_id);
    let reason = format!("Member {member_id} is not a member of group {group_id}.");
    Refusal::new(ErrorCode::UnknownMemberId, reason)
}

pub fn unknown_instance(instance_id: &str) -> Refusal {
    Refusal::new(ErrorCode::UnknownMemberId, format!("Instance id {instance_id} is unknown."))
}

pub fn fenced_instance(member: &Member, member_id: &str, instance_id: &str) -> Refusal {
    let reason = format!(
        "Static member {member_id} with instance id {instance_id} was fenced by member {}.",
        member.id
    );
    Refusal::new(ErrorCode::FencedInstanceId, reason)
}

/// A member may be one epoch behind if the answer that told it of its own was lost: it must not own
/// more than that one said.
fn check_epoch(member: &Member, request: &Request<'_>) -> Result<(), Refusal> {
    let (sent, has) = (request.member_epoch, member.member_epoch);
    let owned = request.topic_partitions.as_deref();
    let missed_answer = || {
        sent < has
            && sent == member.previous_member_epoch
            && owned.is_some_and(|owned| is_subset(owned, &member.assigned))
    };
    if sent == JOINS || sent == has || missed_answer() {
        let must_start_anew =
            member.state == MemberState::Unknown && owned.is_none_or(|owned| !owned.is_empty());
        return if must_start_anew { Err(not_understood()) } else { Ok(()) };
    }
    let reason = format!(
        "The consumer group member has a {} member epoch ({sent}) than the one known by the group coordinator \
         ({has}). The member must abandon all its partitions and rejoin.",
        if sent > has { "greater" } else { "smaller" }
    );
    Err(Refusal::new(ErrorCode::FencedMemberEpoch, reason))
}

/// A later release wrote the member's record: it is taken up by one who owns nothing.
fn not_understood() -> Refusal {
    let reason = "The consumer group member is in an unknown state. The member must abandon all its partitions and \
                  rejoin.";
    Refusal::new(ErrorCode::FencedMemberEpoch, reason)
}
