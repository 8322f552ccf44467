//! JoinGroups and SyncGroups that wait for other members, and the soft state of those who wait.

use super::member::{NO_TICKET, flag};
use super::rebalance::Rebalance;
use crate::error::ErrorCode;
use crate::group::Machine;
use crate::request::Ticket;

impl Machine {
    /// The soft state of a group, made when it is first needed.
    pub fn rebalance_mut(&mut self, group: u32) -> &mut Rebalance {
        self.classic_mut(group).rebalance.get_or_insert_default()
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

    /// A parked response of a member that came with a checkpoint.
    pub fn park_again(&mut self, ticket: Ticket, member: u32) {
        self.parked.insert(ticket, member);
    }

    /// Rows of the members whose JoinGroup waits.
    pub fn parked_joins(&self, group: u32) -> Vec<u32> {
        let is_parked = |row: &u32| self.registry.members[*row].has(flag::AWAITING_JOIN);
        self.classic(group).member_rows().filter(is_parked).collect()
    }

    /// Answers all who wait with an error; their sessions start again.
    pub fn refuse_all_parked(&mut self, now_ms: i64, group: u32, error_code: ErrorCode) {
        for member in self.parked_joins(group) {
            if let Some(ticket) = self.unpark(member) {
                let member_id: Box<str> = self.registry.members[member].member_id().into();
                self.refuse_join(ticket, &member_id, error_code);
            }
            self.restart_session(member, now_ms);
        }
        self.refuse_parked_syncs(now_ms, group, error_code);
    }

    /// Ends a member's wait without an answer.
    pub fn give_up_parked(&mut self, member: u32) {
        if let Some(ticket) = self.unpark(member) {
            self.outbox.give_up(ticket);
        }
    }

    /// Ends a member's wait; returns the ticket that waited, if there is still one.
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
}
