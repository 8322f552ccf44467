//! Clients of the consumer protocol: who reads what, held against each other.

use super::World;
use crate::breaks::{Check, Invariant, check};
use crate::client::Client;
use crate::plan::{FIRST_MIXED, FIRST_NATIVE, GROUPS, Role, TOPICS};

impl World {
    pub(super) fn natives(&self, group: usize) -> impl Iterator<Item = &Client> {
        let reads = |role| matches!(role, Role::Native | Role::Migrant);
        let of_group =
            move |client: &&Client| reads(client.spec.role) && client.spec.group == group;
        self.clients.iter().filter(of_group)
    }

    /// A client has heard something: what it reads from now on is read by no other member, those that
    /// have not given up yet included. Whom the node does not count as a member any more may not know.
    pub(super) fn check_readers(&self, client: usize) -> Check {
        let client = &self.clients[client];
        if !matches!(client.spec.role, Role::Native | Role::Migrant) || !self.is_member(client) {
            return Ok(());
        }
        for other in self.natives(client.spec.group) {
            if other.id == client.id || !self.is_member(other) {
                continue;
            }
            let twice = client.reads().intersection(other.reads()).next();
            check(twice.is_none(), Invariant::OneOwner, || {
                let (one, two, group) = (client.id, other.id, GROUPS[client.spec.group]);
                format!("{group}: c{one} and c{two} both read {twice:?}")
            })?;
        }
        Ok(())
    }

    fn is_member(&self, client: &Client) -> bool {
        let Some((member_id, epoch)) = client.reads_as() else { return false };
        let model = &self.checker.natives[client.spec.group];
        if client.speaks_natively() || model.is_there() {
            return model.has_member_at(member_id, epoch);
        }
        self.checker.is_classic_member(client.spec.group, member_id, epoch)
    }

    /// A member that is not where its group wants it, or a partition that nobody reads.
    pub(super) fn native_unrest(&self) -> Option<String> {
        for (group, id) in GROUPS.iter().enumerate().take(FIRST_MIXED).skip(FIRST_NATIVE) {
            let model = &self.checker.natives[group];
            let members = || {
                let served =
                    |client: &&Client| client.is_well_behaved() && !client.native.is_fenced();
                self.natives(group).filter(served)
            };
            for client in members() {
                let (number, native) = (client.id, &client.native);
                let Some(settled) = model.settled(&native.member_id) else {
                    return Some(format!("c{number} has not come to its target"));
                };
                if *settled != native.owned {
                    return Some(format!("c{number} reads {:?}, not {settled:?}", native.owned));
                }
            }
            for (topic, found) in self.catalogue.topics.iter().enumerate() {
                let Some(found) = *found else { continue };
                if !members().any(|client| client.native.subscribes_to(topic)) {
                    continue;
                }
                for partition in 0..found.partitions {
                    let reads =
                        |client: &&Client| client.native.owned.contains(&(found.id, partition));
                    let readers = members().filter(reads).count();
                    if readers != 1 {
                        let name = TOPICS[topic];
                        return Some(format!("{name}-{partition} of {id} has {readers} readers"));
                    }
                }
            }
        }
        None
    }
}
