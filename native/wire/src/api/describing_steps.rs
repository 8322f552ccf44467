//! A description whose bytes are made some at a time. What members brought is the group's own
//! memory, and is copied when it leaves.

use super::describing::{DescribedGroup, encode_operations, encoded_member_bytes};
use crate::in_steps::{InSteps, Spill};
use crate::writer::Writer;

/// What [`encode_group`](super::describing::encode_group) makes at once.
#[derive(Debug)]
pub struct DescribedInSteps<G> {
    version: i16,
    authorized_operations: i32,
    group: Box<G>,
    left: usize,
    next: Next,
    spill: Spill,
}

/// What is made next.
#[derive(Clone, Copy, Debug)]
enum Next {
    Begin,
    /// A step of a member.
    Member(usize, usize),
    /// The bytes behind a step, from here on.
    Shared(usize, usize, usize),
    End,
}

impl<G: DescribedGroup> DescribedInSteps<G> {
    /// All of it.
    pub fn new(version: i16, authorized_operations: i32, group: Box<G>) -> Self {
        let (next, spill) = (Next::Begin, Spill::default());
        let mut steps =
            DescribedInSteps { version, authorized_operations, group, left: 0, next, spill };
        steps.left = steps.encoded_bytes();
        steps
    }

    fn encoded_bytes(&self) -> usize {
        let mut out = Vec::with_capacity(256);
        let group = &*self.group;
        group.begin(&mut self.writer(&mut out), self.version);
        encode_operations::<G>(&mut self.writer(&mut out), self.version, 0);
        let bytes = |member| {
            let bytes = group.member_bytes(member, self.version);
            debug_assert_eq!(bytes, encoded_member_bytes(group, member, self.version));
            bytes
        };
        out.len() + (0..group.member_count()).map(bytes).sum::<usize>()
    }

    fn writer<'a>(&self, out: &'a mut Vec<u8>) -> Writer<'a> {
        Writer::new(out, G::API.spec().is_flexible(self.version))
    }

    /// The member's next step, or the next member, or the end.
    fn behind(&self, member: usize, step: usize) -> Next {
        if step + 1 < G::STEPS {
            return Next::Member(member, step + 1);
        }
        self.member(member + 1)
    }

    fn member(&self, member: usize) -> Next {
        if member < self.group.member_count() { Next::Member(member, 0) } else { Next::End }
    }

    fn encode_next(&mut self, out: &mut Vec<u8>, end: usize) {
        let version = self.version;
        match self.next {
            Next::Begin => {
                self.group.begin(&mut self.writer(out), version);
                self.next = self.member(0);
            }
            Next::Member(member, step) => {
                self.group.encode_step(member, step, &mut self.writer(out), version);
                self.next = Next::Shared(member, step, 0);
            }
            Next::Shared(member, step, at) => {
                let bytes = &self.group.shared(member, step)[at..];
                let taken = bytes.len().min(end - out.len());
                out.extend_from_slice(&bytes[..taken]);
                let is_all = taken == bytes.len();
                let behind = self.behind(member, step);
                self.next = if is_all { behind } else { Next::Shared(member, step, at + taken) };
            }
            Next::End => {
                encode_operations::<G>(&mut self.writer(out), version, self.authorized_operations);
            }
        }
    }
}

impl<G: DescribedGroup + core::fmt::Debug + Send + Sync> InSteps for DescribedInSteps<G> {
    fn left(&self) -> usize {
        self.left
    }

    fn fill(&mut self, out: &mut Vec<u8>, most: usize) {
        let end = out.len() + most;
        self.left -= most;
        self.spill.fill(out, most);
        while out.len() < end {
            self.encode_next(out, end);
        }
        self.spill.take(out, end);
    }
}
