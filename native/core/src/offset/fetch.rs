//! OffsetFetch, once the group has accepted it (offsets section 4).

use super::entries::{Entry, Key, key};
use super::pending::Pending;
use super::store::GroupOffsets;
use super::topic_table::TopicTable;
use crate::error::ErrorCode;
use crate::request::{OffsetFetchRequest, OffsetFetchTopic, Uuid};
use crate::response::{
    OffsetFetchResponse, OffsetFetchResponseBuilder, OffsetFetchResponsePartition,
};

/// Answers from a group's offsets; `None`: the group is absent or Dead, which is not an error.
/// Topics come in request order, or by name where all are asked for (then without an id). More than
/// `max_bytes` become an UNKNOWN_SERVER_ERROR.
pub fn fetch(
    offsets: Option<&GroupOffsets>,
    topics: &TopicTable,
    request: &OffsetFetchRequest<'_>,
    max_bytes: usize,
) -> OffsetFetchResponse {
    let wanted = request.topics.as_deref().unwrap_or_default();
    let bytes = |of: &OffsetFetchTopic<'_>| {
        OffsetFetchResponseBuilder::topic_bytes(of.name, of.partition_indexes.len())
    };
    let mut room = wanted.iter().map(bytes).sum::<usize>().min(max_bytes);
    if request.topics.is_none() {
        room = offsets.map_or(0, |of| OffsetFetchResponseBuilder::topic_bytes("", of.len()));
        room = room.min(max_bytes);
    }
    let mut response =
        OffsetFetchResponseBuilder::with_room(request.group_id, ErrorCode::None, room)
            .bounded(max_bytes);
    let Some(offsets) = offsets else {
        wanted.iter().for_each(|wanted| push_absent(&mut response, wanted));
        return response.finish();
    };
    let group = Group { offsets, pending: offsets.pending().filter(|_| request.require_stable) };
    if request.topics.is_none() {
        group.push_all(&mut response, topics);
    } else {
        wanted.iter().for_each(|wanted| group.push_wanted(&mut response, topics, wanted));
    }
    response.finish()
}

/// A group's error; the codec repeats it on the partitions where the version has nothing else.
pub fn refuse(request: &OffsetFetchRequest<'_>, error: ErrorCode) -> OffsetFetchResponse {
    OffsetFetchResponse::new(request.group_id, error)
}

fn push_absent(response: &mut OffsetFetchResponseBuilder<'_>, wanted: &OffsetFetchTopic<'_>) {
    let OffsetFetchTopic { name, topic_id, partition_indexes } = wanted;
    response.push_absent(name, *topic_id, partition_indexes, ErrorCode::None);
}

/// What is asked.
struct Group<'a> {
    offsets: &'a GroupOffsets,
    /// Where offsets have to be stable.
    pending: Option<&'a Pending>,
}

impl<'a> Group<'a> {
    fn push_wanted(
        &self,
        response: &mut OffsetFetchResponseBuilder<'_>,
        topics: &TopicTable,
        wanted: &OffsetFetchTopic<'_>,
    ) {
        let Some(topic) = topics.find(wanted.name) else { return push_absent(response, wanted) };
        // An offset of another incarnation of the topic is as none (4.1+); where one of the ids is
        // unknown, the name decides.
        let any_id = wanted.topic_id.is_zero();
        let is_wanted = |entry: &&Entry| {
            any_id || {
                let stored = topics.topic_id(topic, entry.topic_id);
                stored == wanted.topic_id || stored.is_zero()
            }
        };
        let mut behind: &[Entry] = &[];
        let partitions = wanted.partition_indexes.iter().map(|&partition| {
            let key = key(topic, partition);
            let entry = self.offsets.entry_behind(&mut behind, key);
            self.tell(key, partition, entry.filter(is_wanted))
        });
        response.push_topic(wanted.name, wanted.topic_id, partitions);
    }

    /// Topics with a committed offset only: what is merely pending does not show.
    fn push_all(&self, response: &mut OffsetFetchResponseBuilder<'_>, topics: &TopicTable) {
        for topic in self.offsets.topics(topics) {
            let entries = self.offsets.entries_of(topic);
            let partitions =
                entries.map(|entry| self.tell(entry.key(), entry.partition, Some(entry)));
            response.push_topic(topics.name(topic), Uuid::ZERO, partitions);
        }
    }

    #[inline]
    fn tell(
        &self,
        key: Key,
        partition_index: i32,
        entry: Option<&'a Entry>,
    ) -> OffsetFetchResponsePartition<'a> {
        if self.pending.is_some_and(|pending| pending.contains(key)) {
            let unstable = ErrorCode::UnstableOffsetCommit;
            return OffsetFetchResponsePartition::absent(partition_index, unstable);
        }
        match entry {
            None => OffsetFetchResponsePartition::absent(partition_index, ErrorCode::None),
            Some(entry) => OffsetFetchResponsePartition {
                partition_index,
                committed_offset: entry.offset,
                committed_leader_epoch: entry.leader_epoch,
                metadata: self.offsets.metadata(entry),
                error_code: ErrorCode::None,
            },
        }
    }
}
