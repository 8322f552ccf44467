//! Requests as rows, the way the columns of Arrow batches come: one shard, answers and records out.
//! The columns themselves are Arrow's and Python's matter, and not measured here.

use std::hint::black_box;

use kcoord_core::ErrorCode;
use kcoord_core::request::Request;
use kcoord_node::Node;
use kcoord_rows::{Answer, Asked, Record, Row, Rows, Sink};
use kcoord_wire::api::{self, RequestBody};
use kcoord_wire::header::ApiKey;
use kcoord_wire::reader::Reader;

use crate::requests::{Member, NOW_MS, commit, config, group_id, join, sync};
use crate::work::{Work, shuffled};

const JOIN_VERSION: i16 = 3;
const COMMIT_VERSION: i16 = 7;

/// Takes answers and records as a table would; counts them, and keeps who joined.
#[derive(Default)]
struct Taken {
    answers: u64,
    records: u64,
    members: Vec<Member>,
}

impl Sink for Taken {
    fn answer(&mut self, answer: &Answer<'_>) {
        assert_eq!(answer.error_code, ErrorCode::None as i16, "{answer:?}");
        self.answers += 1;
        if answer.api_key == ApiKey::JoinGroup as i16 {
            let mut reader = Reader::new(answer.payload.expect("a body"), false);
            let joined = api::join_group::decode_response(JOIN_VERSION, &mut reader);
            self.members.push(Member {
                group_id: String::from(answer.group_id).leak(),
                member_id: String::from(joined.expect("a sound body").member_id).leak(),
            });
        }
        black_box(answer);
    }

    fn record(&mut self, record: &Record<'_>) {
        self.records += 1;
        black_box(record);
    }
}

/// The same rows in each round, from members of groups of one in random order.
pub struct AsRows {
    node: Node,
    rows: Rows,
    requests: Vec<Row<'static>>,
    /// Of each request.
    records: u64,
    /// Each row comes a millisecond after the one before.
    apart: bool,
}

impl AsRows {
    fn new(count: usize, records: u64, ask: impl Fn(&Member) -> Row<'static>) -> Self {
        let mut node = Node::new(config(), 1, &[7; 32]);
        let mut rows = Rows::new(0, 1, 0);
        let mut taken = Taken::default();
        let ids: Vec<&'static str> = (0..count).map(|index| &*group_id(index).leak()).collect();
        let joins: Vec<_> = ids.iter().map(|id| row(id, ApiKey::JoinGroup, join(id, ""))).collect();
        rows.process(&mut node, &&joins[..], &mut taken).expect("sound rows");
        // The initial delay of zero is a timer that is due at once.
        rows.advance(&mut node, NOW_MS, &mut taken);
        let members = std::mem::take(&mut taken.members);
        let syncs: Vec<_> = members
            .iter()
            .map(|one| row(one.group_id, ApiKey::SyncGroup, sync(one, 1, &[one.member_id])))
            .collect();
        rows.process(&mut node, &&syncs[..], &mut taken).expect("sound rows");
        assert_eq!(taken.answers, 2 * count as u64);
        let requests = shuffled(count).into_iter().map(|index| ask(&members[index])).collect();
        let mut all = AsRows { node, rows, requests, records, apart: false };
        all.round(); // the first commits of groups are another matter
        all
    }

    /// Without a body: its columns say it all.
    pub fn heartbeats(count: usize) -> Self {
        AsRows::new(count, 0, |member| {
            let blank = blank(member.group_id, ApiKey::Heartbeat, 4);
            let (member_id, generation) = (Some(member.member_id), Some(1));
            Row { asked: Asked { member_id, generation, ..blank.asked }, ..blank }
        })
    }

    pub fn commits(count: usize) -> Self {
        AsRows::new(count, 1, |member| {
            let request = Request::OffsetCommit(commit(member, 1));
            row(member.group_id, ApiKey::OffsetCommit, request)
        })
    }

    /// From now on each request is a turn of its own.
    pub fn apart(mut self) -> Self {
        self.apart = true;
        self.round(); // what a turn keeps for the next is there then
        self
    }
}

impl Work for AsRows {
    fn round(&mut self) -> u64 {
        if self.apart {
            let before_ms = self.rows.now_ms().expect("it served members");
            for (row, ts) in self.requests.iter_mut().zip(before_ms + 1..) {
                row.ts = ts;
            }
        }
        let mut taken = Taken::default();
        let batch = &self.requests[..];
        self.rows.process(&mut self.node, &batch, &mut taken).expect("sound rows");
        assert_eq!(taken.answers, self.requests.len() as u64);
        assert_eq!(taken.records, self.records * taken.answers);
        taken.answers
    }
}

fn row(group_id: &'static str, api: ApiKey, request: Request<'static>) -> Row<'static> {
    let (version, body) = match request {
        Request::JoinGroup(request) => (JOIN_VERSION, RequestBody::JoinGroup(request)),
        Request::SyncGroup(request) => (JOIN_VERSION, RequestBody::SyncGroup(request)),
        Request::OffsetCommit(request) => (COMMIT_VERSION, RequestBody::OffsetCommit(request)),
        other => unreachable!("{other:?}"),
    };
    let mut payload = Vec::new();
    api::encode_request(&mut payload, version, &body);
    Row { payload: Some(payload.leak()), ..blank(group_id, api, version) }
}

fn blank(group_id: &'static str, api: ApiKey, api_version: i16) -> Row<'static> {
    let asked = Asked {
        seq: 0,
        group_id,
        member_id: None,
        api_key: api as i16,
        api_version,
        generation: None,
    };
    Row {
        asked,
        ts: NOW_MS,
        client_id: Some("orders-service-1"),
        client_host: Some("/127.0.0.1"),
        payload: None,
    }
}
