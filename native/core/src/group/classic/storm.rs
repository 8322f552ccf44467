//! Storm control of classic groups (`group.rebalance.min.interval.ms`, `group.quarantine.*`):
//! newcomers whose JoinGroup is held, and members whose removal is put off. pykcoord's own, and off
//! by default.
//!
//! A held JoinGroup has changed nothing yet: it is handled when its time has come, as if it had just
//! arrived. A member that left, or whose session ended, stays in its group until the group may
//! rebalance, and nobody else is disturbed meanwhile; its records say the same, so that a shard that
//! is loaded finds it, and removes it when its session ends there. If it is heard of again it stays.

use std::collections::{BTreeMap, BTreeSet};

use super::state::State;
use crate::delayed::DelayedOperation;
use crate::error::ErrorCode;
use crate::event::{EventKind, EventMember, GoneCause, HeldCause};
use crate::group::Machine;
use crate::group::classic::member::Details;
use crate::group::counters::RebalanceCause;
use crate::request::{JoinGroupProtocol, JoinGroupRequest, RequestContext, Ticket};

/// So many JoinGroups are held in a shard, and so many bytes of them; what comes then is refused with
/// COORDINATOR_LOAD_IN_PROGRESS, and its client tries again.
const MAX_HELD: usize = 4_096;
const MAX_HELD_BYTES: usize = 4 << 20;

/// Of so many clients of a shard it is known how often they came and went. Then those of which
/// nothing was heard for the window go, or all.
const MAX_CLIENTS: usize = 16_384;

/// The soft state of a shard.
#[derive(Debug, Default)]
pub struct Storm {
    /// By the time at which they are due, in the order of their arrival.
    held: BTreeMap<(i64, u64), Held>,
    held_count: u64,
    held_bytes: usize,
    /// Members whose removal is put off, by group and id.
    ended: BTreeMap<Box<str>, BTreeMap<Box<str>, Ended>>,
    /// By group and client.
    clients: BTreeMap<(Box<str>, Box<str>), Client>,
}

/// A JoinGroup that waits to be handled.
#[derive(Debug)]
struct Held {
    ticket: Ticket,
    api_version: i16,
    client_id: Box<str>,
    client_host: Box<str>,
    uuid: u128,
    group_id: Box<str>,
    group_instance_id: Option<Box<str>>,
    session_timeout_ms: i32,
    rebalance_timeout_ms: i32,
    protocol_type: Box<str>,
    protocols: Vec<(Box<str>, Box<[u8]>)>,
    reason: Option<Box<str>>,
    /// Its client waits no longer than this.
    patience_until_ms: i64,
}

#[derive(Debug)]
struct Ended {
    cause: GoneCause,
    /// When its session ended, or when it left.
    ended_ms: i64,
    /// Its deadline since then. Another one: it was heard of again.
    due_ms: i64,
    reason: Option<Box<str>>,
}

/// How often a client came and went: that of an instance id, or of a client id at an address.
#[derive(Debug, Default)]
struct Client {
    members: u32,
    /// The most at a time in this window: so many times more may go.
    most: u32,
    gone: u32,
    window_ms: i64,
    last_ms: i64,
    held_until_ms: i64,
}

impl Held {
    fn bytes(&self) -> usize {
        let protocols = self.protocols.iter().map(|(name, metadata)| name.len() + metadata.len());
        let texts = [&self.group_instance_id, &self.reason].into_iter().flatten();
        self.client_id.len()
            + self.client_host.len()
            + self.group_id.len()
            + self.protocol_type.len()
            + texts.map(|text| text.len()).sum::<usize>()
            + protocols.sum::<usize>()
    }
}

impl Storm {
    fn take_held(&mut self, key: (i64, u64)) -> Option<Held> {
        let held = self.held.remove(&key)?;
        self.held_bytes -= held.bytes();
        Some(held)
    }

    /// The connections behind tickets are gone.
    pub fn abandon(&mut self, tickets: &BTreeSet<Ticket>) {
        let gone = self.held.iter().filter(|(_, held)| tickets.contains(&held.ticket));
        for key in gone.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.take_held(key);
        }
    }

    /// Tickets of all that is held, which is forgotten.
    pub fn drain(&mut self) -> Vec<Ticket> {
        self.held_bytes = 0;
        core::mem::take(&mut self.held).into_values().map(|held| held.ticket).collect()
    }
}

impl Machine {
    /// A newcomer: whether its JoinGroup is held, or refused because too many are, and all is done
    /// that is to be done now.
    pub fn holds_newcomer(
        &mut self,
        now_ms: i64,
        group: u32,
        context: &RequestContext<'_>,
        request: &JoinGroupRequest<'_>,
    ) -> bool {
        if !self.config.storm.is_on() || !request.member_id.is_empty() {
            return false;
        }
        let instance_id = request.group_instance_id;
        if instance_id.is_some_and(|id| self.registry.find_static_member(group, id).is_some()) {
            return false; // It takes the place of its member.
        }
        let Some((until_ms, cause)) = self.held_until(now_ms, group, context, request) else {
            return false;
        };
        if self.events.is_on() {
            let details = Details {
                group_instance_id: instance_id,
                client_id: context.client_id,
                client_host: context.client_host,
                ..Details::default()
            };
            let member = EventMember::said(&details, request.reason);
            let for_ms = (until_ms - now_ms) as u64;
            self.push_event(group, EventKind::JoinHeld { cause, member, for_ms });
        }
        self.counters.join_held(cause);
        let patience_until_ms = now_ms + i64::from(request.rebalance_timeout_ms.max(0));
        self.hold(until_ms, patience_until_ms, context, request);
        true
    }

    /// Until when, and why.
    fn held_until(
        &self,
        now_ms: i64,
        group: u32,
        context: &RequestContext<'_>,
        request: &JoinGroupRequest<'_>,
    ) -> Option<(i64, HeldCause)> {
        let who = who(request.group_instance_id, context.client_id, context.client_host);
        let client = self.storm.clients.get(&(request.group_id.into(), who));
        // Alone in its group it disturbs nobody.
        let client = client.filter(|_| self.classic(group).has_members());
        let quarantined = client.map(|client| (client.held_until_ms, HeldCause::Quarantine));
        let left_alone =
            self.left_alone_until(group).map(|until_ms| (until_ms, HeldCause::Interval));
        let later = [quarantined, left_alone].into_iter().flatten();
        later.filter(|(until_ms, _)| *until_ms > now_ms).max_by_key(|(until_ms, _)| *until_ms)
    }

    /// Until when nothing may disturb the group; none: it rebalances anyway.
    fn left_alone_until(&self, group: u32) -> Option<i64> {
        let of = self.classic(group);
        let interval_ms = self.config.storm.min_interval_ms;
        (interval_ms > 0 && of.state == State::Stable).then(|| of.state_timestamp_ms + interval_ms)
    }

    fn hold(
        &mut self,
        until_ms: i64,
        patience_until_ms: i64,
        context: &RequestContext<'_>,
        request: &JoinGroupRequest<'_>,
    ) {
        let protocols = request.protocols.iter();
        let held = Held {
            ticket: context.ticket,
            api_version: context.api_version,
            client_id: context.client_id.into(),
            client_host: context.client_host.into(),
            uuid: context.uuid,
            group_id: request.group_id.into(),
            group_instance_id: request.group_instance_id.map(Into::into),
            session_timeout_ms: request.session_timeout_ms,
            rebalance_timeout_ms: request.rebalance_timeout_ms,
            protocol_type: request.protocol_type.into(),
            protocols: protocols.map(|one| (one.name.into(), one.metadata.into())).collect(),
            reason: request.reason.map(Into::into),
            patience_until_ms,
        };
        self.keep_held(until_ms, held);
    }

    fn keep_held(&mut self, until_ms: i64, held: Held) {
        let bytes = held.bytes();
        let storm = &mut self.storm;
        if storm.held.len() >= MAX_HELD || storm.held_bytes + bytes > MAX_HELD_BYTES {
            return self.refuse_join(held.ticket, "", ErrorCode::CoordinatorLoadInProgress);
        }
        let due_ms = until_ms.min(held.patience_until_ms);
        storm.held_bytes += bytes;
        storm.held.insert((due_ms, storm.held_count), held);
        storm.held_count += 1;
        self.wheel.insert(due_ms, DelayedOperation::HeldJoins);
    }

    /// JoinGroups whose time has come are handled as if they had just arrived.
    pub fn held_joins_due(&mut self, now_ms: i64) {
        while let Some((&key, _)) =
            self.storm.held.first_key_value().filter(|(key, _)| key.0 <= now_ms)
        {
            let Some(held) = self.storm.take_held(key) else { return };
            let context = RequestContext {
                ticket: held.ticket,
                api_version: held.api_version,
                client_id: &held.client_id,
                client_host: &held.client_host,
                uuid: held.uuid,
            };
            let protocols = held.protocols.iter();
            let request = JoinGroupRequest {
                group_id: &held.group_id,
                session_timeout_ms: held.session_timeout_ms,
                rebalance_timeout_ms: held.rebalance_timeout_ms,
                member_id: "",
                group_instance_id: held.group_instance_id.as_deref(),
                protocol_type: &held.protocol_type,
                protocols: protocols
                    .map(|(name, metadata)| JoinGroupProtocol { name, metadata })
                    .collect(),
                reason: held.reason.as_deref(),
            };
            let group = self.find_classic(&held.group_id).ok();
            let again = group.and_then(|group| self.held_until(now_ms, group, &context, &request));
            match again {
                None => self.join_group(now_ms, &context, &request),
                Some((until_ms, _)) if now_ms < held.patience_until_ms => {
                    self.keep_held(until_ms, held);
                }
                Some(_) => {
                    self.refuse_join(held.ticket, "", ErrorCode::CoordinatorLoadInProgress);
                }
            }
        }
    }

    /// A member left, or its session ended: whether it stays until its group may rebalance.
    pub fn puts_removal_off(
        &mut self,
        now_ms: i64,
        member: u32,
        cause: GoneCause,
        reason: Option<&str>,
    ) -> bool {
        if self.config.storm.min_interval_ms <= 0 {
            return false;
        }
        let group = self.registry.members[member].group;
        let Some(due_ms) = self.left_alone_until(group).filter(|due_ms| *due_ms > now_ms) else {
            return false;
        };
        if self.events.is_on() {
            let (member, for_ms) = (self.event_member(member, reason), (due_ms - now_ms) as u64);
            self.push_event(group, EventKind::RemovalPutOff { cause, member, for_ms });
        }
        self.counters.removals_put_off += 1;
        let row = &self.registry.members[member];
        let ended =
            Ended { cause, ended_ms: row.deadline_ms, due_ms, reason: reason.map(Into::into) };
        let group_id: Box<str> = self.group(group).id.as_str().into();
        let of_group = self.storm.ended.entry(group_id).or_default();
        of_group.insert(row.member_id().into(), ended);
        self.end_session_at(member, due_ms);
        self.due_to(member, reason);
        true
    }

    /// Whether the removal of a member was put off, and nothing was heard of it since.
    pub fn has_ended(&self, member: u32) -> bool {
        self.ended_of(member).is_some()
    }

    fn ended_of(&self, member: u32) -> Option<&Ended> {
        let row = &self.registry.members[member];
        let of_group = self.storm.ended.get(self.group(row.group).id.as_str())?;
        of_group.get(row.member_id()).filter(|ended| ended.due_ms == row.deadline_ms)
    }

    /// Whether no member is left of which something may be heard.
    pub fn have_all_ended(&self, group: u32) -> bool {
        let of = self.classic(group);
        // Those that were heard of again are counted still, so that most calls need no look at each.
        let ended = self.storm.ended.get(self.group(group).id.as_str()).map_or(0, BTreeMap::len);
        ended >= of.member_count() && of.member_rows().all(|member| self.has_ended(member))
    }

    /// A member whose removal was put off may go, and with it all such members of its group.
    pub fn rebalance_without_ended(&mut self, now_ms: i64, group: u32, member: u32) {
        let ended = self.ended_of(member);
        let cause = match ended.map(|ended| ended.cause) {
            Some(GoneCause::SessionExpired) => RebalanceCause::SessionExpired,
            _ => RebalanceCause::MemberLeft,
        };
        let reason = ended.and_then(|ended| ended.reason.clone());
        self.due_to(member, reason.as_deref());
        self.prepare_rebalance(now_ms, group, cause);
        self.settle(group);
    }

    /// Removes the members that ended, before their group rebalances. The event of what begins names
    /// the member that began it still.
    #[cold]
    pub fn remove_ended(&mut self, now_ms: i64, group: u32) {
        let group_id = self.registry.groups[group].id.as_str();
        let Some(ended) = self.storm.ended.remove(group_id) else { return };
        let trigger = self.events.take_trigger();
        for (member_id, ended) in ended {
            let Some(member) = self.registry.find_member(group, &member_id) else { continue };
            if self.registry.members[member].deadline_ms != ended.due_ms {
                continue; // It was heard of again.
            }
            match ended.cause {
                GoneCause::SessionExpired => {
                    self.registry.members[member].deadline_ms = ended.ended_ms;
                    self.tell_session_expired(now_ms, member);
                    self.counters.members_expired += 1;
                }
                cause => self.tell_member_gone(now_ms, member, cause, ended.reason.as_deref()),
            }
            self.remove_member(member);
        }
        if let Some(trigger) = trigger {
            self.events.set_trigger(trigger);
        }
    }

    /// Whether any removal is put off in this shard.
    #[inline]
    pub fn has_ended_members(&self) -> bool {
        !self.storm.ended.is_empty()
    }

    /// A member came.
    #[inline]
    pub fn count_arrival(&mut self, now_ms: i64, member: u32) {
        if self.config.storm.quarantine_flaps > 0 {
            self.client_of(now_ms, member, |client| {
                client.members += 1;
                client.most = client.most.max(client.members);
            });
        }
    }

    /// A member left, or was removed by a timer; it is still there.
    #[inline]
    pub fn count_departure(&mut self, now_ms: i64, member: u32) {
        let config = self.config.storm;
        if config.quarantine_flaps == 0 {
            return;
        }
        self.client_of(now_ms, member, |client| {
            client.members = client.members.saturating_sub(1);
            client.gone = client.gone.saturating_add(1);
            let allowed = config.quarantine_flaps.saturating_mul(client.most.max(1));
            let Some(beyond) = client.gone.checked_sub(allowed).filter(|beyond| *beyond > 0) else {
                return;
            };
            let factor = 1_i64 << (beyond - 1).min(20);
            let held_ms = config.quarantine_ms.saturating_mul(factor).min(config.quarantine_max_ms);
            client.held_until_ms = now_ms + held_ms;
        });
    }

    fn client_of(&mut self, now_ms: i64, member: u32, change: impl FnOnce(&mut Client)) {
        let row = &self.registry.members[member];
        let details = row.details_but_protocols();
        let who = who(details.group_instance_id, details.client_id, details.client_host);
        let key = (Box::from(self.group(row.group).id.as_str()), who);
        let window_ms = self.config.storm.quarantine_window_ms;
        let clients = &mut self.storm.clients;
        if clients.len() >= MAX_CLIENTS && !clients.contains_key(&key) {
            clients.retain(|_, client| client.last_ms + window_ms > now_ms);
            if clients.len() >= MAX_CLIENTS {
                clients.clear();
            }
        }
        let client = clients.entry(key).or_default();
        // While it is held nothing can be heard of it, so its window goes on.
        if now_ms >= client.window_ms.max(client.held_until_ms) + window_ms {
            (client.gone, client.most, client.window_ms) = (0, client.members, now_ms);
        }
        client.last_ms = now_ms;
        change(client);
    }
}

/// What a client that comes again has in common with itself.
fn who(instance_id: Option<&str>, client_id: &str, client_host: &str) -> Box<str> {
    match instance_id {
        Some(instance_id) => format!("i {instance_id}").into(),
        None => format!("c {client_id} {client_host}").into(),
    }
}
