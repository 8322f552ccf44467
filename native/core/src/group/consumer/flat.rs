//! Sets of partitions as records have them, by topic, and as groups keep them.

use crate::record::consumer::{EpochPartitions, TopicPartitions};
use crate::topic_partition::{AssignedPartition, TopicPartition, by_topic, into_set};

pub fn of_targets(set: &[TopicPartition]) -> Vec<TopicPartitions> {
    let topics = by_topic(set).map(|(topic_id, part)| TopicPartitions {
        topic_id,
        partitions: part.iter().map(|at| at.partition).collect(),
    });
    topics.collect()
}

pub fn targets(topics: &[TopicPartitions]) -> Vec<TopicPartition> {
    let each = topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|partition| TopicPartition::new(topic.topic_id, *partition))
    });
    into_set(each.collect())
}

pub fn of_assigned(set: &[AssignedPartition]) -> Vec<EpochPartitions> {
    let topics = by_topic(set).map(|(topic_id, part)| EpochPartitions {
        topic_id,
        partitions: part.iter().map(|had| had.at.partition).collect(),
        assignment_epochs: Some(part.iter().map(|had| had.epoch).collect()),
    });
    topics.collect()
}

pub fn assigned(topics: &[EpochPartitions], member_epoch: i32) -> Vec<AssignedPartition> {
    let each = topics.iter().flat_map(|topic| {
        topic.with_epochs(member_epoch).map(|(partition, epoch)| AssignedPartition {
            at: TopicPartition::new(topic.topic_id, partition),
            epoch,
        })
    });
    into_set(each.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::consumer::{CurrentMemberAssignmentValue, MemberState};
    use crate::request::Uuid;

    #[test]
    fn records_and_groups_say_the_same() {
        let at = |id, partition| TopicPartition::new(Uuid(id), partition);
        let set = vec![at(1, 3), at(1, 4), at(2, 0)];
        assert_eq!(targets(&of_targets(&set)), set);
        let had: Vec<_> = set.iter().map(|at| AssignedPartition { at: *at, epoch: 7 }).collect();
        assert_eq!(assigned(&of_assigned(&had), 9), had);
        let mut topics = of_assigned(&had[..2]);
        topics[0].assignment_epochs = None;
        assert_eq!(assigned(&topics, 9).iter().map(|had| had.epoch).collect::<Vec<_>>(), [9, 9]);
        topics[0].partitions = vec![4, 3, 4];
        assert_eq!(assigned(&topics, -2).iter().map(|had| had.at).collect::<Vec<_>>(), set[..2]);
    }

    #[test]
    fn sets_are_encoded_as_records_are() {
        let had = |id, partition| AssignedPartition {
            at: TopicPartition::new(Uuid(id), partition),
            epoch: partition - 1,
        };
        let (has, revoking) = (vec![had(1, 3), had(1, 4), had(2, 0)], vec![had(3, 7)]);
        for (has, revoking) in [(&has[..], &revoking[..]), (&[], &has), (&[], &[])] {
            let value = CurrentMemberAssignmentValue {
                member_epoch: 9,
                previous_member_epoch: -1,
                state: MemberState::UnrevokedPartitions,
                assigned_partitions: of_assigned(has),
                partitions_pending_revocation: of_assigned(revoking),
            };
            let (mut expected, mut encoded) = (Vec::new(), Vec::new());
            value.encode(&mut expected);
            let sets = [has, revoking];
            CurrentMemberAssignmentValue::encode_sets((9, -1), value.state, sets, &mut encoded);
            assert_eq!(encoded, expected);
        }
    }
}
