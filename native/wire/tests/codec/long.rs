//! Requests of many names, which are read one by one, and descriptions that are made in steps: the
//! same as in one piece.

use core::cell::Cell;
use core::fmt::Debug;

use kcoord_core::request::{DeleteGroupsRequest, LeaveGroupRequest, OffsetFetchRequest};
use kcoord_wire::DecodeError;
use kcoord_wire::api::describing::{
    DescribeGroupsRequest, Described, DescribedGroup, encode_group,
};
use kcoord_wire::api::describing_steps::DescribedInSteps;
use kcoord_wire::api::long::{self, Checking, Long, Unread};
use kcoord_wire::api::{self, RequestBody, ResponseBody};
use kcoord_wire::header::{APIS, ApiKey, ApiSpec};
use kcoord_wire::in_steps::InSteps;
use kcoord_wire::reader::Reader;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::random;
use crate::round_trip::request_as_of;

/// Of what stands before the body in a frame.
const HEADER_BYTES: usize = 9;

fn after_header<'a>(spec: &ApiSpec, version: i16, frame: &'a [u8]) -> Reader<'a> {
    let mut body = Reader::new(frame, spec.is_flexible(version));
    body.skip("header", HEADER_BYTES).expect("it is there");
    body
}

/// What `decode_request` reads, with its list read one by one.
fn read_one_by_one<'a>(
    spec: &ApiSpec,
    version: i16,
    frame: &'a [u8],
    long: Long<'a>,
) -> RequestBody<'a> {
    let names = |mut list: Unread| {
        let mut all = Vec::new();
        all.extend(std::iter::from_fn(|| list.next_name(spec, version, frame)));
        all
    };
    match long {
        Long::Describe { groups, include_authorized_operations } => {
            let groups = names(groups);
            let request = DescribeGroupsRequest { groups, include_authorized_operations };
            match spec.api {
                ApiKey::DescribeGroups => RequestBody::DescribeGroups(request),
                _ => RequestBody::ConsumerGroupDescribe(request),
            }
        }
        Long::Delete { groups } => {
            RequestBody::DeleteGroups(DeleteGroupsRequest { groups_names: names(groups) })
        }
        Long::Leave { group_id, mut members } => {
            let members = std::iter::from_fn(|| members.next_member(version, frame)).collect();
            RequestBody::LeaveGroup(LeaveGroupRequest { group_id, members })
        }
        Long::Fetch { mut groups, require_stable, entries } => {
            let groups: Vec<OffsetFetchRequest<'_>> =
                std::iter::from_fn(|| groups.next_fetch(version, frame))
                    .map(|group| OffsetFetchRequest { require_stable, ..group })
                    .collect();
            let of_group = |group: &OffsetFetchRequest<'_>| {
                let topics = group.topics.iter().flatten();
                1 + topics.map(|topic| 1 + topic.partition_indexes.len()).sum::<usize>()
            };
            assert_eq!(groups.iter().map(of_group).sum::<usize>(), entries);
            RequestBody::OffsetFetch(groups)
        }
    }
}

#[test]
fn names_that_are_read_one_by_one_are_those_of_the_whole_request() {
    let seen = Cell::new(0);
    for spec in &APIS {
        for version in spec.min_version..=spec.max_version {
            let mut runner = TestRunner::new(ProptestConfig::with_cases(64));
            let result = runner.run(&random::requests(spec.api), |request| {
                let request = request_as_of(version, request);
                let mut frame = vec![7; HEADER_BYTES];
                api::encode_request(&mut frame, version, &request);
                let mut body = after_header(spec, version, &frame);
                let whole = api::decode_request(spec.api, version, &mut body.clone());
                let Some(long) = long::check(spec.api, version, &mut body).expect("a request")
                else {
                    return Ok(());
                };
                seen.set(seen.get() + 1);
                prop_assert_eq!(body.remaining(), 0);
                let read = read_one_by_one(spec, version, &frame, long);
                let whole = whole.expect("a request");
                prop_assert_eq!(format!("{read:?}"), format!("{whole:?}"));
                Ok(())
            });
            result.unwrap_or_else(|error| panic!("{} v{version}: {error}", spec.name));
        }
    }
    assert!(seen.get() > 1_000);
}

/// What [`long::check`] does at once: each step reads on in the frame where the one before ended.
fn checked_in_steps<'a>(
    spec: &ApiSpec,
    version: i16,
    frame: &'a [u8],
    (most, most_bytes): (usize, usize),
) -> Result<Option<Long<'a>>, DecodeError> {
    let mut body = after_header(spec, version, frame);
    let Some((mut checking, group_id)) = Checking::begin(spec.api, version, &mut body)? else {
        return Ok(None);
    };
    while !checking.is_whole() {
        let checked = checking.go_on(&mut checking.body(frame), most, most_bytes)?;
        assert!((1..=most).contains(&checked));
    }
    let mut body = checking.body(frame);
    let long = checking.end(&mut body, group_id)?;
    assert_eq!(body.remaining(), 0);
    Ok(Some(long))
}

#[test]
fn a_check_in_steps_is_the_one_of_one_piece() {
    let seen = Cell::new(0);
    for spec in &APIS {
        for version in spec.min_version..=spec.max_version {
            let mut runner = TestRunner::new(ProptestConfig::with_cases(64));
            let some = (random::requests(spec.api), 1..9_usize, 1..99_usize, 0..200_usize);
            let result = runner.run(&some, |(request, most, most_bytes, cut)| {
                let mut frame = vec![7; HEADER_BYTES];
                api::encode_request(&mut frame, version, &request_as_of(version, request));
                let (whole, steps) = (frame.len(), (most, most_bytes));
                for frame in [&frame[..], &frame[..whole.saturating_sub(cut).max(HEADER_BYTES)]] {
                    let mut body = after_header(spec, version, frame);
                    let at_once = long::check(spec.api, version, &mut body);
                    seen.set(seen.get() + usize::from(at_once.is_err()));
                    prop_assert_eq!(checked_in_steps(spec, version, frame, steps), at_once);
                }
                Ok(())
            });
            result.unwrap_or_else(|error| panic!("{} v{version}: {error}", spec.name));
        }
    }
    assert!(seen.get() > 500, "{}", seen.get());
}

fn assert_same_in_steps<G>(version: i16, described: Described<G>, most: usize)
where
    G: DescribedGroup + Clone + Debug + Send + Sync,
{
    let operations = described.authorized_operations;
    for group in described.groups {
        let mut whole = Vec::new();
        encode_group(&mut whole, version, &group, operations);
        let mut steps = DescribedInSteps::new(version, operations, Box::new(group));
        assert_eq!(steps.left(), whole.len());
        let mut out = Vec::new();
        while steps.left() > 0 {
            let (before, room) = (out.len(), most.min(steps.left()));
            steps.fill(&mut out, room);
            assert_eq!(out.len(), before + room);
        }
        assert_eq!(out, whole);
    }
}

#[test]
fn a_description_in_steps_is_the_one_of_one_piece() {
    for api in [ApiKey::DescribeGroups, ApiKey::ConsumerGroupDescribe] {
        let spec = api.spec();
        for version in spec.min_version..=spec.max_version {
            let mut runner = TestRunner::new(ProptestConfig::with_cases(100));
            let result = runner.run(&(random::responses(api), 1..50_usize), |(response, most)| {
                match response {
                    ResponseBody::DescribeGroups(of) => assert_same_in_steps(version, of, most),
                    ResponseBody::ConsumerGroupDescribe(of) => {
                        assert_same_in_steps(version, of, most);
                    }
                    other => panic!("{other:?}"),
                }
                Ok(())
            });
            result.unwrap_or_else(|error| panic!("{} v{version}: {error}", spec.name));
        }
    }
}
