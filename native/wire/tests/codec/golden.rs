//! The requests and responses of `tests/vectors/bytes.tsv`, written by Kafka's own classes: each of
//! an owned API is read, and written back to the same bytes.

use std::fmt::Write;

use kcoord_wire::header::{self, ApiSpec};
use kcoord_wire::reencode::{reencode_request, reencode_response};

const BYTES: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/bytes.tsv"));

/// Kind, API, version and frame of each `req` and `resp` line whose version is served.
fn frames() -> impl Iterator<Item = (&'static str, &'static ApiSpec, i16, Vec<u8>)> {
    BYTES.lines().filter_map(|line| {
        let mut columns = line.split('\t');
        let mut words = columns.next()?.split(' ');
        let kind = words.next().filter(|kind| ["req", "resp"].contains(kind))?;
        let name = words.next()?;
        let spec = header::APIS.iter().find(|spec| spec.name == name)?;
        let version = words.next()?.strip_prefix('v')?.parse().expect("a version");
        let hex: String = columns.skip(1).collect();
        Some((kind, spec, version, unhex(&hex))).filter(|_| spec.serves(version))
    })
}

fn unhex(hex: &str) -> Vec<u8> {
    let digits = (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16));
    digits.collect::<Result<_, _>>().expect("hex digits")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes any text");
        text
    })
}

#[test]
fn frames_of_kafka_are_read_and_written_back_byte_for_byte() {
    let mut count = 0;
    for (kind, spec, version, frame) in frames() {
        let again = match kind {
            "req" => reencode_request(&frame).map(Option::unwrap_or_default),
            _ => reencode_response(spec, version, &frame),
        };
        let again =
            again.unwrap_or_else(|error| panic!("{kind} {} v{version}: {error}", spec.name));
        assert_eq!(hex(&again), hex(&frame), "{kind} {} v{version}", spec.name);
        count += 1;
    }
    assert_eq!(count, 76);
}
