//! The offset map beside an ordered map.

use kcoord_log::OffsetMap;
use proptest::prelude::*;
use std::collections::BTreeMap;

proptest! {
    #[test]
    fn it_knows_the_last_offset_of_each_key(
        keys in prop::collection::vec(0u16..2000, 1..3000),
        window in 1usize..100,
    ) {
        let mut map = OffsetMap::new(&[3; 16], 1 << 20);
        let mut expected = BTreeMap::new();
        for (batch, keys) in keys.chunks(window).enumerate() {
            let numbered = keys.iter().enumerate();
            let rows: Vec<_> = numbered
                .map(|(index, key)| (*key, (batch * window + index) as i64))
                .collect();
            prop_assert!(map.reserve(rows.len()));
            let hashed: Vec<_> =
                rows.iter().map(|(key, offset)| (map.hash(&key.to_be_bytes()), *offset)).collect();
            map.insert(&hashed);
            expected.extend(rows);
        }
        prop_assert_eq!(map.len(), expected.len());
        let hashes: Vec<_> = (0u16..2100).map(|key| map.hash(&key.to_be_bytes())).collect();
        let mut found = Vec::new();
        map.latest(&hashes, &mut found);
        for (key, offset) in (0u16..2100).zip(found) {
            prop_assert_eq!(offset, expected.get(&key).copied().unwrap_or(-1));
        }
    }
}

#[test]
fn it_says_when_there_is_no_memory_for_more() {
    let mut map = OffsetMap::new(&[3; 16], 300 * 24);
    let mut keys = 0u32;
    while map.reserve(1) {
        map.insert(&[(map.hash(&keys.to_be_bytes()), 1)]);
        keys += 1;
        assert!(keys <= 300);
    }
    // While it grows the old one is there too.
    assert!(keys >= 300 / 2 * 3 / 4 - 3, "{keys}");
    assert_eq!(map.len(), keys as usize);
}
