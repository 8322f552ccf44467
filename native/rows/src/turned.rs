//! The rows of one turn, by ticket: which were answered, and what each had asked.

use std::ops::Range;

use super::{Asked, Source, Waiting};

pub struct Turned<'s, S> {
    pub first_ticket: u64,
    pub range: Range<usize>,
    source: &'s S,
    /// Or never to be.
    answered: Vec<bool>,
}

impl<'s, S: Source> Turned<'s, S> {
    /// `memory`: of an earlier turn, to be used again.
    pub fn new(first_ticket: u64, source: &'s S, range: Range<usize>, memory: Vec<bool>) -> Self {
        let mut answered = memory;
        answered.clear();
        answered.resize(range.len(), false);
        Turned { first_ticket, range, source, answered }
    }

    /// Ends it; gives back its memory.
    pub fn into_memory(self) -> Vec<bool> {
        self.answered
    }

    /// The row of this ticket came in an earlier turn.
    pub fn began_before(&self, ticket: u64) -> bool {
        ticket < self.first_ticket
    }

    /// What was asked under a ticket, which is answered now.
    pub fn asked<'a>(&mut self, ticket: u64, waiting: Option<&'a Waiting>) -> Asked<'a>
    where
        's: 'a,
    {
        if let Some(waiting) = waiting {
            return Asked {
                seq: waiting.seq,
                group_id: &waiting.group_id,
                member_id: waiting.member_id.as_deref(),
                api_key: waiting.api_key,
                api_version: waiting.api_version,
                generation: waiting.generation,
            };
        }
        let at = self.place(ticket).expect("the answer to a row of this turn");
        assert!(!core::mem::replace(&mut self.answered[at], true), "two answers to one row");
        self.source.asked(self.range.start + at)
    }

    /// No answer to this ticket will come.
    pub fn give_up(&mut self, ticket: u64) {
        if let Some(at) = self.place(ticket) {
            self.answered[at] = true;
        }
    }

    /// The number of the row of a ticket, if it is of this turn.
    pub fn seq(&self, ticket: u64) -> Option<i64> {
        self.place(ticket).map(|at| self.source.seq(self.range.start + at))
    }

    fn place(&self, ticket: u64) -> Option<usize> {
        let at = ticket.checked_sub(self.first_ticket)? as usize;
        (at < self.range.len()).then_some(at)
    }

    /// The rows that wait on.
    pub fn unanswered(&self) -> impl Iterator<Item = (u64, Asked<'s>)> + '_ {
        let left = self.answered.iter().enumerate().filter(|(_, answered)| !**answered);
        left.map(|(at, _)| {
            (self.first_ticket + at as u64, self.source.asked(self.range.start + at))
        })
    }
}
