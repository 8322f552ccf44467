//! One shard: groups of one member, what their members ask of it, and a member more for each.
//!
//! Requests are made before they are measured. Appended records count as durable at once.

use kcoord_core::ErrorCode;
use kcoord_core::request::*;
use kcoord_core::response::Response;

use crate::hosted::{BEAT_MS, Hosted, moment};
use crate::requests::{
    Asked, BATCH, Member, ask_for_offsets, commit, framed, heartbeat, join, kept, sync,
};
use crate::work::{Work, shuffled};

/// The same requests again in each round, in batches; a round lasts as long as a member takes to
/// beat again.
pub struct Repeated {
    hosted: Hosted,
    requests: Vec<Asked>,
}

impl Repeated {
    fn new(count: usize, ask: impl Fn(&Member) -> Request<'static>) -> Self {
        let mut hosted = Hosted::new();
        let ids = hosted.names(count);
        let members = hosted.members_over_time(&ids);
        let order = shuffled(count);
        let members = framed(order.iter().map(|index| &members[*index]));
        let requests = members.map(|member| (hosted.context(), ask(&member))).collect();
        Repeated { hosted, requests }
    }

    /// Of members that are there.
    pub fn of(hosted: Hosted, requests: Vec<Asked>) -> Self {
        Repeated { hosted, requests }
    }

    pub fn round(&mut self) -> u64 {
        let mut answered = 0;
        let (began_ms, batches) = (self.hosted.now_ms, self.requests.len().div_ceil(BATCH));
        for (at, batch) in self.requests.chunks(BATCH).enumerate() {
            self.hosted.advance(began_ms + moment(BEAT_MS, at + 1, batches));
            self.hosted.ask(batch);
            answered += self.hosted.answered();
        }
        assert_eq!(answered, self.requests.len() as u64);
        answered
    }
}

pub struct Beats(Repeated);

impl Beats {
    pub fn new(count: usize) -> Self {
        Beats(Repeated::new(count, |member| Request::Heartbeat(heartbeat(member))))
    }
}

impl Work for Beats {
    fn round(&mut self) -> u64 {
        self.0.round()
    }
}

/// Heartbeats in, error codes out: no tickets, and no response that waits in the shard.
pub struct ManyBeats {
    hosted: Hosted,
    beats: Vec<HeartbeatRequest<'static>>,
    codes: Vec<ErrorCode>,
}

impl ManyBeats {
    pub fn new(count: usize) -> Self {
        let mut hosted = Hosted::new();
        let ids = hosted.names(count);
        let members = hosted.members_over_time(&ids);
        let order = shuffled(count);
        let members = framed(order.iter().map(|index| &members[*index]));
        let beats = members.map(|member| heartbeat(&member)).collect();
        ManyBeats { hosted, beats, codes: Vec::with_capacity(BATCH) }
    }
}

impl Work for ManyBeats {
    fn round(&mut self) -> u64 {
        let mut answered = 0;
        let (began_ms, batches) = (self.hosted.now_ms, self.beats.len().div_ceil(BATCH));
        for (at, batch) in self.beats.chunks(BATCH).enumerate() {
            self.hosted.advance(began_ms + moment(BEAT_MS, at + 1, batches));
            self.hosted.shard.heartbeat_batch(self.hosted.now_ms, batch, &mut self.codes);
            assert!(self.codes.iter().all(|code| *code == ErrorCode::None));
            answered += self.codes.len() as u64;
            self.codes.clear();
        }
        assert_eq!(answered, self.beats.len() as u64);
        answered
    }
}

pub struct Commits(Repeated);

impl Commits {
    pub fn new(count: usize, partitions: i32) -> Self {
        let ask = |member: &Member| Request::OffsetCommit(commit(member, partitions));
        let mut repeated = Repeated::new(count, ask);
        repeated.round(); // the first commits of groups are another matter
        Commits(repeated)
    }
}

impl Work for Commits {
    fn round(&mut self) -> u64 {
        self.0.round()
    }
}

pub struct Fetches(Repeated);

impl Fetches {
    pub fn new(count: usize, partitions: i32) -> Self {
        let ask = |member: &Member| Request::OffsetCommit(commit(member, partitions));
        let mut repeated = Repeated::new(count, ask);
        repeated.round();
        repeated.requests.iter_mut().for_each(|asked| ask_for_offsets(asked, partitions));
        Fetches(repeated)
    }
}

impl Work for Fetches {
    fn round(&mut self) -> u64 {
        self.0.round()
    }
}

/// New groups in each round, since a group is new but once.
pub struct Joins {
    hosted: Hosted,
    count: usize,
    next: Vec<Asked>,
}

impl Joins {
    pub fn new(count: usize) -> Self {
        Joins { hosted: Hosted::new(), count, next: Vec::new() }
    }
}

impl Work for Joins {
    /// A shard of their own for each round's, as Kafka's side has.
    fn prepare(&mut self) {
        self.hosted = Hosted::new();
        let ids = self.hosted.names(self.count);
        self.next = ids.iter().map(|id| (self.hosted.context(), join(id, ""))).collect();
    }

    /// The answers' member ids are copied out, as a client would.
    fn round(&mut self) -> u64 {
        let joins = std::mem::take(&mut self.next);
        let mut synced = 0;
        for batch in joins.chunks(BATCH) {
            let mut members = Vec::with_capacity(batch.len());
            self.hosted.join(batch, |group_id, member_id| {
                members.push(Member { group_id, member_id: kept(member_id) });
            });
            let syncs = members.iter().map(|one| sync(one, 1, &[one.member_id]));
            let syncs: Vec<_> = syncs.map(|request| (self.hosted.context(), request)).collect();
            self.hosted.ask(&syncs);
            synced += self.hosted.answered();
        }
        assert_eq!(synced, self.count as u64);
        synced
    }
}

/// A second member for groups of one: it joins, the first joins again, both sync.
pub struct Storm {
    hosted: Hosted,
    count: usize,
    members: Vec<Member>,
    joins: Vec<Asked>,
}

impl Storm {
    pub fn new(count: usize) -> Self {
        Storm { hosted: Hosted::new(), count, members: Vec::new(), joins: Vec::new() }
    }
}

impl Work for Storm {
    fn prepare(&mut self) {
        let ids = self.hosted.names(self.count);
        self.members = ids.chunks(BATCH).flat_map(|some| self.hosted.join_all(some)).collect();
        self.joins.clear();
        for one in &self.members {
            for member_id in ["", one.member_id] {
                let asked = (self.hosted.context(), join(one.group_id, member_id));
                self.joins.push(asked);
            }
        }
    }

    fn round(&mut self) -> u64 {
        let batches = self.joins.chunks(BATCH).zip(self.members.chunks(BATCH / 2));
        let mut synced = 0;
        for (joins, leaders) in batches {
            self.hosted.ask(joins);
            let mut followers = Vec::with_capacity(leaders.len());
            while let Some((_, response)) = self.hosted.shard.poll_response() {
                let Response::JoinGroup(joined) = response else { panic!("{response:?}") };
                assert_eq!((joined.error_code, joined.generation_id), (ErrorCode::None, 2));
                if joined.leader != joined.member_id {
                    followers.push(kept(&joined.member_id));
                }
            }
            assert_eq!(followers.len(), leaders.len());
            for (leader, member_id) in leaders.iter().zip(followers) {
                let follower = Member { group_id: leader.group_id, member_id };
                for (one, assigned) in
                    [(&follower, &[][..]), (leader, &[leader.member_id, member_id][..])]
                {
                    let context = self.hosted.context();
                    let request = sync(one, 2, assigned);
                    self.hosted.shard.handle_request(self.hosted.now_ms, &context, &request);
                }
            }
            self.hosted.settle();
            synced += self.hosted.answered();
        }
        assert_eq!(synced, 2 * self.count as u64);
        self.count as u64
    }
}
