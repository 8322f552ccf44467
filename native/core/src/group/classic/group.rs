//! What a classic group is: its state, its generation, and where its members are.

use kcoord_timer::slab::NO_ROW;

use super::rebalance::Rebalance;
use super::roster::Roster;
use super::state::State;
use crate::group::text::Shared;

/// Who assigns a generation. Never logged: found again when a loaded shard hears of the topics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Assigner {
    /// A member: Kafka's way.
    #[default]
    Leader,
    Coordinator,
    /// The same; a client assigned nevertheless, and that was reported once.
    CoordinatorDisputed,
}

#[derive(Debug)]
pub struct ClassicGroup {
    pub generation_id: i32,
    pub state: State,
    /// KIP-134: a member joined while the initial delay ran. Kafka never resets it otherwise.
    pub new_member_added: bool,
    /// Of the generation that is there.
    pub assigner: Assigner,
    /// Row of the only member, if there is no roster.
    pub(super) sole: u32,
    /// Row of the leader.
    pub leader: u32,
    pub roster: Option<Box<Roster>>,
    pub protocol_type: Option<Shared>,
    pub protocol_name: Option<Shared>,
    /// When it entered its state; -1: unknown (records v0 and v1).
    pub state_timestamp_ms: i64,
    /// Soft state of a rebalance and of ids handed out; none in a group at rest.
    pub rebalance: Option<Box<Rebalance>>,
}

impl Default for ClassicGroup {
    fn default() -> Self {
        ClassicGroup {
            generation_id: 0,
            state: State::Empty,
            new_member_added: false,
            assigner: Assigner::Leader,
            sole: NO_ROW,
            leader: NO_ROW,
            roster: None,
            protocol_type: None,
            protocol_name: None,
            state_timestamp_ms: -1,
            rebalance: None,
        }
    }
}

impl ClassicGroup {
    /// Rows of its members, earliest first.
    pub fn member_rows(&self) -> impl Iterator<Item = u32> + Clone {
        self.places().iter().copied().filter(|row| *row != NO_ROW)
    }

    /// The same, to be asked for again while members change: how many places there are, and who is
    /// at one. Members must not come or go meanwhile.
    pub fn place_count(&self) -> usize {
        self.places().len()
    }

    pub fn member_at(&self, place: usize) -> Option<u32> {
        Some(self.places()[place]).filter(|row| *row != NO_ROW)
    }

    fn places(&self) -> &[u32] {
        match &self.roster {
            Some(roster) => roster.members.places(),
            None => core::slice::from_ref(&self.sole),
        }
    }

    pub fn member_count(&self) -> usize {
        match &self.roster {
            Some(roster) => roster.members.len(),
            None => usize::from(self.sole != NO_ROW),
        }
    }

    pub fn has_members(&self) -> bool {
        self.member_count() > 0
    }

    /// `""` where it has none.
    pub fn protocol_type(&self) -> &str {
        self.protocol_type.as_ref().map_or("", |shared| shared)
    }

    pub fn protocol_name(&self) -> Option<&str> {
        self.protocol_name.as_ref().map(|shared| &***shared)
    }

    /// Whether the coordinator has assigned this generation: it has no leader then.
    pub fn is_assigned_here(&self) -> bool {
        self.assigner != Assigner::Leader
    }

    /// Row of the only member; None if there is none or there are several.
    pub fn sole(&self) -> Option<u32> {
        (self.sole != NO_ROW).then_some(self.sole)
    }
}
