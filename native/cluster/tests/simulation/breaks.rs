//! Deliberate breaks, each between a node and the world: what proves that the checks can see.

/// What is held true. The name of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invariant {
    /// A read shows at least what was acknowledged before it was asked.
    Linear,
    /// Who begins to lead a shard has everything that was acknowledged under older epochs.
    Acknowledged,
    /// Nobody answers a shard in an older epoch once it was answered in a newer one.
    OneLeader,
    /// No record stands in the log of an epoch that had ended.
    Epoch,
    /// Nothing stands behind a fence.
    Closed,
    /// No node obeys a controller that is older than one it obeyed.
    Term,
    /// Once faults stop, every shard is served.
    Liveness,
    /// Once faults stop, what is not needed any more goes.
    Bounded,
    /// Once faults stop, shards are where operators want them, and nowhere where they do not.
    Placed,
    /// An entry of the cluster log can stand where it stands.
    View,
}

/// The first thing that was seen to be wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub invariant: Invariant,
    pub at: u64,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// The end of a journal is looked up, and no fence is put.
    NoFence,
    /// Who finds a fence puts another behind it.
    SecondFence,
    /// A fence goes with the rounds below it.
    FencePruned,
    /// A node answers whenever it believes that it leads.
    ServeWithoutLease,
    /// A lease counts from the answer of the proof.
    LeaseFromAnswerTime,
    /// A new leader does not wait for the lease of the one before.
    NoWait,
    /// A commit is acknowledged once its round is being put.
    AckBeforePut,
    /// A put whose answer was lost is taken for done.
    LostAnswerIsSuccess,
    /// A shard is handed over while a round of it is under way.
    ReleaseEarly,
    /// A shard that was given up is answered until the cluster log says who leads it next.
    ReadsWhileReleased,
    /// A node that starts does not read what operators have wanted before.
    WishesForgotten,
    /// A node obeys every controller.
    OldTermObeyed,
    /// A fence in the gap that deleted rounds have left is taken for the end of the journal.
    FenceBelowFloor,
    /// Rounds go that are in one snapshot.
    PruneWithOneSnapshot,
    /// Rounds are deleted before the cluster log says so.
    DeleteBeforeEntry,
    /// Entries of the cluster log go as soon as they are in two snapshots.
    TrimAtOnce,
    /// Entries go that are in one snapshot.
    TrimWithOneSnapshot,
    /// Who has not read the cluster log for long trusts what it reads then.
    BehindGoesOn,
}

pub const BREAKS: [Break; 18] = [
    Break::NoFence,
    Break::SecondFence,
    Break::FencePruned,
    Break::ServeWithoutLease,
    Break::LeaseFromAnswerTime,
    Break::NoWait,
    Break::AckBeforePut,
    Break::LostAnswerIsSuccess,
    Break::ReleaseEarly,
    Break::ReadsWhileReleased,
    Break::WishesForgotten,
    Break::OldTermObeyed,
    Break::FenceBelowFloor,
    Break::PruneWithOneSnapshot,
    Break::DeleteBeforeEntry,
    Break::TrimAtOnce,
    Break::TrimWithOneSnapshot,
    Break::BehindGoesOn,
];
