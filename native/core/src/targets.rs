//! The targets of a consumer group, as a computation of its own: what goes in is copied out of the
//! group, so that it can be done aside, on any thread, while the shard goes on.
//!
//! The shard hands a [`TargetJob`] out ([`Shard::poll_target_job`](crate::Shard::poll_target_job)); what
//! comes of it is an input like any other
//! ([`Shard::handle_targets`](crate::Shard::handle_targets)). Names, lists and targets are shared, not
//! copied: a job costs a few words for each member.

mod compute;
mod given;

use std::collections::BTreeSet;
use std::sync::Arc;

pub use given::Given;

use crate::assignor::Shape;
use crate::catalogue::{Catalogue, known};
use crate::config::ServerAssignor;
use crate::response::MemberId;
use crate::topic_partition::TopicPartition;

/// Sorted names, each once.
type TopicNames = Arc<[Box<str>]>;

/// Targets that are to be computed.
#[derive(Clone, Debug)]
pub struct TargetJob {
    /// The shard's number for it.
    pub number: u64,
    /// The group.
    pub group_id: Box<str>,
    /// What they are computed from.
    pub input: Arc<TargetInput>,
}

/// What targets are computed from: a group as it is at one moment.
#[derive(Debug)]
pub struct TargetInput {
    pub(crate) assignor: ServerAssignor,
    /// As Kafka sees it: topics that do not exist make a difference, too.
    pub(crate) shape: Shape,
    /// By member id.
    pub(crate) members: Vec<TargetMember>,
    pub(crate) catalogue: Option<Arc<Catalogue>>,
    /// By member, where the assignor asks for them.
    pub(crate) capacities: Vec<u32>,
    /// Of each topic that is subscribed to and exists, by name: by partition, where the assignor asks
    /// for them.
    pub(crate) lags: Vec<(Box<str>, Vec<u64>)>,
    pub(crate) hash_seed: u64,
}

/// One member of it.
#[derive(Debug)]
pub struct TargetMember {
    /// The member id.
    pub id: MemberId,
    /// Of a static member.
    pub instance_id: Option<Box<str>>,
    /// The rack of the client; `None`: not said.
    pub rack_id: Option<Box<str>>,
    /// Topics that it subscribes to by name.
    pub(crate) names: TopicNames,
    /// Topics that its regular expression matches.
    pub(crate) matched: Option<TopicNames>,
    /// What it is to have by now; `None`: nothing was ever computed for it.
    pub(crate) target: Option<Arc<[TopicPartition]>>,
}

/// The members whose target is another, by member id, and what it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewTargets(pub(crate) Vec<NewTarget>);

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTarget {
    pub(crate) member_id: MemberId,
    pub(crate) partitions: Arc<[TopicPartition]>,
}

impl TargetInput {
    /// Who computes them.
    pub fn assignor(&self) -> &ServerAssignor {
        &self.assignor
    }

    /// The members, by member id.
    pub fn members(&self) -> &[TargetMember] {
        &self.members
    }

    /// The topics that members subscribe to and that exist, by name, with their numbers of partitions.
    pub fn topics(&self) -> Vec<(&str, u32)> {
        let existing = |name| Some((name, self.catalogue().topic(name)?.1));
        self.subscribed().into_iter().filter_map(existing).collect()
    }

    /// What a member is to have by now, by topic name: topics that are gone are left out.
    pub fn target_of<'a>(
        &'a self,
        member: &'a TargetMember,
    ) -> impl Iterator<Item = (&'a str, i32)> {
        let target = member.target.as_deref().unwrap_or_default().iter();
        target.filter_map(|at| Some((self.catalogue().name_of(at.topic_id())?, at.partition)))
    }

    fn catalogue(&self) -> &Catalogue {
        known(&self.catalogue)
    }

    /// Names of all topics that have a subscriber, whether they exist or not.
    fn subscribed(&self) -> BTreeSet<&str> {
        let mut met = BTreeSet::new();
        let mut all = BTreeSet::new();
        for list in self.members.iter().flat_map(TargetMember::lists) {
            // Equal lists are one: their address tells them apart.
            if met.insert(list.as_ptr()) {
                all.extend(list.iter().map(|name| &**name));
            }
        }
        all
    }
}

impl TargetMember {
    fn lists(&self) -> impl Iterator<Item = &TopicNames> {
        core::iter::once(&self.names).chain(&self.matched)
    }

    /// The topics that it subscribes to, whether they exist or not, by name; some may come twice.
    pub fn topics(&self) -> impl Iterator<Item = &str> {
        self.lists().flat_map(|names| names.iter()).map(|name| &**name)
    }
}

impl NewTargets {
    /// How many members have another target.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether all targets are as they were.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
