//! The topics that a group's regular expressions match, found in slices: other groups of the shard are
//! served in between.

use std::sync::Arc;

use regex::Regex;

use super::pattern::compile;
use crate::catalogue::{Catalogue, known};

/// How much is done in one slice. One is the time in which a short name is matched.
const SLICE: usize = 4_096;

/// What each byte of an expression costs to compile, in the same unit.
const COMPILING_A_BYTE: usize = 4;

/// A look at all expressions of a group in the topics as they were when it began.
#[derive(Debug)]
pub struct Search {
    catalogue: Option<Arc<Catalogue>>,
    /// Of these topics.
    pub topics_version: u64,
    /// Not begun yet, the next one last.
    left: Vec<Box<str>>,
    /// Begun: the last is not ended while `compiled` is there.
    found: Vec<(Box<str>, Vec<Box<str>>)>,
    compiled: Option<Compiled>,
}

#[derive(Debug)]
struct Compiled {
    regex: Regex,
    /// The last name that was looked at.
    last: Option<Box<str>>,
}

impl Search {
    /// `regexes`: in the order in which they are looked up.
    pub fn new<'a>(
        regexes: impl DoubleEndedIterator<Item = &'a str>,
        catalogue: Option<Arc<Catalogue>>,
        topics_version: u64,
    ) -> Self {
        let left = regexes.rev().map(Into::into).collect();
        Search { catalogue, topics_version, left, found: Vec::new(), compiled: None }
    }

    /// Looks further, for one slice. True: all is found.
    pub fn advance(&mut self) -> bool {
        let mut rest = SLICE;
        while rest > 0 {
            let Some(compiled) = &mut self.compiled else {
                let Some(regex) = self.left.pop() else { return true };
                rest = rest.saturating_sub(regex.len() * COMPILING_A_BYTE);
                // One that does not compile is of a log, whose writer accepted it; it matches nothing.
                let regex_or_none = compile(&regex).ok();
                self.compiled = regex_or_none.map(|regex| Compiled { regex, last: None });
                self.found.push((regex, Vec::new()));
                continue;
            };
            let (_, matched) = self.found.last_mut().expect("each one that is begun is here");
            if compiled.look(known(&self.catalogue), &mut rest, matched) {
                self.compiled = None;
            }
        }
        false
    }

    /// Each expression with the topics that it matches, once all is found.
    pub fn into_found(self) -> Vec<(Box<str>, Vec<Box<str>>)> {
        self.found
    }
}

impl Compiled {
    /// True: all names were looked at.
    fn look(&mut self, catalogue: &Catalogue, rest: &mut usize, found: &mut Vec<Box<str>>) -> bool {
        let mut last = None;
        for name in catalogue.names_after(self.last.as_deref()) {
            if self.regex.is_match(name) {
                found.push(name.into());
            }
            *rest = rest.saturating_sub(1 + name.len() / 32);
            if *rest == 0 {
                last = Some(name);
                break;
            }
        }
        self.last = last.map(Into::into);
        last.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::CatalogueTopic;
    use crate::request::Uuid;

    fn catalogue(topics: usize) -> Arc<Catalogue> {
        let topics = (0..topics).map(|number| {
            let topic = CatalogueTopic { id: Uuid(number as u128 + 1), ..Default::default() };
            (format!("topic-{number:06}").into(), topic)
        });
        Arc::new(Catalogue::new(topics))
    }

    #[test]
    fn slices_find_what_one_look_finds() {
        let catalogue = catalogue(20_000);
        let regexes = ["topic-0000[0-9]+", "(", ".*7", "nothing"];
        let mut search = Search::new(regexes.into_iter(), Some(Arc::clone(&catalogue)), 1);
        let mut slices = 1;
        while !search.advance() {
            slices += 1;
        }
        assert!((14..=16).contains(&slices), "{slices} slices for 60,000 names");
        for (regex, topics) in search.into_found() {
            let compiled = compile(&regex);
            let is_match = |name: &&str| compiled.as_ref().is_ok_and(|regex| regex.is_match(name));
            let expected: Vec<&str> = catalogue.names_after(None).filter(is_match).collect();
            assert_eq!(topics.iter().map(|name| &**name).collect::<Vec<_>>(), expected, "{regex}");
        }
    }

    #[test]
    fn long_expressions_end_a_slice() {
        let long = "a".repeat(2_000);
        let mut search = Search::new(core::iter::repeat_n(&*long, 8), None, 1);
        let slices = core::iter::from_fn(|| (!search.advance()).then_some(())).count();
        assert!(slices >= 8);
    }
}
