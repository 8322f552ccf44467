//! What an axis does: rounds of work, the same in every run.

pub trait Work {
    /// Makes ready what the next round needs, and drops what the last one left. Not measured.
    fn prepare(&mut self) {}

    /// What is measured. Returns how many operations it was.
    fn round(&mut self) -> u64;
}

/// A fixed random order (Fisher-Yates over xorshift).
pub fn shuffled(count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for index in (1..count).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        order.swap(index, state as usize % (index + 1));
    }
    order
}
