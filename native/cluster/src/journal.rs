//! Writing a journal, and ending that of another.
//!
//! One put at a time. Until it is decided whether a round stands at its number, the same round is
//! put there again, and no other anywhere: it may land late.

use crate::Outcome;

/// What to do next with the round that is being put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The round stands at this number: what is in it counts.
    Durable(u64),
    /// Something stands there. Read it, and say by `read` whether it is the round that was put.
    Read(u64),
    /// Put the same round again, at this number.
    PutAgain(u64),
    /// Another node has fenced this one: nothing of the round counts, and nothing is put any more.
    Fenced(u64),
}

/// The writer of the own journal.
#[derive(Clone, Debug, Default)]
pub struct JournalWriter {
    next: u64,
    is_putting: bool,
    is_fenced: bool,
}

impl JournalWriter {
    /// The writer of a journal that is empty.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of the next round; all below stand.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Whether a round is being put, and it is not decided yet whether it stands.
    pub fn is_putting(&self) -> bool {
        self.is_putting
    }

    /// Where to put a round now; `None` while another one is not decided, and after the end.
    pub fn begin(&mut self) -> Option<u64> {
        if self.is_putting || self.is_fenced {
            return None;
        }
        self.is_putting = true;
        Some(self.next)
    }

    /// What came of the put.
    ///
    /// # Panics
    /// If no round is being put.
    pub fn answered(&mut self, outcome: Outcome) -> Step {
        assert!(self.is_putting, "no round is being put");
        match outcome {
            Outcome::Created => self.stands(),
            Outcome::Exists => Step::Read(self.next),
            Outcome::Unknown => Step::PutAgain(self.next),
        }
    }

    /// What stands at the number is the round that was put, or another.
    ///
    /// # Panics
    /// If no round is being put.
    pub fn read(&mut self, is_own: bool) -> Step {
        assert!(self.is_putting, "no round is being put");
        if is_own {
            return self.stands();
        }
        self.is_putting = false;
        self.is_fenced = true;
        Step::Fenced(self.next)
    }

    fn stands(&mut self) -> Step {
        self.is_putting = false;
        self.next += 1;
        Step::Durable(self.next - 1)
    }
}

/// What was found at a number of a journal that is to be fenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing: the fence stands there now.
    Fenced,
    /// A fence of an earlier attempt, or of another node. None is put behind it: what is behind a
    /// fence counts for some readers only.
    Fence,
    /// A round of its owner.
    Round,
}

/// Puts a fence at the first free number of a journal. Its owner goes on meanwhile; each number
/// is somebody's.
#[derive(Clone, Copy, Debug)]
pub struct FenceSearch {
    at: u64,
}

impl FenceSearch {
    /// All below `from` are rounds: what is known, or listed.
    pub fn new(from: u64) -> Self {
        FenceSearch { at: from }
    }

    /// Where to put the fence now.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// What was found there; the journal's end, once it is known: rounds below it count.
    pub fn found(&mut self, found: Found) -> Option<u64> {
        if found == Found::Round {
            self.at += 1;
            return None;
        }
        Some(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_whose_answer_was_lost_is_put_again_and_found() {
        let mut writer = JournalWriter::new();
        assert_eq!(writer.begin(), Some(0));
        assert_eq!(writer.begin(), None);
        assert_eq!(writer.answered(Outcome::Unknown), Step::PutAgain(0));
        assert_eq!(writer.answered(Outcome::Exists), Step::Read(0));
        assert_eq!(writer.read(true), Step::Durable(0));
        assert_eq!(writer.begin(), Some(1));
        assert_eq!(writer.answered(Outcome::Created), Step::Durable(1));
    }

    #[test]
    fn who_finds_a_fence_puts_nothing_more() {
        let mut writer = JournalWriter::new();
        writer.begin();
        writer.answered(Outcome::Exists);
        assert_eq!(writer.read(false), Step::Fenced(0));
        assert!(!writer.is_putting());
        assert_eq!(writer.begin(), None);
    }

    #[test]
    fn a_fence_goes_to_the_first_free_number_and_never_behind_another() {
        let mut search = FenceSearch::new(4);
        assert_eq!(search.found(Found::Round), None);
        assert_eq!(search.at(), 5);
        assert_eq!(search.found(Found::Fence), Some(5));
        assert_eq!(FenceSearch::new(2).found(Found::Fenced), Some(2));
    }
}
