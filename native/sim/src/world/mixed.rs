//! Groups of both protocols: whether they have come to rest.

use super::World;
use crate::client::Client;
use crate::plan::{FIRST_MIXED, GROUPS, TOPICS};

impl World {
    /// A member that is not where its group wants it, or a partition that nobody reads.
    pub(super) fn mixed_unrest(&self) -> Option<String> {
        (FIRST_MIXED..GROUPS.len()).find_map(|group| self.unrest_of_mixed(group))
    }

    fn unrest_of_mixed(&self, group: usize) -> Option<String> {
        let id = GROUPS[group];
        let model = &self.checker.natives[group];
        let served = |client: &&Client| client.is_well_behaved() && !client.is_fenced();
        let members: Vec<&Client> = self.natives(group).filter(served).collect();
        for client in &members {
            let number = client.id;
            let Some((member_id, epoch)) = client.reads_as() else {
                return Some(format!("c{number} is not in {id}"));
            };
            if model.is_there() {
                let Some(settled) = model.settled(member_id) else {
                    return Some(format!("c{number} has not come to its target in {id}"));
                };
                if settled != client.reads() {
                    return Some(format!("c{number} reads {:?}, not {settled:?}", client.reads()));
                }
            } else if client.speaks_natively() {
                return Some(format!("c{number} is not in {id}, which is a classic group"));
            } else if !self.checker.is_classic_member(group, member_id, epoch) {
                return Some(format!("c{number} is in {epoch} of {id}, which is in another"));
            }
        }
        for (topic, found) in self.catalogue.topics.iter().enumerate() {
            let Some(found) = *found else { continue };
            let version = self.catalogue.version;
            let is_wanted = members.iter().any(|client| match model.is_there() {
                true => client.subscribes_to(topic),
                // A leader that was replaced may not know of a change.
                false => client.wanted(version).contains(&topic),
            });
            for partition in 0..found.partitions {
                let reads = |client: &&&Client| client.reads().contains(&(found.id, partition));
                let readers = members.iter().filter(reads).count();
                if readers > 1 || (is_wanted && readers == 0) {
                    return Some(format!(
                        "{}-{partition} of {id} has {readers} readers",
                        TOPICS[topic]
                    ));
                }
            }
        }
        None
    }
}
