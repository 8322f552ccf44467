//! Timers of a shard as bytes. They are armed once all that they belong to is there again.

use kcoord_timer::TimerId;

use crate::delayed::{
    ClassicJoin, ClassicSync, ConsumerRebalance, ConsumerSession, DelayedHeartbeat, DelayedJoin,
    DelayedOperation, DelayedSync, InitialDelayedJoin, PendingMember, RegexResolution, TargetStep,
};
use crate::group::Machine;
use crate::record::fields::{write_i32, write_i64};
use crate::record::{DecodeError, Reader};

const UNKNOWN: DecodeError = DecodeError("a timer of an unknown kind");

/// One as it is written. Members of consumer groups are named by their place in the group: their rows
/// are not kept.
pub struct Timer {
    armed_ms: i64,
    kind: u8,
    /// Its owner knows of it; another fires into nothing.
    is_known: bool,
    /// Row of the group.
    group: u32,
    second: i32,
    /// When a session ends, or the epoch at which partitions are to be given up.
    third: i64,
}

/// In the order in which they fire.
pub fn write_timers(out: &mut Vec<u8>, machine: &Machine) {
    let mut timers = machine.wheel.entries();
    // What they would release is soft state, of connections that the reader does not have.
    timers.retain(|(_, _, operation)| **operation != DelayedOperation::HeldJoins);
    write_i32(out, timers.len() as i32);
    for (armed_ms, id, operation) in timers {
        let timer = Timer::of(machine, armed_ms, id, operation);
        write_i64(out, timer.armed_ms);
        out.push(timer.kind);
        out.push(u8::from(timer.is_known));
        write_i32(out, timer.group as i32);
        write_i32(out, timer.second);
        write_i64(out, timer.third);
    }
}

pub fn read_timers(from: &mut Reader<'_>) -> Result<Vec<Timer>, DecodeError> {
    let count = from.i32()?;
    let timer = |_| {
        Ok(Timer {
            armed_ms: from.i64()?,
            kind: from.u8()?,
            is_known: from.u8()? != 0,
            group: from.i32()? as u32,
            second: from.i32()?,
            third: from.i64()?,
        })
    };
    (0..count).map(timer).collect()
}

impl Timer {
    fn of(machine: &Machine, armed_ms: i64, id: TimerId, operation: &DelayedOperation) -> Timer {
        let registry = &machine.registry;
        let join_timer = |group| machine.classic(group).rebalance.as_ref().map(|s| s.join_timer);
        let sync_timer = |group| machine.classic(group).rebalance.as_ref().map(|s| s.sync_timer);
        let place = |member: u32| {
            let group = registry.consumer_members[member].group;
            let places = &registry.consumer(group).members;
            let place = places.iter().position(|row| *row == member);
            (group, place.expect("a member is in its group") as i32)
        };
        let (kind, group, second, third, is_known) = match *operation {
            DelayedOperation::InitialDelayedJoin(InitialDelayedJoin { group, remaining_ms }) => {
                (0, group, remaining_ms, 0, join_timer(group) == Some(id))
            }
            DelayedOperation::DelayedJoin(DelayedJoin { group }) => {
                (1, group, 0, 0, join_timer(group) == Some(id))
            }
            DelayedOperation::DelayedSync(DelayedSync { group, generation_id }) => {
                (2, group, generation_id, 0, sync_timer(group) == Some(id))
            }
            DelayedOperation::DelayedHeartbeat(DelayedHeartbeat { group, member }) => {
                (3, group, member as i32, 0, registry.members[member].timer == id)
            }
            DelayedOperation::PendingMember(PendingMember { group, member }) => {
                (4, group, member as i32, 0, registry.members[member].timer == id)
            }
            DelayedOperation::ConsumerSession(ConsumerSession { member }) => {
                let (group, place) = place(member);
                (5, group, place, registry.consumer_members[member].deadline_ms, true)
            }
            DelayedOperation::ConsumerRebalance(ConsumerRebalance { member, member_epoch }) => {
                let (group, place) = place(member);
                (6, group, place, member_epoch.into(), true)
            }
            DelayedOperation::RegexResolution(RegexResolution { group }) => (7, group, 0, 0, true),
            // How far it has come is not kept.
            DelayedOperation::TargetStep(TargetStep { group }) => (10, group, 0, 0, false),
            DelayedOperation::ClassicJoin(ClassicJoin { member }) => {
                let (group, place) = place(member);
                (8, group, place, 0, true)
            }
            DelayedOperation::ClassicSync(ClassicSync { member }) => {
                let (group, place) = place(member);
                (9, group, place, 0, true)
            }
            DelayedOperation::HeldJoins => unreachable!("not written"),
        };
        Timer { armed_ms, kind, is_known, group, second, third }
    }

    pub fn arm(&self, machine: &mut Machine) -> Result<(), DecodeError> {
        let Timer { group, second, .. } = *self;
        let member = match self.kind {
            5 | 6 | 8 | 9 if machine.registry.is_consumer(group) => {
                let places = &machine.registry.consumer(group).members;
                *places.get(second as usize).ok_or(UNKNOWN)?
            }
            5.. if !machine.registry.is_consumer(group) => return Err(UNKNOWN),
            _ => second as u32,
        };
        let operation = match self.kind {
            0 => DelayedOperation::InitialDelayedJoin(InitialDelayedJoin {
                group,
                remaining_ms: second,
            }),
            1 => DelayedOperation::DelayedJoin(DelayedJoin { group }),
            2 => DelayedOperation::DelayedSync(DelayedSync { group, generation_id: second }),
            3 => DelayedOperation::DelayedHeartbeat(DelayedHeartbeat { group, member }),
            4 => DelayedOperation::PendingMember(PendingMember { group, member }),
            5 => DelayedOperation::ConsumerSession(ConsumerSession { member }),
            6 => {
                let member_epoch = self.third as i32;
                DelayedOperation::ConsumerRebalance(ConsumerRebalance { member, member_epoch })
            }
            7 => DelayedOperation::RegexResolution(RegexResolution { group }),
            8 => DelayedOperation::ClassicJoin(ClassicJoin { member }),
            9 => DelayedOperation::ClassicSync(ClassicSync { member }),
            10 => DelayedOperation::TargetStep(TargetStep { group }),
            _ => return Err(UNKNOWN),
        };
        let id = machine.wheel.insert(self.armed_ms, operation);
        match self.kind {
            _ if !self.is_known => {}
            0 | 1 => machine.rebalance_mut(group).join_timer = id,
            2 => machine.rebalance_mut(group).sync_timer = id,
            3 | 4 => machine.registry.members[member].timer = id,
            5 => {
                let member = &mut machine.registry.consumer_members[member];
                (member.session_timer, member.deadline_ms) = (id, self.third);
            }
            6 => machine.registry.consumer_members[member].rebalance_timer = id,
            7 => machine.registry.consumer_mut(group).regexes.set_timer(id),
            kind => {
                let mut timers = machine.classic_timers_of(member);
                *(if kind == 8 { &mut timers.join } else { &mut timers.sync }) = id;
                machine.set_classic_timers(member, timers);
            }
        }
        Ok(())
    }
}
