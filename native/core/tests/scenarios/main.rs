//! Scenarios: commands in Kafka's words, and below each the trace that it must leave.
//!
//! The files beside this one hold them; `UPDATE=1 cargo test --test scenarios` writes the traces
//! anew. A trace says what was answered (who is not named still waits), what was appended, and when
//! the shard wants to be woken. Whenever all is committed, a fresh shard that replays the log has to
//! agree about everything durable; and each scenario is run a second time in which the shard is
//! loaded again wherever nobody would notice, and has to end in the same state.

mod command;
mod consumer;
mod foreign;
mod request;
mod script;
mod trace;
mod world;

use std::fs;
use std::path::{Path, PathBuf};

use script::Scenario;
use world::{Restarts, World};

fn run_file(name: &str) {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios").join(name);
    let text = fs::read_to_string(&path).unwrap();
    let mut written = String::new();
    for scenario in script::parse(&text) {
        let traced = run(&scenario);
        written.push_str(&traced);
    }
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, written).unwrap();
        return;
    }
    for (line, (expected, found)) in text.lines().zip(written.lines()).enumerate() {
        assert_eq!(found, expected, "{name}:{} differs (UPDATE=1 writes it anew)", line + 1);
    }
    assert_eq!(written.lines().count(), text.lines().count(), "{name}: other number of lines");
}

/// The scenario as it is, with the traces that it leaves now.
fn run(scenario: &Scenario) -> String {
    let mut written = scenario.head.clone();
    let mut world = World::new(scenario, Restarts::Never);
    for block in &scenario.blocks {
        for command in &block.commands {
            world.run(command);
        }
        written.push_str(&format!("{}----\n{}\n", block.text, world.take_trace()));
    }
    let durable = world.durable();

    let mut restarted = World::new(scenario, Restarts::WhereNobodyNotices);
    for command in scenario.blocks.iter().flat_map(|block| &block.commands) {
        restarted.run(command);
    }
    assert_eq!(restarted.durable(), durable, "{}: a restart changed the outcome", scenario.title);
    written
}

macro_rules! scenario_files {
    ($($test:ident: $file:literal;)*) => {
        $(#[test]
        fn $test() {
            run_file($file);
        })*

        #[test]
        fn every_file_is_run() {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
            let named = [$($file),*];
            for entry in fs::read_dir(folder).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                assert!(!name.ends_with(".txt") || named.contains(&&*name), "{name} is not run");
            }
        }
    };
}

scenario_files! {
    consumer_groups: "consumer_groups.txt";
    mixed_groups: "mixed_groups.txt";
    upgrade: "upgrade.txt";
    downgrade: "downgrade.txt";
    probes: "probes.txt";
    offset_probes: "offset_probes.txt";
    offsets: "offsets.txt";
    expiration: "expiration.txt";
    join: "join.txt";
    sync_and_heartbeat: "sync_and_heartbeat.txt";
    leave: "leave.txt";
    static_members: "static_members.txt";
    timers: "timers.txt";
    pitfalls: "pitfalls.txt";
    administration: "administration.txt";
    durability: "durability.txt";
    events: "events.txt";
    coordinator_assignment: "coordinator_assignment.txt";
    leader_checks: "leader_checks.txt";
    other_groups: "other_groups.txt";
    storm: "storm.txt";
    transactions: "transactions.txt";
}
