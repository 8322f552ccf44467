//! Rows of one type under small, reusable numbers.
//!
//! Rows stand in pages: a full slab grows by one page, so nothing is copied and little is held in
//! reserve. A number is reused once its row is removed: a number that is kept must be dropped by
//! then.

const PAGE_BITS: u32 = 8;
const PAGE_ROWS: usize = 1 << PAGE_BITS;

/// No row has this number.
pub const NO_ROW: u32 = u32::MAX;

/// Rows under numbers; a row is read and written by indexing, and must be in use.
#[derive(Debug)]
pub struct Slab<T> {
    pages: Vec<Vec<T>>,
    vacant: Vec<u32>,
    len: usize,
}

impl<T: Default> Slab<T> {
    /// An empty one.
    pub fn new() -> Self {
        Slab { pages: Vec::new(), vacant: Vec::new(), len: 0 }
    }

    /// A slab with `rows` rows to be filled, which have the numbers that `vacant` leaves, and with
    /// the numbers that it gives out next, the last one first.
    pub fn with_vacant(rows: usize, vacant: Vec<u32>) -> Self {
        let mut slab = Slab::new();
        (0..rows + vacant.len()).for_each(|_| {
            slab.insert(T::default());
        });
        slab.len = rows;
        slab.vacant = vacant;
        slab
    }

    /// Numbers that are free.
    pub fn vacant(&self) -> &[u32] {
        &self.vacant
    }

    /// Every number that was ever given out is below.
    pub fn end(&self) -> u32 {
        (self.len + self.vacant.len()) as u32
    }

    /// Rows in use.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Takes a row in, and says its number.
    pub fn insert(&mut self, row: T) -> u32 {
        if let Some(number) = self.reuse() {
            self[number] = row;
            return number;
        }
        self.len += 1;
        if self.pages.last().is_none_or(|page| page.len() == PAGE_ROWS) {
            self.pages.push(Vec::with_capacity(PAGE_ROWS));
        }
        let page = self.pages.last_mut().expect("a page was just made");
        page.push(row);
        let number = (self.pages.len() - 1) * PAGE_ROWS + self.pages[self.pages.len() - 1].len();
        u32::try_from(number - 1).expect("a shard holds less than 2^32 rows")
    }

    /// The number of a row that was removed or released, in use again and as it was left: the row
    /// is to be filled where it stands.
    pub fn reuse(&mut self) -> Option<u32> {
        let number = self.vacant.pop()?;
        self.len += 1;
        Some(number)
    }

    /// Takes the row out; its number may be given to another one.
    pub fn remove(&mut self, number: u32) -> T {
        let row = core::mem::take(&mut self[number]);
        self.release(number);
        row
    }

    /// Frees the number of a row that its owner has emptied where it stands.
    pub fn release(&mut self, number: u32) {
        self.vacant.push(number);
        self.len -= 1;
    }
}

impl<T: Default> Default for Slab<T> {
    fn default() -> Self {
        Slab::new()
    }
}

impl<T> core::ops::Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, number: u32) -> &T {
        &self.pages[(number >> PAGE_BITS) as usize][number as usize % PAGE_ROWS]
    }
}

impl<T> core::ops::IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, number: u32) -> &mut T {
        &mut self.pages[(number >> PAGE_BITS) as usize][number as usize % PAGE_ROWS]
    }
}
