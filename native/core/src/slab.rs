//! Rows of one type under small, reusable numbers.
//!
//! Rows stand in chunks: a full slab grows by one chunk, so nothing is copied and little is held in
//! reserve. A number is reused once its row is removed: whoever keeps one must drop it by then.

const CHUNK_BITS: u32 = 8;
const CHUNK_ROWS: usize = 1 << CHUNK_BITS;

/// No row has this number.
pub const NO_ROW: u32 = u32::MAX;

#[derive(Debug)]
pub struct Slab<T> {
    chunks: Vec<Vec<T>>,
    vacant: Vec<u32>,
    len: usize,
}

impl<T: Default> Slab<T> {
    pub fn new() -> Self {
        Slab { chunks: Vec::new(), vacant: Vec::new(), len: 0 }
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

    /// Rows in use.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn insert(&mut self, row: T) -> u32 {
        if let Some(number) = self.reuse() {
            self[number] = row;
            return number;
        }
        self.len += 1;
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK_ROWS) {
            self.chunks.push(Vec::with_capacity(CHUNK_ROWS));
        }
        let chunk = self.chunks.last_mut().expect("a chunk was just made");
        chunk.push(row);
        let number =
            (self.chunks.len() - 1) * CHUNK_ROWS + self.chunks[self.chunks.len() - 1].len();
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

impl<T> core::ops::Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, number: u32) -> &T {
        &self.chunks[(number >> CHUNK_BITS) as usize][number as usize % CHUNK_ROWS]
    }
}

impl<T> core::ops::IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, number: u32) -> &mut T {
        &mut self.chunks[(number >> CHUNK_BITS) as usize][number as usize % CHUNK_ROWS]
    }
}
