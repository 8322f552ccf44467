//! A checkpoint: a serving shard as bytes, with everything that it would forget in a start:
//! sessions, rebalances under way, ids handed out, parked requests, timers. The shard that
//! [`Shard::resume`] makes of them goes on as the first would have, to the byte and the
//! millisecond.
//!
//! A [snapshot](crate::snapshot) is for logs, and holds durable state alone. In neither of them:
//! the configuration, the topics, counters for metrics, and how far groups were that went back.
//!
//! The bytes must be what [`Shard::checkpoint`] gave, whole and unchanged: the host that stores
//! them checks that. What they refer to is not checked here.

mod timers;

use std::sync::Arc;

use kcoord_timer::{TimingWheel, slab::Slab};
use timers::{read_timers, write_timers};

use crate::catalogue::Catalogue;
use crate::config::Config;
use crate::group::Machine;
use crate::group::classic::group::{Assigner, ClassicGroup};
use crate::group::classic::member::{Details, Member, NO_TICKET};
use crate::group::classic::rebalance::{Held, Rebalance};
use crate::group::classic::state::State;
use crate::group::classic::subscription::SubscribedTopics;
use crate::group::foreign::ForeignGroup;
use crate::group::kind::{Group, GroupKind};
use crate::group::replay::Source;
use crate::group::text::GroupId;
use crate::record::fields::{
    write_bytes, write_i16, write_i32, write_i64, write_nullable_string, write_string, write_uuid,
};
use crate::record::{DecodeError, GroupType, Reader};
use crate::request::Ticket;
use crate::shard::Shard;
use crate::topic_partition::TopicPartition;

const FORMAT: i16 = 2;

const STATES: [State; 4] =
    [State::Empty, State::PreparingRebalance, State::CompletingRebalance, State::Stable];
const ASSIGNERS: [Assigner; 3] =
    [Assigner::Leader, Assigner::Coordinator, Assigner::CoordinatorDisputed];

impl Shard {
    /// `ticket` says what a parked request is called in what is written.
    ///
    /// # Panics
    /// If the shard is not loaded, or owes appends or responses: everything must be committed.
    pub fn checkpoint(&self, ticket: impl Fn(Ticket) -> Ticket) -> Vec<u8> {
        let machine = &self.machine;
        let next_expiration_ms = machine.next_expiration_ms.expect("a shard that serves");
        assert!(machine.outbox.is_idle(), "it owes appends or responses");
        let mut out = Vec::new();
        write_i16(&mut out, FORMAT);
        write_i64(&mut out, machine.wheel.now_ms());
        write_i64(&mut out, next_expiration_ms);
        write_i64(&mut out, machine.outbox.next_offset());
        write_i64(&mut out, machine.last_tombstone_end);
        let groups = machine.registry.rows();
        let members: Vec<u32> = groups.iter().flat_map(|row| member_rows(machine, *row)).collect();
        write_slab(&mut out, &machine.registry.members, &members);
        for row in &members {
            let member = &machine.registry.members[*row];
            let waits = member.ticket != NO_TICKET;
            let ticket = if waits { ticket(member.ticket) } else { NO_TICKET };
            write_member(&mut out, member, ticket);
        }
        write_slab(&mut out, &machine.registry.groups, &groups);
        groups.iter().for_each(|row| write_group(&mut out, machine, *row));
        write_timers(&mut out, machine);
        self.write_offsets(&mut out);
        out
    }

    /// The shard that the checkpoint was made of. `ticket` gives the new ticket of a parked
    /// request; `catalogue`: the topics, if there are any. They may have changed: then
    /// [`Shard::handle_topics`] says so.
    pub fn resume(
        config: Config,
        checkpoint: &[u8],
        catalogue: Option<Arc<Catalogue>>,
        ticket: impl Fn(Ticket) -> Ticket,
    ) -> Result<Self, DecodeError> {
        let mut shard = Shard::new(config);
        let machine = &mut shard.machine;
        let from = &mut Reader::new(checkpoint);
        if from.i16()? != FORMAT {
            return Err(DecodeError("a state of another version of pykcoord"));
        }
        let (now_ms, next_expiration_ms) = (from.i64()?, from.i64()?);
        let (next_offset, last_tombstone_end) = (from.i64()?, from.i64()?);
        let (members, rows) = read_slab(from)?;
        machine.registry.members = members;
        for row in rows {
            let mut member = read_member(from)?;
            if member.ticket != NO_TICKET {
                member.ticket = ticket(member.ticket);
                machine.park_again(member.ticket, row);
            }
            machine.registry.members[row] = member;
        }
        let (groups, rows) = read_slab(from)?;
        machine.registry.groups = groups;
        for row in &rows {
            read_group(from, machine, *row)?;
        }
        let ends: Vec<i64> = rows.iter().map(|row| machine.group(*row).last_record_end).collect();
        let timers = read_timers(from)?;
        machine
            .replay(from.rest(), Source::Snapshot)
            .map_err(|_| DecodeError("offsets of a state that cannot be read"))?;
        machine.wheel = TimingWheel::new(now_ms);
        for timer in &timers {
            timer.arm(machine)?;
        }
        for (row, end) in rows.into_iter().zip(ends) {
            machine.group_mut(row).last_record_end = end;
        }
        machine.outbox.start_at(next_offset);
        machine.last_tombstone_end = last_tombstone_end;
        machine.next_expiration_ms = Some(next_expiration_ms);
        machine.catalogue = catalogue;
        Ok(shard)
    }
}

/// Members, and ids that were handed out.
fn member_rows(machine: &Machine, group: u32) -> Vec<u32> {
    let Some(of) = machine.group(group).as_classic() else { return Vec::new() };
    let pending = of.rebalance.iter().flat_map(|soft| soft.pending.sorted_rows());
    of.member_rows().chain(pending).collect()
}

fn write_slab<T: Default>(out: &mut Vec<u8>, slab: &Slab<T>, rows: &[u32]) {
    write_rows(out, slab.vacant());
    write_rows(out, rows);
}

fn read_slab<T: Default>(from: &mut Reader<'_>) -> Result<(Slab<T>, Vec<u32>), DecodeError> {
    let (vacant, rows) = (read_rows(from)?, read_rows(from)?);
    let mut numbers: Vec<u32> = vacant.iter().chain(&rows).copied().collect();
    numbers.sort_unstable();
    if numbers.iter().enumerate().any(|(at, number)| at != *number as usize) {
        return Err(DecodeError("rows that are not all there"));
    }
    Ok((Slab::with_vacant(rows.len(), vacant), rows))
}

fn write_rows(out: &mut Vec<u8>, rows: &[u32]) {
    write_i32(out, rows.len() as i32);
    rows.iter().for_each(|row| write_i32(out, *row as i32));
}

fn read_rows(from: &mut Reader<'_>) -> Result<Vec<u32>, DecodeError> {
    let count = from.i32()? as u32 as usize;
    if count > from.rest().len() / 4 {
        return Err(DecodeError("more rows than bytes"));
    }
    (0..count).map(|_| Ok(from.i32()? as u32)).collect()
}

fn write_member(out: &mut Vec<u8>, member: &Member, ticket: Ticket) {
    let details = member.details();
    write_string(out, details.member_id);
    write_nullable_string(out, details.group_instance_id);
    write_string(out, details.client_id);
    write_string(out, details.client_host);
    write_bytes(out, details.assignment);
    write_i32(out, details.protocols.len() as i32);
    for (name, metadata) in details.protocols {
        write_string(out, name);
        write_bytes(out, metadata);
    }
    write_i64(out, member.deadline_ms);
    write_i64(out, ticket as i64);
    write_i32(out, member.group as i32);
    write_i32(out, member.session_timeout_ms);
    write_i32(out, member.rebalance_timeout_ms);
    out.push(member.flags);
}

fn read_member(from: &mut Reader<'_>) -> Result<Member, DecodeError> {
    let mut details = Details {
        member_id: from.string()?,
        group_instance_id: from.nullable_string()?,
        client_id: from.string()?,
        client_host: from.string()?,
        assignment: from.bytes()?,
        protocols: Vec::new(),
    };
    for _ in 0..from.i32()? {
        details.protocols.push((from.string()?, from.bytes()?));
    }
    let (deadline_ms, ticket, group) = (from.i64()?, from.i64()? as u64, from.i32()? as u32);
    let mut member = Member::new(&details, from.i32()?, from.i32()?);
    (member.deadline_ms, member.ticket, member.group) = (deadline_ms, ticket, group);
    member.flags = from.u8()?;
    Ok(member)
}

/// A group that is not classic has the fields of an empty one: its records come with the offsets.
fn write_group(out: &mut Vec<u8>, machine: &Machine, row: u32) {
    let (group, bare) = (machine.group(row), ClassicGroup::default());
    let of = group.as_classic().unwrap_or(&bare);
    write_string(out, group.id.as_str());
    write_i32(out, of.generation_id);
    let index = |at: Option<usize>| at.expect("listed above") as u8;
    out.push(index(STATES.iter().position(|state| *state == of.state)));
    out.push(index(GroupType::ALL.iter().position(|group_type| *group_type == group.group_type())));
    out.push(index(ASSIGNERS.iter().position(|assigner| *assigner == of.assigner)));
    out.push(u8::from(of.new_member_added));
    write_rows(out, &of.member_rows().collect::<Vec<u32>>());
    write_i32(out, of.leader as i32);
    write_i64(out, group.last_record_end);
    write_string(out, of.protocol_type());
    write_nullable_string(out, of.protocol_name());
    write_i64(out, of.state_timestamp_ms);
    let held = of.rebalance.as_ref().map(|soft| &soft.held).filter(|held| !held.is_empty());
    out.push(u8::from(of.rebalance.is_some()) + u8::from(held.is_some()));
    if let Some(soft) = &of.rebalance {
        out.push(u8::from(soft.is_initial));
        write_i32(out, soft.awaiting_join as i32);
        write_i32(out, soft.pending_sync as i32);
        write_rows(out, &soft.pending.sorted_rows());
        write_topics(out, soft.subscribed_topics.as_ref());
    }
    if let Some(held) = held {
        write_held(out, held);
    }
}

fn read_group(from: &mut Reader<'_>, machine: &mut Machine, row: u32) -> Result<(), DecodeError> {
    const UNKNOWN: DecodeError = DecodeError("an unknown state, type or assigner");
    let group_id = from.string()?;
    let mut of = ClassicGroup::default();
    of.generation_id = from.i32()?;
    of.state = *STATES.get(usize::from(from.u8()?)).ok_or(UNKNOWN)?;
    let group_type = *GroupType::ALL.get(usize::from(from.u8()?)).ok_or(UNKNOWN)?;
    of.assigner = *ASSIGNERS.get(usize::from(from.u8()?)).ok_or(UNKNOWN)?;
    of.new_member_added = from.u8()? != 0;
    let kind = GroupKind::Classic(of);
    machine.registry.put(row, Group { id: GroupId::new(group_id), kind, ..Group::default() });
    for member in read_rows(from)? {
        machine.registry.attach_member(row, member);
    }
    machine.classic_mut(row).leader = from.i32()? as u32;
    machine.group_mut(row).last_record_end = from.i64()?;
    machine.registry.set_protocol_type(row, from.string()?);
    machine.registry.set_protocol_name(row, from.nullable_string()?);
    machine.classic_mut(row).state_timestamp_ms = from.i64()?;
    let soft_state = from.u8()?;
    if soft_state != 0 {
        let mut soft = Rebalance { is_initial: from.u8()? != 0, ..Rebalance::default() };
        soft.awaiting_join = from.i32()? as usize;
        soft.pending_sync = from.i32()? as usize;
        for pending in read_rows(from)? {
            let member_id = machine.registry.members[pending].member_id();
            soft.pending.insert(machine.registry.hash(member_id), pending);
        }
        soft.subscribed_topics = read_topics(from)?;
        if soft_state == 2 {
            soft.held = read_held(from)?;
        }
        machine.classic_mut(row).rebalance = Some(Box::new(soft));
    }
    match group_type {
        GroupType::Classic => {}
        GroupType::Consumer => {
            machine.group_mut(row).kind = GroupKind::Consumer(Box::default());
        }
        GroupType::Share | GroupType::Streams => {
            let foreign = Box::new(ForeignGroup::new(group_type));
            machine.group_mut(row).kind = GroupKind::Foreign(foreign);
        }
    }
    Ok(())
}

fn write_held(out: &mut Vec<u8>, held: &Held) {
    write_i32(out, held.len() as i32);
    for (member_id, partitions) in held {
        write_string(out, member_id);
        write_i32(out, partitions.len() as i32);
        for at in partitions {
            write_uuid(out, at.topic_id());
            write_i32(out, at.partition);
        }
    }
}

fn read_held(from: &mut Reader<'_>) -> Result<Held, DecodeError> {
    let mut held = Held::new();
    for _ in 0..from.i32()? {
        let member_id = from.string()?;
        let mut partitions = Vec::new();
        for _ in 0..from.i32()? {
            partitions.push(TopicPartition::new(from.uuid()?, from.i32()?));
        }
        held.insert(member_id.into(), partitions);
    }
    Ok(held)
}

/// 0: not remembered, 1: remembered as unknown, 2: a list.
fn write_topics(out: &mut Vec<u8>, topics: Option<&SubscribedTopics>) {
    out.push(topics.map_or(0, |topics| if topics.is_some() { 2 } else { 1 }));
    if let Some(Some(topics)) = topics {
        write_i32(out, topics.len() as i32);
        topics.iter().for_each(|topic| write_string(out, topic));
    }
}

fn read_topics(from: &mut Reader<'_>) -> Result<Option<SubscribedTopics>, DecodeError> {
    Ok(match from.u8()? {
        0 => None,
        1 => Some(None),
        _ => {
            let count = from.i32()?;
            Some(Some((0..count).map(|_| Ok(from.string()?.into())).collect::<Result<_, _>>()?))
        }
    })
}
