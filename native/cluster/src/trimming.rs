//! Which entries of the cluster log nobody needs any more.
//!
//! A snapshot of the log is what the entries below its number amount to; a node begins with the
//! newest one. The controller writes them, and deletes the entries that are in the last but one, so
//! that one of two may turn out to be unreadable.
//!
//! An entry is put where there is none. Where one was deleted, there is none: who takes that for the
//! log's end puts what nobody reads. So entries go `trim_ms` after a newer snapshot was seen, and
//! who has not read the log's end within `behind_ms` does not trust what it reads or puts
//! ([`crate::Stop::Behind`]). The entries up to [`Change::Trims`] stay: a program that does not know
//! of all this ends there.

use crate::{Action, Change, Millis, Settings, View};

/// After so long what the store did not answer is asked again, and what it did not do.
const SILENCE_MS: Millis = 10_000;
const FAILED_MS: Millis = 1_000;

/// Of a controller, from its beginning.
#[derive(Debug, Default)]
pub(crate) struct Trimming {
    /// The newest two snapshots that can be read, the newest first.
    known: Option<Vec<u64>>,
    /// When the newest was seen first.
    since: Millis,
    /// The store was asked, and not again before then.
    again_at: Option<Millis>,
    /// The entries below are deleted, or are being.
    below: u64,
    is_trimming: bool,
}

impl Trimming {
    /// The snapshots that stand and can be read, the newest first; `None`: not known.
    pub fn snapshots(&mut self, now: Millis, indices: Option<&[u64]>) {
        self.again_at = Some(now + FAILED_MS);
        let Some(indices) = indices else { return };
        self.again_at = None;
        let newest = self.known.as_ref().and_then(|known| known.first());
        if newest != indices.first() {
            self.since = now;
        }
        self.known = Some(indices.to_vec());
    }

    /// Some entries were deleted, or none could be; `is_done`: there are no more.
    pub fn trimmed(&mut self, now: Millis, is_done: bool) {
        self.again_at = (!is_done).then_some(now + FAILED_MS);
        self.is_trimming &= !is_done;
    }

    /// Ask for what is due.
    pub fn tick(
        &mut self,
        now: Millis,
        view: &View,
        settings: &Settings,
        actions: &mut Vec<Action>,
    ) {
        let index = view.next_index();
        let Some(head) = view.trims().filter(|_| index >= settings.log_entries) else { return };
        if self.again_at.is_some_and(|at| now < at) {
            return;
        }
        let action = match self.known.as_deref() {
            None => Action::LookLog,
            Some(&[_, second, ..]) if second > self.below.max(head + 1) || self.is_trimming => {
                if now < self.since + settings.trim_ms {
                    return;
                }
                self.below = second;
                self.is_trimming = true;
                Action::Trim { head, below: second }
            }
            Some(known) => {
                if index < known.first().copied().unwrap_or(0) + settings.log_entries {
                    return;
                }
                Action::SnapshotLog { index, text: view.to_text() }
            }
        };
        self.again_at = Some(now + SILENCE_MS);
        actions.push(action);
    }

    /// What is to be put in the cluster log, so that entries behind it can go.
    pub fn changes(view: &View, settings: &Settings) -> Vec<Change> {
        let is_due = view.trims().is_none() && view.next_index() >= settings.log_entries;
        if is_due { vec![Change::Trims] } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Entry;

    fn grow(view: &mut View, entries: u64) {
        for _ in 0..entries {
            let changes = Trimming::changes(view, &settings());
            view.apply(&Entry { writer: 1, changes }).expect("an entry that can stand");
        }
    }

    fn settings() -> Settings {
        Settings { log_entries: 10, trim_ms: 1_000, ..Settings::default() }
    }

    fn due(trimming: &mut Trimming, now: Millis, view: &View) -> Option<Action> {
        let mut actions = Vec::new();
        trimming.tick(now, view, &settings(), &mut actions);
        assert!(actions.len() <= 1);
        actions.pop()
    }

    #[test]
    fn entries_go_that_are_in_the_last_but_one_of_snapshots_that_are_old() {
        let (mut view, mut trimming) = (View::default(), Trimming::default());
        grow(&mut view, 10);
        assert_eq!(due(&mut trimming, 0, &view), None); // nothing tells older programs yet
        grow(&mut view, 1);
        assert_eq!(view.trims(), Some(10));
        assert_eq!(due(&mut trimming, 0, &view), Some(Action::LookLog));
        assert_eq!(due(&mut trimming, 1, &view), None); // it is asked once
        trimming.snapshots(2, Some(&[]));
        let snapshot = |view: &View| {
            let (index, text) = (view.next_index(), view.to_text());
            Some(Action::SnapshotLog { index, text })
        };
        assert_eq!(due(&mut trimming, 3, &view), snapshot(&view));
        trimming.snapshots(4, Some(&[11]));
        grow(&mut view, 9);
        assert_eq!(due(&mut trimming, 5, &view), None);
        grow(&mut view, 1);
        assert_eq!(due(&mut trimming, 6, &view), snapshot(&view));
        trimming.snapshots(7, Some(&[21, 11])); // none stands between the head and 11
        grow(&mut view, 10);
        assert_eq!(due(&mut trimming, 8, &view), snapshot(&view));
        trimming.snapshots(9, Some(&[31, 21]));
        grow(&mut view, 10);
        assert_eq!(due(&mut trimming, 1_008, &view), None);
        assert_eq!(due(&mut trimming, 1_009, &view), Some(Action::Trim { head: 10, below: 21 }));
        trimming.trimmed(1_009, true);
        assert_eq!(due(&mut trimming, 1_010, &view), snapshot(&view));
    }

    #[test]
    fn what_the_store_does_not_do_is_asked_again() {
        let (mut view, mut trimming) = (View::default(), Trimming::default());
        grow(&mut view, 11);
        assert_eq!(due(&mut trimming, 0, &view), Some(Action::LookLog));
        assert_eq!(due(&mut trimming, SILENCE_MS - 1, &view), None);
        assert_eq!(due(&mut trimming, SILENCE_MS, &view), Some(Action::LookLog));
        trimming.snapshots(SILENCE_MS, None);
        let failed = SILENCE_MS + FAILED_MS;
        assert_eq!(due(&mut trimming, failed - 1, &view), None);
        assert_eq!(due(&mut trimming, failed, &view), Some(Action::LookLog));
        trimming.snapshots(failed, Some(&[31, 21]));
        let trim = Some(Action::Trim { head: 10, below: 21 });
        let now = failed + 1_000;
        assert_eq!(due(&mut trimming, now, &view), trim);
        trimming.trimmed(now, false);
        assert_eq!(due(&mut trimming, now + FAILED_MS, &view), trim);
    }
}
