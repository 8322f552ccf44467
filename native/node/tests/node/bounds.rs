//! Requests of one group that would make a turn long are refused whole.

use kcoord_core::ErrorCode;
use kcoord_core::limits::MAX_PARTITIONS_PER_REQUEST;
use kcoord_core::request::{
    JoinGroupProtocol, JoinGroupRequest, SyncGroupAssignment, SyncGroupRequest,
};
use kcoord_wire::api::{RequestBody, ResponseBody};

use crate::ask::*;
use crate::host::Host;

/// Elements of one array in a JoinGroup or SyncGroup.
const MAX_ELEMENTS: usize = 1 << 17;

#[test]
fn a_commit_of_more_partitions_than_a_turn_holds_keeps_none() {
    let mut host = Host::new(1);
    let most = MAX_PARTITIONS_PER_REQUEST as i32;
    let all: Vec<i32> = (0..=most).collect();
    let topics = committed(host.ask(7, &commit("g", &[("t", 0, &all)])));
    assert_eq!(topics[0].2.len(), all.len());
    assert!(topics[0].2.iter().all(|(_, code)| *code == ErrorCode::UnknownServerError));
    let answer = listed(host.ask(4, &list()));
    assert_eq!(answer, (ErrorCode::None, Vec::new()), "no group was made for it");
    let topics = committed(host.ask(7, &commit("g", &[("t", 0, &all[1..])])));
    assert!(topics[0].2.iter().all(|(_, code)| *code == ErrorCode::None));
    for (partitions, code) in [(&all[..], ErrorCode::UnknownServerError), (&all[1..], NONE)] {
        let asked = delete_offsets("g", &[("t", partitions)]);
        let ResponseBody::OffsetDelete(answer) = host.ask(0, &asked) else { panic!() };
        assert_eq!(answer.error_code, code);
        let left = if code == NONE { 0 } else { most as usize };
        assert_eq!(host.node.shard(0).offset_count_of("g"), left);
    }
}

const NONE: ErrorCode = ErrorCode::None;

#[test]
fn protocols_and_assignments_without_end_are_not_read() {
    let mut host = Host::new(1);
    let protocol = JoinGroupProtocol { name: "p", metadata: b"" };
    let join = |count| {
        RequestBody::JoinGroup(JoinGroupRequest {
            group_id: "g",
            session_timeout_ms: 10_000,
            rebalance_timeout_ms: 20_000,
            member_id: "",
            group_instance_id: None,
            protocol_type: "consumer",
            protocols: vec![protocol; count],
            reason: None,
        })
    };
    let assignment = SyncGroupAssignment { member_id: "m", assignment: b"" };
    let sync = |count| {
        RequestBody::SyncGroup(SyncGroupRequest {
            group_id: "g",
            generation_id: 1,
            member_id: "m",
            group_instance_id: None,
            protocol_type: None,
            protocol_name: None,
            assignments: vec![assignment; count],
        })
    };
    for body in [join(MAX_ELEMENTS), sync(MAX_ELEMENTS)] {
        host.ask(3, &body);
    }
    assert_eq!(host.invalid, []);
    for body in [join(MAX_ELEMENTS + 1), sync(MAX_ELEMENTS + 1)] {
        host.send(3, &body);
    }
    assert_eq!(host.invalid.len(), 2, "{:?}", host.invalid);
}
