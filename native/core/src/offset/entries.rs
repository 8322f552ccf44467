//! A sorted set of fixed-size entries: one allocation for up to 128 of them, pages of that size
//! above, so that neither a group of two partitions nor one of a million pays for the other.

use super::topic_table::{TopicIdIndex, TopicIndex};

/// Entries of a full page. Bounds what one insertion moves.
const PAGE: usize = 128;

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

/// Where an entry is, or belongs: page, and index in it.
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
        self.pages().iter().map(Vec::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        matches!(self, Entries::One(page) if page.is_empty())
    }

    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.pages().iter().flatten()
    }

    /// Topics with an entry, in the order of their indexes. Pages of one topic are passed over.
    pub fn topics(&self) -> impl Iterator<Item = TopicIndex> {
        let mut known = None;
        self.pages().iter().flat_map(move |page| {
            let last = page.last().map(|entry| entry.topic);
            let new: &[Entry] = if last == known { &[] } else { page };
            let before = core::mem::replace(&mut known, last);
            new.chunk_by(|one, other| one.topic == other.topic)
                .map(|run| run[0].topic)
                .filter(move |topic| Some(*topic) != before)
        })
    }

    /// Entries from a key on, in order.
    pub fn iter_from(&self, key: Key) -> impl Iterator<Item = &Entry> {
        let (Ok(Place(page, at)) | Err(Place(page, at))) = self.locate(key);
        let (first, rest) = self.pages()[page..].split_first().expect("there is one page");
        first[at..].iter().chain(rest.iter().flatten())
    }

    #[inline]
    pub fn locate(&self, key: Key) -> Result<Place, Place> {
        let (page, entries) = match self {
            Entries::One(entries) => (0, entries),
            Entries::Many(pages) => {
                let above = pages.partition_point(|page| page[0].key() <= key);
                let page = above.saturating_sub(1);
                (page, &pages[page])
            }
        };
        if let Some(at) = guess(entries, key) {
            return Ok(Place(page, at));
        }
        match entries.binary_search_by_key(&key, Entry::key) {
            Ok(at) => Ok(Place(page, at)),
            Err(at) => Err(Place(page, at)),
        }
    }

    /// The same, if the entry may well stand right behind another one: commits come in order.
    #[inline]
    pub fn locate_behind(&self, Place(page, at): Place, key: Key) -> Result<Place, Place> {
        let behind = self.pages().get(page).and_then(|entries| entries.get(at + 1));
        match behind {
            Some(entry) if entry.key() == key => Ok(Place(page, at + 1)),
            _ => self.locate(key),
        }
    }

    /// The entry of the key and those behind it, as far as they lie together; none without it.
    #[inline]
    pub fn run(&self, key: Key) -> &[Entry] {
        match self.locate(key) {
            Ok(Place(page, at)) => &self.pages()[page][at..],
            Err(_) => &[],
        }
    }

    /// Prefetches what [`locate`](Self::locate) will probably read.
    #[inline]
    pub fn prefetch(&self, key: Key) -> bool {
        guess(&self.pages()[0], key).is_some()
    }

    #[inline]
    pub fn entry(&self, Place(page, at): Place) -> &Entry {
        &self.pages()[page][at]
    }

    #[inline]
    pub fn entry_mut(&mut self, Place(page, at): Place) -> &mut Entry {
        match self {
            Entries::One(entries) => &mut entries[at],
            Entries::Many(pages) => &mut pages[page][at],
        }
    }

    /// `place` is what `locate` answered with `Err` for this entry's key.
    pub fn insert(&mut self, Place(page, at): Place, entry: Entry) {
        match self {
            Entries::One(entries) if entries.len() < PAGE => insert(entries, at, entry),
            Entries::One(entries) => {
                *self = Entries::Many(Box::new(vec![core::mem::take(entries)]));
                self.insert(Place(page, at), entry);
            }
            Entries::Many(pages) if pages[page].len() < PAGE => {
                insert(&mut pages[page], at, entry);
            }
            // Ascending insertion, the usual one, leaves full pages behind it.
            Entries::Many(pages) if at == PAGE => pages.insert(page + 1, vec![entry]),
            Entries::Many(pages) => {
                let mut right = pages[page].split_off(PAGE / 2);
                pages[page].shrink_to_fit();
                if at <= PAGE / 2 {
                    insert(&mut pages[page], at, entry);
                } else {
                    insert(&mut right, at - PAGE / 2, entry);
                }
                pages.insert(page + 1, right);
            }
        }
    }

    /// `place` is what `locate` answered with `Ok`.
    pub fn remove(&mut self, Place(page, at): Place) -> Entry {
        let pages = match self {
            Entries::One(entries) => return remove(entries, at),
            Entries::Many(pages) => pages,
        };
        let entry = remove(&mut pages[page], at);
        if pages[page].is_empty() {
            pages.remove(page);
        } else if page > 0 && pages[page - 1].len() + pages[page].len() <= PAGE / 2 {
            let right = pages.remove(page);
            pages[page - 1].reserve_exact(right.len());
            pages[page - 1].extend(right);
        }
        if pages.len() == 1 {
            *self = Entries::One(pages.pop().expect("one is left"));
        }
        entry
    }

    fn pages(&self) -> &[Vec<Entry>] {
        match self {
            Entries::One(entries) => core::slice::from_ref(entries),
            Entries::Many(pages) => pages,
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
        entries.reserve_exact(more.min(PAGE - length));
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
