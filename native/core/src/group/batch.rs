//! A turn's requests, looked up in stages so that their cache misses overlap.
//!
//! The order of effects is that of the requests, one by one. The stages before that only prefetch:
//! what they found is looked at again, unless nothing can have changed meanwhile.

use core::hint::black_box;

use super::Machine;
use super::consumer::ConsumerGroup;
use crate::error::ErrorCode;
use crate::offset::store::GroupOffsets;
use crate::request::{ConsumerGroupHeartbeatRequest, HeartbeatRequest, Request, RequestContext};
use crate::response::Response;

/// Requests looked up together, at most.
pub const WINDOW: usize = 64;

/// A batch of no more than these is spared the room of a whole window.
const FEW: usize = 8;

/// Where a request's group probably is.
type Guess = Option<u32>;

/// A group id and a member id, which may be empty.
type Names<'a> = (&'a str, &'a str);

impl Machine {
    pub fn handle_batch(&mut self, now_ms: i64, requests: &[(RequestContext<'_>, Request<'_>)]) {
        match requests {
            [(context, request)] => self.handle_request(now_ms, context, request),
            few if few.len() <= FEW => self.handle_in_windows::<FEW>(now_ms, few),
            many => self.handle_in_windows::<WINDOW>(now_ms, many),
        }
    }

    #[inline]
    fn handle_in_windows<const N: usize>(
        &mut self,
        now_ms: i64,
        requests: &[(RequestContext<'_>, Request<'_>)],
    ) {
        for window in requests.chunks(N) {
            let guesses = self.prefetch_groups::<N>(window.iter().map(|(context, request)| {
                black_box(context.ticket); // the answer needs it: its line, too
                names(request)
            }));
            self.prefetch_by_kind(window, &guesses);
            for ((context, request), &guess) in window.iter().zip(&guesses) {
                match request {
                    Request::Heartbeat(heartbeat) => {
                        let error_code = self.heartbeat_guessed(now_ms, guess, heartbeat);
                        self.outbox.respond(context.ticket, Response::Heartbeat(error_code));
                    }
                    Request::ConsumerGroupHeartbeat(heartbeat)
                        if self.guessed_beat_at_rest(now_ms, guess, context, heartbeat) => {}
                    _ => {
                        self.registry.expect(guess);
                        self.handle_request(now_ms, context, request);
                    }
                }
            }
        }
    }

    pub fn heartbeat_batch(
        &mut self,
        now_ms: i64,
        beats: &[HeartbeatRequest<'_>],
        codes: &mut Vec<ErrorCode>,
    ) {
        match beats {
            [beat] => codes.push(self.heartbeat(now_ms, beat)),
            few if few.len() <= FEW => self.heartbeats_in_windows::<FEW>(now_ms, few, codes),
            many => self.heartbeats_in_windows::<WINDOW>(now_ms, many, codes),
        }
    }

    #[inline]
    fn heartbeats_in_windows<const N: usize>(
        &mut self,
        now_ms: i64,
        beats: &[HeartbeatRequest<'_>],
        codes: &mut Vec<ErrorCode>,
    ) {
        for window in beats.chunks(N) {
            let names = window.iter().map(|beat| Some((beat.group_id, beat.member_id)));
            let guesses = self.prefetch_groups::<N>(names);
            let guessed = window.iter().zip(&guesses);
            codes.extend(guessed.map(|(beat, &guess)| self.heartbeat_guessed(now_ms, guess, beat)));
        }
    }

    /// Reads all names, hashes all, finds all groups, and reads of each what its request will read;
    /// every stage for all before the next.
    #[inline]
    fn prefetch_groups<'a, const N: usize>(
        &self,
        asked: impl Iterator<Item = Option<Names<'a>>>,
    ) -> [Guess; N] {
        let (mut read, mut count) = (0, 0);
        let mut names = [None; N];
        for (name, asked) in names.iter_mut().zip(asked) {
            count += 1;
            *name = asked.map(|(group_id, member_id)| {
                read ^= read_ends(group_id.as_bytes()) ^ read_ends(member_id.as_bytes());
                group_id
            });
        }
        let hashes = stage(&names, count, |group_id| Some(self.registry.hash(group_id)));
        let guesses = stage(&hashes, count, |hash| self.registry.guess(hash));
        let members = stage(&guesses, count, |group| {
            let of = self.group(group);
            // Reads the row: an id up to 22 bytes lies in it.
            read ^= of.id.as_bytes().len() as u8;
            of.as_classic()?.sole()
        });
        let packed = stage(&members, count, |row| Some(self.registry.members[row].first_packed()));
        for packed in packed[..count].iter().flatten() {
            read ^= read_ends(packed);
        }
        black_box(read);
        guesses
    }

    /// Prefetches what requests of these groups will read. Requests of later turns may be among
    /// them, so nothing that is found here is relied on.
    pub fn prefetch<'a>(&self, group_ids: impl Iterator<Item = &'a str>) {
        let guesses =
            self.prefetch_groups::<WINDOW>(group_ids.map(|group_id| Some((group_id, ""))));
        self.prefetch_offsets(&guesses, WINDOW);
    }

    /// The same for what only some requests will read.
    #[inline]
    fn prefetch_by_kind<const N: usize>(
        &self,
        window: &[(RequestContext<'_>, Request<'_>)],
        guesses: &[Guess; N],
    ) {
        let asks = |(_, request): &(RequestContext<'_>, Request<'_>)| {
            matches!(request, Request::OffsetCommit(_) | Request::OffsetFetch(_))
        };
        let beats = |(_, request): &(RequestContext<'_>, Request<'_>)| {
            matches!(request, Request::ConsumerGroupHeartbeat(_))
        };
        let (mut any_asks, mut any_beats) = (false, false);
        for asked in window {
            any_asks |= asks(asked);
            any_beats |= beats(asked);
        }
        if any_beats {
            self.prefetch_consumer_members(guesses, window.len());
        }
        if !any_asks {
            return;
        }
        black_box(window.iter().fold(0, |read, (_, request)| read ^ prefetch_topic(request)));
        let mut of_those = *guesses;
        for (guess, asked) in of_those.iter_mut().zip(window) {
            *guess = guess.filter(|_| asks(asked));
        }
        self.prefetch_offsets(&of_those, window.len());
    }

    /// Members of consumer groups of one member.
    fn prefetch_consumer_members<const N: usize>(&self, groups: &[Guess; N], count: usize) {
        let groups = stage(groups, count, |group| self.group(group).as_consumer());
        let rows = stage(&groups, count, ConsumerGroup::sole);
        let members = stage(&rows, count, |row| Some(&self.registry.consumer_members[row]));
        // Its client is that of many members, and the rest of it no heartbeat at rest reads.
        let mut read = 0;
        for member in members[..count].iter().flatten() {
            read ^= member.member_epoch;
        }
        black_box(read);
    }

    #[inline]
    fn prefetch_offsets<const N: usize>(&self, groups: &[Guess; N], count: usize) {
        let offsets = stage(groups, count, |group| self.group(group).offsets.as_deref());
        let entries = stage(&offsets, count, GroupOffsets::first);
        let extras = stage(&offsets, count, GroupOffsets::first_extra);
        let mut read = 0;
        for (entry, extra) in entries[..count].iter().zip(&extras) {
            read ^= entry.map_or(0, |entry| entry.key()) ^ extra.copied().unwrap_or_default();
        }
        black_box(read);
    }

    /// As `heartbeat` with what `expect` would say, but nothing is written for it.
    fn heartbeat_guessed(
        &mut self,
        now_ms: i64,
        guess: Guess,
        request: &HeartbeatRequest<'_>,
    ) -> ErrorCode {
        match self.registry.confirmed(guess, request.group_id.as_bytes()) {
            Some(group) => self.heartbeat_in(group, now_ms, request),
            None => self.heartbeat(now_ms, request),
        }
    }

    #[inline]
    fn guessed_beat_at_rest(
        &mut self,
        now_ms: i64,
        guess: Guess,
        context: &RequestContext<'_>,
        request: &ConsumerGroupHeartbeatRequest<'_>,
    ) -> bool {
        let group = self.registry.confirmed(guess, request.group_id.as_bytes());
        self.beat_at_rest(now_ms, group, context, request)
    }
}

/// A loop of its own, so that what it misses in the cache is awaited together.
#[inline(always)]
fn stage<T: Copy, U: Copy, const N: usize>(
    found: &[Option<T>; N],
    count: usize,
    mut next: impl FnMut(T) -> Option<U>,
) -> [Option<U>; N] {
    let mut results = [None; N];
    for (result, found) in results.iter_mut().zip(&found[..count]) {
        *result = found.and_then(&mut next);
    }
    results
}

/// One byte of each end: what is no longer than a cache line lies in the lines of these two.
fn read_ends(bytes: &[u8]) -> u8 {
    match bytes {
        [first, .., last] => first ^ last,
        _ => 0,
    }
}

/// Reads the first topic that a fetch asks for: a request that was not just read off a wire may lie
/// anywhere.
#[inline]
fn prefetch_topic(request: &Request<'_>) -> u8 {
    let Request::OffsetFetch(request) = request else { return 0 };
    let Some(topic) = request.topics.iter().flatten().next() else { return 0 };
    let partition = topic.partition_indexes.first().map_or(0, |partition| *partition as u8);
    read_ends(topic.name.as_bytes()) ^ partition
}

/// The group that a request names, if it names one, and the member.
fn names<'a>(request: &Request<'a>) -> Option<Names<'a>> {
    match request {
        Request::JoinGroup(request) => Some((request.group_id, request.member_id)),
        Request::SyncGroup(request) => Some((request.group_id, request.member_id)),
        Request::Heartbeat(request) => Some((request.group_id, request.member_id)),
        Request::OffsetCommit(request) => Some((request.group_id, request.member_id)),
        Request::TxnOffsetCommit(request) => {
            Some((request.commit.group_id, request.commit.member_id))
        }
        Request::ConsumerGroupHeartbeat(request) => Some((request.group_id, request.member_id)),
        Request::ConsumerGroupDescribe(request) => Some((request.group_id, "")),
        Request::LeaveGroup(request) => Some((request.group_id, "")),
        Request::OffsetFetch(request) => Some((request.group_id, "")),
        Request::OffsetDelete(request) => Some((request.group_id, "")),
        Request::DescribeGroups(request) => Some((request.group_id, "")),
        Request::DeleteGroups(_)
        | Request::DeleteGroupOffsets(..)
        | Request::WriteTxnMarkers(_)
        | Request::ListGroups(_)
        | Request::ListGroupRows(..) => None,
    }
}
