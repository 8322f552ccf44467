//! What the entries amount to, as it is stored: a snapshot of the cluster log.
//!
//! Lines of words, as an entry has them. The number of the format is that of entries.

use std::fmt::Write as _;

use super::{Stretch, View};
use crate::FormatError;
use crate::text::{FORMAT, Words};

const FIRST: &str = "pykcoord-cluster-snapshot";
/// There were no snapshots before entries went.
const OLDEST: u32 = 4;

impl View {
    /// As it is stored.
    pub fn to_text(&self) -> String {
        let mut text = format!("{FIRST} {FORMAT}\n");
        self.write(&mut text).expect("a String takes all that is written");
        text + "end\n"
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        let or_none = |number: Option<u64>| number.map_or("-".to_owned(), |one| one.to_string());
        writeln!(text, "next {}", self.next_index)?;
        writeln!(text, "trims {}", or_none(self.trims))?;
        writeln!(text, "shards {}", self.shards)?;
        writeln!(text, "term {}", self.term)?;
        if let Some(controller) = self.controller {
            writeln!(text, "controller {controller:016x}")?;
        }
        for (incarnation, seat) in &self.members {
            let (host, control_host) = (&seat.host, &seat.control_host);
            writeln!(
                text,
                "member {incarnation:016x} {} {host} {} {control_host} {}",
                seat.node_id, seat.port, seat.control_port
            )?;
        }
        for (incarnation, end) in &self.gone {
            writeln!(text, "gone {incarnation:016x} {end}")?;
        }
        for (incarnation, floor) in &self.floors {
            writeln!(text, "floor {incarnation:016x} {floor}")?;
        }
        for (shard, lineage) in &self.lineages {
            for one in lineage {
                let Stretch { incarnation, epoch, from, end, needed, .. } = one;
                let end = or_none(*end);
                writeln!(text, "stretch {shard} {incarnation:016x} {epoch} {from} {end} {needed}")?;
            }
        }
        for (shard, node_id) in &self.pins {
            writeln!(text, "pin {shard} {node_id}")?;
        }
        for node_id in &self.drained {
            writeln!(text, "drained {node_id}")?;
        }
        Ok(())
    }

    /// Of what is stored.
    ///
    /// # Errors
    /// What is no snapshot of the cluster log, not a whole one, or one of another format.
    pub fn of_text(text: &str) -> Result<View, FormatError> {
        let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
        let (_, first) = lines.next().ok_or(FormatError::Line(1))?;
        let mut words = Words::of(1, first);
        words.expect(FIRST)?;
        let format = words.number()?;
        if !(OLDEST..=FORMAT).contains(&format) {
            return Err(FormatError::Version(format));
        }
        let mut view = View::default();
        let mut last = 1;
        for (at, line) in lines {
            last = at;
            let mut words = Words::of(at, line);
            let word = words.word()?;
            if word == "end" {
                view.know_floors();
                return Ok(view);
            }
            view.read(word, &mut words)?;
        }
        Err(FormatError::Line(last + 1))
    }

    fn read(&mut self, word: &str, words: &mut Words<'_>) -> Result<(), FormatError> {
        match word {
            "next" => self.next_index = words.number()?,
            "trims" => self.trims = words.or_none()?,
            "shards" => self.shards = words.number()?,
            "term" => self.term = words.number()?,
            "controller" => self.controller = Some(words.incarnation()?),
            "member" => _ = self.members.insert(words.incarnation()?, words.seat()?),
            "gone" => _ = self.gone.insert(words.incarnation()?, words.number()?),
            "floor" => _ = self.floors.insert(words.incarnation()?, words.number()?),
            "stretch" => {
                let lineage = self.lineages.entry(words.number()?).or_default();
                lineage.push(Stretch {
                    incarnation: words.incarnation()?,
                    epoch: words.number()?,
                    from: words.number()?,
                    end: words.or_none()?,
                    floor: 0,
                    needed: words.number()?,
                });
            }
            "pin" => _ = self.pins.insert(words.number()?, words.number()?),
            "drained" => _ = self.drained.insert(words.number()?),
            _ => return Err(words.wrong()),
        }
        Ok(())
    }

    fn know_floors(&mut self) {
        for stretch in self.lineages.values_mut().flatten() {
            stretch.floor = self.floors.get(&stretch.incarnation).copied().unwrap_or(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Change, Entry, Kept, Seat};

    fn view() -> View {
        let seat = |node_id| Seat {
            node_id,
            host: "one.example".to_owned(),
            port: 9092,
            control_host: "10.0.0.1".to_owned(),
            control_port: 9192,
        };
        let lead = |shard, incarnation, epoch, end| Change::Lead {
            shard,
            incarnation,
            epoch,
            from: 2,
            end,
        };
        let first = vec![
            Change::Shards(3),
            Change::Controller { term: 1, incarnation: 7 },
            Change::Join { incarnation: 7, seat: seat(1) },
            Change::Join { incarnation: u64::MAX, seat: seat(2) },
        ];
        let kept = vec![Kept { shard: 0, epoch: 0, below: 5 }];
        let second = vec![
            lead(0, 7, 0, None),
            lead(1, u64::MAX, 0, None),
            lead(0, u64::MAX, 1, Some(9)),
            Change::Pruned { incarnation: 7, below: 6, kept },
            Change::Gone { incarnation: 7, end: 12 },
            Change::Controller { term: 2, incarnation: u64::MAX },
            Change::Pin { shard: 2, node_id: Some(1) },
            Change::Drain { node_id: -1, is_drained: true },
            Change::Trims,
        ];
        let mut view = View::default();
        for changes in [first, second] {
            view.apply(&Entry { writer: 7, changes }).expect("an entry that can stand");
        }
        view
    }

    #[test]
    fn what_is_stored_is_read_again() {
        assert_eq!(View::of_text(&view().to_text()), Ok(view()));
        assert_eq!(View::of_text(&View::default().to_text()), Ok(View::default()));
    }

    #[test]
    fn a_snapshot_that_was_cut_off_or_is_of_another_format_is_none() {
        let text = view().to_text();
        for (at, _) in text.match_indices('\n').filter(|(at, _)| at + 1 < text.len()) {
            assert!(View::of_text(&text[..at]).is_err(), "{}", &text[..at]);
        }
        let newer = text.replace("snapshot 4", "snapshot 5");
        assert_eq!(View::of_text(&newer), Err(FormatError::Version(5)));
        assert_eq!(View::of_text(&text.replace("term", "turn")), Err(FormatError::Line(5)));
        let entry = Entry { writer: 1, changes: Vec::new() }.to_text();
        assert_eq!(View::of_text(&entry), Err(FormatError::Line(1)));
    }
}
