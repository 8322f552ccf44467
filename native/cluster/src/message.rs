//! What a controller and a node say to each other.

use crate::{Epoch, Incarnation, Shard};

/// What a controller says to each node, again and again. Nothing depends on an earlier one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// The controller's term. A node obeys none that is older than what it knows.
    pub term: u64,
    /// Counts the asks of this controller; an answer names it.
    pub number: u64,
    /// The next number of the cluster log, as far as the controller knows.
    pub next_index: u64,
    /// What to give up, so that it can be led elsewhere: shard, and the epoch it is led in.
    pub release: Vec<(Shard, Epoch)>,
}

/// A shard that a node has given up on demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Released {
    /// Which.
    pub shard: Shard,
    /// In which epoch it was led.
    pub epoch: Epoch,
    /// Its records are below this number of the journal.
    pub end: u64,
}

/// What a node answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Who answers: another than was asked, where a node was started again.
    pub incarnation: Incarnation,
    /// The ask's number.
    pub number: u64,
    /// The newest term that the node knows. If the ask's is older, it was not obeyed.
    pub term: u64,
    /// The next number of its journal.
    pub journal_next: u64,
    /// Whether it has heard of the store lately.
    pub is_healthy: bool,
    /// Whether it wants to end: it is to lead nothing.
    pub leaves: bool,
    /// What it has given up, until the cluster log says who leads it next.
    pub released: Vec<Released>,
}
