//! What one turn yields, in memory that further turns may use again.

use std::borrow::Cow;

use kcoord_core::event::Event;
use kcoord_core::outbox::Append;

use super::pieces::Pieces;
use crate::outcome::Outcome;
use crate::transactions::Verification;
use kcoord_wire::header::finish_response;

/// What one turn yields. The host writes replies, appends records in the given order, answers
/// foreign frames itself and closes the connections of invalid ones.
#[derive(Debug, Default)]
pub struct Turn {
    /// Reply frames back to back, each with its 4-byte length.
    pub buffer: Vec<u8>,
    /// Ticket, start and end in `buffer`.
    pub replies: Vec<(u64, usize, usize)>,
    /// What comes of long replies before their ends, which are among `replies` of this turn or of
    /// a later one: by ticket, in order. For hosts of [`Node::send_in_parts`](super::Node).
    pub parts: Vec<(u64, Vec<u8>)>,
    /// Long reply frames, by ticket: each in memory of its own, in pieces that are to be sent one
    /// after the other. None where there are `outcomes`.
    pub long_replies: Vec<(u64, Vec<Vec<u8>>)>,
    /// The outcome of each reply, where the host asked for it and one response has it.
    pub outcomes: Option<Vec<Option<Outcome>>>,
    /// Shard and batch, in the order in which they must be written.
    pub appends: Vec<(usize, Append)>,
    /// The ticket that each record of `appends` came of, in order, where its shard traces that;
    /// `None`: it came of none that is known.
    pub causes: Vec<Option<u64>>,
    /// Tickets of frames whose API has no group in it.
    pub foreign: Vec<u64>,
    /// What the transaction coordinators are to be asked.
    pub verifications: Vec<Verification>,
    /// Tickets that will never be answered, as a JoinGroup whose member sent another one: the
    /// host may drop what it holds for them.
    pub given_up: Vec<u64>,
    /// Tickets whose frame cannot be read, or whose answer fits no frame, and why.
    pub invalid: Vec<(u64, String)>,
    /// What happened to groups, for logs and for hosts that watch.
    pub events: Vec<Event>,
    /// Of which shards they are, in order: the shard, and how many events.
    pub events_of: Vec<(usize, usize)>,
    /// Absolute, on the scale of `now_ms`: call `step` again then.
    pub next_timeout_ms: Option<i64>,
}

/// Longest frame: its length is an int32.
pub(super) const MAX_REPLY_BYTES: usize = i32::MAX as usize;

/// A longer reply is not put behind the others: it would be copied once more.
pub(super) const LONG_REPLY_BYTES: usize = 64 << 10;

/// What a turn that is used again keeps room for: bytes of its replies, and items of each kind.
const KEPT_BYTES: usize = 256 << 10;
const KEPT_ITEMS: usize = 4096;

fn empty<T>(memory: &mut Vec<T>, kept: usize) {
    memory.clear();
    memory.shrink_to(kept);
}

impl Turn {
    /// Empty, with what memory it has up to a bound, or what so many replies need; those give
    /// their outcomes.
    pub(super) fn begin(&mut self, replies_expected: usize) {
        let Turn {
            buffer,
            replies,
            parts,
            long_replies,
            outcomes,
            appends,
            causes,
            foreign,
            verifications,
            given_up,
            invalid,
            events,
            events_of,
            next_timeout_ms,
        } = self;
        empty(buffer, KEPT_BYTES);
        // Most answers are short.
        buffer.reserve(64 * replies_expected);
        empty(replies, KEPT_ITEMS);
        replies.reserve(replies_expected);
        empty(parts, 0);
        empty(long_replies, 0);
        let outcomes = outcomes.get_or_insert_default();
        empty(outcomes, KEPT_ITEMS);
        outcomes.reserve(replies_expected);
        empty(appends, KEPT_ITEMS);
        empty(causes, KEPT_ITEMS);
        empty(foreign, KEPT_ITEMS);
        verifications.clear();
        empty(given_up, KEPT_ITEMS);
        empty(invalid, KEPT_ITEMS);
        empty(events, KEPT_ITEMS);
        empty(events_of, KEPT_ITEMS);
        *next_timeout_ms = None;
    }

    /// Takes what happened in a shard.
    pub(super) fn take_events(&mut self, shard: usize, events: impl Iterator<Item = Event>) {
        let before = self.events.len();
        self.events.extend(events);
        if self.events.len() > before {
            self.events_of.push((shard, self.events.len() - before));
        }
    }

    /// Takes a whole reply that begins with room for its length.
    pub(super) fn push_reply(&mut self, ticket: u64, pieces: Pieces) {
        let length = pieces.bytes();
        let mut pieces = pieces.into_encoded();
        if length <= LONG_REPLY_BYTES || length > MAX_REPLY_BYTES || self.outcomes.is_some() {
            let start = self.buffer.len();
            self.buffer.reserve(length);
            pieces.iter().for_each(|piece| self.buffer.extend_from_slice(piece));
            return self.end_reply(ticket, start, None);
        }
        pieces[0][..4].copy_from_slice(&(length as u32 - 4).to_be_bytes());
        self.long_replies.push((ticket, pieces));
    }

    /// All replies, each a frame with its length; copies those that are in pieces.
    pub fn frames(&self) -> impl Iterator<Item = (u64, Cow<'_, [u8]>)> {
        let short = self.replies.iter();
        let short =
            short.map(|(ticket, start, end)| (*ticket, Cow::Borrowed(&self.buffer[*start..*end])));
        let long = self.long_replies.iter();
        short.chain(long.map(|(ticket, pieces)| (*ticket, Cow::Owned(pieces.concat()))))
    }

    /// Ends the reply that [`begin_response`](kcoord_wire::header::begin_response) began. A peer
    /// that asks for more than a frame can hold loses its connection; others lose nothing.
    pub(super) fn end_reply(&mut self, ticket: u64, start: usize, outcome: Option<Outcome>) {
        let length = self.buffer.len() - start;
        if length > MAX_REPLY_BYTES {
            self.buffer.truncate(start);
            self.invalid.push((ticket, format!("an answer of {length} bytes fits no frame")));
            return;
        }
        finish_response(&mut self.buffer, start);
        self.replies.push((ticket, start, self.buffer.len()));
        if let Some(outcomes) = &mut self.outcomes {
            outcomes.push(outcome);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_that_fits_no_frame_ends_its_connection_alone() {
        // The system provides zeroed memory when it is first used: this does not cost 2 GiB.
        let mut turn = Turn { buffer: vec![0; MAX_REPLY_BYTES + 1], ..Turn::default() };
        turn.end_reply(1, 0, None);
        assert_eq!((turn.buffer.len(), turn.replies.len()), (0, 0));
        turn.buffer.extend([0; 9]);
        turn.end_reply(2, 0, None);
        assert_eq!(turn.replies, [(2, 0, 9)]);
        let reason = "an answer of 2147483648 bytes fits no frame".to_owned();
        assert_eq!(turn.invalid, [(1, reason)]);
    }
}
