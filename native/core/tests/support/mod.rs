//! The golden bytes of Kafka's own classes (`tests/vectors/bytes.tsv`), by name.

const VECTORS: &str = include_str!("../../../../tests/vectors/bytes.tsv");

/// Lines whose name starts with `prefix`: the rest of the name, and the bytes.
pub fn vectors(prefix: &str) -> Vec<(&'static str, Vec<u8>)> {
    let found: Vec<_> = VECTORS
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .filter_map(|(name, hex)| Some((name.strip_prefix(prefix)?, bytes(hex))))
        .collect();
    assert!(!found.is_empty(), "no vector is named {prefix}");
    found
}

pub fn bytes(hex: &str) -> Vec<u8> {
    let digit = |byte: u8| (byte as char).to_digit(16).expect("a hex digit") as u8;
    hex.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}
