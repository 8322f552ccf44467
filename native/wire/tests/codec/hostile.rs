//! Bytes that no honest client sends: bodies cut short, changed at random, or full of claims. A
//! decoder returns an error or a value; it never panics, reads beyond the frame, or allocates more
//! than a small multiple of it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use kcoord_core::consumer_protocol::{Assignment, Subscription};
use kcoord_wire::DecodeError;
use kcoord_wire::api::{self, long};
use kcoord_wire::header::{APIS, ApiSpec, Incoming, open_request};
use kcoord_wire::reader::{DecodeErrorKind, Reader};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::random;

/// Bytes that a decoder may allocate for each byte of a body. The worst honest case are arrays of
/// empty topics (64 bytes in memory, 3 on the wire).
const ALLOCATED_PER_BYTE: usize = 32;

/// The system's allocator, with a count of what this thread has asked for.
struct Metered;

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Metered = Metered;

// SAFETY: everything is handed to the system's allocator as it came; the count touches no memory
// that is being allocated.
unsafe impl GlobalAlloc for Metered {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.set(ALLOCATED.get() + layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// What `work` returned, and the bytes it allocated.
fn metered<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = ALLOCATED.get();
    let value = work();
    (value, ALLOCATED.get() - before)
}

/// Decodes a request's body, and holds the decoder to its promises.
fn decode(spec: &ApiSpec, version: i16, body: &[u8]) -> Result<(), DecodeError> {
    let mut reader = Reader::new(body, spec.is_flexible(version));
    let (result, allocated) =
        metered(|| api::decode_request(spec.api, version, &mut reader).map(drop));
    let allowed = ALLOCATED_PER_BYTE * body.len() + 256;
    assert!(allocated <= allowed, "{} v{version}: {allocated} bytes for {body:?}", spec.name);
    // A long list is checked without being made, and refused for the same reason.
    match long::check(spec.api, version, &mut Reader::new(body, spec.is_flexible(version))) {
        Ok(None) => {}
        checked => assert_eq!(checked.map(drop), result, "{} v{version}: {body:?}", spec.name),
    }
    result
}

fn every_version() -> impl Iterator<Item = (&'static ApiSpec, i16)> {
    APIS.iter().flat_map(|spec| (spec.min_version..=spec.max_version).map(move |v| (spec, v)))
}

#[test]
fn a_request_cut_short_is_an_error_at_every_byte() {
    for (spec, version) in every_version() {
        let mut runner = TestRunner::new(ProptestConfig::with_cases(8));
        let result = runner.run(&random::requests(spec.api), |request| {
            let request = match (request, version) {
                (api::RequestBody::OffsetFetch(mut groups), ..8) => {
                    groups.truncate(1);
                    if version < 2 {
                        groups[0].topics.get_or_insert_default();
                    }
                    api::RequestBody::OffsetFetch(groups)
                }
                (request, _) => request,
            };
            let mut bytes = Vec::new();
            api::encode_request(&mut bytes, version, &request);
            for end in 0..bytes.len() {
                prop_assert!(decode(spec, version, &bytes[..end]).is_err(), "cut at {end}");
            }
            prop_assert!(decode(spec, version, &bytes).is_ok());
            Ok(())
        });
        result.unwrap_or_else(|error| panic!("{} v{version}: {error}", spec.name));
    }
}

#[test]
fn a_response_cut_short_is_an_error_at_every_byte() {
    for spec in &APIS {
        let version = spec.max_version;
        let mut runner = TestRunner::new(ProptestConfig::with_cases(16));
        let result = runner.run(&random::responses(spec.api), |response| {
            let mut bytes = Vec::new();
            api::encode_response(&mut bytes, version, &response);
            for end in 0..bytes.len() {
                let mut reader = Reader::new(&bytes[..end], spec.is_flexible(version));
                let result = api::decode_response(spec.api, version, &mut reader);
                prop_assert!(result.is_err(), "cut at {end}: {result:?}");
            }
            Ok(())
        });
        result.unwrap_or_else(|error| panic!("{}: {error}", spec.name));
    }
}

#[test]
fn a_request_with_changed_bytes_is_an_error_or_a_request() {
    for (spec, version) in every_version() {
        let mut runner = TestRunner::new(ProptestConfig::with_cases(32));
        let changes = prop::collection::vec((any::<prop::sample::Index>(), hostile_byte()), 1..4);
        let result = runner.run(&(random::requests(spec.api), changes), |(request, changes)| {
            // Written at the highest version: the body then fits this one more or less.
            let mut bytes = Vec::new();
            api::encode_request(&mut bytes, spec.max_version, &request);
            if !bytes.is_empty() {
                for (at, byte) in changes {
                    *at.get_mut(&mut bytes) = byte;
                }
            }
            decode(spec, version, &bytes).ok();
            Ok(())
        });
        result.unwrap_or_else(|error| panic!("{} v{version}: {error}", spec.name));
    }
}

fn hostile_byte() -> impl Strategy<Value = u8> {
    prop_oneof![any::<u8>(), prop::sample::select(&[0x00, 0x01, 0x7f, 0x80, 0xff][..])]
}

#[test]
fn random_frames_and_embedded_bytes_are_an_error_or_a_value() {
    let mut runner = TestRunner::new(ProptestConfig::with_cases(4096));
    let bytes = prop::collection::vec(hostile_byte(), 0..64);
    let heads = (prop::sample::select(&APIS[..]), -1..12i16);
    let result = runner.run(&(heads, bytes), |((spec, version), bytes)| {
        let mut frame = [(spec.api as i16).to_be_bytes(), version.to_be_bytes()].concat();
        frame.extend(&bytes);
        match open_request(&frame) {
            Ok(Incoming::Owned(head, reader)) => {
                decode(head.spec, version, &frame[reader.position()..]).ok();
            }
            Ok(Incoming::Unsupported { .. }) => prop_assert!(!spec.serves(version)),
            Ok(Incoming::Foreign { .. }) => prop_assert!(false, "an owned API"),
            Err(_) => {}
        }
        Subscription::decode(&bytes).ok();
        Assignment::decode(&bytes).ok();
        let mut reader = Reader::new(&bytes, spec.is_flexible(spec.max_version));
        api::decode_response(spec.api, spec.max_version, &mut reader).ok();
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn a_count_of_2147483647_is_refused_and_allocates_nothing() {
    // DeleteGroups v1, groups_names; v2 the same in compact form.
    for (version, body) in
        [(1, &[0x7f, 0xff, 0xff, 0xff, 0, 0][..]), (2, &[0xff, 0xff, 0xff, 0xff, 0x0f, 1, 1])]
    {
        let spec = ApiSpec::of(42).expect("an owned API");
        let mut reader = Reader::new(body, spec.is_flexible(version));
        let (result, allocated) = metered(|| api::decode_request(spec.api, version, &mut reader));
        assert_eq!(result.expect_err("a hostile count").kind, DecodeErrorKind::TooManyElements);
        assert_eq!(allocated, 0);
    }
}

#[test]
fn nested_counts_are_checked_against_what_is_left_at_their_place() {
    // OffsetDelete v0: group "g", one topic "t" that claims three partitions, with bytes for two.
    let body = [&b"\0\x01g\0\0\0\x01\0\x01t\0\0\0\x03"[..], &[0; 8]].concat();
    let spec = ApiSpec::of(47).expect("an owned API");
    let error = decode(spec, 0, &body).expect_err("a hostile count");
    assert_eq!((error.field, error.kind), ("partitions", DecodeErrorKind::TooManyElements));
    assert_eq!(error.position, 14);
}

#[test]
fn errors_and_heartbeats_allocate_nothing() {
    let spec = ApiSpec::of(12).expect("an owned API");
    for body in [&b"\x03g1\0\0\0\x01\x03m1\0\0"[..], &b"\x03g1\0\0\0\x01\x03m"[..]] {
        let mut reader = Reader::new(body, true);
        let (_, allocated) = metered(|| api::decode_request(spec.api, 4, &mut reader).map(drop));
        assert_eq!(allocated, 0);
    }
}

#[test]
fn a_header_cut_short_or_with_bad_tags_is_an_error() {
    let frame = b"\0\x0c\0\x04\0\0\0\x07\0\x03cli\0\x03g1\0\0\0\x01\x03m1\0\0";
    for end in 0..14 {
        assert!(open_request(&frame[..end]).is_err(), "cut at {end}");
    }
    let mut tags = frame.to_vec();
    tags[13] = 5;
    let error = open_request(&tags).and_then(|incoming| match incoming {
        Incoming::Owned(head, mut body) => {
            api::decode_request(head.spec.api, head.api_version, &mut body).map(drop)
        }
        _ => Ok(()),
    });
    assert!(error.is_err());
}

#[test]
fn a_client_id_that_no_member_id_could_hold_is_refused() {
    let frame = |length: i16| {
        let mut frame = b"\0\x0c\0\x03\0\0\0\x07".to_vec();
        frame.extend(length.to_be_bytes());
        frame.extend(std::iter::repeat_n(b'x', length as usize));
        frame
    };
    assert!(open_request(&frame(32_730)).is_ok());
    let error = open_request(&frame(32_731)).expect_err("a long client id");
    assert_eq!((error.field, error.kind), ("client_id", DecodeErrorKind::TooLong));
}
