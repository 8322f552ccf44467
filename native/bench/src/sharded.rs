//! 50 shards, each request handed to the one that has its group: what a program does that embeds
//! the core, with requests as objects.

use std::hint::black_box;

use kcoord_core::request::Request;
use kcoord_node::routing::shard_of;

use crate::codec::SHARDS;
use crate::hosted::{BEAT_MS, Hosted, MADE_OVER_MS, moment};
use crate::requests::{Asked, Member, NOW_MS, ask_for_offsets, commit, framed, group_id};
use crate::work::{Work, shuffled};

/// Requests that are outstanding together. (Kafka's service has all of a shot.)
const BATCH: usize = 1024;

pub struct Sharded {
    shards: Vec<Hosted>,
    batches: Vec<Batch>,
    now_ms: i64,
}

/// The groups that are asked, in order, and the requests as they stand with their shards.
struct Batch {
    group_ids: Vec<&'static str>,
    requests: Vec<Vec<Asked>>,
}

impl Sharded {
    /// The first commits of groups, which are another matter, were made.
    pub fn commits(count: usize, partitions: i32) -> Self {
        let mut shards: Vec<Hosted> = (0..SHARDS).map(|_| Hosted::new()).collect();
        let mut ids: Vec<Vec<&'static str>> = vec![Vec::new(); SHARDS];
        for id in (0..count).map(|index| &*group_id(index).leak()) {
            ids[shard_of(id, SHARDS)].push(id);
        }
        let hosted = shards.iter_mut().zip(&ids);
        let members: Vec<Member> =
            hosted.flat_map(|(hosted, ids)| hosted.members_over_time(ids)).collect();
        let order = shuffled(count);
        let members: Vec<Member> = framed(order.iter().map(|index| &members[*index])).collect();
        let mut batch = |members: &[Member]| {
            let mut requests: Vec<Vec<Asked>> = vec![Vec::new(); SHARDS];
            for member in members {
                let shard = shard_of(member.group_id, SHARDS);
                let request = Request::OffsetCommit(commit(member, partitions));
                requests[shard].push((shards[shard].context(), request));
            }
            Batch { group_ids: members.iter().map(|one| one.group_id).collect(), requests }
        };
        let batches = members.chunks(BATCH).map(&mut batch).collect();
        let mut sharded = Sharded { shards, batches, now_ms: NOW_MS + MADE_OVER_MS };
        sharded.round();
        sharded
    }

    pub fn fetches(count: usize, partitions: i32) -> Self {
        let mut sharded = Sharded::commits(count, partitions);
        for asked in sharded.batches.iter_mut().flat_map(|one| &mut one.requests).flatten() {
            ask_for_offsets(asked, partitions);
        }
        sharded
    }
}

impl Work for Sharded {
    fn round(&mut self) -> u64 {
        let (mut asked, mut answered) = (0, 0);
        for (at, batch) in self.batches.iter().enumerate() {
            let now_ms = self.now_ms + moment(BEAT_MS, at + 1, self.batches.len());
            for group_id in &batch.group_ids {
                black_box(shard_of(group_id, SHARDS));
            }
            for (hosted, requests) in self.shards.iter_mut().zip(&batch.requests) {
                hosted.advance(now_ms);
                hosted.ask(requests);
                answered += hosted.answered();
            }
            asked += batch.group_ids.len() as u64;
        }
        self.now_ms += BEAT_MS;
        assert_eq!(answered, asked);
        answered
    }
}
