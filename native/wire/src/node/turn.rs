//! What one turn yields, in memory that further turns may use again.

use kcoord_core::finding::Finding;
use kcoord_core::outbox::Append;

use crate::header::finish_response;
use crate::outcome::Outcome;

/// What one turn yields. The host writes replies, appends records in the given order, answers
/// foreign frames itself and closes the connections of invalid ones.
#[derive(Debug, Default)]
pub struct Turn {
    /// Reply frames back to back, each with its 4-byte length.
    pub buffer: Vec<u8>,
    /// Ticket, start and end in `buffer`.
    pub replies: Vec<(u64, usize, usize)>,
    /// What each reply came to, where somebody asked and one response says it.
    pub(crate) outcomes: Option<Vec<Option<Outcome>>>,
    pub appends: Vec<(usize, Append)>,
    /// The ticket that each record of `appends` came of, in order, where its shard traces that;
    /// `None`: it came of none that is known.
    pub causes: Vec<Option<u64>>,
    pub foreign: Vec<u64>,
    /// Tickets that will never be answered, as a JoinGroup whose member sent another one: whoever
    /// holds something for them may let go.
    pub given_up: Vec<u64>,
    /// Tickets whose frame cannot be read, or whose answer fits no frame, and why.
    pub invalid: Vec<(u64, String)>,
    /// What shards noticed about groups, for logs.
    pub findings: Vec<Finding>,
    /// Absolute, on the scale of `now_ms`: call `step` again then.
    pub next_timeout_ms: Option<i64>,
}

/// Longest frame: its length is an int32.
const MAX_REPLY_BYTES: usize = i32::MAX as usize;

/// What a turn that is used again keeps room for: bytes of its replies, and items of each kind.
const KEPT_BYTES: usize = 256 << 10;
const KEPT_ITEMS: usize = 4096;

fn empty<T>(memory: &mut Vec<T>, kept: usize) {
    memory.clear();
    memory.shrink_to(kept);
}

impl Turn {
    /// Empty, with what memory it has up to a bound, or what so many replies need; to be told what
    /// they come to.
    pub(super) fn begin(&mut self, replies_expected: usize) {
        let Turn {
            buffer,
            replies,
            outcomes,
            appends,
            causes,
            foreign,
            given_up,
            invalid,
            findings,
            next_timeout_ms,
        } = self;
        empty(buffer, KEPT_BYTES);
        // Most answers are short.
        buffer.reserve(64 * replies_expected);
        empty(replies, KEPT_ITEMS);
        replies.reserve(replies_expected);
        let outcomes = outcomes.get_or_insert_default();
        empty(outcomes, KEPT_ITEMS);
        outcomes.reserve(replies_expected);
        empty(appends, KEPT_ITEMS);
        empty(causes, KEPT_ITEMS);
        empty(foreign, KEPT_ITEMS);
        empty(given_up, KEPT_ITEMS);
        empty(invalid, KEPT_ITEMS);
        empty(findings, KEPT_ITEMS);
        *next_timeout_ms = None;
    }

    /// Ends the reply that [`begin_response`](crate::header::begin_response) began. A peer that
    /// asks for more than a frame can hold loses its connection, and nobody else anything.
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
        // Zeroed memory that nobody touches is not there yet: this costs no 2 GiB.
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
