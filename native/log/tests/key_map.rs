//! The key map beside an ordered map.

use kcoord_log::KeyMap;
use proptest::prelude::*;
use std::collections::BTreeMap;

proptest! {
    #[test]
    fn it_knows_the_last_record_of_each_key(
        keys in prop::collection::vec(0u16..2000, 1..3000),
        window in 1usize..100,
    ) {
        let mut map = KeyMap::new(&[3; 16], 1 << 20);
        let numbered: Vec<_> = keys.iter().copied().zip(0usize..).collect();
        for rows in numbered.chunks(window) {
            prop_assert!(map.reserve(rows.len(), keys.len()));
            let hashed: Vec<_> =
                rows.iter().map(|(key, number)| (map.hash(&key.to_be_bytes()), *number)).collect();
            map.insert(&hashed);
        }
        let last: BTreeMap<_, _> = numbered.iter().copied().collect();
        prop_assert_eq!(map.len(), last.len());
        for (key, number) in numbered {
            prop_assert_eq!(map.is_superseded(number), last[&key] != number);
        }
        let hashes: Vec<_> = (0u16..2100).map(|key| map.hash(&key.to_be_bytes())).collect();
        let mut found = Vec::new();
        map.contains(&hashes, &mut found);
        for (key, found) in (0u16..2100).zip(found) {
            prop_assert_eq!(found, last.contains_key(&key));
        }
    }
}

#[test]
fn it_says_when_there_is_no_memory_for_more_keys() {
    let mut map = KeyMap::new(&[3; 16], 400 * 24);
    let mut keys = 0;
    while map.reserve(1, keys + 1) {
        map.insert(&[(map.hash(&keys.to_be_bytes()), keys)]);
        keys += 1;
        assert!(keys <= 350);
    }
    // While it grows the old one is there too.
    assert!(keys >= 350 / 2 * 3 / 4 - 3, "{keys}");
    assert_eq!(map.len(), keys);
}

#[test]
fn it_says_when_there_is_no_memory_for_more_records() {
    let mut map = KeyMap::new(&[3; 16], 1 << 16);
    assert!(map.reserve(1, 1 << 16));
    assert!(!map.reserve(1, (1 << 16) + 1));
}
