//! Requests of more entries than are served: refused before they are read, in every list of every API.

use kcoord_core::limits::MAX_ENTRIES_PER_REQUEST;
use kcoord_wire::api;
use kcoord_wire::header::ApiSpec;
use kcoord_wire::reader::{DecodeErrorKind, Reader};

/// Key, version, what stands before the count, an element, what stands behind the last.
type List = (i16, i16, &'static [u8], &'static [u8], &'static [u8]);

/// Every list of a request, in the plain encoding where the API has it; so many elements of one
/// outer list have a list of one element each where lists are nested.
const LISTS: &[List] = &[
    (8, 2, b"\0\x01g\xff\xff\xff\xff\0\0\0\0\0\0\0\0\0\0", b"\0\x01t\0\0\0\0", b""),
    (
        8,
        2,
        b"\0\x01g\xff\xff\xff\xff\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\x01t",
        b"\0\0\0\0\0\0\0\0\0\0\0\x01\xff\xff",
        b"",
    ),
    (9, 5, b"\0\x01g", b"\0\x01t\0\0\0\0", b""),
    (9, 5, b"\0\x01g\0\0\0\x01\0\x01t", b"\0\0\0\0", b""),
    (11, 2, b"\0\x01g\0\0\0\x01\0\0\0\x01\0\0\0\x01c", b"\0\x01p\0\0\0\0", b""),
    (13, 3, b"\0\x01g", b"\0\x01m\xff\xff", b""),
    (14, 0, b"\0\x01g\0\0\0\x01\0\0", b"\0\x01m\0\0\0\0", b""),
    (15, 0, b"", b"\0\x01g", b""),
    (42, 0, b"", b"\0\x01g", b""),
    (47, 0, b"\0\x01g", b"\0\x01t\0\0\0\0", b""),
    (47, 0, b"\0\x01g\0\0\0\x01\0\x01t", b"\0\0\0\0", b""),
    // Flexible ones.
    (9, 8, b"", b"\x02g\x01\0", b"\0\0"),
    (16, 4, b"", b"\x02s", b"\0"),
    (16, 5, b"\x01", b"\x02t", b"\0"),
    (68, 0, b"\x02g\x02m\0\0\0\0\0\0\0\0\0\0", b"\x02t", b"\0\0\0"),
    (68, 0, TOPICS_OF_A_MEMBER, b"0123456789abcdef\x01\0", b"\0"),
    (69, 0, b"", b"\x02g", b"\0\0"),
];

/// A heartbeat of the consumer protocol, to the count of its topics.
const TOPICS_OF_A_MEMBER: &[u8] = b"\x02g\x02m\0\0\0\0\0\0\0\0\0\0\0\0";

fn body((key, version, before, element, behind): List, count: usize) -> Vec<u8> {
    let flexible = ApiSpec::of(key).expect("an owned API").is_flexible(version);
    let mut body = before.to_vec();
    if flexible {
        let mut value = count + 1;
        while value > 0x7f {
            body.push(value as u8 | 0x80);
            value >>= 7;
        }
        body.push(value as u8);
    } else {
        body.extend((count as i32).to_be_bytes());
    }
    (0..count).for_each(|_| body.extend(element));
    body.extend(behind);
    body
}

fn decoded(list: List, count: usize) -> Result<(), DecodeErrorKind> {
    let spec = ApiSpec::of(list.0).expect("an owned API");
    let body = body(list, count);
    let mut reader = Reader::new(&body, spec.is_flexible(list.1));
    api::decode_request(spec.api, list.1, &mut reader).map(drop).map_err(|error| error.kind)
}

#[test]
fn more_entries_than_are_served_are_not_read() {
    for &list in LISTS {
        // Some lists stand in another, of one element.
        assert_eq!(decoded(list, MAX_ENTRIES_PER_REQUEST - 1), Ok(()), "{list:?}");
        let beyond = decoded(list, MAX_ENTRIES_PER_REQUEST + 1);
        assert_eq!(beyond, Err(DecodeErrorKind::BeyondBound), "{list:?}");
    }
}

#[test]
fn entries_of_nested_lists_count_together() {
    // OffsetDelete of topics with one partition each: half as many are as many entries.
    let topic: &[u8] = b"\0\x01t\0\0\0\x01\0\0\0\0";
    let list = (47, 0, &b"\0\x01g"[..], topic, &b""[..]);
    assert_eq!(decoded(list, MAX_ENTRIES_PER_REQUEST / 2), Ok(()));
    let beyond = decoded(list, MAX_ENTRIES_PER_REQUEST / 2 + 1);
    assert_eq!(beyond, Err(DecodeErrorKind::BeyondBound));
}
