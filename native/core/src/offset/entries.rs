//! A sorted set of fixed-size entries: one allocation for up to 128 of them, chunks of that size
//! above, so that neither a group of two partitions nor one of a million pays for the other.

use super::topic_table::{TopicIdIndex, TopicIndex};

/// Entries of a full chunk. Bounds what one insertion moves.
const CHUNK: usize = 128;

/// A committed offset without what most offsets do not have (metadata and an explicit expiry).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub offset: i64,
    pub commit_timestamp: i64,
    pub record_offset: i64,
    pub leader_epoch: i32,
    pub partition: i32,
    pub topic: TopicIndex,
    pub topic_id: TopicIdIndex,
}

impl Entry {
    pub fn key(&self) -> Key {
        key(self.topic, self.partition)
    }
}

/// Orders by topic index, then by partition.
pub(super) type Key = u64;

#[inline]
pub(super) fn key(topic: TopicIndex, partition: i32) -> Key {
    u64::from(topic) << 32 | u64::from(partition as u32 ^ 1 << 31)
}

/// Where an entry is, or belongs: chunk, and index in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place(usize, usize);

#[derive(Debug)]
pub(super) enum Entries {
    One(Vec<Entry>),
    /// At least two; none is empty.
    #[expect(clippy::box_collection, reason = "keeps the enum as small as the usual variant")]
    Many(Box<Vec<Vec<Entry>>>),
}

impl Default for Entries {
    fn default() -> Self {
        Entries::One(Vec::new())
    }
}

impl Entries {
    pub fn len(&self) -> usize {
        self.chunks().iter().map(Vec::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        matches!(self, Entries::One(chunk) if chunk.is_empty())
    }

    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.chunks().iter().flatten()
    }

    /// Entries from a key on, in order.
    pub fn iter_from(&self, key: Key) -> impl Iterator<Item = &Entry> {
        let (Ok(Place(chunk, at)) | Err(Place(chunk, at))) = self.locate(key);
        let (first, rest) = self.chunks()[chunk..].split_first().expect("there is one chunk");
        first[at..].iter().chain(rest.iter().flatten())
    }

    #[inline]
    pub fn locate(&self, key: Key) -> Result<Place, Place> {
        let (chunk, entries) = match self {
            Entries::One(entries) => (0, entries),
            Entries::Many(chunks) => {
                let above = chunks.partition_point(|chunk| chunk[0].key() <= key);
                let chunk = above.saturating_sub(1);
                (chunk, &chunks[chunk])
            }
        };
        if let Some(at) = guess(entries, key) {
            return Ok(Place(chunk, at));
        }
        match entries.binary_search_by_key(&key, Entry::key) {
            Ok(at) => Ok(Place(chunk, at)),
            Err(at) => Err(Place(chunk, at)),
        }
    }

    /// The same, if the entry may well stand right behind another one: commits come in order.
    #[inline]
    pub fn locate_behind(&self, Place(chunk, at): Place, key: Key) -> Result<Place, Place> {
        let behind = self.chunks().get(chunk).and_then(|entries| entries.get(at + 1));
        match behind {
            Some(entry) if entry.key() == key => Ok(Place(chunk, at + 1)),
            _ => self.locate(key),
        }
    }

    /// The entry of the key and those behind it, as far as they lie together; none without it.
    #[inline]
    pub fn run(&self, key: Key) -> &[Entry] {
        match self.locate(key) {
            Ok(Place(chunk, at)) => &self.chunks()[chunk][at..],
            Err(_) => &[],
        }
    }

    /// Reads what [`locate`](Self::locate) will probably read, to have it fetched early.
    #[inline]
    pub fn touch(&self, key: Key) -> bool {
        guess(&self.chunks()[0], key).is_some()
    }

    #[inline]
    pub fn entry(&self, Place(chunk, at): Place) -> &Entry {
        &self.chunks()[chunk][at]
    }

    #[inline]
    pub fn entry_mut(&mut self, Place(chunk, at): Place) -> &mut Entry {
        match self {
            Entries::One(entries) => &mut entries[at],
            Entries::Many(chunks) => &mut chunks[chunk][at],
        }
    }

    /// `place` is what `locate` answered with `Err` for this entry's key.
    pub fn insert(&mut self, Place(chunk, at): Place, entry: Entry) {
        match self {
            Entries::One(entries) if entries.len() < CHUNK => insert(entries, at, entry),
            Entries::One(entries) => {
                *self = Entries::Many(Box::new(vec![core::mem::take(entries)]));
                self.insert(Place(chunk, at), entry);
            }
            Entries::Many(chunks) if chunks[chunk].len() < CHUNK => {
                insert(&mut chunks[chunk], at, entry);
            }
            // Ascending insertion, the usual one, leaves full chunks behind it.
            Entries::Many(chunks) if at == CHUNK => chunks.insert(chunk + 1, vec![entry]),
            Entries::Many(chunks) => {
                let mut right = chunks[chunk].split_off(CHUNK / 2);
                chunks[chunk].shrink_to_fit();
                if at <= CHUNK / 2 {
                    insert(&mut chunks[chunk], at, entry);
                } else {
                    insert(&mut right, at - CHUNK / 2, entry);
                }
                chunks.insert(chunk + 1, right);
            }
        }
    }

    /// `place` is what `locate` answered with `Ok`.
    pub fn remove(&mut self, Place(chunk, at): Place) -> Entry {
        let chunks = match self {
            Entries::One(entries) => return remove(entries, at),
            Entries::Many(chunks) => chunks,
        };
        let entry = remove(&mut chunks[chunk], at);
        if chunks[chunk].is_empty() {
            chunks.remove(chunk);
        } else if chunk > 0 && chunks[chunk - 1].len() + chunks[chunk].len() <= CHUNK / 2 {
            let right = chunks.remove(chunk);
            chunks[chunk - 1].reserve_exact(right.len());
            chunks[chunk - 1].extend(right);
        }
        if chunks.len() == 1 {
            *self = Entries::One(chunks.pop().expect("one is left"));
        }
        entry
    }

    fn chunks(&self) -> &[Vec<Entry>] {
        match self {
            Entries::One(entries) => core::slice::from_ref(entries),
            Entries::Many(chunks) => chunks,
        }
    }
}

/// Where the key is if no partition is missing before it, as it mostly is: a search would touch
/// many lines of memory.
#[inline]
fn guess(entries: &[Entry], key: Key) -> Option<usize> {
    let at = key.wrapping_sub(entries.first()?.key()) as usize;
    (entries.get(at)?.key() == key).then_some(at)
}

/// Grows by an eighth: doubling would cost up to 40 bytes an offset.
fn insert(entries: &mut Vec<Entry>, at: usize, entry: Entry) {
    let length = entries.len();
    if length == entries.capacity() {
        let more = if length == 0 { 1 } else { (length / 8).max(2) };
        entries.reserve_exact(more.min(CHUNK - length));
    }
    entries.insert(at, entry);
}

fn remove(entries: &mut Vec<Entry>, at: usize) -> Entry {
    let entry = entries.remove(at);
    if entries.len() <= entries.capacity() / 2 {
        entries.shrink_to_fit();
    }
    entry
}
