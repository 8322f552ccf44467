//! Commits in transactions that wait for their transaction coordinator: only it knows whether the
//! transaction is open and has this partition in it (KIP-890). The host asks it, and says what it said.

use std::collections::BTreeMap;
use std::mem::take;
use std::sync::Arc;

use kcoord_core::ErrorCode;
use kcoord_core::record::Producer;

use super::{Node, Session};

/// Memory of what waits. COORDINATOR_LOAD_IN_PROGRESS beyond, and producers come back.
const MAX_WAITING_BYTES: usize = 64 << 20;

/// Whether a node serves TxnOffsetCommit and WriteTxnMarkers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transactions {
    /// No: there is no transaction coordinator.
    #[default]
    Unserved,
    /// Yes: whoever commits has asked the transaction coordinator. Up to version 4 of
    /// TxnOffsetCommit, since nobody adds the partition to the transaction.
    Trusted,
    /// Yes: the host asks the transaction coordinator for each [`Verification`].
    Verified,
}

/// What the host is to ask the transaction coordinator, for a TxnOffsetCommit that waits for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verification {
    /// Of the request: the argument of [`Node::verified`].
    pub ticket: u64,
    /// Which transaction coordinator.
    pub transactional_id: Box<str>,
    /// Whose transaction.
    pub producer: Producer,
    /// The partition of `__consumer_offsets`.
    pub shard: usize,
    /// The partition is to be added to the transaction (version 5 and later); else it has to be in it.
    pub adds_partition: bool,
    /// Of TxnOffsetCommit: in version 4 and later TRANSACTION_ABORTABLE is known.
    pub api_version: i16,
}

/// A request whose verdict is not there yet.
#[derive(Debug)]
pub(crate) struct Held {
    pub ticket: u64,
    pub session: Arc<Session>,
    pub frame: Vec<u8>,
    pub shard: usize,
    pub producer: Producer,
    /// None: its transaction may be open. A marker came meanwhile, the shard was led by another, or
    /// the coordinator refused.
    pub refused: Option<ErrorCode>,
}

#[derive(Debug, Default)]
pub(crate) struct Holding {
    pub mode: Transactions,
    /// By ticket.
    waiting: BTreeMap<u64, Held>,
    waiting_bytes: usize,
    decided: Vec<Held>,
}

impl Holding {
    pub fn has_room(&self, bytes: usize) -> bool {
        self.waiting_bytes + bytes <= MAX_WAITING_BYTES
    }

    pub fn hold(&mut self, held: Held) {
        self.waiting_bytes += held.frame.len();
        self.waiting.insert(held.ticket, held);
    }

    /// A marker is on its way: what was not written before it is not of its transaction, and must not
    /// begin another (Kafka's verification guard).
    pub fn outrun(&mut self, shard: usize, marker: Producer) {
        let of_marker = |held: &&mut Held| {
            held.shard == shard
                && held.producer.id == marker.id
                && held.producer.epoch <= marker.epoch
        };
        for held in self.waiting.values_mut().filter(of_marker) {
            held.refused = Some(ErrorCode::InvalidTxnState);
        }
    }

    /// The shard is not led here for a while: whoever leads it may end the transaction, and what the
    /// transaction coordinator says of before counts no more when it is led here again.
    pub fn lose(&mut self, shard: usize) {
        let held = self.waiting.values_mut().chain(&mut self.decided);
        for held in held.filter(|held| held.shard == shard) {
            held.refused = Some(ErrorCode::NotCoordinator);
        }
    }

    /// Those that go on now.
    pub fn take_decided(&mut self) -> Vec<Held> {
        take(&mut self.decided)
    }

    pub fn forget(&mut self, ticket: u64) {
        if let Some(held) = self.waiting.remove(&ticket) {
            self.waiting_bytes -= held.frame.len();
        }
        self.decided.retain(|held| held.ticket != ticket);
    }
}

/// What a transaction coordinator is told: it looks for the partition's leader again, and knows no
/// other error of a coordinator that is not there.
pub(crate) fn told_coordinator(error_code: ErrorCode) -> ErrorCode {
    match error_code {
        ErrorCode::CoordinatorNotAvailable
        | ErrorCode::CoordinatorLoadInProgress
        | ErrorCode::NotCoordinator => ErrorCode::NotLeaderOrFollower,
        error_code => error_code,
    }
}

impl Node {
    /// Whether TxnOffsetCommit and WriteTxnMarkers are served from now on.
    pub fn serve_transactions(&mut self, mode: Transactions) {
        self.holding.mode = mode;
    }

    /// What the transaction coordinator said to a [`Verification`]; `None`: yes. The next step goes on
    /// with the request. A ticket that nobody waits for any more is passed over.
    pub fn verified(&mut self, ticket: u64, refused: Option<ErrorCode>) {
        let Some(mut held) = self.holding.waiting.remove(&ticket) else { return };
        self.holding.waiting_bytes -= held.frame.len();
        held.refused = held.refused.or(refused);
        self.holding.decided.push(held);
    }
}
