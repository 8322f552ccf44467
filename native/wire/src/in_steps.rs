//! Answers that are encoded some bytes at a time: what is long leaves in parts, and is not made at
//! once.

use core::fmt;

/// Something that is encoded while it is sent.
pub trait InSteps: fmt::Debug + Send + Sync {
    /// Bytes that are to come.
    fn left(&self) -> usize;

    /// Puts the next `most` bytes behind `out`, of which there are as many.
    fn fill(&mut self, out: &mut Vec<u8>, most: usize);
}

/// What was made and had no room.
#[derive(Debug, Default)]
pub(crate) struct Spill {
    bytes: Vec<u8>,
    /// What is before it is gone.
    at: usize,
}

impl Spill {
    /// Puts what there is behind `out`, up to `most` bytes.
    pub fn fill(&mut self, out: &mut Vec<u8>, most: usize) {
        let taken = most.min(self.bytes.len() - self.at);
        out.extend_from_slice(&self.bytes[self.at..self.at + taken]);
        self.at += taken;
    }

    /// Takes what `out` has behind `end`.
    pub fn take(&mut self, out: &mut Vec<u8>, end: usize) {
        if out.len() > end {
            debug_assert_eq!(self.at, self.bytes.len());
            self.bytes = out.split_off(end);
            self.at = 0;
        }
    }
}
