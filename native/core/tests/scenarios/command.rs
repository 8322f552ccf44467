//! The words of one command: a verb, plain words, and `key=value` pairs.

use std::cell::RefCell;
use std::collections::BTreeSet;

pub struct Command<'a> {
    pub verb: &'a str,
    pub words: Vec<&'a str>,
    pairs: Vec<(&'a str, &'a str)>,
    asked: RefCell<BTreeSet<String>>,
}

impl<'a> Command<'a> {
    pub fn parse(line: &'a str) -> Self {
        let mut tokens = line.split_whitespace();
        let verb = tokens.next().expect("a command has a verb");
        let mut command =
            Command { verb, words: Vec::new(), pairs: Vec::new(), asked: RefCell::default() };
        for token in tokens {
            // `t1:0=5` is an offset, not an option.
            match token.split_once('=').filter(|(key, _)| !key.contains(':')) {
                Some(pair) => command.pairs.push(pair),
                None => command.words.push(token),
            }
        }
        command
    }

    pub fn option(&self, key: &str) -> Option<&'a str> {
        self.asked.borrow_mut().insert(key.into());
        self.pairs.iter().find(|(name, _)| *name == key).map(|(_, value)| *value)
    }

    pub fn number<T: std::str::FromStr>(&self, key: &str, default: T) -> T {
        match self.option(key) {
            Some(text) => text.parse().unwrap_or_else(|_| panic!("{key}={text} is no number")),
            None => default,
        }
    }

    pub fn pairs(&self) -> &[(&'a str, &'a str)] {
        &self.pairs
    }

    /// To be called once all options were asked for: an option that nobody knows is an error.
    pub fn done(&self) {
        for (key, _) in &self.pairs {
            assert!(self.asked.borrow().contains(*key), "{} knows no option {key}", self.verb);
        }
    }
}
