//! Bounds the memory of answers that are not sent yet: a request of a few bytes may ask for one
//! large group many times. The bytes of an answer are taken here before it is made.

use std::collections::BTreeMap;

use crate::error::ErrorCode;
use crate::request::Ticket;

/// Shared by all shards of a node, which hands it to the one that works.
#[derive(Debug)]
pub struct AnswerBudget {
    of_one_bytes: usize,
    of_all_bytes: usize,
    /// The bits of a ticket by which the parts of one request differ.
    parts: Ticket,
    /// What requests have taken that are not answered. Small answers are not kept apart.
    held: BTreeMap<Ticket, Held>,
    held_bytes: usize,
    /// What answers were worth in work, whether they were made or refused.
    worked_bytes: usize,
    /// What answers take that were given out and not sent.
    unsent_bytes: usize,
}

/// Of one request.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    bytes: usize,
    /// Once a part is refused, all further ones are, without a look at how large they would be.
    refused: Option<ErrorCode>,
}

impl Default for AnswerBudget {
    /// Without bounds: for a shard alone.
    fn default() -> Self {
        AnswerBudget::new(usize::MAX, usize::MAX, 0)
    }
}

impl AnswerBudget {
    /// `parts`: tickets that differ in these bits alone are of one request.
    pub fn new(of_one_bytes: usize, of_all_bytes: usize, parts: Ticket) -> Self {
        AnswerBudget {
            of_one_bytes,
            of_all_bytes,
            parts,
            held: BTreeMap::new(),
            held_bytes: 0,
            worked_bytes: 0,
            unsent_bytes: 0,
        }
    }

    /// What the host holds that was answered and not sent.
    pub fn set_unsent(&mut self, bytes: usize) {
        self.unsent_bytes = bytes;
    }

    /// Bytes that the answer under this ticket may take still.
    #[inline]
    pub fn left(&self, ticket: Ticket) -> usize {
        self.left_within(ticket, self.of_one_bytes)
    }

    #[inline]
    fn left_within(&self, ticket: Ticket, of_one_bytes: usize) -> usize {
        let in_all = self.left_in_all();
        if self.held.is_empty() {
            return in_all.min(of_one_bytes);
        }
        match self.held_by(ticket) {
            Held { refused: Some(_), .. } => 0,
            Held { bytes, .. } => in_all.min(of_one_bytes.saturating_sub(bytes)),
        }
    }

    /// Takes memory for a part of an answer before it is made. `Err`: there is too little, and this
    /// is the answer. It is UNKNOWN_SERVER_ERROR, as for anything that fits no message, where the
    /// request asks for too much; where other answers took it, an error after which clients retry.
    pub fn take(&mut self, ticket: Ticket, bytes: usize) -> Result<(), ErrorCode> {
        self.take_within(ticket, bytes, self.of_one_bytes)
    }

    /// The same for a part of a list of all groups. It names each once, and is made and sent in
    /// slices: one may have half of what there is for all.
    pub fn take_of_list(&mut self, ticket: Ticket, bytes: usize) -> Result<(), ErrorCode> {
        self.take_within(ticket, bytes, self.of_all_bytes / 2)
    }

    fn take_within(
        &mut self,
        ticket: Ticket,
        bytes: usize,
        of_one_bytes: usize,
    ) -> Result<(), ErrorCode> {
        if bytes > self.left_within(ticket, of_one_bytes) {
            return Err(self.refuse_within(ticket, of_one_bytes));
        }
        self.held.entry(ticket & !self.parts).or_default().bytes += bytes;
        self.held_bytes += bytes;
        self.worked_bytes = self.worked_bytes.saturating_add(bytes);
        Ok(())
    }

    /// The same for an answer of any size that a client may ask for again: one passes, and so do
    /// further ones of the turn up to the bound of one answer. `Err`: clients come back after it,
    /// unless the answer would never pass: UNKNOWN_SERVER_ERROR, which ends their attempts.
    pub fn take_again(&mut self, ticket: Ticket, bytes: usize) -> Result<(), ErrorCode> {
        if bytes > self.of_all_bytes {
            return Err(ErrorCode::UnknownServerError);
        }
        let worked_bytes = self.worked_bytes.saturating_add(bytes);
        let is_much = self.worked_bytes > 0 && worked_bytes > self.of_one_bytes;
        if is_much || bytes > self.left_in_all() {
            return Err(ErrorCode::CoordinatorLoadInProgress);
        }
        self.held.entry(ticket & !self.parts).or_default().bytes += bytes;
        self.held_bytes += bytes;
        self.worked_bytes = worked_bytes;
        Ok(())
    }

    /// [`left`](Self::left) is too little: the answer to this part and to all further ones.
    #[cold]
    pub fn refuse(&mut self, ticket: Ticket) -> ErrorCode {
        self.refuse_within(ticket, self.of_one_bytes)
    }

    fn refuse_within(&mut self, ticket: Ticket, of_one_bytes: usize) -> ErrorCode {
        let (left, in_all) = (self.left_within(ticket, of_one_bytes), self.left_in_all());
        self.worked_bytes = self.worked_bytes.saturating_add(left);
        let held = self.held.entry(ticket & !self.parts).or_default();
        let is_own = of_one_bytes.saturating_sub(held.bytes) <= in_all;
        let why = if is_own {
            ErrorCode::UnknownServerError
        } else {
            ErrorCode::CoordinatorLoadInProgress
        };
        *held.refused.get_or_insert(why)
    }

    /// Bytes of the answers that were made since this was last asked, and of those that were found
    /// to be too large: what the work for them is measured by.
    pub fn take_worked(&mut self) -> usize {
        core::mem::take(&mut self.worked_bytes)
    }

    /// The request was answered, or its connection is gone. Returns what it had taken.
    #[inline]
    pub fn release(&mut self, ticket: Ticket) -> usize {
        if self.held.is_empty() {
            return 0;
        }
        let held = self.held.remove(&(ticket & !self.parts)).unwrap_or_default();
        self.held_bytes -= held.bytes;
        held.bytes
    }

    /// What a request has taken that is not answered.
    #[inline]
    pub fn held_bytes_of(&self, ticket: Ticket) -> usize {
        if self.held.is_empty() { 0 } else { self.held_by(ticket).bytes }
    }

    /// What requests have taken that are not answered.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    fn left_in_all(&self) -> usize {
        self.of_all_bytes.saturating_sub(self.held_bytes.saturating_add(self.unsent_bytes))
    }

    fn held_by(&self, ticket: Ticket) -> Held {
        self.held.get(&(ticket & !self.parts)).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: Ticket = 0xf0;

    #[test]
    fn parts_of_a_request_share_its_bound_and_give_it_back_together() {
        let mut budget = AnswerBudget::new(10, 100, PARTS);
        assert_eq!(budget.take(0x01, 6), Ok(()));
        assert_eq!((budget.left(0x21), budget.left(0x02)), (4, 10));
        assert_eq!(budget.take(0x11, 4), Ok(()));
        assert_eq!(budget.release(0x31), 10);
        assert_eq!((budget.left(0x01), budget.held_bytes()), (10, 0));
    }

    #[test]
    fn a_list_may_take_half_of_all() {
        let mut budget = AnswerBudget::new(10, 100, PARTS);
        assert_eq!(budget.take_of_list(0x01, 40), Ok(()));
        assert_eq!(budget.take_of_list(0x11, 10), Ok(()));
        assert_eq!(budget.take_of_list(0x21, 1), Err(ErrorCode::UnknownServerError));
        assert_eq!(budget.take_of_list(0x02, 45), Ok(()));
        assert_eq!(budget.take_of_list(0x03, 6), Err(ErrorCode::CoordinatorLoadInProgress));
        assert_eq!((budget.release(0x01), budget.release(0x02), budget.held_bytes()), (50, 45, 0));
    }

    #[test]
    fn after_one_part_that_is_refused_all_are() {
        let mut budget = AnswerBudget::new(10, 100, PARTS);
        assert_eq!(budget.take(0x01, 6), Ok(()));
        assert_eq!(budget.take(0x11, 5), Err(ErrorCode::UnknownServerError));
        assert_eq!(budget.take(0x21, 1), Err(ErrorCode::UnknownServerError));
        assert_eq!((budget.left(0x31), budget.left(0x02)), (0, 10));
        assert_eq!((budget.take_worked(), budget.take_worked()), (6 + 4, 0));
        assert_eq!((budget.release(0x01), budget.left(0x01)), (6, 10));
    }

    #[test]
    fn one_large_answer_may_be_asked_for_again_and_many_in_a_turn_may_not() {
        let mut budget = AnswerBudget::new(10, 100, PARTS);
        assert_eq!(budget.take_again(1, 60), Ok(()));
        assert_eq!(budget.take_again(2, 1), Err(ErrorCode::CoordinatorLoadInProgress));
        budget.take_worked();
        assert_eq!(budget.take_again(2, 60), Err(ErrorCode::CoordinatorLoadInProgress));
        assert_eq!((budget.release(1), budget.take_again(2, 60)), (60, Ok(())));
        // What would never pass is not asked for again and again.
        assert_eq!(budget.take_again(3, 101), Err(ErrorCode::UnknownServerError));
    }

    #[test]
    fn what_others_hold_is_an_error_that_passes() {
        let mut budget = AnswerBudget::new(10, 15, PARTS);
        budget.set_unsent(1);
        assert_eq!(budget.take(1, 10), Ok(()));
        assert_eq!(budget.left(2), 4);
        assert_eq!(budget.take(2, 5), Err(ErrorCode::CoordinatorLoadInProgress));
        assert_eq!(budget.refuse(2), ErrorCode::CoordinatorLoadInProgress);
        budget.release(1);
        budget.release(2);
        budget.set_unsent(0);
        assert_eq!(budget.take(2, 5), Ok(()));
    }
}
