//! Consumer groups (KIP-848): the coordinator decides who reads what, and brings each member there
//! at its own pace.
//!
//! Decide, emit, apply, without exception: a handler reads, emits records, and each record changes
//! the group where it is applied (`apply.rs`), live and in replay alike. Soft are timers, and
//! which topics were looked at last. One file per subject: `heartbeat.rs` is the way of a request.

mod apply;
mod at_rest;
mod classic_assignment;
mod classic_join;
mod classic_leave;
mod classic_member;
pub mod classic_timers;
pub mod client;
pub mod computing;
mod consistency;
mod describe;
mod downgrade;
mod emit;
mod ending;
mod fence;
mod flat;
mod heartbeat;
mod leave;
mod located;
pub mod member;
mod member_id;
mod metadata_hash;
mod offsets;
mod owned;
mod pattern;
mod preferred_assignor;
mod re2;
pub mod reconcile;
mod reconciling;
mod records;
mod regexes;
mod registry;
mod regular_expressions;
mod replay;
mod rows;
mod search;
mod settings;
mod static_member;
pub mod subscription;
mod target;
mod telling;
mod timers;
mod topics;
mod update;
mod upgrade;
mod validate;
mod view;

use std::collections::BTreeMap;

use kcoord_timer::slab::Slab;

use computing::Computing;
use member::Member;
use owned::Owned;
use regexes::Regexes;
use rows::Rows;
use subscription::TopicNames;

/// A new group's epochs: nothing was assigned yet.
pub const FIRST_EPOCH: i32 = 1;

/// As ConsumerGroupDescribe and ListGroups name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsumerGroupState {
    Empty,
    /// A newer target is due.
    Assigning,
    /// Some member is not yet where its target says.
    Reconciling,
    Stable,
}

impl ConsumerGroupState {
    pub const ALL: [ConsumerGroupState; 4] = [
        ConsumerGroupState::Empty,
        ConsumerGroupState::Assigning,
        ConsumerGroupState::Reconciling,
        ConsumerGroupState::Stable,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            ConsumerGroupState::Empty => "Empty",
            ConsumerGroupState::Assigning => "Assigning",
            ConsumerGroupState::Reconciling => "Reconciling",
            ConsumerGroupState::Stable => "Stable",
        }
    }
}

/// What a heartbeat reads comes first, and is one cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct ConsumerGroup {
    /// Rows of its members, by id.
    pub members: Rows,
    /// Which topics its hash was last compared with; 0: none.
    pub seen_topics: u64,
    /// Version of its subscriptions.
    pub group_epoch: i32,
    /// Of the targets that members have.
    pub assignment_epoch: i32,
    pub regexes: Regexes,
    /// New targets on their way.
    computing: Option<Box<Computing>>,
    /// See [`classic_count`](Self::classic_count).
    classic_members: u32,
    /// The log has a record of type 4, which Kafka wrote up to 4.0.
    pub has_partition_metadata: bool,
    /// Of the topics that it subscribes to and that exist.
    pub metadata_hash: i64,
    /// When the targets were computed; 0: never.
    pub assignment_timestamp_ms: i64,
    pub static_members: BTreeMap<Box<str>, u32>,
    /// Lists of topics that members subscribe to by name, and how many members have each.
    pub subscriptions: Vec<(TopicNames, u32)>,
    /// Assignors that members name, and how many members name each.
    assignor_votes: Vec<(Box<str>, u32)>,
    /// Partitions that members have or have yet to give up; none until it is needed.
    owned: Option<Box<Owned>>,
}

impl Default for ConsumerGroup {
    fn default() -> Self {
        ConsumerGroup {
            group_epoch: FIRST_EPOCH,
            metadata_hash: 0,
            assignment_epoch: FIRST_EPOCH,
            assignment_timestamp_ms: 0,
            members: Rows::default(),
            static_members: BTreeMap::new(),
            classic_members: 0,
            subscriptions: Vec::new(),
            regexes: Regexes::default(),
            assignor_votes: Vec::new(),
            has_partition_metadata: false,
            owned: None,
            seen_topics: 0,
            computing: None,
        }
    }
}

impl ConsumerGroup {
    pub fn find(&self, members: &Slab<Member>, member_id: &str) -> Option<u32> {
        let id = |row: u32| members[row].id.as_bytes();
        if let [row] = self.members[..] {
            return (id(row) == member_id.as_bytes()).then_some(row);
        }
        let at = self.members.binary_search_by(|row| id(*row).cmp(member_id.as_bytes()));
        at.ok().map(|at| self.members[at])
    }

    /// Row of the only member; `None` if there is none or there are several.
    pub fn sole(&self) -> Option<u32> {
        if let [row] = self.members[..] { Some(row) } else { None }
    }

    /// Whether new targets are on their way.
    pub fn is_computing(&self) -> bool {
        self.computing.is_some()
    }

    /// How many of its members use JoinGroup and SyncGroup.
    pub fn classic_count(&self) -> usize {
        self.classic_members as usize
    }

    pub fn state(&self, members: &Slab<Member>) -> ConsumerGroupState {
        let is_reconciled = |row: &u32| members[*row].is_reconciled_to(self.assignment_epoch);
        if self.members.is_empty() {
            ConsumerGroupState::Empty
        } else if self.group_epoch > self.assignment_epoch {
            ConsumerGroupState::Assigning
        } else if self.members.iter().all(is_reconciled) {
            ConsumerGroupState::Stable
        } else {
            ConsumerGroupState::Reconciling
        }
    }
}
