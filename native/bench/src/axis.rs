//! The table of axes: what can be measured alone, and what counts as one operation of it.
//!
//! Work must be the same in every run, to the last byte: its instructions are counted and compared
//! with those of another commit.

use kcoord_core::assignor::Strategy;

use crate::assigning::Assigning;
use crate::codec::{Codec, NodeBeats, OverNode};
use crate::consumers::{ConsumerBeats, NewTargets};
use crate::groups::{Beats, Commits, Fetches, Joins, ManyBeats, Storm};
use crate::loading::{Kind, Loading};
use crate::rows::AsRows;
use crate::sharded::Sharded;
use crate::timers::{Adding, Cancelling, Expiring, Watching};
use crate::turns::OneTurn;
use crate::work::Work;

pub struct Axis {
    pub name: &'static str,
    pub operation: &'static str,
    /// How many of them there are in a small run: groups, timers, records or partitions.
    pub entries: usize,
    pub make: fn(usize) -> Box<dyn Work>,
}

macro_rules! axis {
    ($name:literal, $operation:literal, $entries:literal, $make:expr) => {
        Axis { name: $name, operation: $operation, entries: $entries, make: |n| Box::new($make(n)) }
    };
}

pub static AXES: [Axis; 51] = [
    axis!("timer-add", "a timer within four seconds", 20_000, Adding::new),
    axis!("timer-cancel", "a timer, in the order of their start", 20_000, Cancelling::new),
    axis!("timer-expire", "a timer, in steps of 10 ms", 20_000, Expiring::new),
    axis!("purgatory-1", "watched and completed, alone under a key", 10_000, |n| {
        Watching::new(n, 1)
    }),
    axis!("purgatory-100", "watched and completed, 100 under a key", 10_000, |n| {
        Watching::new(n, 100)
    }),
    axis!("heartbeat", "a heartbeat, 256 in a batch, groups at random", 2_000, Beats::new),
    axis!("heartbeat-many", "the same, without tickets: codes back", 2_000, ManyBeats::new),
    axis!("consumer-heartbeat", "the same, of consumer groups", 2_000, ConsumerBeats::new),
    axis!("join-sync", "a new group of one: joined, synced, recorded", 1_000, Joins::new),
    axis!("storm", "a group of one that gets a member: until stable", 500, Storm::new),
    axis!("commit-1", "a commit of one partition, recorded", 1_000, |n| Commits::new(n, 1)),
    axis!("commit-5", "a commit of five partitions, recorded", 1_000, |n| Commits::new(n, 5)),
    axis!("fetch-5", "a fetch of five offsets", 2_000, |n| Fetches::new(n, 5)),
    axis!("sharded-commit-1", "a commit of one partition, 50 shards", 1_000, |n| {
        Sharded::commits(n, 1)
    }),
    axis!("sharded-commit-5", "the same, of five partitions", 1_000, |n| Sharded::commits(n, 5)),
    axis!("sharded-fetch-5", "a fetch of five offsets, 50 shards", 2_000, |n| {
        Sharded::fetches(n, 5)
    }),
    axis!("turn-join", "a turn: the last join of a rebalance, 20 KB a member", 400, OneTurn::joins),
    axis!("turn-delete", "a turn: a group of many offsets is deleted", 30_000, OneTurn::deletes),
    axis!("turn-fetch", "a turn: all of many offsets, ten times", 10_000, OneTurn::fetches),
    axis!("turn-fetch-one", "a turn: all of many offsets, once", 300_000, OneTurn::fetches_once),
    axis!("turn-expire", "a turn: a group of many offsets is expired", 30_000, OneTurn::expires),
    axis!("turn-topic", "a turn: the topic of many offsets was deleted", 30_000, |n| {
        OneTurn::deletes_topic(n)
    }),
    axis!("turn-names", "a turn: a request of many names arrives", 100_000, OneTurn::names),
    axis!("turn-describe", "a turn: so many bytes of a group are described", 8_000_000, |n| {
        OneTurn::describes(n)
    }),
    axis!("turn-describe-many", "a turn: so many members of a group are described", 10_000, |n| {
        OneTurn::describes_consumers(n)
    }),
    axis!("turn-target", "a turn: new targets of 500,000 partitions are asked for", 10_000, |n| {
        OneTurn::asks_for_targets(n)
    }),
    axis!("turn-target-write", "a turn: the first of all targets of a group", 10_000, |n| {
        OneTurn::writes_targets(n)
    }),
    axis!("load-commits", "a record of a log of commits", 10_000, |n| {
        Loading::new(n, Kind::Commits)
    }),
    axis!("load-groups", "a record of a log of groups of one", 2_000, |n| {
        Loading::new(n, Kind::Groups)
    }),
    axis!("load-consumers", "a record of a log of consumer groups of one", 2_000, |n| {
        Loading::new(n, Kind::Consumers)
    }),
    axis!("targets-100", "a member of 100 partitions: a new target, written", 500, |n| {
        NewTargets::new(n, 100)
    }),
    axis!("targets-50", "the same, of 50 partitions", 500, |n| NewTargets::new(n, 50)),
    axis!("codec-heartbeat", "a request read, its answer written", 5_000, Codec::heartbeats),
    axis!("codec-commit-5", "the same, of five partitions", 2_000, Codec::commits),
    axis!("codec-fetch-5", "the same, of five offsets", 2_000, Codec::fetches),
    axis!("node-heartbeat", "from frame to frame, 50 shards", 2_000, OverNode::heartbeats),
    axis!("node-heartbeat-many", "without frames, 50 shards", 2_000, NodeBeats::new),
    axis!("node-commit-1", "from frame to frame, of one partition", 1_000, |n| {
        OverNode::commits(n, 1)
    }),
    axis!("node-commit-5", "the same, of five partitions", 1_000, |n| OverNode::commits(n, 5)),
    axis!("node-fetch-5", "the same, of five offsets", 1_000, OverNode::fetches),
    axis!("rows-heartbeat", "a row of an Arrow batch, and its answer", 2_000, AsRows::heartbeats),
    axis!("rows-commit-1", "the same, of one partition, recorded", 1_000, AsRows::commits),
    axis!("rows-commit-alone", "the same, each at a time of its own", 1_000, |n| {
        AsRows::commits(n).apart()
    }),
    axis!("range", "a partition, all members subscribe alike", 20_000, |n| {
        Assigning::new(Strategy::Range, n, false)
    }),
    axis!("roundrobin", "a partition, all members subscribe alike", 20_000, |n| {
        Assigning::new(Strategy::RoundRobin, n, false)
    }),
    axis!("sticky", "a partition, subscriptions differ, one member more", 10_000, |n| {
        Assigning::new(Strategy::Sticky, n, true)
    }),
    axis!("cooperative", "a partition, all alike, one member more", 20_000, |n| {
        Assigning::new(Strategy::CooperativeSticky, n, false)
    }),
    axis!("cooperative-differ", "a partition, subscriptions differ, one more", 10_000, |n| {
        Assigning::new(Strategy::CooperativeSticky, n, true)
    }),
    axis!("uniform", "a partition, all alike, one member more", 20_000, |n| {
        Assigning::new(Strategy::Uniform, n, false)
    }),
    axis!("uniform-differ", "a partition, subscriptions differ, one more", 10_000, |n| {
        Assigning::new(Strategy::Uniform, n, true)
    }),
    axis!("server-range", "a partition, all members subscribe alike", 20_000, |n| {
        Assigning::new(Strategy::ServerRange, n, false)
    }),
];
