//! Targets of a group on their way: computed at once where that is little, else aside by the host, and
//! written in slices, so that other groups of the shard are served in between.
//!
//! What is computed is of the group's epoch when it began. Members go on meanwhile, at their present
//! target. A member that leaves gets no target, one that joins waits for the next, and a static member
//! that another replaces hands its target on. Their coming and going raises the group's epoch, so once
//! these targets are written the next are computed, when the interval allows it. Nothing is computed
//! twice at a time for a group. A group without members needs no target: what was computed is dropped.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use kcoord_timer::TimerId;

use crate::catalogue::known;
use crate::config::ServerAssignor;
use crate::delayed::{DelayedOperation, TargetStep};
use crate::finding::FindingKind;
use crate::group::Machine;
use crate::record::consumer::{RecordChange, TargetAssignmentMetadataValue};
use crate::response::MemberId;
use crate::targets::{NewTarget, NewTargets, TargetInput, TargetJob};
use crate::time::deadline;

/// What is written or looked up in one slice, in partitions.
const SLICE: usize = 16_384;

/// What each member costs beside its partitions.
const MEMBER: usize = 8;

/// Between two slices.
const PAUSE_MS: i64 = 1;

/// Targets of a shard that are being computed.
#[derive(Debug, Default)]
pub struct TargetJobs {
    /// From this cost on they are computed aside; none: never.
    pub aside_from: Option<usize>,
    /// To be handed out.
    queue: VecDeque<TargetJob>,
    last_number: u64,
    /// Rows of the groups that wait for one.
    groups: BTreeMap<u64, u32>,
}

impl TargetJobs {
    #[inline]
    pub fn is_any(&self) -> bool {
        !self.queue.is_empty()
    }

    pub fn poll(&mut self) -> Option<TargetJob> {
        self.queue.pop_front()
    }
}

/// Targets of one group on their way.
#[derive(Debug)]
pub struct Computing {
    /// Of the group when they were begun.
    epoch: i32,
    /// Who computes them.
    assignor: ServerAssignor,
    /// Ids of static members that were replaced since, and the ids that have their place.
    renamed: BTreeMap<MemberId, MemberId>,
    /// When it goes on, or has taken too long.
    timer: TimerId,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// Lags are looked up: of these topics not yet, the next one last.
    Gathering(Box<TargetInput>, Vec<Box<str>>),
    /// By the host, under this number.
    Asked(u64),
    /// The next of them.
    Written(NewTargets, usize),
}

impl Machine {
    /// New targets of the group's epoch, by this assignor.
    pub fn start_target(&mut self, now_ms: i64, group: u32, assignor: ServerAssignor) {
        let is_own = matches!(assignor, ServerAssignor::Own(_));
        let aside_from = self.target_jobs.aside_from;
        let most = aside_from.unwrap_or(usize::MAX);
        let is_aside = is_own || aside_from.is_some() && self.target_cost(group, most) > most;
        let input = self.target_input(group, assignor);
        let topics = match input.assignor() {
            ServerAssignor::LagAware => {
                input.topics().into_iter().rev().map(|(name, _)| name.into()).collect()
            }
            _ => Vec::new(),
        };
        let mut computing = Computing {
            epoch: self.registry.consumer(group).group_epoch,
            assignor: input.assignor().clone(),
            renamed: BTreeMap::new(),
            timer: TimerId::NONE,
            stage: Stage::Gathering(Box::new(input), topics),
        };
        if is_aside {
            return self.advance_target(now_ms, group, computing);
        }
        let Stage::Gathering(mut input, topics) = computing.stage else { unreachable!("made so") };
        topics.into_iter().rev().for_each(|topic| _ = self.gather_lags(group, &mut input, topic));
        computing.stage = Stage::Written(input.compute(), 0);
        self.write_targets(now_ms, group, computing, usize::MAX);
    }

    /// What a job has brought; a number that nobody waits for is passed over.
    pub fn targets_computed(
        &mut self,
        now_ms: i64,
        number: u64,
        computed: Result<NewTargets, String>,
    ) {
        let Some(group) = self.target_jobs.groups.remove(&number) else { return };
        let Some(mut computing) = self.registry.consumer_mut(group).computing.take() else {
            return;
        };
        debug_assert!(matches!(computing.stage, Stage::Asked(asked) if asked == number));
        self.wheel.cancel(core::mem::take(&mut computing.timer));
        match computed {
            Ok(targets) => {
                computing.stage = Stage::Written(targets, 0);
                self.advance_target(now_ms, group, *computing);
            }
            Err(reason) => self.replace_assignor(now_ms, group, &computing.assignor, &reason),
        }
    }

    /// The group's timer has fired.
    pub fn target_step_fired(&mut self, now_ms: i64, fired: TargetStep) {
        // A checkpoint has the timer alone: the next heartbeat begins anew.
        let of = self.registry.consumer_mut(fired.group);
        let Some(mut computing) = of.computing.take() else { return };
        computing.timer = TimerId::NONE;
        if let Stage::Asked(number) = computing.stage {
            self.target_jobs.groups.remove(&number);
            let timeout_ms = self.config.consumer.assignor_timeout_ms;
            let setting = "group.consumer.assignor.timeout.ms";
            let reason = format!("no answer in {timeout_ms} ms, {setting}");
            return self.replace_assignor(now_ms, fired.group, &computing.assignor, &reason);
        }
        self.advance_target(now_ms, fired.group, *computing);
    }

    /// Does a slice of what is to be done.
    fn advance_target(&mut self, now_ms: i64, group: u32, mut computing: Computing) {
        let stage = core::mem::replace(&mut computing.stage, Stage::Asked(0));
        match stage {
            Stage::Gathering(mut input, mut topics) => {
                let mut rest = SLICE;
                while rest > 0
                    && let Some(topic) = topics.pop()
                {
                    rest = rest.saturating_sub(self.gather_lags(group, &mut input, topic));
                }
                if topics.is_empty() {
                    return self.ask_host(now_ms, group, computing, *input);
                }
                computing.stage = Stage::Gathering(input, topics);
                self.go_on_later(now_ms.saturating_add(PAUSE_MS), group, computing);
            }
            Stage::Asked(_) => unreachable!("it is the host's turn"),
            Stage::Written(..) => {
                computing.stage = stage;
                self.write_targets(now_ms, group, computing, SLICE);
            }
        }
    }

    fn ask_host(&mut self, now_ms: i64, group: u32, mut computing: Computing, input: TargetInput) {
        let jobs = &mut self.target_jobs;
        jobs.last_number += 1;
        let number = jobs.last_number;
        jobs.groups.insert(number, group);
        let group_id = self.registry.groups[group].id.as_str().into();
        jobs.queue.push_back(TargetJob { number, group_id, input: Arc::new(input) });
        computing.stage = Stage::Asked(number);
        if matches!(computing.assignor, ServerAssignor::Own(_)) {
            let due_ms = deadline(now_ms, self.config.consumer.assignor_timeout_ms);
            return self.go_on_later(due_ms, group, computing);
        }
        self.registry.consumer_mut(group).computing = Some(Box::new(computing));
    }

    fn go_on_later(&mut self, at_ms: i64, group: u32, mut computing: Computing) {
        let fires = DelayedOperation::TargetStep(TargetStep { group });
        computing.timer = self.wheel.insert(at_ms, fires);
        self.registry.consumer_mut(group).computing = Some(Box::new(computing));
    }

    /// The host's own assignor failed or is late: `uniform` does it.
    fn replace_assignor(
        &mut self,
        now_ms: i64,
        group: u32,
        assignor: &ServerAssignor,
        reason: &str,
    ) {
        let detail = format!("{}: {reason}", assignor.name());
        self.found(group, FindingKind::AssignorReplaced, 1, detail);
        let of = self.registry.consumer(group);
        if of.group_epoch > of.assignment_epoch {
            self.start_target(now_ms, group, ServerAssignor::Uniform);
        }
    }

    /// Writes targets, for `rest` partitions; the group's next epoch of targets is the last record.
    fn write_targets(
        &mut self,
        now_ms: i64,
        group: u32,
        mut computing: Computing,
        mut rest: usize,
    ) {
        let Stage::Written(NewTargets(targets), mut next) = computing.stage else {
            unreachable!("they are computed")
        };
        if self.registry.consumer(group).assignment_epoch >= computing.epoch {
            // The group was without members meanwhile.
            return;
        }
        while rest > 0
            && let Some(NewTarget { member_id, partitions }) = targets.get(next)
        {
            next += 1;
            rest = rest.saturating_sub(MEMBER + partitions.len());
            let mut member_id = member_id;
            while let Some(now) = computing.renamed.get(member_id) {
                member_id = now;
            }
            if let Some(row) = self.registry.find_consumer_member(group, member_id) {
                self.emit_target(now_ms, group, row, partitions);
            }
        }
        if next < targets.len() {
            computing.stage = Stage::Written(NewTargets(targets), next);
            return self.go_on_later(now_ms.saturating_add(PAUSE_MS), group, computing);
        }
        let value = TargetAssignmentMetadataValue {
            assignment_epoch: computing.epoch,
            assignment_timestamp: now_ms,
        };
        self.emit_consumer(now_ms, group, &RecordChange::TargetAssignmentMetadata(Some(value)));
        self.tell_target_computed(group, targets.len(), &computing.assignor);
    }

    /// What the group has still to read of a topic: everything where nothing is committed. Returns how
    /// many partitions were looked up.
    fn gather_lags(&self, group: u32, input: &mut TargetInput, topic: Box<str>) -> usize {
        let catalogue = known(&self.catalogue);
        let offsets = self.group(group).offsets.as_deref();
        let lag = |number: i32| {
            let committed = offsets
                .and_then(|offsets| offsets.committed(&self.offsets.topics, &topic, number))
                .map_or(0, |committed| committed.offset.max(0));
            catalogue.end_offset(&topic, number).saturating_sub(committed).max(0) as u64
        };
        let lags: Vec<u64> = (0..catalogue.partitions(&topic) as i32).map(lag).collect();
        let cost = MEMBER + lags.len();
        input.lags.push((topic, lags));
        cost
    }

    /// A static member has another id from now on.
    pub fn hand_target_on(&mut self, group: u32, old_id: &MemberId, member_id: &str) {
        if let Some(computing) = &mut self.registry.consumer_mut(group).computing
            && **old_id != *member_id
        {
            let member_id = MemberId::new(member_id);
            computing.renamed.remove(&member_id);
            computing.renamed.insert(old_id.clone(), member_id);
        }
    }

    /// The group goes.
    pub fn drop_computing(&mut self, group: u32) {
        if let Some(computing) = self.registry.consumer_mut(group).computing.take() {
            self.wheel.cancel(computing.timer);
            if let Stage::Asked(number) = computing.stage {
                self.target_jobs.groups.remove(&number);
            }
        }
    }
}
