//! What happened in a run, counted: for the summary, and so that the simulator cannot go blind
//! unnoticed.

use std::collections::BTreeMap;

use kcoord_core::ErrorCode;
use kcoord_wire::api::ResponseBody;
use kcoord_wire::header::{APIS, ApiKey};

use crate::faults::{FAULTS, Fault};

/// What a long run must have met: every code that the node can answer to these clients.
pub const CODES: [ErrorCode; 19] = [
    ErrorCode::None,
    ErrorCode::UnknownTopicOrPartition,
    ErrorCode::OffsetMetadataTooLarge,
    ErrorCode::CoordinatorLoadInProgress,
    ErrorCode::NotCoordinator,
    ErrorCode::IllegalGeneration,
    ErrorCode::InconsistentGroupProtocol,
    ErrorCode::UnknownMemberId,
    ErrorCode::InvalidSessionTimeout,
    ErrorCode::RebalanceInProgress,
    ErrorCode::NonEmptyGroup,
    ErrorCode::GroupIdNotFound,
    ErrorCode::MemberIdRequired,
    ErrorCode::GroupMaxSizeReached,
    ErrorCode::FencedInstanceId,
    ErrorCode::GroupSubscribedToTopic,
    ErrorCode::UnknownTopicId,
    ErrorCode::FencedMemberEpoch,
    ErrorCode::UnreleasedInstanceId,
];

/// Situations that are neither a fault nor an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    Rebalance,
    MemberExpired,
    OffsetExpired,
    GroupDeleted,
    ShardReloaded,
    TailCut,
    LogRefused,
    /// A frame that cannot be read.
    InvalidFrame,
    /// Requests in flight were forgotten with their connection.
    Abandoned,
    /// Several requests in one turn.
    BusyTurn,
    /// What was appended and never acknowledged was there after a crash.
    Survived,
    /// The coordinator has assigned a group.
    Assigned,
    /// Targets of a consumer group were computed by the host.
    ComputedAside,
    /// A group with members became a consumer group.
    Upgraded,
    /// Or a classic one.
    Downgraded,
}

pub const EVENTS: [Event; 15] = [
    Event::Rebalance,
    Event::MemberExpired,
    Event::OffsetExpired,
    Event::GroupDeleted,
    Event::ShardReloaded,
    Event::TailCut,
    Event::LogRefused,
    Event::InvalidFrame,
    Event::Abandoned,
    Event::BusyTurn,
    Event::Survived,
    Event::Assigned,
    Event::ComputedAside,
    Event::Upgraded,
    Event::Downgraded,
];

impl Event {
    pub const fn name(self) -> &'static str {
        match self {
            Event::Rebalance => "rebalances",
            Event::MemberExpired => "members expired",
            Event::OffsetExpired => "offsets expired",
            Event::GroupDeleted => "groups deleted",
            Event::ShardReloaded => "shards reloaded",
            Event::TailCut => "torn tails cut",
            Event::LogRefused => "logs refused",
            Event::InvalidFrame => "frames refused",
            Event::Abandoned => "requests abandoned",
            Event::BusyTurn => "busy turns",
            Event::Survived => "unacknowledged writes that survived",
            Event::Assigned => "assignments by the coordinator",
            Event::ComputedAside => "targets computed aside",
            Event::Upgraded => "upgrades",
            Event::Downgraded => "downgrades",
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Coverage {
    pub runs: u64,
    pub requests: u64,
    pub turns: u64,
    faults: [u64; FAULTS.len()],
    events: [u64; EVENTS.len()],
    /// Answers by API and code.
    answers: BTreeMap<(i16, ErrorCode), u64>,
}

impl Coverage {
    pub fn of_one_run() -> Coverage {
        Coverage { runs: 1, ..Coverage::default() }
    }

    pub fn fault(&mut self, fault: Fault) {
        self.faults[fault as usize] += 1;
    }

    pub fn event(&mut self, event: Event) {
        self.events(event, 1);
    }

    pub fn events(&mut self, event: Event, times: u64) {
        self.events[event as usize] += times;
    }

    pub fn answer(&mut self, api: ApiKey, answer: &ResponseBody) {
        answer.each_code(|code| *self.answers.entry((api as i16, code)).or_default() += 1);
    }

    pub fn add(&mut self, other: &Coverage) {
        self.runs += other.runs;
        self.requests += other.requests;
        self.turns += other.turns;
        self.faults.iter_mut().zip(other.faults).for_each(|(sum, count)| *sum += count);
        self.events.iter_mut().zip(other.events).for_each(|(sum, count)| *sum += count);
        for (key, count) in &other.answers {
            *self.answers.entry(*key).or_default() += count;
        }
    }

    pub fn faults(&self) -> impl Iterator<Item = (&'static str, u64)> {
        FAULTS.into_iter().map(|fault| (fault.name(), self.faults[fault as usize]))
    }

    pub fn happened(&self) -> impl Iterator<Item = (&'static str, u64)> {
        EVENTS.into_iter().map(|event| (event.name(), self.events[event as usize]))
    }

    /// How often each code was answered, by any API.
    pub fn codes(&self) -> BTreeMap<ErrorCode, u64> {
        let mut codes = BTreeMap::new();
        for ((_, code), count) in &self.answers {
            *codes.entry(*code).or_default() += count;
        }
        codes
    }

    /// What a run of this length should have met, and has not.
    pub fn missing(&self) -> Vec<String> {
        let codes = self.codes();
        let absent = CODES.into_iter().filter(|code| !codes.contains_key(code));
        let mut missing: Vec<String> = absent.map(|code| format!("answer {code:?}")).collect();
        let zero = |(name, count): (&'static str, u64)| (count == 0).then(|| name.to_owned());
        missing.extend(self.faults().filter_map(zero));
        missing.extend(self.happened().filter_map(zero));
        let unanswered = APIS
            .iter()
            .filter(|spec| !NOT_ASKED.contains(&spec.api))
            .filter(|spec| !self.answers.contains_key(&(spec.api as i16, ErrorCode::None)));
        missing.extend(unanswered.map(|spec| format!("success of {}", spec.name)));
        missing
    }
}

/// What no client here asks for.
const NOT_ASKED: [ApiKey; 1] = [ApiKey::ConsumerGroupDescribe];
