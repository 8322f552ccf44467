//! A shard with what a host does for it: time, tickets, and batches of records, sealed and durable
//! at once.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

use kcoord_core::outbox::Append;
use kcoord_core::record::BatchHeader;
use kcoord_core::request::*;
use kcoord_core::response::Response;
use kcoord_core::{ErrorCode, Shard};
use kcoord_log::write_sealed;

use crate::requests::{
    Asked, BATCH, Member, NOW_MS, SESSION_MS, config, group_id, join, kept, sync,
};

/// Whether shards that are made from now on tell events, as where these are kept.
pub static TELLS_EVENTS: AtomicBool = AtomicBool::new(false);

/// How often a member beats.
pub const BEAT_MS: i64 = 3_000;

/// The time of the `at`-th of `count` portions of `total_ms`.
pub fn moment(total_ms: i64, at: usize, count: usize) -> i64 {
    total_ms * at as i64 / count as i64
}

/// As long as sessions are, less what their members take to be heard of again: groups that are made
/// over so long end at times of their own.
pub const MADE_OVER_MS: i64 = SESSION_MS as i64 - 2 * BEAT_MS;

/// A shard that serves, with what a host does for it.
pub struct Hosted {
    pub shard: Shard,
    pub now_ms: i64,
    tickets: Ticket,
    made: usize,
    batch: Vec<u8>,
}

impl Hosted {
    pub fn new() -> Self {
        let mut shard = Shard::new(config());
        shard.tell_events(TELLS_EVENTS.load(Ordering::Relaxed));
        shard.loaded(NOW_MS, 0);
        Hosted { shard, now_ms: NOW_MS, tickets: 0, made: 0, batch: Vec::new() }
    }

    pub fn context(&mut self) -> RequestContext<'static> {
        self.tickets += 1;
        RequestContext {
            ticket: self.tickets,
            api_version: 3,
            client_id: "orders-service-1",
            client_host: "/127.0.0.1",
            uuid: u128::from(self.tickets).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835),
        }
    }

    /// Asks, and reports what was appended durable.
    pub fn ask(&mut self, batch: &[Asked]) {
        self.shard.handle_batch(self.now_ms, batch);
        self.settle();
    }

    pub fn settle(&mut self) {
        while let Some(append) = self.shard.poll_append() {
            seal(&append, &mut self.batch);
            self.shard.handle_committed(self.now_ms, append.end_offset());
            self.shard.reuse(append.records);
        }
        while let Some(event) = self.shard.poll_event(self.now_ms) {
            black_box(event);
        }
    }

    /// It is so late now: what is due fires.
    pub fn advance(&mut self, now_ms: i64) {
        self.now_ms = now_ms;
        if self.shard.poll_timeout().is_some_and(|due_ms| due_ms <= now_ms) {
            self.shard.handle_timeout(now_ms);
            self.settle();
        }
    }

    /// How many responses there are; none of them may say an error.
    pub fn answered(&mut self) -> u64 {
        let mut answered = 0;
        while let Some((_, response)) = self.shard.poll_response() {
            assert!(succeeded(&response), "{response:?}");
            black_box(response);
            answered += 1;
        }
        answered
    }

    /// Members of new groups, joined and synced over a session's time.
    pub fn members_over_time(&mut self, group_ids: &[&'static str]) -> Vec<Member> {
        let (began_ms, portions) = (self.now_ms, group_ids.len().div_ceil(BATCH));
        let mut members = Vec::with_capacity(group_ids.len());
        for (portion, some) in group_ids.chunks(BATCH).enumerate() {
            self.now_ms = began_ms + moment(MADE_OVER_MS, portion, portions);
            members.extend(self.join_all(some));
        }
        members
    }

    pub fn names(&mut self, count: usize) -> Vec<&'static str> {
        let first = self.made;
        self.made += count;
        (first..self.made).map(|index| &*group_id(index).leak()).collect()
    }

    /// At most a batch of groups without members.
    pub fn join_all(&mut self, ids: &[&'static str]) -> Vec<Member> {
        let joins: Vec<Asked> = ids.iter().map(|id| (self.context(), join(id, ""))).collect();
        let mut members = Vec::with_capacity(ids.len());
        self.join(&joins, |group_id, member_id| {
            members.push(Member { group_id, member_id: kept(member_id) });
        });
        let syncs: Vec<Asked> =
            members.iter().map(|one| (self.context(), sync(one, 1, &[one.member_id]))).collect();
        self.ask(&syncs);
        assert_eq!(self.answered(), ids.len() as u64);
        members
    }

    /// Joins of empty groups, until they are answered.
    pub fn join(&mut self, joins: &[Asked], mut joined: impl FnMut(&'static str, &str)) {
        self.ask(joins);
        // The initial delay of zero is a timer that is due at once.
        self.shard.handle_timeout(self.now_ms);
        self.settle();
        for (_, request) in joins {
            let (Some((_, Response::JoinGroup(response))), Request::JoinGroup(asked)) =
                (self.shard.poll_response(), request)
            else {
                panic!("no answer to {request:?}");
            };
            assert_eq!(response.error_code, ErrorCode::None);
            joined(asked.group_id, &response.member_id);
        }
    }
}

/// What a host writes: the whole batch, with its checksum.
pub fn seal(append: &Append, batch: &mut Vec<u8>) {
    batch.clear();
    write_sealed(&BatchHeader::of(append), &append.records, batch);
    black_box(batch);
}

pub fn succeeded(response: &Response) -> bool {
    let none = |code: ErrorCode| code == ErrorCode::None;
    match response {
        Response::Heartbeat(code) => none(*code),
        Response::ConsumerGroupHeartbeat(beaten) => beaten.is_ok(),
        Response::JoinGroup(joined) => none(joined.error_code),
        Response::SyncGroup(synced) => none(synced.error_code),
        Response::OffsetCommit(response) => {
            response.topics.iter().all(|topic| topic.partitions.iter().all(|(_, code)| none(*code)))
        }
        Response::OffsetFetch(response) => response
            .topics()
            .all(|mut topic| topic.partitions.all(|partition| partition.committed_offset >= 0)),
        _ => false,
    }
}
