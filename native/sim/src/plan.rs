//! What a seed stands for: the node's configuration, the clients and their habits, the faults and
//! how often they strike. Drawn once, before anything happens; never changed by what happens.

use kcoord_core::Config;
use kcoord_core::assignment_rules::{AssignmentRules, GroupStrategy, Pattern};
use kcoord_core::config::{ConsumerConfig, MigrationPolicy};
use rand::{RngExt, SeedableRng};
use rand_xorshift::XorShiftRng;

use crate::breaks::Break;
use crate::faults::{FAULTS, Fault};

/// Groups of consumers come first, then groups that only hold offsets, then those of the consumer
/// protocol, and those whose members change their protocol.
pub const GROUPS: [&str; 10] = ["g0", "g1", "g2", "g3", "s0", "s1", "n0", "n1", "m0", "m1"];
pub const CONSUMER_GROUPS: usize = 4;
/// From here on the groups are of the consumer protocol.
pub const FIRST_NATIVE: usize = 6;
/// From here on members are of either protocol.
pub const FIRST_MIXED: usize = 8;
pub const TOPICS: [&str; 3] = ["t0", "t1", "t2"];
pub const PARTITIONS: usize = 6;

/// The longest that a well-behaved client may need once faults have stopped: a session, a join
/// phase and a sync phase that others let run out, and a reload.
pub const CALM_MS: i64 = 90_000;

/// Where and when to look; everything here only takes away from what the seed would do.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Clients that stay silent.
    pub without_clients: Vec<usize>,
    /// Faults that never strike.
    pub without_faults: Vec<Fault>,
    /// Single strikes that do not happen: the fault, and the how many-th of its kind.
    pub skip: Vec<(Fault, u32)>,
    /// Faults stop here, if that is earlier.
    pub calm_at_ms: Option<i64>,
    pub broken: Option<Break>,
    /// Keep a line for everything that happens.
    pub trace: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Consumer,
    /// Of the consumer protocol (KIP-848).
    Native,
    /// Of one protocol, and later of the other.
    Migrant,
    /// Commits and fetches without being a member.
    Simple,
    /// Commits in transactions, without being a member.
    Transactional,
    Admin,
}

/// What a consumer does wrong. Those without a quirk must be served well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quirk {
    None,
    /// Takes longer than its session between two requests.
    Slow,
    /// Sends its requests twice, the second time on a connection of its own.
    Duplicate,
    /// Goes on with generations and member ids of before.
    Stale,
    /// Offers protocols that no other member has, or a session timeout that is not allowed.
    Odd,
    /// Sends frames that end too early.
    Garbled,
}

#[derive(Clone, Debug)]
pub struct Spec {
    pub role: Role,
    pub quirk: Quirk,
    pub group: usize,
    pub instance_id: Option<&'static str>,
    pub session_timeout_ms: i32,
    pub rebalance_timeout_ms: i32,
}

#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub shards: usize,
    pub config: Config,
    pub clients: Vec<Spec>,
    /// Targets that cost more are computed by the host, which takes its time; none: never.
    pub targets_aside: Option<usize>,
    /// Mean time between two strikes of each fault; 0: never.
    pub intervals_ms: [i64; FAULTS.len()],
    /// Faults, and clients that misbehave, stop here.
    pub calm_at_ms: i64,
}

/// A stream of its own for everything that draws, so that what is taken out of a run does not
/// change what else happens by more than it must.
pub fn random(seed: u64, stream: u64) -> XorShiftRng {
    XorShiftRng::seed_from_u64(seed ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

impl Plan {
    pub fn new(seed: u64) -> Plan {
        let mut rng = random(seed, 1);
        let mut clients = clients(&mut rng);
        let mut native = random(seed, 4);
        natives(&mut native, &mut clients);
        migrants(&mut random(seed, 5), &mut clients);
        producers(&mut random(seed, 6), &mut clients);
        let members = largest_group(&clients);
        let config = Config {
            group_min_session_timeout_ms: 1_000,
            group_initial_rebalance_delay_ms: [0, 100, 500][rng.random_range(0..3)],
            // Room for all members and no more.
            group_max_size: if rng.random_ratio(1, 4) { members } else { 1_000 },
            new_member_join_timeout_ms: 8_000,
            offset_metadata_max_bytes: 8,
            offsets_retention_ms: [5_000, 20_000, 1_000_000][rng.random_range(0..3)],
            offsets_retention_check_interval_ms: 2_000,
            assignment: assignment(seed),
            consumer: ConsumerConfig {
                session_timeout_ms: 6_000,
                heartbeat_interval_ms: 500,
                assignment_interval_ms: [0, 300, 1_000][native.random_range(0..3)],
                migration_policy: migration_policy(seed),
                ..ConsumerConfig::default()
            },
            ..Config::default()
        };
        let mut intervals_ms = [0; FAULTS.len()];
        for (interval_ms, fault) in intervals_ms.iter_mut().zip(FAULTS) {
            // Each fault is absent from some seeds: what it would hide can then be seen.
            if rng.random_ratio(2, 3) {
                *interval_ms = fault.interval_ms() * rng.random_range(1..=4) / 2;
            }
        }
        Plan {
            seed,
            shards: rng.random_range(1..=3),
            config,
            clients,
            targets_aside: native.random_ratio(1, 2).then_some(2),
            intervals_ms,
            calm_at_ms: rng.random_range(20_000..90_000),
        }
    }
}

/// In half of the seeds the coordinator assigns half of the groups, by any strategy.
fn assignment(seed: u64) -> AssignmentRules {
    let mut rng = random(seed, 3);
    let mut groups = Vec::new();
    if rng.random_ratio(1, 2) {
        for group in &GROUPS[..CONSUMER_GROUPS] {
            let strategy = GroupStrategy::ALL[rng.random_range(0..GroupStrategy::ALL.len())];
            if rng.random_ratio(1, 2) {
                groups.push((Pattern::new(group), strategy));
            }
        }
    }
    AssignmentRules { groups, capacities: vec![(Pattern::new("c1"), 3)] }
}

fn largest_group(clients: &[Spec]) -> usize {
    let joins = |client: &Spec| matches!(client.role, Role::Consumer | Role::Migrant);
    let size = |group: usize| clients.iter().filter(|c| joins(c) && c.group == group).count();
    (0..GROUPS.len()).map(size).max().unwrap_or(0)
}

/// The protocol that the classic members of a group offer: those of one group keep what they have while
/// they join again, all others give everything up first.
pub const fn protocol_of(group: usize) -> &'static str {
    if group == GROUPS.len() - 1 { "cooperative-sticky" } else { "range" }
}

pub const fn is_cooperative(group: usize) -> bool {
    group == GROUPS.len() - 1
}

/// Most seeds allow both ways: there is more to see.
fn migration_policy(seed: u64) -> MigrationPolicy {
    let mut rng = random(seed, 6);
    let drawn = MigrationPolicy::ALL[rng.random_range(0..MigrationPolicy::ALL.len())];
    if rng.random_ratio(1, 2) { MigrationPolicy::Bidirectional } else { drawn }
}

fn clients(rng: &mut XorShiftRng) -> Vec<Spec> {
    let mut clients = Vec::new();
    let groups = rng.random_range(1..=CONSUMER_GROUPS);
    for _ in 0..rng.random_range(4..=20) {
        clients.push(consumer(rng, groups));
    }
    for _ in 0..rng.random_range(1..=3) {
        let group = rng.random_range(CONSUMER_GROUPS..FIRST_NATIVE);
        clients.push(Spec { role: Role::Simple, group, ..consumer(rng, groups) });
    }
    for _ in 0..rng.random_range(0..=2) {
        clients.push(Spec { role: Role::Admin, ..consumer(rng, groups) });
    }
    clients
}

/// Members of the consumer protocol: they come last, so that the others are as without them.
fn natives(rng: &mut XorShiftRng, clients: &mut Vec<Spec>) {
    for _ in 0..rng.random_range(0..=7) {
        let quirk = match rng.random_range(0..8) {
            0 => Quirk::Slow,
            1 => Quirk::Stale,
            _ => Quirk::None,
        };
        let group = rng.random_range(FIRST_NATIVE..FIRST_MIXED);
        clients.push(Spec { role: Role::Native, quirk, group, ..consumer(rng, 1) });
    }
}

/// Clients that change their protocol, behind all others for the same reason.
fn migrants(rng: &mut XorShiftRng, clients: &mut Vec<Spec>) {
    for _ in 0..rng.random_range(0..=6) {
        let quirk = match rng.random_range(0..8) {
            0 => Quirk::Slow,
            1 => Quirk::Stale,
            _ => Quirk::None,
        };
        let group = rng.random_range(FIRST_MIXED..GROUPS.len());
        let mut client = Spec { role: Role::Migrant, quirk, group, ..consumer(rng, 1) };
        if is_cooperative(group) {
            // A static one that missed a generation reads what another may have: docs/simulator.md.
            client.instance_id = None;
        }
        clients.push(client);
    }
}

/// They commit in transactions to the groups that only hold offsets.
fn producers(rng: &mut XorShiftRng, clients: &mut Vec<Spec>) {
    for _ in 0..rng.random_range(0..=3) {
        let group = rng.random_range(CONSUMER_GROUPS..FIRST_NATIVE);
        let (role, quirk) = (Role::Transactional, Quirk::None);
        clients.push(Spec { role, quirk, group, instance_id: None, ..consumer(rng, 1) });
    }
}

fn consumer(rng: &mut XorShiftRng, groups: usize) -> Spec {
    // Few instance ids: some clients share one, and fence each other.
    let instance_id = ["i0", "i1", "i2", "i3"][rng.random_range(0..4)];
    Spec {
        role: Role::Consumer,
        quirk: match rng.random_range(0..16) {
            0 => Quirk::Slow,
            1 | 2 => Quirk::Duplicate,
            3 | 4 => Quirk::Stale,
            5 => Quirk::Odd,
            6 => Quirk::Garbled,
            _ => Quirk::None,
        },
        group: rng.random_range(0..groups),
        instance_id: rng.random_ratio(1, 4).then_some(instance_id),
        session_timeout_ms: rng.random_range(2_000..6_000),
        rebalance_timeout_ms: rng.random_range(1_000..5_000),
    }
}
