//! A whole request answered with one error: every API and version has its own place for the code.

use kcoord_core::ErrorCode;
use kcoord_wire::api::describing::OPERATIONS_OMITTED;
use kcoord_wire::api::{self, RequestBody, ResponseBody};
use kcoord_wire::header::{APIS, ApiSpec};
use kcoord_wire::reader::Reader;
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};

use crate::random;

const CODE: ErrorCode = ErrorCode::NotCoordinator;

#[test]
fn every_api_and_version_carries_the_error() {
    for spec in &APIS {
        for version in spec.min_version..=spec.max_version {
            let mut runner = TestRunner::new(ProptestConfig::with_cases(16));
            let result = runner.run(&random::requests(spec.api), |request| {
                let request = match request {
                    RequestBody::OffsetFetch(mut groups) if version < 8 => {
                        groups.truncate(1);
                        RequestBody::OffsetFetch(groups)
                    }
                    request => request,
                };
                carries(spec, version, &request)
            });
            result.unwrap_or_else(|error| panic!("{} v{version}: {error}", spec.name));
        }
    }
}

fn carries(spec: &ApiSpec, version: i16, request: &RequestBody<'_>) -> Result<(), TestCaseError> {
    use {RequestBody as Q, ResponseBody as A};
    let mut bytes = Vec::new();
    api::encode_error(&mut bytes, version, request, CODE);
    let mut reader = Reader::new(&bytes, spec.is_flexible(version));
    let response = api::decode_response(spec.api, version, &mut reader).expect("a response");
    prop_assert_eq!(reader.remaining(), 0);
    match (request, response) {
        (Q::JoinGroup(request), A::JoinGroup(response)) => {
            prop_assert_eq!((response.error_code, response.generation_id), (CODE, -1));
            prop_assert_eq!(&*response.member_id, request.member_id);
            prop_assert_eq!(&*response.leader, "");
            prop_assert_eq!(response.protocol_name.is_none(), version >= 7);
            prop_assert!(response.members.is_empty());
        }
        (Q::SyncGroup(_), A::SyncGroup(response)) => {
            prop_assert_eq!((response.error_code, &*response.assignment), (CODE, &[][..]));
        }
        (Q::Heartbeat(_), A::Heartbeat(error_code)) => prop_assert_eq!(error_code, CODE),
        (Q::LeaveGroup(_), A::LeaveGroup(response)) => {
            prop_assert_eq!((response.error_code, response.members.len()), (CODE, 0));
        }
        (Q::OffsetCommit(request), A::OffsetCommit(response)) => {
            let asked = request.topics.iter().map(|topic| {
                topic.partitions.iter().map(|p| (p.partition_index, CODE)).collect::<Vec<_>>()
            });
            let told = response.topics.into_iter().map(|topic| topic.partitions);
            prop_assert!(told.eq(asked));
        }
        (Q::TxnOffsetCommit(request), A::TxnOffsetCommit(response)) => {
            let asked = request.commit.topics.iter().map(|topic| {
                topic.partitions.iter().map(|p| (p.partition_index, CODE)).collect::<Vec<_>>()
            });
            let told = response.topics.into_iter().map(|topic| topic.partitions);
            prop_assert!(told.eq(asked));
        }
        (Q::WriteTxnMarkers(request), A::WriteTxnMarkers(response)) => {
            let asked = request.markers.iter().flat_map(|of| &of.topics).flat_map(|of| &of.1);
            let told = response.markers.iter().flat_map(|of| &of.topics).flat_map(|of| &of.1);
            prop_assert!(told.copied().eq(asked.map(|index| (*index, CODE))));
        }
        (Q::OffsetFetch(groups), A::OffsetFetch(told)) if version >= 8 => {
            let asked = groups.iter().map(|group| (group.group_id, CODE, 0));
            let told =
                told.iter().map(|told| (told.group_id(), told.error_code(), told.topics().count()));
            prop_assert!(told.eq(asked));
        }
        (Q::OffsetFetch(_), A::OffsetFetch(told)) if version >= 2 => {
            prop_assert_eq!((told[0].error_code(), told[0].topics().count()), (CODE, 0));
        }
        (Q::OffsetFetch(groups), A::OffsetFetch(told)) => {
            let asked = groups[0].topics.iter().flatten().flat_map(|topic| {
                topic.partition_indexes.iter().map(|&partition| (partition, -1, CODE))
            });
            let told = told[0].topics().flat_map(|topic| topic.partitions);
            let told = told.map(|p| (p.partition_index, p.committed_offset, p.error_code));
            prop_assert!(told.eq(asked));
        }
        (Q::OffsetDelete(_), A::OffsetDelete(response)) => {
            prop_assert_eq!((response.error_code, response.topics.len()), (CODE, 0));
        }
        (Q::DescribeGroups(request), A::DescribeGroups(described)) => {
            let told = described.groups.iter().map(|group| (&*group.group_id, group.error_code));
            prop_assert!(told.eq(request.groups.iter().map(|&group_id| (group_id, CODE))));
            prop_assert_eq!(described.authorized_operations, OPERATIONS_OMITTED);
        }
        (Q::DeleteGroups(request), A::DeleteGroups(response)) => {
            let told = response.results.iter().map(|(group_id, code)| (&**group_id, *code));
            prop_assert!(told.eq(request.groups_names.iter().map(|&group_id| (group_id, CODE))));
        }
        (Q::ListGroups(_), A::ListGroups(response)) => {
            prop_assert_eq!((response.error_code, response.groups.len()), (CODE, 0));
        }
        (Q::ConsumerGroupHeartbeat(_), A::ConsumerGroupHeartbeat(answer)) => {
            prop_assert_eq!(answer, Err(CODE.into()));
        }
        (Q::ConsumerGroupDescribe(request), A::ConsumerGroupDescribe(described)) => {
            let told = described.groups.iter().map(|group| (&*group.group_id, group.error_code));
            prop_assert!(told.eq(request.groups.iter().map(|&group_id| (group_id, CODE))));
        }
        (_, response) => {
            let mut codes = Vec::new();
            response.each_code(|code| codes.push(code));
            prop_assert!(!codes.is_empty() && codes.iter().all(|&code| code == CODE));
        }
    }
    Ok(())
}
