//! Long answers leave in parts, some in each turn: nobody waits while one is made, copied and sent.
//! And of answers that waited, as those of a rebalance or a commit, a bounded number leaves in a turn.

use std::collections::VecDeque;

use kcoord_core::response::{JoinGroupResponse, Response};

use super::Node;
use super::pieces::{Piece, Pieces};
use super::slots::{Header, PART_MASK};
use super::turn::{MAX_REPLY_BYTES, Turn};
use kcoord_wire::api::join_group;
use kcoord_wire::header::begin_response;

/// Of one reply, at least what else costs a turn of its own.
const PART_BYTES: usize = 64 << 10;

/// Of all replies in a turn.
const TURN_BYTES: usize = 2 * PART_BYTES;

/// Answers of a turn, besides those to what arrived in it. What the system does for each reply is
/// most of its price: some microseconds.
pub(super) const TURN_ANSWERS: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Leaving {
    /// Each gives a part, in turn.
    long: VecDeque<Long>,
    /// Answers that wait for a turn that has room for them.
    late: VecDeque<(u64, Response)>,
    /// Of the turn, answers that were given.
    answered: usize,
}

#[derive(Debug)]
struct Long {
    /// Of the slot.
    ticket: u64,
    peer: u64,
    left_bytes: usize,
    rest: Rest,
}

#[derive(Debug)]
enum Rest {
    /// It is encoded, or will be piece by piece; of the first one, what is before `at` is gone.
    Encoded {
        pieces: VecDeque<Piece>,
        at: usize,
    },
    Joined(Box<Joined>),
}

/// The answer to a leader: its members' subscriptions are the group's own memory.
#[derive(Debug)]
struct Joined {
    version: i16,
    response: JoinGroupResponse,
    /// What comes before the next bytes of metadata.
    front: Vec<u8>,
    /// The member whose metadata is next, and what of it is gone.
    member: usize,
    at: usize,
}

impl Node {
    /// Long replies leave in [`Turn::parts`], some in each turn, and many that waited in some turns:
    /// none of them makes a turn long.
    pub fn send_in_parts(&mut self) {
        self.sends_in_parts = true;
    }

    /// What the host holds of answers that it was given and could not send yet: together with those
    /// that are being made it is bounded (`kcoord_core::limits`).
    pub fn set_unsent(&mut self, bytes: usize) {
        self.budget.set_unsent(bytes);
    }

    /// What waited for room in a turn.
    #[inline]
    pub(super) fn answer_late(&mut self, turn: &mut Turn) {
        self.leaving.answered = 0;
        while let Some((ticket, response)) = self.leaving.take_late() {
            self.answer(ticket, response, turn);
        }
    }

    /// Gives the turn its parts of long replies.
    #[cold]
    pub(super) fn leave(&mut self, turn: &mut Turn) {
        let Node { leaving, slots, budget, .. } = self;
        leaving.leave(turn, |ticket| {
            slots.close(ticket);
            budget.release(ticket);
        });
    }
}

impl Leaving {
    /// The peer is gone.
    pub fn forget(&mut self, ticket: u64) {
        self.long.retain(|long| long.ticket != ticket);
    }

    /// Whether another turn is needed.
    pub fn is_due(&self) -> bool {
        !self.long.is_empty() || !self.late.is_empty()
    }

    /// Whether an answer that waited may go now; it counts as given.
    #[inline]
    pub fn has_room(&mut self) -> bool {
        self.answered += 1;
        self.answered <= TURN_ANSWERS && self.late.is_empty()
    }

    pub fn wait(&mut self, ticket: u64, response: Response) {
        self.late.push_back((ticket, response));
    }

    /// The next of those that waited for room; `None`: no more in this turn.
    fn take_late(&mut self) -> Option<(u64, Response)> {
        if self.answered >= TURN_ANSWERS {
            return None;
        }
        let late = self.late.pop_front()?;
        self.answered += 1;
        Some(late)
    }

    /// A whole frame, but for its length.
    pub fn push_encoded(&mut self, ticket: u64, header: &Header, pieces: Pieces) {
        let bytes = pieces.bytes();
        let mut pieces: VecDeque<Piece> = pieces.into_pieces().into();
        let Some(Piece::Bytes(front)) = pieces.front_mut() else { unreachable!("its header") };
        front[..4].copy_from_slice(&(bytes as u32 - 4).to_be_bytes());
        self.push(ticket, header, bytes, Rest::Encoded { pieces, at: 0 });
    }

    pub fn push_joined(&mut self, ticket: u64, header: &Header, response: JoinGroupResponse) {
        let (mut front, version) = (Vec::with_capacity(256), header.version);
        begin_response(&mut front, header.api, version, header.correlation_id);
        let bytes = front.len() + join_group::response_bytes(version, &response);
        front[..4].copy_from_slice(&(bytes as u32 - 4).to_be_bytes());
        join_group::begin_response(&mut front, version, &response);
        let mut joined = Joined { version, response, front, member: 0, at: 0 };
        joined.begin_member();
        self.push(ticket, header, bytes, Rest::Joined(Box::new(joined)));
    }

    fn push(&mut self, ticket: u64, header: &Header, left_bytes: usize, rest: Rest) {
        let ticket = ticket & !PART_MASK;
        self.long.push_back(Long { ticket, peer: header.ticket, left_bytes, rest });
    }

    /// Gives the turn its parts of long replies; `ended` are the tickets of those that are whole.
    fn leave(&mut self, turn: &mut Turn, mut ended: impl FnMut(u64)) {
        let mut given = 0;
        while given < TURN_BYTES
            && let Some(mut long) = self.long.pop_front()
        {
            let most = long.left_bytes.min(PART_BYTES);
            given += most;
            long.left_bytes -= most;
            if long.left_bytes > 0 {
                let mut part = Vec::with_capacity(most);
                long.rest.fill(&mut part, most);
                turn.parts.push((long.peer, part));
                self.long.push_back(long);
                continue;
            }
            let start = turn.buffer.len();
            turn.buffer.reserve(most);
            long.rest.fill(&mut turn.buffer, most);
            turn.replies.push((long.peer, start, turn.buffer.len()));
            ended(long.ticket);
        }
    }
}

impl Rest {
    /// Puts the next `most` bytes behind `out`, of which there are as many.
    fn fill(&mut self, out: &mut Vec<u8>, most: usize) {
        let end = out.len() + most;
        while out.len() < end {
            let room = end - out.len();
            match self {
                Rest::Encoded { pieces, at } => {
                    match pieces.front_mut().expect("its bytes were counted") {
                        Piece::Bytes(piece) => {
                            let taken = (piece.len() - *at).min(room);
                            out.extend_from_slice(&piece[*at..*at + taken]);
                            *at += taken;
                            if *at < piece.len() {
                                continue;
                            }
                        }
                        Piece::InSteps(steps) => {
                            steps.fill(out, steps.left().min(room));
                            if steps.left() > 0 {
                                continue;
                            }
                        }
                    }
                    pieces.pop_front();
                    *at = 0;
                }
                Rest::Joined(joined) => joined.fill(out, room),
            }
        }
    }
}

impl Joined {
    fn fill(&mut self, out: &mut Vec<u8>, room: usize) {
        let metadata = match self.response.members.get(self.member) {
            Some(member) => &member.metadata[..],
            None => &[],
        };
        if self.at < self.front.len() {
            let bytes = &self.front[self.at..];
            let taken = bytes.len().min(room);
            out.extend_from_slice(&bytes[..taken]);
            self.at += taken;
            return;
        }
        let bytes = &metadata[self.at - self.front.len()..];
        let taken = bytes.len().min(room);
        out.extend_from_slice(&bytes[..taken]);
        self.at += taken;
        if taken == bytes.len() {
            self.front.clear();
            self.at = 0;
            join_group::end_member(&mut self.front, self.version);
            self.member += 1;
            self.begin_member();
        }
    }

    /// What stands before the next member's metadata, or at the end.
    fn begin_member(&mut self) {
        match self.response.members.get(self.member) {
            Some(member) => join_group::begin_member(&mut self.front, self.version, member),
            None => join_group::end_response(&mut self.front, self.version),
        }
    }
}

/// Whether a reply of so many bytes leaves in parts.
pub(super) fn is_long(bytes: usize) -> bool {
    (PART_BYTES + 1..=MAX_REPLY_BYTES).contains(&bytes)
}
