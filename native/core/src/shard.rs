//! One shard: what the host calls. It dispatches requests, timers and records; it decides nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::budget::AnswerBudget;
use crate::catalogue::{Catalogue, CatalogueChange};
use crate::config::Config;
use crate::delayed::DelayedOperation;
use crate::error::{ErrorCode, ReplayError};
use crate::event::Event;
use crate::group::Machine;
pub use crate::group::batch::WINDOW as PREFETCHED_AT_ONCE;
use crate::group::replay::Source;
pub use crate::group::sweep::{Sweep, Swept};
use crate::group_configs::GroupConfigs;
use crate::outbox::Append;
use crate::request::{HeartbeatRequest, Request, RequestContext, Ticket, Uuid};
use crate::response::Response;
use crate::targets::{NewTargets, TargetJob};

/// The groups of one partition of `__consumer_offsets`.
///
/// A new shard is loaded first: [`replay`](Shard::replay) its log, then [`loaded`](Shard::loaded).
/// From then on the host hands in requests, time and commits, and takes out what `poll_*` have:
/// records to append, responses to send, and when to come back at the latest.
///
/// Times are wall-clock milliseconds. They must not run back; a call with an earlier time panics
/// once timers move.
#[derive(Debug)]
pub struct Shard {
    pub(crate) machine: Machine,
}

impl Shard {
    /// An empty shard, which is to be loaded: `replay`, then `loaded`.
    pub fn new(config: Config) -> Self {
        Shard { machine: Machine::new(config) }
    }

    /// Applies a chunk of the log: whole, uncompressed RecordBatches v2 whose CRC was checked, in
    /// order. After an error the shard is of no use.
    pub fn replay(&mut self, chunk: &[u8]) -> Result<(), ReplayError> {
        self.machine.replay(chunk, Source::Log)
    }

    /// The whole log was replayed; the next record gets `next_offset`. Sessions start anew.
    pub fn loaded(&mut self, now_ms: i64, next_offset: i64) {
        self.machine.loaded(now_ms, next_offset);
    }

    /// A ticket must not be reused before it was answered or abandoned.
    pub fn handle_request(
        &mut self,
        now_ms: i64,
        context: &RequestContext<'_>,
        request: &Request<'_>,
    ) {
        self.machine.handle_request(now_ms, context, request);
    }

    /// Requests that arrived together: the same as one by one, but faster.
    pub fn handle_batch(&mut self, now_ms: i64, requests: &[(RequestContext<'_>, Request<'_>)]) {
        self.machine.handle_batch(now_ms, requests);
    }

    /// Heartbeats that arrived together; their error codes, in order, go behind `codes`.
    pub fn heartbeat_batch(
        &mut self,
        now_ms: i64,
        beats: &[HeartbeatRequest<'_>],
        codes: &mut Vec<ErrorCode>,
    ) {
        self.machine.heartbeat_batch(now_ms, beats, codes);
    }

    /// Prefetches what requests of these groups will read, at most [`PREFETCHED_AT_ONCE`] of them:
    /// for hosts that know what comes next, where turns are too small for a batch.
    pub fn prefetch<'a>(&self, group_ids: impl Iterator<Item = &'a str>) {
        self.machine.prefetch(group_ids);
    }

    /// Fires what is due. To be called when [`poll_timeout`](Shard::poll_timeout) says so.
    pub fn handle_timeout(&mut self, now_ms: i64) {
        self.handle_timers(now_ms);
        let machine = &mut self.machine;
        if machine.next_expiration_ms.is_some_and(|due_ms| due_ms <= now_ms) {
            let interval_ms = machine.config.offsets_retention_check_interval_ms;
            machine.next_expiration_ms = Some(now_ms.saturating_add(interval_ms));
            machine.expire_groups(now_ms);
        }
    }

    /// The same without the periodic removal of what is expired, for hosts that have
    /// [`expire_some`](Shard::expire_some) do that.
    pub fn handle_timers(&mut self, now_ms: i64) {
        let machine = &mut self.machine;
        machine.wheel.advance(now_ms);
        while let Some((_, operation)) = machine.wheel.pop_expired() {
            machine.fire(now_ms, operation);
        }
    }

    /// Some of the periodic removal of what is expired, if that is due: what it cost, in tombstones.
    /// [`poll_timeout`](Shard::poll_timeout) says at once while there is more.
    pub fn expire_some(&mut self, now_ms: i64) -> usize {
        let machine = &mut self.machine;
        if machine.next_expiration_ms.is_none_or(|due_ms| due_ms > now_ms) {
            return 0;
        }
        let from = machine.expiring.take().unwrap_or_default();
        let Swept { cost, left } = machine.expire_some_groups(now_ms, from);
        let interval_ms = machine.config.offsets_retention_check_interval_ms;
        let wait_ms = if left.is_some() { 0 } else { interval_ms };
        machine.next_expiration_ms = Some(now_ms.saturating_add(wait_ms));
        machine.expiring = left;
        cost
    }

    /// A topic was deleted: its offsets go, in every group.
    pub fn handle_topic_deleted(&mut self, now_ms: i64, name: &str, topic_id: Uuid) {
        self.machine.delete_topic_offsets(now_ms, name, topic_id);
    }

    /// Some of the same; the first time from the default on.
    pub fn delete_some_of_topic(
        &mut self,
        now_ms: i64,
        name: &str,
        topic_id: Uuid,
        from: Sweep,
    ) -> Swept {
        self.machine.delete_some_topic_offsets(now_ms, name, topic_id, from)
    }

    /// The topics that exist: all of them, at each change. Until the first call the shard knows of
    /// none, and leaves assigning to clients.
    pub fn handle_topics(&mut self, now_ms: i64, catalogue: &Arc<Catalogue>) {
        let change = CatalogueChange::between(self.machine.catalogue.as_ref(), catalogue);
        self.machine.topics_changed(now_ms, &change);
    }

    /// The same, where the host has found out already what changed: for many shards at once.
    pub fn handle_topics_change(&mut self, now_ms: i64, change: &CatalogueChange) {
        self.machine.topics_changed(now_ms, change);
    }

    /// What is set for single consumer groups: all of it, at each change, and before
    /// [`loaded`](Shard::loaded). It counts from a member's next heartbeat on.
    pub fn handle_group_configs(&mut self, configs: &Arc<GroupConfigs>) {
        self.machine.group_configs = Arc::clone(configs);
    }

    /// From now on targets of consumer groups that cost more than this (in members, partitions and
    /// subscriptions) are handed out to be computed; before, only those of the host's own assignors.
    pub fn hand_targets_out(&mut self, above: usize) {
        self.machine.target_jobs.aside_from = Some(above);
    }

    /// Whether [`poll_target_job`](Shard::poll_target_job) has any.
    #[inline]
    pub fn has_target_jobs(&self) -> bool {
        self.machine.target_jobs.is_any()
    }

    /// The next targets that the host is to have computed, by [`TargetInput::compute`] or by its own
    /// assignor; to be asked until there are none, at the end of each turn.
    ///
    /// [`TargetInput::compute`]: crate::targets::TargetInput::compute
    pub fn poll_target_job(&mut self) -> Option<TargetJob> {
        self.machine.target_jobs.poll()
    }

    /// What came of a job, or why nothing did: `uniform` takes the place of an assignor that failed.
    /// Jobs may end in any order, and a job that nobody waits for any more is passed over.
    pub fn handle_targets(
        &mut self,
        now_ms: i64,
        number: u64,
        computed: Result<NewTargets, String>,
    ) {
        self.machine.targets_computed(now_ms, number, computed);
    }

    /// Everything below `offset` is durable; `now_ms` is not needed for that yet.
    pub fn handle_committed(&mut self, _now_ms: i64, offset: i64) {
        self.machine.outbox.committed(offset);
    }

    /// The host counts records as durable as soon as it takes them out: no response waits for
    /// [`handle_committed`](Shard::handle_committed) from now on.
    pub fn commit_at_once(&mut self) {
        self.machine.outbox.commit_at_once();
    }

    /// From now on [`poll_cause`](Shard::poll_cause) says which request each record came of.
    pub fn trace_causes(&mut self) {
        self.machine.outbox.trace_causes();
    }

    /// The next batch of records to append; to be asked until there is none.
    pub fn poll_append(&mut self) -> Option<Append> {
        self.machine.outbox.poll_append()
    }

    /// Gives back the memory of an append's records, for the next.
    pub fn reuse(&mut self, records: Vec<u8>) {
        self.machine.outbox.reuse(records);
    }

    /// For each record, in order: the request in whose handling it was written; `Some(None)`: a
    /// timer wrote it. To be asked until there is none, before the responses are taken.
    pub fn poll_cause(&mut self) -> Option<Option<Ticket>> {
        self.machine.outbox.poll_cause()
    }

    /// The next response that may leave.
    pub fn poll_response(&mut self) -> Option<(Ticket, Response)> {
        self.machine.outbox.poll_response()
    }

    /// A request that will never be answered: its member asked again meanwhile, or is gone. Not one
    /// that was abandoned. To be asked until there is none.
    pub fn poll_given_up(&mut self) -> Option<Ticket> {
        self.machine.outbox.poll_given_up()
    }

    /// Whether [`poll_event`](Shard::poll_event) has other events than findings from now on.
    pub fn tell_events(&mut self, on: bool) {
        self.machine.tell_events(on);
    }

    /// What happened to groups, once it is durable; to be asked until there is none, at the end of
    /// each turn, with its time.
    pub fn poll_event(&mut self, now_ms: i64) -> Option<Event> {
        self.machine.poll_event(now_ms)
    }

    /// When [`handle_timeout`](Shard::handle_timeout) has to be called at the latest. It may find
    /// nothing to do then: a session that was renewed keeps its timer.
    pub fn poll_timeout(&self) -> Option<i64> {
        let timer_ms = self.machine.wheel.next_deadline();
        timer_ms.into_iter().chain(self.machine.next_expiration_ms).min()
    }

    /// The shard is given up: the answer to every request that still waits, by ticket.
    pub fn drop_parked(&mut self) -> Vec<(Ticket, Response)> {
        let mut refused = self.machine.refuse_parked(ErrorCode::NotCoordinator);
        refused.sort_unstable_by_key(|(ticket, _)| *ticket);
        refused
    }

    /// The connection behind a ticket is gone. A member that waited under it stays one.
    pub fn abandon(&mut self, ticket: Ticket) {
        self.machine.abandon(&[ticket]);
    }

    /// The same for all parts of a request that was split.
    pub fn abandon_all(&mut self, tickets: &[Ticket]) {
        self.machine.abandon(tickets);
    }

    /// Records of unknown types, by type: kept in the log, and not interpreted.
    pub fn unknown_records(&self) -> &BTreeMap<i16, u64> {
        &self.machine.unknown_records
    }

    /// Walks everything and panics unless it fits together. For tests.
    pub fn assert_consistent(&self) {
        self.machine.assert_consistent();
    }

    /// Groups have rows below this number. A group keeps its row, and a new one may get any.
    pub fn group_rows(&self) -> u32 {
        self.machine.registry.groups.end()
    }

    /// Memory that a description of a group takes; if it is more than `most`, anything above that.
    pub fn description_bytes(&self, group_id: &str, most: usize) -> usize {
        let machine = &self.machine;
        let Some(group) = machine.registry.find(group_id) else { return 0 };
        if machine.registry.is_consumer(group) {
            return machine.consumer_description_bytes(group, most);
        }
        let classic = machine.find_classic(group_id);
        classic.map_or(0, |group| machine.description_bytes(group, most))
    }

    /// Offsets of a group that go when it is deleted now; 0 if it cannot be.
    pub fn deletable_offsets_of(&self, group_id: &str) -> usize {
        let group = self.machine.registry.find(group_id);
        let is_empty = group.is_some_and(|row| self.machine.group(row).is_empty());
        if is_empty { self.offset_count_of(group_id) } else { 0 }
    }

    /// Offsets that a group has committed.
    pub fn offset_count_of(&self, group_id: &str) -> usize {
        let group = self.machine.registry.find(group_id);
        let offsets = group.and_then(|row| self.machine.registry.groups[row].offsets.as_deref());
        offsets.map_or(0, |offsets| offsets.len())
    }

    /// Whose memory answers take: to be handed in before requests are, and taken out again.
    pub fn budget(&mut self) -> &mut AnswerBudget {
        &mut self.machine.budget
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        &self.machine.config
    }
}

impl Machine {
    pub fn handle_request(
        &mut self,
        now_ms: i64,
        context: &RequestContext<'_>,
        request: &Request<'_>,
    ) {
        let ticket = context.ticket;
        self.outbox.caused_by(Some(ticket));
        match request {
            Request::JoinGroup(request) => self.join_group(now_ms, context, request),
            Request::SyncGroup(request) => self.sync_group(now_ms, context, request),
            Request::Heartbeat(request) => {
                let error_code = self.heartbeat(now_ms, request);
                self.outbox.respond(ticket, Response::Heartbeat(error_code));
            }
            Request::ConsumerGroupHeartbeat(request) => {
                self.consumer_group_heartbeat(now_ms, context, request);
            }
            Request::ConsumerGroupDescribe(request) => {
                self.describe_consumer_group(context, request);
            }
            Request::LeaveGroup(request) => self.leave_group(now_ms, context, request),
            Request::OffsetCommit(request) => self.commit_offsets(now_ms, context, request),
            Request::TxnOffsetCommit(request) => {
                self.commit_in_transaction(now_ms, context, request);
            }
            Request::WriteTxnMarkers(marker) => self.end_transaction(now_ms, ticket, marker),
            Request::OffsetFetch(request) => self.fetch_offsets(context, request),
            Request::OffsetDelete(request) => self.delete_offsets(now_ms, context, request),
            Request::DescribeGroups(request) => self.describe_group(context, request),
            Request::DeleteGroups(request) => self.delete_groups(now_ms, context, request),
            Request::DeleteGroupOffsets(group_id, most) => {
                self.delete_some_of_group(now_ms, group_id, *most);
            }
            Request::ListGroups(request) => {
                self.list_groups(context, request, self.registry.sorted_groups());
            }
            Request::ListGroupRows(request, rows) => {
                self.list_groups(context, request, self.registry.sorted_groups_in(rows.clone()));
            }
        }
        self.outbox.caused_by(None);
    }

    pub fn fire(&mut self, now_ms: i64, operation: DelayedOperation) {
        match operation {
            DelayedOperation::InitialDelayedJoin(fired) => self.initial_delay_fired(now_ms, fired),
            DelayedOperation::DelayedJoin(fired) => self.complete_join(now_ms, fired.group, None),
            DelayedOperation::DelayedSync(fired) => self.sync_timer_fired(now_ms, fired),
            DelayedOperation::DelayedHeartbeat(fired) => self.session_timer_fired(now_ms, fired),
            DelayedOperation::PendingMember(fired) => self.pending_timer_fired(now_ms, fired),
            DelayedOperation::ConsumerSession(fired) => self.consumer_session_fired(now_ms, fired),
            DelayedOperation::ConsumerRebalance(fired) => {
                self.consumer_rebalance_fired(now_ms, fired);
            }
            DelayedOperation::RegexResolution(fired) => self.resolve_regexes(now_ms, fired),
            DelayedOperation::TargetStep(fired) => self.target_step_fired(now_ms, fired),
            DelayedOperation::ClassicJoin(fired) => self.classic_join_fired(now_ms, fired),
            DelayedOperation::ClassicSync(fired) => self.classic_sync_fired(now_ms, fired),
            DelayedOperation::HeldJoins => self.held_joins_due(now_ms),
        }
    }
}
