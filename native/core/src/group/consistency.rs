//! What must hold between any two calls, checked by walking everything. For tests.

use super::Machine;
use super::classic::member::NO_TICKET;

impl Machine {
    pub fn assert_consistent(&self) {
        self.wheel.assert_consistent();
        let mut member_count = 0;
        let mut ticket_count = 0;
        for group in self.registry.rows() {
            let of = self.group(group);
            let id = of.id.as_bytes();
            assert_eq!(self.registry.find_hashed(self.registry.hash_bytes(id), id), Some(group));
            self.assert_group_consistent(group);
            let Some(of) = of.as_classic() else { continue };
            let pending = of.rebalance.as_ref().map(|soft| soft.pending.sorted_rows());
            let pending = pending.unwrap_or_default();
            member_count += of.member_count() + pending.len();
            for row in of.member_rows().chain(pending) {
                let member = &self.registry.members[row];
                assert_eq!(member.group, group);
                ticket_count += usize::from(member.ticket != NO_TICKET);
                self.assert_timer(row, member);
            }
        }
        assert_eq!(member_count, self.registry.members.len(), "every row is somebody's");
        assert_eq!(ticket_count, self.parked.len(), "every ticket is somebody's");
        for (ticket, member) in &self.parked {
            assert_eq!(self.registry.members[*member].ticket, *ticket);
        }
    }
}
