//! Finds the least and the most loaded of a topic's subscribers while partitions come and go
//! (`UniformHeterogeneousAssignmentBuilder.MemberAssignmentBalancer`, assignors section 11.2).
//!
//! Members stand in the order of their loads as they were in the beginning. The least loaded form
//! a range on the left, the most loaded one on the right; all in a range have the range's level,
//! and a member that is returned counts as having gained or lost one, so that one round through a
//! range moves its level by one.

/// Positions are those of the sorted members.
#[derive(Default)]
pub struct Balancer {
    members: Vec<u32>,
    loads: Vec<u32>,
    least_level: i64,
    least_end: usize,
    least_next: usize,
    most_level: i64,
    most_start: usize,
    most_end: usize,
    /// One behind the member that comes next.
    most_next: usize,
    counts: Vec<u32>,
}

impl Balancer {
    /// Starts with `subscribers`, in the order in which equal ones come, and the sizes of all
    /// members.
    pub fn start(&mut self, subscribers: &[u32], sizes: &[u32]) {
        let loads = || subscribers.iter().map(|&member| sizes[member as usize]);
        let (least, most) = loads().fold((u32::MAX, 0), |(l, m), load| (l.min(load), m.max(load)));
        self.sort(subscribers, sizes, least, most);
        self.least_level = i64::from(least) - 1;
        (self.least_end, self.least_next) = (0, 0);
        self.most_level = i64::from(most) + 1;
        (self.most_start, self.most_end) = (self.members.len(), self.members.len());
        self.most_next = self.members.len();
    }

    /// By counting, where loads are close together.
    fn sort(&mut self, subscribers: &[u32], sizes: &[u32], least: u32, most: u32) {
        self.members.clear();
        self.members.extend_from_slice(subscribers);
        let spread = (most - least) as usize;
        if spread > subscribers.len().max(64) {
            self.members.sort_by_key(|&member| sizes[member as usize]);
        } else if spread > 0 {
            self.counts.clear();
            self.counts.resize(spread + 2, 0);
            let slot = |member: u32| (sizes[member as usize] - least) as usize;
            subscribers.iter().for_each(|&member| self.counts[slot(member) + 1] += 1);
            for at in 0..spread {
                self.counts[at + 1] += self.counts[at];
            }
            for &member in subscribers {
                let place = &mut self.counts[slot(member)];
                self.members[*place as usize] = member;
                *place += 1;
            }
        }
        self.loads.clear();
        self.loads.extend(self.members.iter().map(|&member| sizes[member as usize]));
    }

    /// The member that gets the next partition.
    pub fn next_least_loaded(&mut self) -> u32 {
        while self.least_next == self.least_end {
            self.least_level += 1;
            let level = self.least_level;
            let same = |&&load: &&u32| i64::from(load) == level;
            self.least_end += self.loads[self.least_end..].iter().take_while(same).count();
            self.least_next = 0;
        }
        self.least_next += 1;
        self.members[self.least_next - 1]
    }

    /// The member that gives up the next partition: the most loaded of those that have one of the
    /// topic. Others are left out for good. `None` if no member has one.
    pub fn next_most_loaded(&mut self, has_one: impl Fn(u32) -> bool) -> Option<u32> {
        loop {
            if self.most_next == self.most_start {
                self.extend_most()?;
            }
            self.most_next -= 1;
            let member = self.members[self.most_next];
            if has_one(member) {
                return Some(member);
            }
            self.most_end -= 1;
            self.members.swap(self.most_next, self.most_end);
        }
    }

    fn extend_most(&mut self) -> Option<()> {
        loop {
            let empty = self.most_start == self.most_end;
            if empty && self.most_start == 0 {
                return None;
            }
            self.most_level = match empty {
                true => i64::from(self.loads[self.most_start - 1]),
                false => self.most_level - 1,
            };
            let level = self.most_level;
            let same = |&&load: &&u32| i64::from(load) == level;
            self.most_start -= self.loads[..self.most_start].iter().rev().take_while(same).count();
            self.most_next = self.most_end;
            if self.most_next > self.most_start {
                return Some(());
            }
        }
    }

    /// Whether the two members that came last are at most one apart.
    pub fn is_balanced(&self) -> bool {
        self.most_level - self.least_level <= 1
    }
}
