//! What a node wants done.

use crate::{Ask, Entry, Epoch, Incarnation, Shard, Stretch};

/// What a node wants done, in the order in which it was decided. The name of the input that
/// answers it stands with each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read the cluster log from this number on. Answered by `followed`.
    Follow {
        /// The number of the first entry that is not known.
        from: u64,
    },
    /// Put the entry of this number, if there is none. Answered by `entry_put`.
    PutEntry {
        /// Its number.
        index: u64,
        /// What is to stand there.
        entry: Entry,
    },
    /// Ask the node of this incarnation, at the control port that the view names. Answered by
    /// `answered`, or by `refused` where nobody listens, or by nothing.
    Ask {
        /// Whom.
        to: Incarnation,
        /// What.
        ask: Ask,
    },
    /// Put a fence in the journal of this incarnation: see [`crate::FenceSearch`]. Answered by
    /// `fenced`, or `fence_failed`.
    Fence {
        /// Whose journal.
        incarnation: Incarnation,
        /// No fence can be below this number.
        from: u64,
    },
    /// Put a round in the own journal, an empty one if there are no records. Answered by `proved`
    /// or `prove_failed`.
    Prove,
    /// Read what these stretches hold of the shard, in their order. The last one is this node's
    /// own; it ends where its journal does now. Answered by `taken` or `lost`.
    Take {
        /// Which.
        shard: Shard,
        /// Under which epoch it will be led.
        epoch: Epoch,
        /// Who led it before.
        lineage: Vec<Stretch>,
    },
    /// Answer requests of the shard from now on, from what was taken.
    Serve {
        /// Which.
        shard: Shard,
        /// Under which epoch its records are put.
        epoch: Epoch,
    },
    /// Answer no request of the shard any more. Answered by `released`, once no round with records
    /// of it is under way.
    Release {
        /// Which.
        shard: Shard,
        /// Under which epoch it was led.
        epoch: Epoch,
    },
    /// Write a snapshot of a shard that is served, of all rounds that stand. Answered by
    /// `snapshots`, with those that stand then.
    Snapshot {
        /// Which.
        shard: Shard,
        /// Under which epoch it is led.
        epoch: Epoch,
        /// As for `Take`.
        lineage: Vec<Stretch>,
    },
    /// Look which snapshots of the shard stand and can be read. Answered by `snapshots`.
    Look {
        /// Which.
        shard: Shard,
    },
    /// Look which snapshots of the cluster log stand and can be read. Answered by `log_snapshots`.
    LookLog,
    /// Write a snapshot of the cluster log: what the entries below a number amount to. Answered by
    /// `log_snapshots`, with those that stand then.
    SnapshotLog {
        /// Its number.
        index: u64,
        /// See [`crate::View::to_text`].
        text: String,
    },
    /// Delete entries of the cluster log and snapshots of it. Answered by `trimmed`.
    Trim {
        /// The entries up to this number stay.
        head: u64,
        /// And those from this number on, and the snapshots.
        below: u64,
    },
    /// Delete rounds of a journal, some at a time. Answered by `deleted`.
    Delete {
        /// Whose journal.
        incarnation: Incarnation,
        /// The first number that stays.
        below: u64,
    },
}

/// What came of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There was nothing, and now it is there.
    Created,
    /// There was something already: perhaps the same, put by an attempt whose answer was lost.
    Exists,
    /// Not known: it may be there, it may come yet.
    Unknown,
}
