//! The wheel's lists: numbers of entries in order of insertion, thirteen to a cache line.
//!
//! Links from entry to entry would make each of them wait for the one before it to be read; a line
//! names thirteen that can be read together. An entry keeps its [`Spot`], to be taken out anywhere.
//! A line whose entries are gone is given back: every line of a list holds at least one.

/// Marks the end of a list, and the id that no timer has.
pub(super) const NIL: u32 = u32::MAX;

/// Entries of a line.
pub(super) const LINE: usize = 13;

const AT_BITS: u32 = 4;
const PAGE_BITS: u32 = 5;
const PAGE_LINES: usize = 1 << PAGE_BITS;

/// Where in all lines an entry stands: the number of its line, and its place there.
pub(super) type Spot = u32;

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line {
    entries: [u32; LINE],
    previous: u32,
    /// Next in its list; of a vacant line the next vacant one.
    next: u32,
    /// One bit for each entry that was not taken out.
    live: u16,
    /// Entries that were ever put in.
    filled: u16,
}

const _: () = assert!(size_of::<Line>() == 64);

impl Line {
    const EMPTY: Line = Line { entries: [NIL; LINE], previous: NIL, next: NIL, live: 0, filled: 0 };

    /// The place of an entry, for which there must be room.
    fn push(&mut self, entry: u32) -> u32 {
        let at = self.filled;
        self.entries[usize::from(at)] = entry;
        self.filled += 1;
        self.live |= 1 << at;
        u32::from(at)
    }
}

/// The lines of all lists of one wheel.
#[derive(Debug)]
pub(super) struct Lines {
    /// A line never moves, and memory grows by one page.
    pages: Vec<Vec<Line>>,
    vacant: u32,
}

/// A list: its first line and its last.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    head: u32,
    tail: u32,
}

/// The entries of one line, oldest first.
#[derive(Clone, Copy, Debug)]
pub(super) struct OfLine {
    entries: [u32; LINE],
    live: u16,
}

impl Iterator for OfLine {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let at = first_bit(self.live)?;
        self.live &= self.live - 1;
        Some(self.entries[at])
    }
}

impl Lines {
    pub fn new() -> Self {
        Lines { pages: Vec::new(), vacant: NIL }
    }

    fn line(&self, number: u32) -> &Line {
        &self.pages[(number >> PAGE_BITS) as usize][number as usize % PAGE_LINES]
    }

    fn line_mut(&mut self, number: u32) -> &mut Line {
        &mut self.pages[(number >> PAGE_BITS) as usize][number as usize % PAGE_LINES]
    }

    /// Those of one line.
    pub fn entries(&self, number: u32) -> OfLine {
        let line = self.line(number);
        OfLine { entries: line.entries, live: line.live }
    }

    fn take(&mut self) -> u32 {
        if self.vacant != NIL {
            let number = self.vacant;
            let line = self.line_mut(number);
            let next = line.next;
            *line = Line::EMPTY;
            self.vacant = next;
            return number;
        }
        if self.pages.last().is_none_or(|page| page.len() == PAGE_LINES) {
            self.pages.push(Vec::with_capacity(PAGE_LINES));
        }
        let full = (self.pages.len() - 1) * PAGE_LINES;
        let page = self.pages.last_mut().expect("a page was just ensured");
        let number = u32::try_from(full + page.len()).expect("fewer than 2^32 lines");
        assert!(number >> (u32::BITS - AT_BITS) == 0, "fewer than 2^28 lines");
        page.push(Line::EMPTY);
        number
    }

    fn give_back(&mut self, number: u32) {
        self.line_mut(number).next = self.vacant;
        self.vacant = number;
    }
}

impl List {
    pub const EMPTY: List = List { head: NIL, tail: NIL };

    pub fn is_empty(&self) -> bool {
        self.head == NIL
    }

    /// Puts an entry behind all others, which is to keep the spot.
    #[inline]
    pub fn push_back(&mut self, lines: &mut Lines, entry: u32) -> Spot {
        if self.tail != NIL {
            let line = lines.line_mut(self.tail);
            if usize::from(line.filled) < LINE {
                return line.push(entry) | self.tail << AT_BITS;
            }
        }
        self.push_line(lines);
        lines.line_mut(self.tail).push(entry) | self.tail << AT_BITS
    }

    #[cold]
    fn push_line(&mut self, lines: &mut Lines) {
        let number = lines.take();
        lines.line_mut(number).previous = self.tail;
        match self.tail {
            NIL => self.head = number,
            tail => lines.line_mut(tail).next = number,
        }
        self.tail = number;
    }

    /// Takes the entry out that has this spot.
    pub fn unlink(&mut self, lines: &mut Lines, spot: Spot) {
        let (number, at) = parts(spot);
        let line = lines.line_mut(number);
        debug_assert!(line.live & 1 << at != 0, "nothing has this spot");
        line.live &= !(1 << at);
        if line.live != 0 {
            return;
        }
        let (previous, next) = (line.previous, line.next);
        match previous {
            NIL => {
                debug_assert_eq!(self.head, number, "the line is in another list");
                self.head = next;
            }
            previous => lines.line_mut(previous).next = next,
        }
        match next {
            NIL => {
                debug_assert_eq!(self.tail, number, "the line is in another list");
                self.tail = previous;
            }
            next => lines.line_mut(next).previous = previous,
        }
        lines.give_back(number);
    }

    /// Takes the first entry out. Its list must not be empty.
    pub fn pop_front(&mut self, lines: &mut Lines) {
        let line = lines.line_mut(self.head);
        line.live &= line.live - 1;
        if line.live == 0 {
            self.pop_line(lines);
        }
    }

    /// Takes the first line off.
    pub fn pop_line(&mut self, lines: &mut Lines) -> Option<OfLine> {
        let head = self.head;
        if head == NIL {
            return None;
        }
        let entries = lines.entries(head);
        match lines.line(head).next {
            NIL => *self = List::EMPTY,
            next => {
                lines.line_mut(next).previous = NIL;
                self.head = next;
            }
        }
        lines.give_back(head);
        Some(entries)
    }

    /// Puts all of `other` behind.
    pub fn append(&mut self, lines: &mut Lines, other: List) {
        match self.tail {
            NIL => *self = other,
            _ if other.is_empty() => {}
            tail => {
                lines.line_mut(tail).next = other.head;
                lines.line_mut(other.head).previous = tail;
                self.tail = other.tail;
            }
        }
    }

    pub fn first(&self, lines: &Lines) -> Option<u32> {
        let line = lines.line(self.first_line()?);
        Some(line.entries[line.live.trailing_zeros() as usize])
    }

    pub fn last(&self, lines: &Lines) -> Option<u32> {
        (self.tail != NIL).then(|| {
            let line = lines.line(self.tail);
            line.entries[line.live.ilog2() as usize]
        })
    }

    /// The number of the first line.
    pub fn first_line(&self) -> Option<u32> {
        (self.head != NIL).then_some(self.head)
    }

    /// The entry behind the one with this spot.
    pub fn after(&self, lines: &Lines, spot: Spot) -> Option<u32> {
        let (number, at) = parts(spot);
        let line = lines.line(number);
        if let Some(at) = first_bit(line.live & !((2 << at) - 1)) {
            return Some(line.entries[at]);
        }
        List { head: line.next, tail: self.tail }.first(lines)
    }

    pub fn entries(self, lines: &Lines) -> impl Iterator<Item = u32> + '_ {
        let mut head = self.head;
        let each_line = core::iter::from_fn(move || {
            let number = (head != NIL).then_some(head)?;
            head = lines.line(number).next;
            Some(lines.entries(number))
        });
        each_line.flatten()
    }
}

fn parts(spot: Spot) -> (u32, u32) {
    (spot >> AT_BITS, spot % (1 << AT_BITS))
}

fn first_bit(bits: u16) -> Option<usize> {
    (bits != 0).then(|| bits.trailing_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists as they should be, in the steps that a wheel takes, drawn at random.
    #[test]
    fn lists_keep_their_order() {
        let mut state = 7_u64;
        let mut draw = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % below
        };
        let (mut lines, mut list) = (Lines::new(), List::EMPTY);
        let mut model: Vec<(u32, Spot)> = Vec::new();
        let (mut made, mut longest) = (0, 0);
        let mut push = |lines: &mut Lines, list: &mut List| {
            made += 1;
            (made, list.push_back(lines, made))
        };
        for _ in 0..20_000 {
            match draw(60) {
                0 => {
                    let popped: Vec<u32> =
                        list.pop_line(&mut lines).into_iter().flatten().collect();
                    assert_eq!(popped.is_empty(), model.is_empty());
                    let expected = model.drain(..popped.len()).map(|(entry, _)| entry);
                    assert!(expected.eq(popped));
                }
                1 => {
                    let mut other = List::EMPTY;
                    model.extend((0..draw(30)).map(|_| push(&mut lines, &mut other)));
                    list.append(&mut lines, other);
                }
                2..30 if !model.is_empty() => {
                    let at = draw(model.len());
                    let behind = model.get(at + 1).map(|(entry, _)| *entry);
                    assert_eq!(list.after(&lines, model[at].1), behind);
                    list.unlink(&mut lines, model.remove(at).1);
                }
                _ => model.push(push(&mut lines, &mut list)),
            }
            longest = longest.max(model.len());
            assert_eq!(list.first(&lines), model.first().map(|(entry, _)| *entry));
            assert_eq!(list.last(&lines), model.last().map(|(entry, _)| *entry));
            assert!(list.entries(&lines).eq(model.iter().map(|(entry, _)| *entry)));
        }
        assert!(longest > 5 * LINE, "{longest}");
    }

    #[test]
    fn lines_are_used_again() {
        let (mut lines, mut list) = (Lines::new(), List::EMPTY);
        for _ in 0..1_000 {
            let spots: Vec<Spot> =
                (0..2 * LINE as u32).map(|entry| list.push_back(&mut lines, entry)).collect();
            spots.into_iter().for_each(|spot| list.unlink(&mut lines, spot));
            assert!(list.is_empty());
        }
        assert_eq!(lines.pages.iter().map(Vec::len).sum::<usize>(), 2);
    }
}
