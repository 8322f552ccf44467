//! Prints what the codec costs on the hot paths, in nanoseconds: `cargo run --release -p kcoord-bench
//! --example codec`. It measures the codec alone, not a server.

#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::Instant;

use kcoord_core::ErrorCode;
use kcoord_core::request::{
    HeartbeatRequest, OffsetCommitPartition, OffsetCommitRequest, OffsetCommitTopic, Uuid,
};
use kcoord_wire::api::{self, RequestBody, heartbeat, offset_commit};
use kcoord_wire::header::{self, ApiKey, Incoming};

const ROUNDS: u32 = 200_000;
const SAMPLES: usize = 15;

fn main() {
    let frame = heartbeat_frame();
    let mut out = Vec::with_capacity(64);
    report("heartbeat v4: frame decoded, answer encoded", || {
        let Ok(Incoming::Owned(head, mut body)) = header::open_request(black_box(&frame)) else {
            panic!("not a heartbeat");
        };
        let request = heartbeat::decode_request(head.api_version, &mut body).expect("a body");
        black_box(&request);
        out.clear();
        let (api, version) = (ApiKey::Heartbeat, head.api_version);
        let start = header::begin_response(&mut out, api, version, head.correlation_id);
        heartbeat::encode_response(&mut out, version, &ErrorCode::None);
        header::finish_response(&mut out, start);
        black_box(&out);
    });
    let frame = commit_frame();
    report("offset commit v9 of 5 partitions: frame decoded", || {
        let Ok(Incoming::Owned(head, mut body)) = header::open_request(black_box(&frame)) else {
            panic!("not a commit");
        };
        let request = offset_commit::decode_request(head.api_version, &mut body);
        black_box(&request.expect("a body"));
    });
    report("the same by api::decode_request", || {
        let Ok(Incoming::Owned(head, mut body)) = header::open_request(black_box(&frame)) else {
            panic!("not a commit");
        };
        let request = api::decode_request(head.spec.api, head.api_version, &mut body);
        black_box(&request.expect("a body"));
    });
    let Ok(Incoming::Owned(_, mut body)) = header::open_request(&frame) else {
        panic!("not a commit");
    };
    let request = offset_commit::decode_request(9, &mut body).expect("a body");
    let response = offset_commit::error_response(&request, ErrorCode::None);
    report("offset commit v9 of 5 partitions: answer encoded", || {
        out.clear();
        let start = header::begin_response(&mut out, ApiKey::OffsetCommit, 9, 7);
        offset_commit::encode_response(&mut out, 9, black_box(&response));
        header::finish_response(&mut out, start);
        black_box(&out);
    });
}

/// The median of some samples.
fn report(name: &str, mut work: impl FnMut()) {
    let mut samples = [0.0; SAMPLES];
    for sample in &mut samples {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            work();
        }
        *sample = start.elapsed().as_nanos() as f64 / f64::from(ROUNDS);
    }
    samples.sort_by(f64::total_cmp);
    println!("{:7.1} ns  {name}", samples[SAMPLES / 2]);
}

const MEMBER: &str = "consumer-orders-1-5c2ff6a0-1a2b-4c3d-8e9f-0123456789ab";

fn heartbeat_frame() -> Vec<u8> {
    let request = HeartbeatRequest {
        group_id: "orders-service",
        generation_id: 17,
        member_id: MEMBER,
        group_instance_id: None,
    };
    request_frame(ApiKey::Heartbeat, 4, &RequestBody::Heartbeat(request))
}

fn commit_frame() -> Vec<u8> {
    let partitions = (0..5).map(|partition_index| OffsetCommitPartition {
        partition_index,
        committed_offset: 1_000_000,
        committed_leader_epoch: 3,
        committed_metadata: Some(""),
    });
    let topic = OffsetCommitTopic {
        name: "orders",
        topic_id: Uuid::ZERO,
        partitions: partitions.collect(),
    };
    let request = OffsetCommitRequest {
        group_id: "orders-service",
        generation_id_or_member_epoch: 17,
        member_id: MEMBER,
        group_instance_id: None,
        retention_time_ms: -1,
        topics: vec![topic],
    };
    request_frame(ApiKey::OffsetCommit, 9, &RequestBody::OffsetCommit(request))
}

fn request_frame(api: ApiKey, version: i16, request: &RequestBody<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let start = header::begin_request(&mut out, api, version, 7, Some("consumer-orders-1"));
    api::encode_request(&mut out, version, request);
    header::finish_response(&mut out, start);
    out.split_off(4)
}
