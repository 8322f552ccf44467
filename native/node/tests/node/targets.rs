//! Targets of large consumer groups are computed aside: by the node's thread, or by the host.

use kcoord_wire::api::ResponseBody;

use crate::ask::*;
use crate::host::Host;

/// A topic of so many partitions, which no turn assigns.
fn host(shards: usize) -> Host {
    let mut host = Host::new(shards);
    host.topics(&[("t", 1, 20_000)]);
    host
}

fn epoch(answer: ResponseBody) -> i32 {
    match answer {
        ResponseBody::ConsumerGroupHeartbeat(Ok(beaten)) => beaten.member_epoch,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_nodes_thread_computes_while_others_are_answered() {
    let mut host = host(1);
    host.node.compute_targets_aside();
    assert_eq!(epoch(host.ask(1, &beat("g", "m", 0))), 1, "nothing is assigned yet");
    let mut turns = 0;
    while epoch(host.ask(1, &beat("g", "m", 1))) == 1 {
        let due_ms = host.next_timeout_ms.expect("it looks for what the thread does");
        assert!(due_ms <= host.now_ms + 1, "it looks soon");
        host.ask(5, &describe(&["other"]));
        host.sleep(1);
        turns += 1;
        assert!(turns < 40_000, "the thread ends");
        std::thread::yield_now();
    }
    assert!(host.next_timeout_ms.is_none_or(|due_ms| due_ms > host.now_ms + 1), "it rests");
}

#[test]
fn without_being_told_the_node_computes_in_the_turn() {
    let mut host = host(1);
    assert_eq!(epoch(host.ask(1, &beat("g", "m", 0))), 2);
}

#[test]
fn what_was_asked_of_a_shard_that_is_dropped_reaches_no_other() {
    let mut host = host(1);
    host.node.hand_targets_out(100);
    assert_eq!(epoch(host.ask(1, &beat("g", "m", 0))), 1);
    let job = host.target_jobs.pop().expect("the host is asked");
    host.drop_shard(0);
    host.load(0);
    assert_eq!(epoch(host.ask(1, &beat("g", "m", 1))), 1, "asked for again");
    let again = host.target_jobs.pop().expect("the host is asked again");
    host.node.bring_targets(job.number, Ok(job.input.compute()));
    host.sleep(0);
    assert_eq!(epoch(host.ask(1, &beat("g", "m", 1))), 1, "the first is nobody's");
    host.node.bring_targets(again.number, Ok(again.input.compute()));
    host.sleep(0);
    assert_eq!(epoch(host.ask(1, &beat("g", "m", 1))), 2);
}
