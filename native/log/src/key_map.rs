//! Which record is the last of its key, in bounded memory (Kafka's SkimpyOffsetMap): a 128-bit hash
//! stands for the key, a number in the order of the log for the record.
//!
//! Two keys of one hash would cost the older one its record, so the hash is a keyed SipHash: no
//! client that chooses its group ids can aim for that, and chance does not reach it.

use siphasher::sip128::SipHasher13;

/// Bytes of one slot: the hash, and the number plus one (0: the slot is free).
const SLOT_BYTES: usize = 24;
const SMALLEST_SLOTS: usize = 64;
/// Of 4 slots 3 are used at most: above, linear probing becomes slow.
const LOAD: (usize, usize) = (3, 4);
/// One part in so many of the memory is for a bit per record, the rest for the slots.
const PART_OF_BITS: usize = 8;

pub type KeyHash = [u64; 2];

#[derive(Clone, Copy, Default)]
struct Slot {
    hash: KeyHash,
    after: u64,
}

/// The last offset of each key, in memory of a fixed size (`SkimpyOffsetMap`).
pub struct KeyMap {
    hasher: SipHasher13,
    slots: Vec<Slot>,
    most_slots: usize,
    used: usize,
    /// A bit per record, by its number: its key came again, or it has none.
    superseded: Vec<u64>,
    most_records: usize,
}

impl KeyMap {
    /// Never takes more than `buffer_bytes`, and no more than the records need.
    pub fn new(hash_key: &[u8; 16], buffer_bytes: usize) -> Self {
        let bits_bytes = buffer_bytes / PART_OF_BITS;
        KeyMap {
            hasher: SipHasher13::new_with_key(hash_key),
            slots: vec![Slot::default(); SMALLEST_SLOTS],
            most_slots: ((buffer_bytes - bits_bytes) / SLOT_BYTES).max(SMALLEST_SLOTS),
            used: 0,
            superseded: Vec::new(),
            most_records: 8 * bits_bytes,
        }
    }

    /// The 16 bytes that stand for a key.
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        let hash = self.hasher.hash(key);
        [hash.h1, hash.h2]
    }

    /// Makes room for so many more keys, of records up to the number `end`. False: there is no
    /// memory for them.
    pub fn reserve(&mut self, keys: usize, end: usize) -> bool {
        if end > self.most_records {
            return false;
        }
        while self.room() < keys {
            // Both are there while the keys move.
            let most = self.most_slots.saturating_sub(self.slots.len());
            let wanted = (2 * self.slots.len()).min(most);
            if wanted <= self.slots.len() {
                return false;
            }
            let old = std::mem::replace(&mut self.slots, vec![Slot::default(); wanted]);
            for slot in old.iter().filter(|slot| slot.after > 0) {
                let index = self.find(&slot.hash);
                self.slots[index] = *slot;
            }
        }
        true
    }

    /// How many more keys it takes as it is.
    pub fn room(&self) -> usize {
        self.slots.len() / LOAD.1 * LOAD.0 - self.used
    }

    /// How many keys it holds.
    pub fn len(&self) -> usize {
        self.used
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Notes each key's record: numbers rise from call to call. There must be room for all.
    pub fn insert(&mut self, keys: &[(KeyHash, usize)]) {
        assert!(keys.len() <= self.room(), "the key map is full");
        self.fetch(keys.iter().map(|(hash, _)| hash));
        for (hash, number) in keys {
            let index = self.find(hash);
            let slot = &mut self.slots[index];
            let older = std::mem::replace(&mut slot.after, *number as u64 + 1);
            if older == 0 {
                slot.hash = *hash;
                self.used += 1;
            } else {
                self.supersede(older as usize - 1);
            }
        }
    }

    /// The record need not stay.
    pub fn supersede(&mut self, number: usize) {
        let word = number / 64;
        if word >= self.superseded.len() {
            self.superseded.resize(word + 1, 0);
        }
        self.superseded[word] |= 1 << (number % 64);
    }

    /// Whether the key of the record came again, or it has none.
    #[inline]
    pub fn is_superseded(&self, number: usize) -> bool {
        self.superseded.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 != 0)
    }

    /// Appends to `found` which of the keys are there.
    pub fn contains(&self, hashes: &[KeyHash], found: &mut Vec<bool>) {
        self.fetch(hashes.iter());
        found.extend(hashes.iter().map(|hash| self.slots[self.find(hash)].after > 0));
    }

    /// Loads the slots, so that their cache misses overlap instead of following each other.
    fn fetch<'a>(&self, hashes: impl Iterator<Item = &'a KeyHash>) {
        let seen = hashes.fold(0, |seen, hash| seen ^ self.slots[self.first(hash)].after);
        core::hint::black_box(seen);
    }

    fn first(&self, hash: &KeyHash) -> usize {
        ((u128::from(hash[0]) * self.slots.len() as u128) >> 64) as usize
    }

    /// The slot of the key, or the free one where it belongs. One is always free.
    fn find(&self, hash: &KeyHash) -> usize {
        let mut index = self.first(hash);
        loop {
            let slot = &self.slots[index];
            if slot.after == 0 || slot.hash == *hash {
                return index;
            }
            index += 1;
            if index == self.slots.len() {
                index = 0;
            }
        }
    }
}
