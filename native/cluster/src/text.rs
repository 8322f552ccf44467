//! An entry as it is stored: lines of words, so that a person can read it.
//!
//! The first line has the format's number, the last is `end`: what lacks either is no entry.

use std::fmt::{self, Write as _};
use std::str::{FromStr, SplitWhitespace};

use crate::{Change, Entry, Kept, Seat};

const FIRST: &str = "pykcoord-cluster";
/// Of all entries that programs of both formats understand.
const OLDER: u32 = 1;
/// Entries of which rounds go: who does not know that would read what is deleted.
const PRUNES: u32 = 2;
/// Entries of what operators want: who does not know that would move it back.
const WANTS: u32 = 3;
/// Entries behind which others go: who does not know that would take a gap for the log's end.
pub(crate) const FORMAT: u32 = 4;

/// What cannot be read as an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormatError {
    /// Written by a version of the program that this one does not know.
    Version(u32),
    /// Not an entry, or not a whole one: the number of the line, from 1.
    Line(usize),
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FormatError::Version(found) => {
                write!(f, "has format {found}, this version reads {FORMAT}: use a newer one")
            }
            FormatError::Line(line) => write!(f, "line {line} is not what an entry has there"),
        }
    }
}

impl Entry {
    /// As it is stored.
    pub fn to_text(&self) -> String {
        let format = self.changes.iter().map(format_of).max().unwrap_or(OLDER);
        let mut text = format!("{FIRST} {format}\nwriter {:016x}\n", self.writer);
        for change in &self.changes {
            let written = match change {
                Change::Shards(shards) => writeln!(text, "shards {shards}"),
                Change::Controller { term, incarnation } => {
                    writeln!(text, "controller {term} {incarnation:016x}")
                }
                Change::Join { incarnation, seat } => writeln!(
                    text,
                    "join {incarnation:016x} {} {} {} {} {}",
                    seat.node_id, seat.host, seat.port, seat.control_host, seat.control_port
                ),
                Change::Gone { incarnation, end } => {
                    writeln!(text, "gone {incarnation:016x} {end}")
                }
                Change::Lead { shard, incarnation, epoch, from, end } => {
                    let end = end.map_or_else(|| "-".to_owned(), |end| end.to_string());
                    writeln!(text, "lead {shard} {incarnation:016x} {epoch} {from} {end}")
                }
                Change::Pruned { incarnation, below, kept } => {
                    let one = |one: &Kept| format!(" {}:{}:{}", one.shard, one.epoch, one.below);
                    let kept: String = kept.iter().map(one).collect();
                    writeln!(text, "pruned {incarnation:016x} {below}{kept}")
                }
                Change::Pin { shard, node_id } => {
                    let node = node_id.map_or_else(|| "-".to_owned(), |node| node.to_string());
                    writeln!(text, "pin {shard} {node}")
                }
                Change::Drain { node_id, is_drained } => {
                    writeln!(text, "drain {node_id} {}", if *is_drained { "on" } else { "off" })
                }
                Change::Trims => writeln!(text, "trims"),
            };
            written.expect("a String takes all that is written");
        }
        text + "end\n"
    }

    /// Of what is stored.
    ///
    /// # Errors
    /// What is no entry, or one of another format.
    pub fn of_text(text: &str) -> Result<Entry, FormatError> {
        let mut lines = text.lines().enumerate();
        let mut line = || lines.next().map(|(at, line)| (at + 1, line));
        let (_, first) = line().ok_or(FormatError::Line(1))?;
        let mut words = Words::of(1, first);
        words.expect(FIRST)?;
        let format = words.number()?;
        if !(OLDER..=FORMAT).contains(&format) {
            return Err(FormatError::Version(format));
        }
        let (at, second) = line().ok_or(FormatError::Line(2))?;
        let mut words = Words::of(at, second);
        words.expect("writer")?;
        let writer = words.incarnation()?;
        let mut changes = Vec::new();
        let mut last = 2;
        while let Some((at, text)) = line() {
            last = at;
            let mut words = Words::of(at, text);
            let word = words.word()?;
            if word == "end" {
                return Ok(Entry { writer, changes });
            }
            let change = words.change(word)?;
            if format_of(&change) > format {
                return Err(FormatError::Line(at));
            }
            changes.push(change);
        }
        Err(FormatError::Line(last + 1))
    }
}

/// The oldest format that has such a change.
fn format_of(change: &Change) -> u32 {
    match change {
        Change::Pruned { .. } => PRUNES,
        Change::Pin { .. } | Change::Drain { .. } => WANTS,
        Change::Trims => FORMAT,
        _ => OLDER,
    }
}

pub(crate) struct Words<'a> {
    line: usize,
    words: SplitWhitespace<'a>,
}

impl<'a> Words<'a> {
    /// Those of a line, whose number is counted from 1.
    pub(crate) fn of(line: usize, text: &'a str) -> Self {
        Words { line, words: text.split_whitespace() }
    }

    fn change(&mut self, word: &str) -> Result<Change, FormatError> {
        let change = match word {
            "shards" => Change::Shards(self.number()?),
            "controller" => {
                Change::Controller { term: self.number()?, incarnation: self.incarnation()? }
            }
            "join" => Change::Join { incarnation: self.incarnation()?, seat: self.seat()? },
            "gone" => Change::Gone { incarnation: self.incarnation()?, end: self.number()? },
            "lead" => Change::Lead {
                shard: self.number()?,
                incarnation: self.incarnation()?,
                epoch: self.number()?,
                from: self.number()?,
                end: self.or_none()?,
            },
            "pruned" => Change::Pruned {
                incarnation: self.incarnation()?,
                below: self.number()?,
                kept: self.kept()?,
            },
            "pin" => Change::Pin { shard: self.number()?, node_id: self.or_none()? },
            "drain" => Change::Drain { node_id: self.number()?, is_drained: self.on_or_off()? },
            "trims" => Change::Trims,
            _ => return Err(self.wrong()),
        };
        Ok(change)
    }

    fn kept(&mut self) -> Result<Vec<Kept>, FormatError> {
        let mut kept = Vec::new();
        while let Some(word) = self.words.next() {
            let mut numbers = word.splitn(3, ':');
            let mut next = || numbers.next().ok_or(FormatError::Line(self.line));
            let (shard, epoch, below) = (next()?, next()?, next()?);
            let wrong = |_| FormatError::Line(self.line);
            kept.push(Kept {
                shard: shard.parse().map_err(wrong)?,
                epoch: epoch.parse().map_err(wrong)?,
                below: below.parse().map_err(wrong)?,
            });
        }
        Ok(kept)
    }

    pub(crate) fn seat(&mut self) -> Result<Seat, FormatError> {
        Ok(Seat {
            node_id: self.number()?,
            host: self.word()?.to_owned(),
            port: self.number()?,
            control_host: self.word()?.to_owned(),
            control_port: self.number()?,
        })
    }

    pub(crate) fn or_none<T: FromStr>(&mut self) -> Result<Option<T>, FormatError> {
        match self.word()? {
            "-" => Ok(None),
            number => number.parse().map(Some).map_err(|_| self.wrong()),
        }
    }

    fn on_or_off(&mut self) -> Result<bool, FormatError> {
        match self.word()? {
            "on" => Ok(true),
            "off" => Ok(false),
            _ => Err(self.wrong()),
        }
    }

    pub(crate) fn word(&mut self) -> Result<&'a str, FormatError> {
        self.words.next().ok_or(self.wrong())
    }

    pub(crate) fn expect(&mut self, word: &str) -> Result<(), FormatError> {
        if self.word()? == word { Ok(()) } else { Err(self.wrong()) }
    }

    pub(crate) fn number<T: FromStr>(&mut self) -> Result<T, FormatError> {
        self.word()?.parse().map_err(|_| self.wrong())
    }

    pub(crate) fn incarnation(&mut self) -> Result<u64, FormatError> {
        u64::from_str_radix(self.word()?, 16).map_err(|_| self.wrong())
    }

    pub(crate) fn wrong(&self) -> FormatError {
        FormatError::Line(self.line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        let seat = Seat {
            node_id: 3,
            host: "one.example".to_owned(),
            port: 9092,
            control_host: "10.0.0.1".to_owned(),
            control_port: 9192,
        };
        Entry {
            writer: 0xfeed_0000_0000_0001,
            changes: vec![
                Change::Shards(50),
                Change::Controller { term: 4, incarnation: 1 },
                Change::Join { incarnation: u64::MAX, seat },
                Change::Gone { incarnation: 7, end: 42 },
                Change::Lead { shard: 49, incarnation: 1, epoch: 0, from: 5, end: None },
                Change::Lead { shard: 0, incarnation: 1, epoch: 9, from: 0, end: Some(17) },
                Change::Pruned {
                    incarnation: 1,
                    below: 12,
                    kept: vec![
                        Kept { shard: 0, epoch: 9, below: 11 },
                        Kept { shard: 49, epoch: 0, below: 12 },
                    ],
                },
                Change::Pin { shard: 3, node_id: Some(7) },
                Change::Pin { shard: 4, node_id: None },
                Change::Drain { node_id: 7, is_drained: true },
                Change::Drain { node_id: 8, is_drained: false },
                Change::Trims,
            ],
        }
    }

    #[test]
    fn what_is_stored_is_read_again() {
        assert_eq!(Entry::of_text(&entry().to_text()), Ok(entry()));
    }

    #[test]
    fn an_entry_that_was_cut_off_is_none() {
        let text = entry().to_text();
        for (at, _) in text.match_indices('\n').filter(|(at, _)| at + 1 < text.len()) {
            assert!(Entry::of_text(&text[..at]).is_err(), "{}", &text[..at]);
        }
    }

    #[test]
    fn another_format_and_other_words_are_refused_with_their_place() {
        let text = entry().to_text();
        let newer = text.replace("pykcoord-cluster 4", "pykcoord-cluster 5");
        assert_eq!(Entry::of_text(&newer), Err(FormatError::Version(5)));
        let other = text.replace("gone", "went");
        assert_eq!(Entry::of_text(&other), Err(FormatError::Line(6)));
    }

    #[test]
    fn an_entry_is_of_the_oldest_format_that_has_its_changes() {
        for change in entry().changes {
            let format = format_of(&change);
            let text = Entry { writer: 1, changes: vec![change] }.to_text();
            assert!(text.starts_with(&format!("pykcoord-cluster {format}\n")), "{text}");
            if format > OLDER {
                let older = text.replace(
                    &format!("pykcoord-cluster {format}"),
                    &format!("pykcoord-cluster {}", format - 1),
                );
                assert_eq!(Entry::of_text(&older), Err(FormatError::Line(3)));
            }
        }
    }
}
