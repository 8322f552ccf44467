//! Where partitions end at the least: what any group of any shard has committed.

use crate::ask::*;
use crate::host::Host;

const PARTITIONS: [i32; 4] = [0, 1, 2, 40];

fn ends(host: &Host) -> Vec<i64> {
    host.node.furthest_offsets("orders", &PARTITIONS)
}

#[test]
fn an_end_is_the_highest_commit_of_all_shards_also_after_a_replay() {
    let mut host = Host::new(5);
    assert_eq!(ends(&host), [0, 0, 0, 0]);
    let (first, other) = host.apart();
    host.ask(9, &commit(&first, &[("orders", 0, &[1, 2]), ("returns", 0, &[40])]));
    host.ask(9, &commit(&other, &[("orders", 0, &[2, 40])]));
    assert_eq!(ends(&host), [0, 10, 20, 400]);
    let shard = host.shard_of(&other);
    host.drop_shard(shard);
    assert_eq!(ends(&host), [0, 10, 20, 0]);
    host.load(shard);
    assert_eq!(ends(&host), [0, 10, 20, 400]);
}

#[test]
fn a_commit_that_is_refused_moves_no_end() {
    let mut host = Host::new(5);
    stable(&mut host, "g");
    host.ask(9, &commit("g", &[("orders", 0, &[1])]));
    assert_eq!(ends(&host), [0, 0, 0, 0]);
}

#[test]
fn a_commit_that_the_log_lost_moves_no_end() {
    let mut host = Host::new(1);
    host.is_held = true;
    host.send(9, &commit("g", &[("orders", 0, &[1])]));
    host.drop_shard(0);
    assert_eq!(ends(&host), [0, 0, 0, 0]);
}

#[test]
fn the_ends_of_a_topic_that_was_made_anew_begin_again() {
    let mut host = Host::new(5);
    host.topics(&[("orders", 1, 3)]);
    host.ask(9, &commit("g", &[("orders", 0, &[2])]));
    host.topics(&[("orders", 2, 3)]);
    host.sleep(0);
    assert_eq!(ends(&host), [0, 0, 0, 0]);
}
