//! Deliberate breaks, one at least for each invariant: what proves that the checker can see. Each
//! sits between the node and the world, or in a client; none is in the core.

use std::fmt;

/// What the checker holds true. The name of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invariant {
    /// A partition has one owner in a generation.
    OneOwner,
    /// What the coordinator assigns exists.
    Exists,
    /// An acknowledged offset stays until a later commit, a deletion or its expiry.
    Acknowledged,
    /// No response before its record is durable.
    Durable,
    /// The same seed gives the same trace.
    SameTrace,
    /// A shard that replays the log has what the live one has.
    Replay,
    /// A generation never goes back.
    Generation,
    /// Nor does an epoch of a consumer group, its targets or its members.
    Epoch,
    /// Who is answered as a member is one.
    Member,
    /// Once faults stop, every group comes to rest and serves its members.
    Liveness,
    /// The core's own assertions.
    Panic,
}

impl Invariant {
    pub const fn name(self) -> &'static str {
        match self {
            Invariant::OneOwner => "one-owner",
            Invariant::Exists => "exists",
            Invariant::Acknowledged => "acknowledged",
            Invariant::Durable => "durable",
            Invariant::SameTrace => "same-trace",
            Invariant::Replay => "replay",
            Invariant::Generation => "generation",
            Invariant::Epoch => "epoch",
            Invariant::Member => "member",
            Invariant::Liveness => "liveness",
            Invariant::Panic => "panic",
        }
    }
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The first thing that was seen to be wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub invariant: Invariant,
    pub message: String,
}

pub type Check = Result<(), Violation>;

/// `Err` unless `holds`.
pub fn check(holds: bool, invariant: Invariant, message: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(Violation { invariant, message: message() }) }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// A leader gives its first partition to another member too.
    TwoOwners,
    /// The node believes that every topic has a partition more.
    PhantomPartition,
    /// A crash takes the last batch that was synced along.
    ForgetLastBatch,
    /// A fetch is answered with the offset of before.
    StaleRead,
    /// The node expires offsets in half of the retention.
    ExpireEarly,
    /// The host reports what it has written as durable, and syncs later.
    ReleaseEarly,
    /// The node's entropy differs from run to run.
    OtherEntropy,
    /// A record is written with another client host than the one that is applied.
    MangleRecord,
    /// A JoinGroup is answered with the generation of before.
    StaleGeneration,
    /// A heartbeat of a fenced or unknown member is answered with success.
    ForgiveHeartbeat,
    /// From the calm on, commits of the first shard are not reported.
    SwallowCommits,
    /// A member of the consumer protocol says that it gave partitions up, and reads on.
    ReadsOn,
    /// A member of the consumer protocol is told the epoch of before.
    EarlierEpoch,
    /// A member's record is written with another rack than the one that is applied.
    MangleRack,
    /// From the calm on, members of the consumer protocol are not told what to read.
    SwallowAssignments,
    /// A classic member says that it gave partitions up, and reads on.
    ClassicReadsOn,
    /// A classic group that becomes a consumer group begins with epoch 1.
    BeginAnew,
    /// The record that ends a classic group when it becomes a consumer group is one of another group.
    KeepClassic,
    /// From the calm on, classic members of groups of both protocols are not told to join again.
    SwallowRebalances,
    /// A fetch of stable offsets is answered where a transaction is open.
    ReadUndecided,
    /// A marker that commits is written as one that aborts.
    OtherMarker,
    /// A batch of a transaction is written with another epoch than the one that is applied.
    MangleEpoch,
}

pub const BREAKS: [Break; 22] = [
    Break::TwoOwners,
    Break::PhantomPartition,
    Break::ForgetLastBatch,
    Break::StaleRead,
    Break::ExpireEarly,
    Break::ReleaseEarly,
    Break::OtherEntropy,
    Break::MangleRecord,
    Break::StaleGeneration,
    Break::ForgiveHeartbeat,
    Break::SwallowCommits,
    Break::ReadsOn,
    Break::EarlierEpoch,
    Break::MangleRack,
    Break::SwallowAssignments,
    Break::ClassicReadsOn,
    Break::BeginAnew,
    Break::KeepClassic,
    Break::SwallowRebalances,
    Break::ReadUndecided,
    Break::OtherMarker,
    Break::MangleEpoch,
];

impl Break {
    pub const fn name(self) -> &'static str {
        match self {
            Break::TwoOwners => "two-owners",
            Break::PhantomPartition => "phantom-partition",
            Break::ForgetLastBatch => "forget-last-batch",
            Break::StaleRead => "stale-read",
            Break::ExpireEarly => "expire-early",
            Break::ReleaseEarly => "release-early",
            Break::OtherEntropy => "other-entropy",
            Break::MangleRecord => "mangle-record",
            Break::StaleGeneration => "stale-generation",
            Break::ForgiveHeartbeat => "forgive-heartbeat",
            Break::SwallowCommits => "swallow-commits",
            Break::ReadsOn => "reads-on",
            Break::EarlierEpoch => "earlier-epoch",
            Break::MangleRack => "mangle-rack",
            Break::SwallowAssignments => "swallow-assignments",
            Break::ClassicReadsOn => "classic-reads-on",
            Break::BeginAnew => "begin-anew",
            Break::KeepClassic => "keep-classic",
            Break::SwallowRebalances => "swallow-rebalances",
            Break::ReadUndecided => "read-undecided",
            Break::OtherMarker => "other-marker",
            Break::MangleEpoch => "mangle-epoch",
        }
    }

    pub fn from_name(name: &str) -> Option<Break> {
        BREAKS.into_iter().find(|broken| broken.name() == name)
    }

    /// What must be seen to fail.
    pub const fn breaks(self) -> Invariant {
        match self {
            Break::TwoOwners | Break::ReadsOn | Break::ClassicReadsOn => Invariant::OneOwner,
            Break::PhantomPartition => Invariant::Exists,
            Break::ForgetLastBatch
            | Break::StaleRead
            | Break::ExpireEarly
            | Break::ReadUndecided
            | Break::OtherMarker => Invariant::Acknowledged,
            Break::ReleaseEarly => Invariant::Durable,
            Break::OtherEntropy => Invariant::SameTrace,
            Break::MangleRecord | Break::MangleRack | Break::KeepClassic => Invariant::Replay,
            Break::EarlierEpoch | Break::BeginAnew => Invariant::Epoch,
            Break::StaleGeneration => Invariant::Generation,
            Break::ForgiveHeartbeat => Invariant::Member,
            Break::SwallowCommits
            | Break::SwallowAssignments
            | Break::SwallowRebalances
            | Break::MangleEpoch => Invariant::Liveness,
        }
    }
}
