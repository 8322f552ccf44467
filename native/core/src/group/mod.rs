//! Groups: the classic group machine and its administration, one file per API verb.
//!
//! [`Machine`] is the state that they share. What a verb decides stands in the verb's file; here is
//! only what every verb needs. Responses leave through the outbox, records through `emit_*`, and
//! durable state changes only where a record is applied (`metadata.rs`, `crate::offset`).

pub mod admin;
pub mod batch;
pub mod classic;
pub mod consistency;
pub mod counters;
pub mod expiration;
pub mod load;
pub mod metadata;
pub mod offset;
pub mod registry;
pub mod replay;
pub mod roster;
pub mod subscription;
pub mod text;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use classic::member::{NO_TICKET, flag};
use classic::rebalance::Rebalance;
use counters::Counters;
use registry::{Group, GroupType, Registry};

use crate::catalogue::Catalogue;
use crate::config::Config;
use crate::error::ErrorCode;
use crate::finding::{Finding, FindingKind, MAX_FINDINGS};
use crate::offset::OffsetTables;
use crate::outbox::Outbox;
use crate::purgatory::DelayedOperation;
use crate::request::Ticket;
use crate::response::Response;
use crate::timer::TimingWheel;

#[derive(Debug)]
pub struct Machine {
    pub config: Config,
    pub registry: Registry,
    pub wheel: TimingWheel<DelayedOperation>,
    pub outbox: Outbox,
    pub counters: Counters,
    pub offsets: OffsetTables,
    /// When the periodic removal of expired offsets and empty groups is due; none before the load.
    pub next_expiration_ms: Option<i64>,
    /// JoinGroups and SyncGroups that wait for other members: ticket to member row.
    parked: BTreeMap<Ticket, u32>,
    /// Offset after the last group tombstone: what is absent now may be in the log until then.
    pub last_tombstone_end: i64,
    /// The topics, once the host has told; none where it has no catalogue.
    pub catalogue: Option<Arc<Catalogue>>,
    /// For the host; see [`crate::finding`].
    findings: VecDeque<Finding>,
    /// Records of types that nobody knows, by type: kept in the log, counted here.
    pub unknown_records: BTreeMap<i16, u64>,
    /// Memory of encoders, reused.
    scratch_key: Vec<u8>,
    scratch_value: Vec<u8>,
}

impl Machine {
    pub fn new(config: Config) -> Self {
        Machine {
            registry: Registry::new(config.hash_seed),
            offsets: OffsetTables::new(config.hash_seed),
            next_expiration_ms: None,
            config,
            wheel: TimingWheel::new(0),
            outbox: Outbox::default(),
            counters: Counters::default(),
            parked: BTreeMap::new(),
            last_tombstone_end: 0,
            catalogue: None,
            findings: VecDeque::new(),
            unknown_records: BTreeMap::new(),
            scratch_key: Vec::new(),
            scratch_value: Vec::new(),
        }
    }

    pub fn group(&self, row: u32) -> &Group {
        &self.registry.groups[row]
    }

    pub fn group_mut(&mut self, row: u32) -> &mut Group {
        &mut self.registry.groups[row]
    }

    /// Its log is still being replayed.
    pub fn is_loading(&self) -> bool {
        self.next_expiration_ms.is_none()
    }

    /// The classic group of this id. `Err` names what is there instead.
    pub fn find_classic(&self, group_id: &str) -> Result<u32, Option<GroupType>> {
        let row = self.registry.find(group_id).ok_or(None)?;
        match self.group(row).group_type {
            GroupType::Classic => Ok(row),
            other => Err(Some(other)),
        }
    }

    /// The soft state of a group, made when it is first needed.
    pub fn rebalance_mut(&mut self, group: u32) -> &mut Rebalance {
        self.group_mut(group).rebalance.get_or_insert_default()
    }

    /// Answers with what the group's records say, once they are durable.
    pub fn respond_for_group(&mut self, group: u32, ticket: Ticket, response: Response) {
        let end_offset = self.group(group).last_record_end;
        self.outbox.respond_when_committed(end_offset, ticket, response);
    }

    /// Answers that a group is not there, once that is durable.
    pub fn respond_for_absent(&mut self, ticket: Ticket, response: Response) {
        self.outbox.respond_when_committed(self.last_tombstone_end, ticket, response);
    }

    /// Counts a finding, and has it told.
    pub fn found(&mut self, group: u32, kind: FindingKind, count: u64, detail: String) {
        self.counters.found(kind, count);
        if self.findings.len() < MAX_FINDINGS {
            let of = &self.registry.groups[group];
            self.findings.push_back(Finding {
                kind,
                group_id: of.id.as_str().into(),
                generation_id: of.generation_id,
                count,
                detail: detail.into(),
            });
        }
    }

    pub fn poll_finding(&mut self) -> Option<Finding> {
        self.findings.pop_front()
    }

    /// Keeps a response open. An earlier one of the same member is never answered: its connection
    /// is assumed dead (states sections 5.4 and 7.1).
    pub fn park(&mut self, member: u32, awaiting: u8, ticket: Ticket) {
        debug_assert!(awaiting == flag::AWAITING_JOIN || awaiting == flag::AWAITING_SYNC);
        self.give_up_parked(member);
        self.parked.insert(ticket, member);
        let (group, row) =
            (self.registry.members[member].group, &mut self.registry.members[member]);
        row.ticket = ticket;
        row.set(awaiting);
        if awaiting == flag::AWAITING_JOIN {
            self.rebalance_mut(group).awaiting_join += 1;
        }
    }

    /// A parked response of a member that was thawed.
    pub fn park_again(&mut self, ticket: Ticket, member: u32) {
        self.parked.insert(ticket, member);
    }

    /// Ends a member's wait without an answer.
    pub fn give_up_parked(&mut self, member: u32) {
        if let Some(ticket) = self.unpark(member) {
            self.outbox.give_up(ticket);
        }
    }

    /// Ends a member's wait, and says who waited, if there is still somebody.
    pub fn unpark(&mut self, member: u32) -> Option<Ticket> {
        let row = &mut self.registry.members[member];
        if !row.has(flag::AWAITING_JOIN | flag::AWAITING_SYNC) {
            return None;
        }
        let (group, was_join) = (row.group, row.has(flag::AWAITING_JOIN));
        row.clear(flag::AWAITING_JOIN | flag::AWAITING_SYNC);
        let ticket = core::mem::replace(&mut row.ticket, NO_TICKET);
        if was_join {
            self.rebalance_mut(group).awaiting_join -= 1;
        }
        self.parked.remove(&ticket);
        (ticket != NO_TICKET).then_some(ticket)
    }

    /// The connection behind tickets is gone: its answers are forgotten, its member stays.
    pub fn abandon(&mut self, tickets: &[Ticket]) {
        let mut decided = BTreeSet::new();
        for ticket in tickets {
            match self.parked.remove(ticket) {
                Some(member) => self.registry.members[member].ticket = NO_TICKET,
                None => {
                    decided.insert(*ticket);
                }
            }
        }
        if !decided.is_empty() {
            self.outbox.forget(&decided);
        }
    }

    /// Refuses all who wait, for members or for a commit.
    pub fn refuse_parked(&mut self, error_code: ErrorCode) -> Vec<(Ticket, Response)> {
        let waiting_for_members = core::mem::take(&mut self.parked).into_keys();
        let dropped = |ticket| (ticket, Response::Dropped(error_code));
        let refused =
            |(ticket, response): (Ticket, Response)| (ticket, response.refused(error_code));
        let waiting_for_commits = self.outbox.drain_parked().map(refused);
        waiting_for_members.map(dropped).chain(waiting_for_commits).collect()
    }
}
