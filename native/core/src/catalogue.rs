//! The topics that exist, as far as assigning partitions needs them: an input like any other.
//!
//! The host hands in a catalogue at each change of it, and shards share it: of what did not change
//! it has the memory of the one before. Never logged: an assignment that was made from it is.

use core::ops::Deref;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use crate::request::Uuid;
use crate::shared_map::SharedMap;

/// Topics by name. Immutable: a change is another catalogue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalogue {
    topics: SharedMap<Arc<str>, Arc<Entry>>,
    /// Of topics that have an id.
    names: SharedMap<Uuid, Arc<str>>,
}

/// A topic, and what was found out of it.
#[derive(Clone, Debug, Default)]
struct Entry {
    topic: CatalogueTopic,
    /// See [`Catalogue::topic_hash`].
    hash: OnceLock<u64>,
}

impl Entry {
    fn of(topic: CatalogueTopic) -> Arc<Self> {
        Arc::new(Entry { topic, hash: OnceLock::new() })
    }

    /// The racks of the replicas of each partition; empty where they are not known of all.
    fn known_racks(&self) -> &[Box<[Box<str>]>] {
        if self.racks.len() == self.partitions as usize { &self.racks } else { &[] }
    }

    fn has_same_placement(&self, other: &Entry) -> bool {
        self.partitions == other.partitions && self.known_racks() == other.known_racks()
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.topic == other.topic
    }
}

impl Eq for Entry {}

impl Deref for Entry {
    type Target = CatalogueTopic;

    fn deref(&self) -> &CatalogueTopic {
        &self.topic
    }
}

/// What is known of a topic besides its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CatalogueTopic {
    /// Zero where it has none.
    pub id: Uuid,
    /// Numbered from 0.
    pub partitions: u32,
    /// Log end offset by partition; 0 where it is not known.
    pub end_offsets: BTreeMap<i32, i64>,
    /// The racks of a partition's replicas, for each partition; empty where they are not known.
    pub racks: Vec<Box<[Box<str>]>>,
}

impl Catalogue {
    /// Of all topics that exist, by name.
    pub fn new(topics: impl IntoIterator<Item = (Box<str>, CatalogueTopic)>) -> Self {
        let entry = |(name, topic): (Box<str>, _)| (Arc::from(name), Entry::of(topic));
        let topics: SharedMap<Arc<str>, Arc<Entry>> = topics.into_iter().map(entry).collect();
        let with_id = topics.iter().filter(|(_, topic)| !topic.id.is_zero());
        let names = with_id.map(|(name, topic)| (topic.id, Arc::clone(name))).collect();
        Catalogue { topics, names }
    }

    /// This catalogue with some topics as they are now; without those that are gone (`None`).
    pub fn with(
        &self,
        changes: impl IntoIterator<Item = (Box<str>, Option<CatalogueTopic>)>,
    ) -> Self {
        let mut next = self.clone();
        for (name, topic) in changes {
            let name: Arc<str> = name.into();
            if let Some(before) = next.topics.remove(&*name) {
                next.names.remove(&before.id);
            }
            let Some(topic) = topic else { continue };
            if !topic.id.is_zero() {
                next.names.insert(topic.id, Arc::clone(&name));
            }
            next.topics.insert(name, Entry::of(topic));
        }
        next
    }

    /// Id and number of partitions of a topic that has an id.
    pub fn topic(&self, name: &str) -> Option<(Uuid, u32)> {
        let topic = self.topics.get(name).filter(|topic| !topic.id.is_zero())?;
        Some((topic.id, topic.partitions))
    }

    /// A number that stands for a topic that has an id, its id, its partitions and their racks, made by
    /// `make` of name, id, number of partitions and racks where it is asked for first.
    pub(crate) fn topic_hash(
        &self,
        name: &str,
        make: impl FnOnce(&str, Uuid, u32, &[Box<[Box<str>]>]) -> u64,
    ) -> Option<u64> {
        let entry = self.topics.get(name).filter(|entry| !entry.id.is_zero())?;
        Some(*entry.hash.get_or_init(|| make(name, entry.id, entry.partitions, self.racks(name))))
    }

    /// The name of the topic with this id.
    pub fn name_of(&self, topic_id: Uuid) -> Option<&str> {
        self.names.get(&topic_id).map(|name| &**name)
    }

    /// Topics that have an id, sorted: those that come after a name; after none: all.
    pub fn names_after(&self, name: Option<&str>) -> impl Iterator<Item = &str> {
        self.topics.after(name).filter(|(_, topic)| !topic.id.is_zero()).map(|(name, _)| &**name)
    }

    /// How many partitions a topic has; 0: there is no such topic.
    pub fn partitions(&self, topic: &str) -> u32 {
        self.topics.get(topic).map_or(0, |topic| topic.partitions)
    }

    /// The offset that the next record of a partition gets, as far as it is known.
    pub fn end_offset(&self, topic: &str, partition: i32) -> i64 {
        let offsets = self.topics.get(topic).map(|topic| &topic.end_offsets);
        offsets.and_then(|offsets| offsets.get(&partition)).copied().unwrap_or(0)
    }

    /// The racks of the replicas of each partition; empty where they are not known of all.
    pub fn racks(&self, topic: &str) -> &[Box<[Box<str>]>] {
        self.topics.get(topic).map_or(&[], |topic| topic.known_racks())
    }

    /// Whether both give a topic the same number of partitions, in the same racks.
    pub fn agrees_with(&self, other: &Catalogue, topic: &str) -> bool {
        self.partitions(topic) == other.partitions(topic) && self.racks(topic) == other.racks(topic)
    }
}

/// How a catalogue differs from the one before: looked for once, for all shards.
#[derive(Clone, Debug)]
pub struct CatalogueChange {
    before: Option<Arc<Catalogue>>,
    now: Arc<Catalogue>,
    /// A topic, its id, its number of partitions or its racks changed: not end offsets alone.
    pub(crate) is_any: bool,
    /// There is a topic that has an id, and was not there under this name and id.
    pub(crate) has_new: bool,
    /// Topics that are there, their partitions or racks changed: not ids alone.
    pub(crate) is_of_placement: bool,
}

impl CatalogueChange {
    /// From what shards knew, nothing at first, to what is now.
    pub fn between(before: Option<&Arc<Catalogue>>, now: &Arc<Catalogue>) -> Self {
        let is_first = before.is_none();
        let mut change = CatalogueChange {
            before: before.cloned(),
            now: Arc::clone(now),
            is_any: is_first,
            has_new: is_first,
            is_of_placement: is_first,
        };
        if let Some(before) = before {
            change.compare(before);
        }
        change
    }

    /// Both share what did not change, most of it in chunks.
    fn compare(&mut self, before: &Catalogue) {
        let next = Arc::clone(&self.now);
        let [now, known] = next.topics.apart(&before.topics);
        let mut known = known.into_iter().peekable();
        for (name, topic) in now {
            while known.next_if(|(other, _)| other < name).is_some() {
                (self.is_any, self.is_of_placement) = (true, true);
            }
            let was = known.next_if(|(other, _)| other == name).map(|(_, was)| was);
            if was.is_some_and(|was| Arc::ptr_eq(was, topic)) {
                continue;
            }
            let has_same_id = was.is_some_and(|was| was.id == topic.id);
            let is_placed_so = was.is_some_and(|was| was.has_same_placement(topic));
            self.is_any |= !has_same_id || !is_placed_so;
            self.has_new |= !has_same_id && !topic.id.is_zero();
            self.is_of_placement |= !is_placed_so;
        }
        if known.next().is_some() {
            (self.is_any, self.is_of_placement) = (true, true);
        }
    }

    /// What the topics are now.
    pub(crate) fn now(&self) -> &Arc<Catalogue> {
        &self.now
    }

    /// Whether it is one from this catalogue.
    pub(crate) fn is_from(&self, known: Option<&Arc<Catalogue>>) -> bool {
        match (&self.before, known) {
            (Some(before), Some(known)) => Arc::ptr_eq(before, known),
            (before, known) => before.is_none() && known.is_none(),
        }
    }
}

static NO_TOPICS: Catalogue = Catalogue { topics: SharedMap::new(), names: SharedMap::new() };

/// The topics, as far as the host has told of any.
pub fn known(catalogue: &Option<Arc<Catalogue>>) -> &Catalogue {
    catalogue.as_deref().unwrap_or(&NO_TOPICS)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Described<'a> = (&'a str, u128, u32, &'a [&'a str]);

    fn topic((name, id, partitions, racks): &Described<'_>) -> (Box<str>, CatalogueTopic) {
        let racks = racks.iter().map(|rack| Box::from([Box::from(*rack)])).collect();
        let topic =
            CatalogueTopic { id: Uuid(*id), partitions: *partitions, racks, ..Default::default() };
        (Box::from(*name), topic)
    }

    fn catalogue(topics: &[Described<'_>]) -> Arc<Catalogue> {
        Arc::new(Catalogue::new(topics.iter().map(topic)))
    }

    const BEFORE: &[Described<'_>] =
        &[("a", 1, 1, &[]), ("b", 2, 2, &["r", "s"]), ("c", 0, 3, &[]), ("d", 4, 1, &[])];

    /// Whether anything changed, something is new, the placement changed.
    fn changed(now: &[Described<'_>]) -> (bool, bool, bool) {
        let before = catalogue(BEFORE);
        let change = CatalogueChange::between(Some(&before), &catalogue(now));
        assert!(change.is_from(Some(&before)) && !change.is_from(None));
        assert!(!change.is_from(Some(&catalogue(BEFORE))));
        (change.is_any, change.has_new, change.is_of_placement)
    }

    fn with(topic: Described<'static>) -> Vec<Described<'static>> {
        let others = BEFORE.iter().filter(|(name, ..)| *name != topic.0);
        others.copied().chain([topic]).collect()
    }

    #[test]
    fn what_changed_is_found() {
        assert_eq!(changed(BEFORE), (false, false, false));
        assert_eq!(changed(&with(("bb", 9, 1, &[]))), (true, true, true));
        assert_eq!(changed(&with(("bb", 0, 1, &[]))), (true, false, true));
        assert_eq!(changed(&with(("b", 9, 2, &["r", "s"]))), (true, true, false));
        assert_eq!(changed(&with(("b", 2, 3, &["r", "s"]))), (true, false, true));
        assert_eq!(changed(&with(("b", 2, 2, &["r", "t"]))), (true, false, true));
        assert_eq!(changed(&with(("a", 1, 1, &["r", "t"]))), (false, false, false));
        assert_eq!(changed(&BEFORE[1..]), (true, false, true));
        assert_eq!(changed(&BEFORE[..3]), (true, false, true));
        let first = CatalogueChange::between(None, &catalogue(BEFORE));
        assert!(first.is_from(None) && first.is_any && first.has_new && first.is_of_placement);
    }

    #[test]
    fn a_catalogue_with_changes_is_the_one_of_the_result() {
        let before = catalogue(BEFORE);
        let changes: [(&str, Option<Described<'_>>); 5] = [
            ("a", None),
            ("b", Some(("b", 7, 2, &[]))),
            ("e", Some(("e", 1, 5, &[]))),
            ("e", Some(("e", 8, 5, &[]))),
            ("nowhere", None),
        ];
        let changes = changes.map(|(name, now)| (name.into(), now.map(|now| topic(&now).1)));
        let after = [("b", 7, 2, &[][..]), ("c", 0, 3, &[]), ("d", 4, 1, &[]), ("e", 8, 5, &[])];
        assert_eq!(before.with(changes), *catalogue(&after));
        assert_eq!(*before, *catalogue(BEFORE));
    }
}
