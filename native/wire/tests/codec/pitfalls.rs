//! The pitfalls that break real clients (numbered as in docs/spec/client-pitfalls.md), as far as
//! the codec can cause them.

use kcoord_core::ErrorCode;
use kcoord_core::request::{OffsetFetchRequest, OffsetFetchTopic, Uuid};
use kcoord_core::response::{
    JoinGroupResponse, OffsetFetchResponse, OffsetFetchResponseBuilder,
    OffsetFetchResponsePartition,
};
use kcoord_wire::api::{self, RequestBody, join_group, offset_fetch};
use kcoord_wire::header::{self, APIS, ApiKey, ApiSpec, Incoming};
use kcoord_wire::reader::Reader;

fn serves(api: ApiKey, version: i16) -> bool {
    api.spec().serves(version)
}

/// Only ApiVersions answers with header v0 in flexible versions; the owned APIs do not.
#[test]
fn pitfall_1_flexible_responses_have_a_tag_buffer_in_their_header() {
    for spec in &APIS {
        for version in spec.min_version..=spec.max_version {
            let mut out = vec![0xee];
            let start = header::begin_response(&mut out, spec.api, version, 7);
            header::finish_response(&mut out, start);
            let header: &[u8] = match spec.is_flexible(version) {
                true => &[0xee, 0, 0, 0, 5, 0, 0, 0, 7, 0],
                false => &[0xee, 0, 0, 0, 4, 0, 0, 0, 7],
            };
            assert_eq!(out, header, "{} v{version}", spec.name);
        }
    }
}

/// librdkafka before 2.11 looks for exactly these versions (librdkafka#4948, KAFKA-18659).
#[test]
fn pitfall_4_old_librdkafka_finds_its_exact_versions() {
    for (api, version) in [
        (ApiKey::OffsetCommit, 2),
        (ApiKey::OffsetFetch, 1),
        (ApiKey::JoinGroup, 0),
        (ApiKey::SyncGroup, 0),
        (ApiKey::Heartbeat, 0),
        (ApiKey::LeaveGroup, 0),
    ] {
        assert!(serves(api, version), "{api:?} v{version}");
    }
}

/// kafka-go hard-codes JoinGroup v1, kafka_ex low versions (kafka-go#1378, kafka_ex#497).
#[test]
fn pitfall_5_hard_coded_low_versions_are_read() {
    let body =
        b"\0\x02g1\0\0\x27\x10\0\0\x75\x30\0\0\0\x08consumer\0\0\0\x01\0\x05range\0\0\0\x01\x09";
    let request = join_group::decode_request(1, &mut Reader::new(body, false)).expect("v1");
    assert_eq!((request.session_timeout_ms, request.rebalance_timeout_ms), (10_000, 30_000));
    let body = b"\0\x02g1\0\0\x27\x10\0\0\0\x08consumer\0\0\0\0";
    let request = join_group::decode_request(0, &mut Reader::new(body, false)).expect("v0");
    assert_eq!(request.rebalance_timeout_ms, 10_000);
}

/// A missing group API makes clients refuse the broker (librdkafka#2693).
#[test]
fn pitfall_6_every_group_api_is_there() {
    for api_key in [8, 9, 11, 12, 13, 14, 15, 16, 42, 47] {
        let spec = ApiSpec::of(api_key).expect("an owned API");
        assert_eq!(spec.api as i16, api_key);
        assert_eq!(spec.api.spec(), spec);
    }
    assert!((-1..100).filter(|&api_key| ApiSpec::of(api_key).is_some()).count() == APIS.len());
}

/// aiokafka asserts it.
#[test]
fn pitfall_7_no_minimum_is_above_its_maximum() {
    assert!(APIS.iter().all(|spec| 0 <= spec.min_version && spec.min_version <= spec.max_version));
}

/// v10 names topics by id only, both ways.
#[test]
fn pitfall_11_topic_ids_replace_names_in_v10() {
    let topic = OffsetFetchTopic { name: "t", topic_id: Uuid(9), partition_indexes: vec![3] };
    let request = OffsetFetchRequest {
        group_id: "g",
        member_id: None,
        member_epoch: -1,
        topics: Some(vec![topic]),
        require_stable: false,
    };
    for (version, name, topic_id) in [(9, "t", Uuid::ZERO), (10, "", Uuid(9))] {
        let mut out = Vec::new();
        offset_fetch::encode_request(&mut out, version, std::slice::from_ref(&request));
        let groups = offset_fetch::decode_request(version, &mut Reader::new(&out, true));
        let groups = groups.expect("a request");
        let topic = &groups[0].topics.as_ref().expect("topics")[0];
        assert_eq!((topic.name, topic.topic_id), (name, topic_id), "v{version}");
    }
}

/// Clients validate positions by leader epoch where they hear one: "none" stays -1, and versions
/// below 5 carry none.
#[test]
fn pitfall_12_no_leader_epoch_is_minus_one() {
    let body = b"\0\x02g1\0\0\0\x01\0\x02m1\xff\xff\xff\xff\xff\xff\xff\xff\
        \0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\x2a\xff\xff";
    let mut reader = Reader::new(body, false);
    let Ok(RequestBody::OffsetCommit(request)) =
        api::decode_request(ApiKey::OffsetCommit, 2, &mut reader)
    else {
        panic!("not read: {body:?}");
    };
    assert_eq!(request.topics[0].partitions[0].committed_leader_epoch, -1);
    let mut out = Vec::new();
    offset_fetch::encode_response(&mut out, 5, &[fetched(ErrorCode::None)]);
    assert!(out.ends_with(b"\0\0\0\x2a\xff\xff\xff\xff\0\x01m\0\0\0\0"), "{out:?}");
}

/// The protocol name is nullable only from v7; "" below (KAFKA-14204, apache/kafka#12864).
#[test]
fn pitfall_13_an_absent_protocol_name_is_empty_below_v7_and_null_from_v7() {
    for protocol_name in [None, Some(Box::from(""))] {
        let response = JoinGroupResponse {
            error_code: ErrorCode::MemberIdRequired,
            generation_id: -1,
            protocol_type: None,
            protocol_name,
            leader: "".into(),
            skip_assignment: false,
            member_id: "m".into(),
            members: Vec::new(),
        };
        let encode = |version| {
            let mut out = Vec::new();
            join_group::encode_response(&mut out, version, &response);
            out
        };
        assert_eq!(encode(5), b"\0\0\0\0\0\x4f\xff\xff\xff\xff\0\0\0\0\0\x01m\0\0\0\0");
        assert_eq!(encode(6), b"\0\0\0\0\0\x4f\xff\xff\xff\xff\x01\x01\x02m\x01\0");
        assert_eq!(encode(7), b"\0\0\0\0\0\x4f\xff\xff\xff\xff\0\0\x01\x02m\x01\0");
    }
}

/// Instance ids need JoinGroup v5, SyncGroup and Heartbeat v3: below, nothing is read as one.
#[test]
fn pitfall_13_instance_ids_are_not_read_from_older_versions() {
    let body = b"\0\x02g1\0\0\0\x01\0\x02m1\0\x01i";
    for (version, instance, rest) in [(2, None, 3), (3, Some("i"), 0)] {
        let mut reader = Reader::new(body, false);
        let Ok(RequestBody::Heartbeat(request)) =
            api::decode_request(ApiKey::Heartbeat, version, &mut reader)
        else {
            panic!("v{version} not read");
        };
        assert_eq!((request.group_instance_id, reader.remaining()), (instance, rest));
    }
}

/// OffsetFetch is batched from v8, and asks for stable offsets from v7.
#[test]
fn pitfall_16_offset_fetch_is_batched_from_v8_and_stable_from_v7() {
    let request = OffsetFetchRequest {
        group_id: "g",
        member_id: None,
        member_epoch: -1,
        topics: None,
        require_stable: true,
    };
    for (version, stable) in [(6, false), (7, true), (8, true)] {
        let count = if version < 8 { 1 } else { 2 };
        let mut out = Vec::new();
        offset_fetch::encode_request(&mut out, version, &vec![request.clone(); count]);
        let groups = offset_fetch::decode_request(version, &mut Reader::new(&out, true));
        let groups = groups.expect("a request");
        assert_eq!(groups.len(), count);
        assert!(groups.iter().all(|group| group.require_stable == stable));
    }
}

/// A group's error: on each partition in v1, at the top up to v7, on the group later.
#[test]
fn pitfall_16_a_group_error_stands_where_the_version_has_a_place_for_it() {
    let encode = |version| {
        let mut out = Vec::new();
        offset_fetch::encode_response(&mut out, version, &[fetched(ErrorCode::NotCoordinator)]);
        out
    };
    assert_eq!(encode(1), b"\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\x2a\0\x01m\0\x10");
    assert_eq!(encode(2), b"\0\0\0\0\0\x10");
    assert_eq!(encode(7), b"\0\0\0\0\x01\0\x10\0");
    assert_eq!(encode(8), b"\0\0\0\0\x02\x02g\x01\0\x10\0\0");
}

/// Clients refuse a broker whose minimum is above their maximum.
#[test]
fn pitfall_20_minima_are_those_of_kafka_4_3() {
    let minima = APIS.iter().filter(|spec| spec.min_version > 0);
    let minima: Vec<_> = minima.map(|spec| (spec.name, spec.min_version)).collect();
    assert_eq!(minima, [("OffsetCommit", 2), ("OffsetFetch", 1), ("WriteTxnMarkers", 1)]);
    let frame = b"\0\x08\0\x01\0\0\0\x07\0\x03cli";
    let incoming = header::open_request(frame).expect("a header");
    assert!(matches!(incoming, Incoming::Unsupported { api_key: 8, api_version: 1 }));
}

fn fetched(error_code: ErrorCode) -> OffsetFetchResponse {
    let partition = OffsetFetchResponsePartition {
        partition_index: 0,
        committed_offset: 42,
        committed_leader_epoch: -1,
        metadata: "m",
        error_code: ErrorCode::None,
    };
    let mut response = OffsetFetchResponseBuilder::new("g", error_code);
    response.push_topic("t", Uuid::ZERO, [partition].into_iter());
    response.finish()
}
