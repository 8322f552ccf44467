//! Consumer groups of one shard: what their members ask, new targets of large ones, and their log.

use std::sync::Arc;

use kcoord_core::catalogue::CatalogueTopic;
use kcoord_core::record::BatchHeader;
use kcoord_core::request::*;
use kcoord_core::response::Response;
use kcoord_core::topic_partition::TopicPartition;
use kcoord_core::{Catalogue, Shard};
use kcoord_log::write_sealed;
use kcoord_node::targets::ASIDE_ABOVE;

use crate::groups::Repeated;
use crate::hosted::{Hosted, MADE_OVER_MS, moment};
use crate::requests::{Asked, BATCH, Member, framed, group_id, kept};
use crate::work::{Work, shuffled};

/// Subscriptions of 64 bytes.
const TOPICS: [&str; 2] = [
    "orders-placed-by-customers-of-the-shop-in-all-countries-served-1",
    "orders-placed-by-customers-of-the-shop-in-all-countries-served-2",
];
const PARTITIONS: u32 = 10;
/// Of a group with a large target.
const LARGE_TOPICS: usize = 50;
/// Longer than the interval between two targets.
const LATER_MS: i64 = 2_000;
/// Requests that are written in one batch: 65 records where each member joins.
const PORTION: usize = 13;
/// In the log of a group: it joins, and changes its mind four times.
const RECORDS_A_GROUP: usize = 29;

fn with_topics<'a>(topics: impl Iterator<Item = (&'a str, u32)>) -> Hosted {
    let mut hosted = Hosted::new();
    let topic = |(at, (name, partitions)): (u128, (&str, u32))| {
        (name.into(), CatalogueTopic { id: Uuid(at), partitions, ..CatalogueTopic::default() })
    };
    let catalogue = Catalogue::new((1..).zip(topics).map(topic));
    hosted.shard.handle_topics(hosted.now_ms, &Arc::new(catalogue));
    hosted
}

fn small_topics() -> Hosted {
    with_topics(TOPICS.into_iter().map(|name| (name, PARTITIONS)))
}

/// As clients make them: 16 bytes in base64.
fn member_id(index: usize) -> String {
    format!("XyAbCdEfGhIjKl{index:08}")
}

fn says<'a>(
    group_id: &'a str,
    member_id: &'a str,
    member_epoch: i32,
    topics: Option<Vec<&'a str>>,
    owned: Option<Vec<TopicPartition>>,
) -> Request<'a> {
    Request::ConsumerGroupHeartbeat(ConsumerGroupHeartbeatRequest {
        group_id,
        member_id,
        member_epoch,
        rebalance_timeout_ms: if member_epoch == 0 { 300_000 } else { -1 },
        subscribed_topic_names: topics,
        topic_partitions: owned,
        ..Default::default()
    })
}

fn joins<'a>(group_id: &'a str, member_id: &'a str, topics: &[&'a str]) -> Request<'a> {
    says(group_id, member_id, 0, Some(topics.to_vec()), Some(Vec::new()))
}

/// The epochs that the answers tell, in order.
fn epochs(shard: &mut Shard) -> Vec<i32> {
    let answers = std::iter::from_fn(|| shard.poll_response());
    let epoch = |(_, response)| match response {
        Response::ConsumerGroupHeartbeat(Ok(beaten)) => beaten.member_epoch,
        other => panic!("{other:?}"),
    };
    answers.map(epoch).collect()
}

/// Heartbeats that change nothing, of groups of one member.
pub struct ConsumerBeats(Repeated);

impl ConsumerBeats {
    pub fn new(count: usize) -> Self {
        let mut hosted = small_topics();
        let groups = hosted.names(count);
        let (began_ms, portions) = (hosted.now_ms, count.div_ceil(BATCH));
        let mut members = Vec::with_capacity(count);
        let mut epoch = None;
        for (portion, some) in groups.chunks(BATCH).enumerate() {
            hosted.now_ms = began_ms + moment(MADE_OVER_MS, portion, portions);
            let mut asked: Vec<Asked> = Vec::with_capacity(some.len());
            for group_id in some {
                let one = Member { group_id, member_id: kept(&member_id(members.len())) };
                asked.push((hosted.context(), joins(group_id, one.member_id, &TOPICS[..1])));
                members.push(one);
            }
            hosted.ask(&asked);
            for told in epochs(&mut hosted.shard) {
                assert_eq!(*epoch.get_or_insert(told), told, "they are all alike");
            }
        }
        let epoch = epoch.expect("there is one");
        let order = shuffled(count);
        let members = framed(order.iter().map(|index| &members[*index]));
        let beats = members.map(|one| says(one.group_id, one.member_id, epoch, None, None));
        let requests = beats.map(|request| (hosted.context(), request)).collect();
        ConsumerBeats(Repeated::of(hosted, requests))
    }
}

impl Work for ConsumerBeats {
    fn round(&mut self) -> u64 {
        self.0.round()
    }
}

/// One more member joins a group: until the new targets of all are written.
pub struct NewTargets {
    members: usize,
    partitions_each: usize,
    hosted: Hosted,
    topics: Vec<&'static str>,
}

impl NewTargets {
    pub fn new(members: usize, partitions_each: usize) -> Self {
        let topics = (0..LARGE_TOPICS).map(|at| kept(&format!("topic-{at:02}"))).collect();
        NewTargets { members, partitions_each, hosted: Hosted::new(), topics }
    }

    /// Computes what is handed out, and does what is to be done a little later. Returns how many
    /// targets were handed out.
    fn ask(&mut self, request: &Request<'_>) -> usize {
        let context = self.hosted.context();
        self.hosted.shard.handle_request(self.hosted.now_ms, &context, request);
        let mut jobs = 0;
        let Hosted { shard, now_ms, .. } = &mut self.hosted;
        while let Some(job) = shard.poll_target_job() {
            shard.handle_targets(*now_ms, job.number, Ok(job.input.compute()));
            jobs += 1;
        }
        self.hosted.settle();
        while let Some(due_ms) = self.hosted.shard.poll_timeout()
            && due_ms <= self.hosted.now_ms + 1
        {
            self.hosted.advance(due_ms);
        }
        jobs
    }
}

impl Work for NewTargets {
    /// All but the last have their targets.
    fn prepare(&mut self) {
        let partitions = self.members * self.partitions_each / LARGE_TOPICS;
        self.hosted = with_topics(self.topics.iter().map(|name| (*name, partitions as u32)));
        self.hosted.shard.hand_targets_out(ASIDE_ABOVE);
        let topics = self.topics.clone();
        for member in 0..self.members - 1 {
            self.ask(&joins("large", &member_id(member), &topics));
        }
        self.hosted.now_ms += LATER_MS;
        self.ask(&joins("large", &member_id(0), &topics));
        self.hosted.now_ms += LATER_MS;
        self.hosted.answered();
    }

    fn round(&mut self) -> u64 {
        let topics = self.topics.clone();
        let jobs = self.ask(&joins("large", &member_id(self.members), &topics));
        assert_eq!(jobs, 1);
        self.members as u64
    }
}

/// The log of groups of one that subscribe to one topic, then to the other, and so on: chunks of
/// whole batches, and how many records they hold.
pub fn log(records: usize, chunk_bytes: usize) -> (Vec<Vec<u8>>, usize) {
    let mut hosted = small_topics();
    let mut written = Written { chunk_bytes, chunks: Vec::new(), records: 0 };
    let groups = (records / RECORDS_A_GROUP).max(1);
    let ids: Vec<_> = (0..groups).map(|at| (kept(&group_id(at)), kept(&member_id(at)))).collect();
    let mut epochs_of = vec![0; groups];
    let mut round = 0;
    while written.records < records {
        let topic = TOPICS[round % 2];
        for first in (0..groups).step_by(PORTION) {
            let some = first..(first + PORTION).min(groups);
            // Who has given up what was of the other topic says so, and gets what is of this one.
            for gives_up in [false, true] {
                if gives_up && round == 0 {
                    continue;
                }
                let ask = |at: usize| {
                    let names = (!gives_up).then(|| vec![topic]);
                    let owned = (gives_up || round == 0).then(Vec::new);
                    let request = says(ids[at].0, ids[at].1, epochs_of[at], names, owned);
                    (hosted.context(), request)
                };
                let asked: Vec<Asked> = some.clone().map(ask).collect();
                hosted.shard.handle_batch(hosted.now_ms, &asked);
                written.take(&mut hosted);
                epochs_of[some.clone()].copy_from_slice(&epochs(&mut hosted.shard));
            }
        }
        hosted.now_ms += LATER_MS;
        round += 1;
    }
    (written.chunks, written.records)
}

struct Written {
    chunk_bytes: usize,
    chunks: Vec<Vec<u8>>,
    records: usize,
}

impl Written {
    fn take(&mut self, hosted: &mut Hosted) {
        while let Some(append) = hosted.shard.poll_append() {
            if self.chunks.last().is_none_or(|chunk| chunk.len() > self.chunk_bytes) {
                self.chunks.push(Vec::new());
            }
            let chunk = self.chunks.last_mut().expect("one was just made");
            write_sealed(&BatchHeader::of(&append), &append.records, chunk);
            self.records += append.record_count as usize;
            hosted.shard.handle_committed(hosted.now_ms, append.end_offset());
            hosted.shard.reuse(append.records);
        }
    }
}

/// One more group of one member, for weighing.
pub fn make_group(hosted: &mut Hosted, at: usize) {
    let (group_id, member_id) = (group_id(at), member_id(at));
    let context = hosted.context();
    let request = joins(&group_id, &member_id, &TOPICS[..1]);
    hosted.shard.handle_request(hosted.now_ms, &context, &request);
    hosted.settle();
    assert_eq!(hosted.answered(), 1);
}

/// What groups are weighed in.
pub fn scale() -> Hosted {
    small_topics()
}
