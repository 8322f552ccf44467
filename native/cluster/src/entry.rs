//! An entry of the cluster log: what changed together.

use crate::{Epoch, Incarnation, NodeId, Shard};

/// An entry of the cluster log. Two entries are the same put if they are equal: a writer is one
/// process, and puts a second entry at a number only if it is the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Who put it.
    pub writer: Incarnation,
    /// What changed, in this order.
    pub changes: Vec<Change>,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The number of shards, once and for good.
    Shards(u32),
    /// A node has begun to be the controller, in the next term.
    Controller {
        /// Counts the controllers, from 1.
        term: u64,
        /// Who it is.
        incarnation: Incarnation,
    },
    /// A node has come.
    Join {
        /// Its process.
        incarnation: Incarnation,
        /// Its id and addresses.
        seat: Seat,
    },
    /// A node leads nothing any more: its journal has a fence.
    Gone {
        /// Its process.
        incarnation: Incarnation,
        /// Where the fence stands. What it put below counts.
        end: u64,
    },
    /// Who leads a shard from now on.
    Lead {
        /// Which.
        shard: Shard,
        /// Who.
        incarnation: Incarnation,
        /// One more than the last.
        epoch: Epoch,
        /// None of its records are below this number of the new leader's journal.
        from: u64,
        /// Where the leader before has ended by itself; `None` if there is none, or it is gone.
        end: Option<u64>,
    },
    /// Rounds of a journal are not needed any more: they may be deleted from now on. Nothing reads
    /// them, and no fence is searched there.
    Pruned {
        /// Whose journal.
        incarnation: Incarnation,
        /// The first number that stays: the journal's floor.
        below: u64,
        /// What was in them.
        kept: Vec<Kept>,
    },
    /// An operator wants a shard on a node, whenever that is there.
    Pin {
        /// Which.
        shard: Shard,
        /// Where; `None`: wherever the controller likes, as before.
        node_id: Option<NodeId>,
    },
    /// From here on entries of the cluster log go, once they are in snapshots of it. Those up to
    /// this one stay for good.
    Trims,
    /// An operator wants a node to lead nothing, or to lead again.
    Drain {
        /// Which.
        node_id: NodeId,
        /// Whether it is to lead nothing.
        is_drained: bool,
    },
}

/// Records that are in snapshots alone: who takes the shard needs one that has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Of which shard.
    pub shard: Shard,
    /// In which epoch they were put.
    pub epoch: Epoch,
    /// They are in rounds below this number.
    pub below: u64,
}

/// Where a node is. Hosts have no white space in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seat {
    /// Kafka's `node.id`.
    pub node_id: NodeId,
    /// For clients.
    pub host: String,
    /// For clients.
    pub port: u16,
    /// For the other nodes.
    pub control_host: String,
    /// For the other nodes.
    pub control_port: u16,
}

impl Seat {
    /// Whether two processes of a node cannot be here both, as clients reach one of them there.
    pub(crate) fn is_at(&self, other: &Seat) -> bool {
        (self.node_id, &self.host, self.port) == (other.node_id, &other.host, other.port)
    }
}
