//! What a long answer costs in memory while it is made: a request of a few KB may ask for the same
//! large group often.

#[path = "../../core/tests/support/counting.rs"]
mod counting;

use std::sync::Arc;

use kcoord_core::Config;
use kcoord_core::limits::MAX_ANSWER_BYTES;
use kcoord_core::request::{
    JoinGroupProtocol, JoinGroupRequest, SyncGroupAssignment, SyncGroupRequest,
};
use kcoord_node::{Frame, Node, Session, Turn};
use kcoord_wire::api::describing::DescribeGroupsRequest;
use kcoord_wire::api::{self, RequestBody, ResponseBody};
use kcoord_wire::header::{ApiKey, begin_request, finish_response, open_response};

const SYNC: i16 = 3;
const METADATA_BYTES: usize = 4 << 20;

struct Peer {
    node: Node,
    ticket: u64,
    next_offset: i64,
}

impl Peer {
    /// Turns until there is an answer; those of nothing new included.
    fn ask(&mut self, api: ApiKey, version: i16, body: &RequestBody<'_>) -> Turn {
        let mut frame = Vec::new();
        begin_request(&mut frame, api, version, 7, Some("client"));
        api::encode_request(&mut frame, version, body);
        finish_response(&mut frame, 0);
        self.ticket += 1;
        let session = Arc::new(Session::anonymous("/127.0.0.1", "PLAINTEXT"));
        let arrived = Frame { ticket: self.ticket, session: &session, bytes: &frame[4..] };
        let mut frames = vec![arrived];
        loop {
            let turn = self.node.step(1_000, &frames, &[(0, self.next_offset)]);
            if let Some((_, append)) = turn.appends.last() {
                self.next_offset = append.end_offset();
            }
            frames.clear();
            assert!(turn.invalid.is_empty(), "{:?}", turn.invalid);
            if !turn.replies.is_empty() || !turn.long_replies.is_empty() {
                return turn;
            }
        }
    }
}

fn read(turn: &Turn, api: ApiKey, version: i16) -> ResponseBody {
    let (_, frame) = turn.frames().next().expect("an answer");
    let (_, mut body) = open_response(api, version, &frame[4..]).expect("a header");
    api::decode_response(api, version, &mut body).expect("a body")
}

#[test]
fn a_long_answer_takes_no_more_than_twice_its_size() {
    let config = Config { group_initial_rebalance_delay_ms: 0, ..Config::default() };
    let mut peer = Peer { node: Node::new(config, 1, &[7; 32]), ticket: 0, next_offset: 0 };
    peer.node.loaded(0, 1_000, 0);
    let metadata = vec![7; METADATA_BYTES];
    let join = RequestBody::JoinGroup(JoinGroupRequest {
        group_id: "fat",
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 20_000,
        member_id: "",
        group_instance_id: None,
        protocol_type: "consumer",
        protocols: vec![JoinGroupProtocol { name: "range", metadata: &metadata }],
        reason: None,
    });
    let turn = peer.ask(ApiKey::JoinGroup, 3, &join);
    let ResponseBody::JoinGroup(joined) = read(&turn, ApiKey::JoinGroup, 3) else { panic!() };
    let sync = RequestBody::SyncGroup(SyncGroupRequest {
        group_id: "fat",
        generation_id: joined.generation_id,
        member_id: &joined.member_id,
        group_instance_id: None,
        protocol_type: None,
        protocol_name: None,
        assignments: vec![SyncGroupAssignment { member_id: &joined.member_id, assignment: b"x" }],
    });
    peer.ask(ApiKey::SyncGroup, SYNC, &sync);
    for times in [1, 600] {
        let groups = vec!["fat"; times];
        let describe = DescribeGroupsRequest { groups, include_authorized_operations: false };
        let (answer, most, kept) = counting::counted(|| {
            let turn = peer.ask(ApiKey::DescribeGroups, 5, &RequestBody::DescribeGroups(describe));
            turn.long_replies.iter().flat_map(|(_, pieces)| pieces).map(Vec::len).sum::<usize>()
        });
        let fit = times.min(MAX_ANSWER_BYTES / METADATA_BYTES - 1);
        assert!((fit * METADATA_BYTES..(fit + 1) * METADATA_BYTES).contains(&answer));
        assert!(most < 2 * answer + (1 << 20), "{most} bytes for an answer of {answer}");
        assert!(kept < 1 << 20, "{kept} bytes stay");
    }
}
