//! An entry of the cluster log that this node wants to put.

use crate::{Change, Entry, Incarnation, Millis, Outcome};

/// At most one entry at a time. Until it is known what stands at its number, the same entry is put
/// there again, and no other anywhere: it may land late.
#[derive(Debug, Default)]
pub(crate) struct Proposal {
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    index: u64,
    entry: Entry,
    put_again_at: Option<Millis>,
}

impl Proposal {
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Begin to put these changes as the entry `index`.
    pub fn begin(&mut self, index: u64, writer: Incarnation, changes: Vec<Change>) -> (u64, Entry) {
        let entry = Entry { writer, changes };
        self.open = Some(Open { index, entry: entry.clone(), put_again_at: None });
        (index, entry)
    }

    /// What came of a put: the entry, if it stands there for certain.
    pub fn answered(&mut self, index: u64, outcome: Outcome, again_at: Millis) -> Option<Entry> {
        let open = self.open.as_mut().filter(|open| open.index == index)?;
        match outcome {
            Outcome::Created => self.open.take().map(|open| open.entry),
            // To be read; and put again, in case it cannot be read.
            Outcome::Exists | Outcome::Unknown => {
                open.put_again_at = Some(again_at);
                None
            }
        }
    }

    /// What to put once more.
    pub fn due(&mut self, now: Millis) -> Option<(u64, Entry)> {
        let open = self.open.as_mut()?;
        open.put_again_at.filter(|&at| at <= now)?;
        open.put_again_at = None;
        Some((open.index, open.entry.clone()))
    }

    /// The log was read up to here: whatever stands at the number, it is decided.
    pub fn read_up_to(&mut self, next_index: u64) {
        if self.open.as_ref().is_some_and(|open| open.index < next_index) {
            self.open = None;
        }
    }
}
