//! Rows of a group's members: the row of one that is alone lies in the group itself.

use core::ops::Deref;

#[derive(Debug)]
pub struct Rows(Held);

#[derive(Debug)]
enum Held {
    One([u32; 1]),
    Several(Vec<u32>),
}

impl Rows {
    pub fn insert(&mut self, at: usize, row: u32) {
        match &mut self.0 {
            Held::Several(rows) if rows.is_empty() => self.0 = Held::One([row]),
            Held::Several(rows) => rows.insert(at, row),
            Held::One([other]) => {
                let both = if at == 0 { vec![row, *other] } else { vec![*other, row] };
                self.0 = Held::Several(both);
            }
        }
    }

    pub fn remove(&mut self, at: usize) {
        match &mut self.0 {
            Held::One(_) => *self = Rows::default(),
            Held::Several(rows) => {
                rows.remove(at);
                if let [row] = rows[..] {
                    self.0 = Held::One([row]);
                }
            }
        }
    }
}

impl Default for Rows {
    fn default() -> Self {
        Rows(Held::Several(Vec::new()))
    }
}

impl Deref for Rows {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        match &self.0 {
            Held::One(row) => row,
            Held::Several(rows) => rows,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_those_of_a_list() {
        let (mut rows, mut list) = (Rows::default(), Vec::new());
        for (at, row) in [(0, 7), (0, 5), (2, 9), (1, 6)] {
            rows.insert(at, row);
            list.insert(at, row);
            assert_eq!(rows[..], list[..]);
        }
        for at in [1, 2, 0, 0] {
            rows.remove(at);
            list.remove(at);
            assert_eq!(rows[..], list[..]);
        }
        rows.insert(0, 3);
        assert_eq!(rows[..], [3]);
    }
}
