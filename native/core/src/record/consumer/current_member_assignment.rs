//! ConsumerGroupCurrentMemberAssignmentValue: key type 8.

use super::{VERSION, array, numbers, open, skip_tags, write_no_tags, write_numbers};
use crate::record::fields::{
    write_compact_count, write_i16, write_i32, write_tagged_field, write_uuid,
};
use crate::record::reader::{DecodeError, Reader};
use crate::request::Uuid;
use crate::topic_partition::{AssignedPartition, by_topic};

const ASSIGNMENT_EPOCHS_TAG: u32 = 0;
/// An id, no partitions, no tags.
const SMALLEST_TOPIC: usize = 18;

/// What a member has, and on its way to what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurrentMemberAssignmentValue {
    /// -2: a static member that is away.
    pub member_epoch: i32,
    /// The one before.
    pub previous_member_epoch: i32,
    /// How far it has come.
    pub state: MemberState,
    /// What it has.
    pub assigned_partitions: Vec<EpochPartitions>,
    /// What it is asked to give up.
    pub partitions_pending_revocation: Vec<EpochPartitions>,
}

/// Partitions of a topic, and since when each belongs to the member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpochPartitions {
    /// The topic, by its id.
    pub topic_id: Uuid,
    /// Partitions of the topic.
    pub partitions: Vec<i32>,
    /// Beside each partition the epoch at which the member got it. Kafka before 4.3 wrote none.
    pub assignment_epochs: Option<Vec<i32>>,
}

/// How far a member is on the way to its target (Kafka's `MemberState`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(i8)]
pub enum MemberState {
    /// At its target.
    #[default]
    Stable = 0,
    /// It has to give partitions up first.
    UnrevokedPartitions = 1,
    /// It waits for partitions that others have not given up.
    UnreleasedPartitions = 2,
    /// Written by a newer Kafka.
    Unknown = 127,
}

impl MemberState {
    /// Of Kafka's number.
    pub const fn of(state: i8) -> MemberState {
        match state {
            0 => MemberState::Stable,
            1 => MemberState::UnrevokedPartitions,
            2 => MemberState::UnreleasedPartitions,
            _ => MemberState::Unknown,
        }
    }

    /// Kafka's name.
    pub const fn name(self) -> &'static str {
        match self {
            MemberState::Stable => "STABLE",
            MemberState::UnrevokedPartitions => "UNREVOKED_PARTITIONS",
            MemberState::UnreleasedPartitions => "UNRELEASED_PARTITIONS",
            MemberState::Unknown => "UNKNOWN",
        }
    }
}

impl CurrentMemberAssignmentValue {
    /// Reads the value, version included.
    pub fn parse(value: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = open(value)?;
        let member_epoch = reader.i32()?;
        let previous_member_epoch = reader.i32()?;
        let state = MemberState::of(reader.u8()? as i8);
        let mut topics = || array(&mut reader, SMALLEST_TOPIC, topic);
        let assigned_partitions = topics()?;
        let partitions_pending_revocation = topics()?;
        skip_tags(&mut reader)?;
        Ok(CurrentMemberAssignmentValue {
            member_epoch,
            previous_member_epoch,
            state,
            assigned_partitions,
            partitions_pending_revocation,
        })
    }

    /// Appends the value of a member that has and is to give up these sets of partitions; `epochs`:
    /// its own and the one before.
    pub fn encode_sets(
        epochs: (i32, i32),
        state: MemberState,
        sets: [&[AssignedPartition]; 2],
        out: &mut Vec<u8>,
    ) {
        write_i16(out, VERSION);
        write_i32(out, epochs.0);
        write_i32(out, epochs.1);
        out.push(state as u8);
        for set in sets {
            write_compact_count(out, by_topic(set).count());
            for (topic_id, part) in by_topic(set) {
                write_uuid(out, topic_id);
                write_compact_count(out, part.len());
                part.iter().for_each(|had| write_i32(out, had.at.partition));
                out.push(1);
                write_tagged_field(out, ASSIGNMENT_EPOCHS_TAG, |out| {
                    write_compact_count(out, part.len());
                    part.iter().for_each(|had| write_i32(out, had.epoch));
                });
            }
        }
        write_no_tags(out);
    }

    /// Appends the value.
    pub fn encode(&self, out: &mut Vec<u8>) {
        write_i16(out, VERSION);
        write_i32(out, self.member_epoch);
        write_i32(out, self.previous_member_epoch);
        out.push(self.state as u8);
        for topics in [&self.assigned_partitions, &self.partitions_pending_revocation] {
            write_compact_count(out, topics.len());
            topics.iter().for_each(|topic| topic.encode(out));
        }
        write_no_tags(out);
    }
}

impl EpochPartitions {
    /// Each partition with its epoch. Where the record names none, or not as many as partitions, it
    /// is the member's (Kafka's `Utils.assignmentFromTopicPartitions`).
    pub fn with_epochs(&self, member_epoch: i32) -> impl Iterator<Item = (i32, i32)> {
        let epochs = self.assignment_epochs.as_ref();
        let epochs = epochs.filter(|epochs| epochs.len() == self.partitions.len());
        let partitions = self.partitions.iter().enumerate();
        partitions.map(move |(index, partition)| {
            (*partition, epochs.map_or(member_epoch.max(0), |epochs| epochs[index]))
        })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        write_uuid(out, self.topic_id);
        write_numbers(out, &self.partitions);
        let Some(epochs) = &self.assignment_epochs else { return write_no_tags(out) };
        out.push(1);
        write_tagged_field(out, ASSIGNMENT_EPOCHS_TAG, |out| write_numbers(out, epochs));
    }
}

fn topic(reader: &mut Reader<'_>) -> Result<EpochPartitions, DecodeError> {
    let topic_id = reader.uuid()?;
    let partitions = numbers(reader)?;
    let mut assignment_epochs = None;
    reader.tagged_fields(|tag, bytes| {
        let mut bytes = Reader::new(bytes);
        // A null list is none.
        if tag == ASSIGNMENT_EPOCHS_TAG && bytes.rest() != [0] {
            assignment_epochs = Some(numbers(&mut bytes)?);
        }
        Ok(())
    })?;
    Ok(EpochPartitions { topic_id, partitions, assignment_epochs })
}
