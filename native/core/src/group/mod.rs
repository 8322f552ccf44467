//! Groups: their kinds, the classic group machine, and administration, one file per API verb.
//!
//! [`Machine`] is the state that they share. What a verb decides stands in the verb's file; here is
//! only what every verb needs. Responses leave through the outbox, records through `emit_*`, and
//! durable state changes only where a record is applied (`classic/metadata.rs`, `crate::offset`).
//! Where the kind of a group matters, `kind.rs` is asked.

pub mod admin;
pub mod batch;
pub mod classic;
pub mod consistency;
pub mod consumer;
pub mod counters;
pub mod expiration;
pub mod foreign;
pub mod kind;
pub mod load;
pub mod offset;
pub mod registry;
pub mod replay;
pub mod sweep;
pub mod telling;
pub mod text;
pub mod watching;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use classic::group::ClassicGroup;
use classic::member::NO_TICKET;
use classic::storm::Storm;
use consumer::classic_timers::ClassicTimers;
use consumer::computing::TargetJobs;
use counters::Counters;
use foreign::KeptRecords;
use kcoord_timer::TimingWheel;
use kind::Group;
use registry::Registry;

use crate::budget::AnswerBudget;
use crate::catalogue::{Catalogue, CatalogueChange};
use crate::config::Config;
use crate::delayed::DelayedOperation;
use crate::error::ErrorCode;
use crate::event::Events;
use crate::group_configs::GroupConfigs;
use crate::offset::OffsetTables;
use crate::outbox::Outbox;
use crate::request::Ticket;
use crate::response::Response;

#[derive(Debug)]
pub struct Machine {
    pub config: Config,
    /// Of single consumer groups.
    pub group_configs: Arc<GroupConfigs>,
    pub registry: Registry,
    pub wheel: TimingWheel<DelayedOperation>,
    pub outbox: Outbox,
    /// Of the node, while it lets this shard work.
    pub budget: AnswerBudget,
    pub counters: Counters,
    pub offsets: OffsetTables,
    /// When the periodic removal of expired offsets and empty groups is due; none before the load.
    pub next_expiration_ms: Option<i64>,
    /// Where it goes on, if it has begun and is not done.
    pub expiring: Option<sweep::Sweep>,
    /// JoinGroups and SyncGroups that wait for other members: ticket to member row.
    parked: BTreeMap<Ticket, u32>,
    /// Of classic members in consumer groups, by member row.
    classic_timers: BTreeMap<u32, ClassicTimers>,
    /// Members of consumer groups whose refusal was told, by row: the epoch with which they came.
    fenced_epochs: BTreeMap<u32, i32>,
    /// Targets of consumer groups that are being computed.
    pub target_jobs: TargetJobs,
    /// Offset after the last group tombstone: what is absent now may be in the log until then.
    pub last_tombstone_end: i64,
    /// The topics, once the host has given them; none where it has no catalogue.
    pub catalogue: Option<Arc<Catalogue>>,
    /// Counts the topics' changes, from 1, so that a group can tell whether it has seen them.
    pub topics_version: u64,
    /// The last at which topics were there that had not been.
    pub topics_created_version: u64,
    /// For the host.
    pub events: Events,
    /// What events say beyond the moment.
    pub watching: watching::Watching,
    /// Newcomers that wait, and members whose removal is put off.
    storm: Storm,
    /// Records of unknown types, by type.
    pub unknown_records: BTreeMap<i16, u64>,
    /// The last of them for each key: not interpreted, and kept.
    pub kept_records: KeptRecords,
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
            expiring: None,
            group_configs: Arc::default(),
            config,
            wheel: TimingWheel::new(0),
            outbox: Outbox::default(),
            budget: AnswerBudget::default(),
            counters: Counters::default(),
            parked: BTreeMap::new(),
            classic_timers: BTreeMap::new(),
            fenced_epochs: BTreeMap::new(),
            target_jobs: TargetJobs::default(),
            last_tombstone_end: 0,
            catalogue: None,
            topics_version: 1,
            topics_created_version: 1,
            events: Events::default(),
            watching: watching::Watching::default(),
            storm: Storm::default(),
            unknown_records: BTreeMap::new(),
            kept_records: KeptRecords::new(),
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

    /// The classic group in a row.
    pub fn classic(&self, row: u32) -> &ClassicGroup {
        self.registry.classic(row)
    }

    pub fn classic_mut(&mut self, row: u32) -> &mut ClassicGroup {
        self.registry.classic_mut(row)
    }

    /// The classic group of this id. `Err` has the row of what is there instead.
    pub fn find_classic(&self, group_id: &str) -> Result<u32, Option<u32>> {
        let row = self.registry.find(group_id).ok_or(None)?;
        match self.group(row).as_classic() {
            Some(_) => Ok(row),
            None => Err(Some(row)),
        }
    }

    /// The topics that exist, whole, at each change of them.
    pub fn topics_changed(&mut self, now_ms: i64, change: &CatalogueChange) {
        let own;
        let change = if change.is_from(self.catalogue.as_ref()) {
            change
        } else {
            own = CatalogueChange::between(self.catalogue.as_ref(), change.now());
            &own
        };
        let old = self.catalogue.replace(Arc::clone(change.now()));
        if change.is_any {
            self.topics_version += 1;
        }
        if change.has_new {
            self.topics_created_version = self.topics_version;
        }
        if change.is_of_placement {
            self.assigned_topics_changed(now_ms, old.as_deref(), change.now());
        }
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
            self.storm.abandon(&decided);
        }
    }

    /// Refuses all who wait, for members or for a commit.
    pub fn refuse_parked(&mut self, error_code: ErrorCode) -> Vec<(Ticket, Response)> {
        let held = self.storm.drain();
        let waiting_for_members = core::mem::take(&mut self.parked).into_keys().chain(held);
        let dropped = |ticket| (ticket, Response::Dropped(error_code));
        let refused =
            |(ticket, response): (Ticket, Response)| (ticket, response.refused(error_code));
        let waiting_for_commits = self.outbox.drain_parked().map(refused);
        waiting_for_members.map(dropped).chain(waiting_for_commits).collect()
    }
}
