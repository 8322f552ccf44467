//! Random bodies of every API in every version: what was written is read back, without the fields
//! that the version lacks, and to the last byte.

use kcoord_core::ErrorCode;
use kcoord_core::request::{TxnOffsetCommitRequest, Uuid};
use kcoord_core::response::{
    MemberType, OffsetFetchResponse, OffsetFetchResponseBuilder, OffsetFetchResponsePartition,
};
use kcoord_wire::api::describing::{Described, OPERATIONS_OMITTED};
use kcoord_wire::api::offset_fetch::{GroupInSteps, encode_group};
use kcoord_wire::api::{self, RequestBody, ResponseBody, join_group};
use kcoord_wire::header::{APIS, ApiKey};
use kcoord_wire::in_steps::InSteps;
use kcoord_wire::reader::Reader;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::random;

#[test]
fn requests_are_read_as_they_were_written() {
    for spec in &APIS {
        for version in spec.min_version..=spec.max_version {
            let mut runner = TestRunner::new(ProptestConfig::with_cases(64));
            let result = runner.run(&random::requests(spec.api), |request| {
                let request = request_as_of(version, request);
                let mut bytes = Vec::new();
                api::encode_request(&mut bytes, version, &request);
                let mut reader = Reader::new(&bytes, spec.is_flexible(version));
                let read = api::decode_request(spec.api, version, &mut reader).expect("a request");
                prop_assert_eq!(format!("{read:?}"), format!("{request:?}"));
                prop_assert_eq!(reader.remaining(), 0);
                Ok(())
            });
            result.unwrap_or_else(|error| panic!("{} v{version}: {error}", spec.name));
        }
    }
}

#[test]
fn responses_are_read_as_they_were_written() {
    for spec in &APIS {
        for version in spec.min_version..=spec.max_version {
            let mut runner = TestRunner::new(ProptestConfig::with_cases(64));
            let result = runner.run(&random::responses(spec.api), |response| {
                let response = response_as_of(version, response);
                let mut bytes = Vec::new();
                api::encode_response(&mut bytes, version, &response);
                if let ResponseBody::JoinGroup(joined) = &response {
                    prop_assert_eq!(join_group::response_bytes(version, joined), bytes.len());
                }
                let mut reader = Reader::new(&bytes, spec.is_flexible(version));
                let read =
                    api::decode_response(spec.api, version, &mut reader).expect("a response");
                prop_assert_eq!(read, response);
                prop_assert_eq!(reader.remaining(), 0);
                Ok(())
            });
            result.unwrap_or_else(|error| panic!("{} v{version}: {error}", spec.name));
        }
    }
}

fn in_steps(version: i16, group: &OffsetFetchResponse, most: usize) -> Vec<u8> {
    let (mut group, mut out) = (GroupInSteps::new(version, group.clone()), Vec::new());
    while group.left() > 0 {
        let room = most.min(group.left());
        let before = out.len();
        group.fill(&mut out, room);
        assert_eq!(out.len(), before + room);
    }
    out
}

#[test]
fn the_offsets_of_a_group_in_steps_are_those_of_one_piece() {
    let spec = ApiKey::OffsetFetch.spec();
    for version in spec.min_version..=spec.max_version {
        let mut runner = TestRunner::new(ProptestConfig::with_cases(200));
        let cases = (random::responses(ApiKey::OffsetFetch), 1..50_usize);
        let result = runner.run(&cases, |(response, most)| {
            let ResponseBody::OffsetFetch(groups) = response else { unreachable!() };
            for group in groups {
                let mut whole = Vec::new();
                encode_group(&mut whole, version, &group);
                prop_assert_eq!(in_steps(version, &group, most), whole);
            }
            Ok(())
        });
        result.unwrap_or_else(|error| panic!("v{version}: {error}"));
    }
}

#[test]
fn metadata_of_any_length_is_counted() {
    for length in [0, 1, 126, 127, 128, 16_381, 16_382, 16_383, 32_767] {
        let metadata = "x".repeat(length);
        let mut builder = OffsetFetchResponseBuilder::new("g", ErrorCode::None);
        let absent = OffsetFetchResponsePartition::absent(1, ErrorCode::None);
        let one = OffsetFetchResponsePartition { metadata: &metadata, ..absent };
        builder.push_topic("t", Uuid(1), [one, absent, one].into_iter());
        let group = builder.finish();
        for version in [1, 5, 7, 8, 10] {
            let mut whole = Vec::new();
            encode_group(&mut whole, version, &group);
            assert_eq!(in_steps(version, &group, 1_000), whole, "{length} bytes, v{version}");
        }
    }
}

/// The request with Kafka's defaults in the fields that the version lacks.
pub fn request_as_of(version: i16, mut request: RequestBody<'static>) -> RequestBody<'static> {
    match &mut request {
        RequestBody::JoinGroup(request) => {
            if version < 1 {
                request.rebalance_timeout_ms = request.session_timeout_ms;
            }
            request.group_instance_id = request.group_instance_id.filter(|_| version >= 5);
            request.reason = request.reason.filter(|_| version >= 8);
        }
        RequestBody::SyncGroup(request) => {
            request.group_instance_id = request.group_instance_id.filter(|_| version >= 3);
            request.protocol_type = request.protocol_type.filter(|_| version >= 5);
            request.protocol_name = request.protocol_name.filter(|_| version >= 5);
        }
        RequestBody::Heartbeat(request) => {
            request.group_instance_id = request.group_instance_id.filter(|_| version >= 3);
        }
        RequestBody::LeaveGroup(request) => {
            if version < 3 {
                request.members.truncate(1);
                request.members[0].group_instance_id = None;
            }
            for member in &mut request.members {
                member.reason = member.reason.filter(|_| version >= 5);
            }
        }
        RequestBody::OffsetCommit(request) => {
            request.group_instance_id = request.group_instance_id.filter(|_| version >= 7);
            if version >= 5 {
                request.retention_time_ms = -1;
            }
            for topic in &mut request.topics {
                match version {
                    ..10 => topic.topic_id = Uuid::ZERO,
                    _ => topic.name = "",
                }
                if version < 6 {
                    topic.partitions.iter_mut().for_each(|p| p.committed_leader_epoch = -1);
                }
            }
        }
        RequestBody::TxnOffsetCommit(TxnOffsetCommitRequest { commit, .. }) => {
            if version < 3 {
                commit.generation_id_or_member_epoch = -1;
                (commit.member_id, commit.group_instance_id) = ("", None);
            }
            for topic in &mut commit.topics {
                match version {
                    ..6 => topic.topic_id = Uuid::ZERO,
                    _ => topic.name = "",
                }
                if version < 2 {
                    topic.partitions.iter_mut().for_each(|p| p.committed_leader_epoch = -1);
                }
            }
        }
        RequestBody::WriteTxnMarkers(request) if version < 2 => {
            request.markers.iter_mut().for_each(|of| of.marker.transaction_version = 0);
        }
        RequestBody::OffsetFetch(groups) => {
            if version < 8 {
                groups.truncate(1);
            }
            for group in groups {
                if version < 9 {
                    (group.member_id, group.member_epoch) = (None, -1);
                }
                group.require_stable &= version >= 7;
                if version < 2 {
                    group.topics.get_or_insert_default();
                }
                for topic in group.topics.iter_mut().flatten() {
                    match version {
                        ..10 => topic.topic_id = Uuid::ZERO,
                        _ => topic.name = "",
                    }
                }
            }
        }
        RequestBody::DescribeGroups(request) => {
            request.include_authorized_operations &= version >= 3;
        }
        RequestBody::ListGroups(request) => {
            if version < 4 {
                request.states_filter.clear();
            }
            if version < 5 {
                request.types_filter.clear();
            }
        }
        RequestBody::ConsumerGroupHeartbeat(request) => {
            request.subscribed_topic_regex =
                request.subscribed_topic_regex.filter(|_| version >= 1);
        }
        _ => {}
    }
    request
}

/// The response with Kafka's defaults in the fields that the version lacks.
fn response_as_of(version: i16, mut response: ResponseBody) -> ResponseBody {
    match &mut response {
        ResponseBody::JoinGroup(response) => {
            if version < 7 {
                response.protocol_type = None;
                response.protocol_name.get_or_insert_default();
            } else if response.protocol_name.as_deref() == Some("") {
                response.protocol_name = None;
            }
            response.skip_assignment &= version >= 9;
            if version < 5 {
                response.members.iter_mut().for_each(|member| member.group_instance_id = None);
            }
        }
        ResponseBody::SyncGroup(response) if version < 5 => {
            (response.protocol_type, response.protocol_name) = (None, None);
        }
        ResponseBody::LeaveGroup(response) if version < 3 => {
            let member = response.members.first().map_or(ErrorCode::None, |m| m.error_code);
            if !response.error_code.is_error() {
                response.error_code = member;
            }
            response.members.clear();
        }
        ResponseBody::OffsetCommit(response) => {
            for topic in &mut response.topics {
                match version {
                    ..10 => topic.topic_id = Uuid::ZERO,
                    _ => topic.name = "".into(),
                }
            }
        }
        ResponseBody::TxnOffsetCommit(response) => {
            for topic in &mut response.topics {
                match version {
                    ..6 => topic.topic_id = Uuid::ZERO,
                    _ => topic.name = "".into(),
                }
            }
        }
        ResponseBody::OffsetFetch(groups) => offsets_as_of(version, groups),
        ResponseBody::DescribeGroups(Described { groups, authorized_operations }) => {
            if version < 3 {
                *authorized_operations = OPERATIONS_OMITTED;
            }
            for group in groups {
                group.error_message = group.error_message.take().filter(|_| version >= 6);
                if version < 4 {
                    group.members.iter_mut().for_each(|member| member.group_instance_id = None);
                }
            }
        }
        ResponseBody::ConsumerGroupDescribe(Described { groups, .. }) if version < 1 => {
            let members = groups.iter_mut().flat_map(|group| &mut group.members);
            members.for_each(|member| member.member_type = MemberType::Consumer);
        }
        ResponseBody::ListGroups(response) => {
            for group in &mut response.groups {
                group.group_state = if version >= 4 { group.group_state } else { "" };
                group.group_type = if version >= 5 { group.group_type } else { "" };
            }
        }
        _ => {}
    }
    response
}

fn offsets_as_of(version: i16, groups: &mut Vec<OffsetFetchResponse>) {
    if version < 8 {
        groups.truncate(1);
    }
    for group in groups {
        let told = group.clone();
        let failed = told.error_code().is_error();
        let group_id = if version < 8 { "" } else { told.group_id() };
        let error_code = if version < 2 { ErrorCode::None } else { told.error_code() };
        let mut as_of = OffsetFetchResponseBuilder::new(group_id, error_code);
        for topic in told.topics().filter(|_| !failed || version < 2) {
            let (name, topic_id) = match version {
                ..10 => (topic.name(), Uuid::ZERO),
                _ => ("", topic.topic_id),
            };
            let partitions = topic.partitions.map(|mut partition| {
                if version < 5 {
                    partition.committed_leader_epoch = -1;
                }
                if failed {
                    partition.error_code = told.error_code();
                }
                partition
            });
            as_of.push_topic(name, topic_id, partitions);
        }
        *group = as_of.finish();
    }
}
