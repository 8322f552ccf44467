//! The highest offset that was committed for each partition of a topic, by any group of the shard:
//! where the partition ends at the least. It does not go back with a group that is reset, and is
//! forgotten with the last offset of its topic.

/// Partitions of a page. Bounds what a partition costs that is alone in its page, 72 bytes, and
/// what it costs among neighbours, 9 bytes.
const PAGE: usize = 8;
const PAGE_BITS: u32 = PAGE.trailing_zeros();

#[derive(Debug)]
struct Page {
    /// Its first partition, divided by [`PAGE`].
    number: i32,
    offsets: [i64; PAGE],
}

/// Takes no memory for partitions that have no neighbour with a commit: their numbers come from
/// clients.
#[derive(Debug, Default)]
pub(super) struct Furthest {
    /// In the order of their numbers.
    pages: Vec<Page>,
}

impl Furthest {
    /// A commit of `offset`.
    #[inline]
    pub fn raise(&mut self, partition: i32, offset: i64) {
        let at = match self.locate(page_of(partition)) {
            Ok(at) => at,
            Err(at) => self.add(page_of(partition), at),
        };
        let known = &mut self.pages[at].offsets[place_of(partition)];
        *known = (*known).max(offset);
    }

    /// 0: no commit.
    pub fn get(&self, partition: i32) -> i64 {
        match self.locate(page_of(partition)) {
            Ok(at) => self.pages[at].offsets[place_of(partition)],
            Err(_) => 0,
        }
    }

    /// Where the page is, or belongs. Mostly none before it is missing.
    #[inline]
    fn locate(&self, number: i32) -> Result<usize, usize> {
        if let Some(first) = self.pages.first() {
            let at = number.wrapping_sub(first.number) as u32 as usize;
            if self.pages.get(at).is_some_and(|page| page.number == number) {
                return Ok(at);
            }
        }
        self.pages.binary_search_by_key(&number, |page| page.number)
    }

    /// Grows by an eighth: doubling would cost as much again.
    #[cold]
    fn add(&mut self, number: i32, at: usize) -> usize {
        if self.pages.len() == self.pages.capacity() {
            self.pages.reserve_exact((self.pages.len() / 8).max(1));
        }
        self.pages.insert(at, Page { number, offsets: [0; PAGE] });
        at
    }
}

fn page_of(partition: i32) -> i32 {
    partition >> PAGE_BITS
}

fn place_of(partition: i32) -> usize {
    partition as u32 as usize % PAGE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_partition_keeps_its_highest_offset_in_whatever_order_commits_come() {
        let partitions = [40, 0, 17, -1, i32::MAX, 16, 39, i32::MIN, 9_999];
        let mut furthest = Furthest::default();
        for (offset, partition) in (10..).zip(partitions) {
            furthest.raise(partition, offset);
            furthest.raise(partition, offset - 5);
            furthest.raise(partition, -1);
        }
        for (offset, partition) in (10..).zip(partitions) {
            assert_eq!(furthest.get(partition), offset, "partition {partition}");
        }
        for partition in [1, 15, 18, 41, -2, i32::MIN + 1, i32::MAX - 1, 500] {
            assert_eq!(furthest.get(partition), 0, "partition {partition}");
        }
    }

    #[test]
    fn a_partition_with_a_high_number_takes_one_page() {
        let mut furthest = Furthest::default();
        for partition in [2_000_000_000, 7, -2_000_000_000] {
            furthest.raise(partition, 1);
        }
        assert_eq!(furthest.pages.len(), 3);
    }
}
