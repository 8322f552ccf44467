//! The way for groups whose members all have the same subscription
//! (`ConstrainedAssignmentBuilder`, assignors section 6): each member keeps what fits into its
//! quota, the rest goes around. Linear, but for sorting what each member owns.

use super::super::JavaError;
use super::super::group::{Assignment, Group, NONE};
use super::super::order::{id_order, ranks};
use super::super::racks::{Racks, members_by_rack};
use super::claims::Claims;
use super::rack_list::RackList;

/// The assignment, and per partition its new owner if it changes hands, else NONE.
pub fn assign(group: &Group<'_>, claims: &Claims) -> Result<(Assignment, Vec<u32>), JavaError> {
    let mut builder = Builder::new(group, claims);
    builder.keep_owned();
    let mut unassigned = builder.unassigned();
    let ranks = ranks(&id_order(group));
    builder.under.sort_unstable_by_key(|&member| ranks[member as usize]);
    builder.exact.sort_unstable_by_key(|&member| ranks[member as usize]);
    if let Some(racks) = &group.racks {
        by_consumers_in_rack(group, racks, &mut unassigned);
        if builder.rack_aware {
            unassigned = builder.assign_in_rack(racks, &unassigned);
        }
    }
    builder.assign_in_turn(&unassigned)?;
    builder.check()?;
    let assignment = Assignment::collect(group.members().len(), builder.given.iter().copied());
    Ok((assignment, builder.transferred))
}

/// Partitions with few consumers near them first; otherwise as before.
fn by_consumers_in_rack(group: &Group<'_>, racks: &Racks, partitions: &mut [u32]) {
    let members = members_by_rack(group.members().iter().map(|member| member.rack), racks);
    let consumers = |set: u32| racks.set(set).iter().map(|&rack| members[rack as usize]).sum();
    let by_set: Vec<u32> = (0..racks.set_count() as u32).map(consumers).collect();
    partitions.sort_by_key(|&partition| by_set[racks.set_of(partition) as usize]);
}

struct Builder<'a> {
    group: &'a Group<'a>,
    claims: &'a Claims,
    rack_aware: bool,
    min_quota: u32,
    max_quota: u32,
    /// How many members must end with `max_quota`, and how many exceed `min_quota` so far.
    expected_over: u32,
    over: u32,
    under: Vec<u32>,
    exact: Vec<u32>,
    sizes: Vec<u32>,
    /// Per partition the member that had to give it up.
    revoked: Vec<u32>,
    transferred: Vec<u32>,
    kept: Vec<bool>,
    /// From here on Java hands out what is kept too; see `unassigned`.
    stall: u32,
    given: Vec<(u32, u32)>,
}

impl<'a> Builder<'a> {
    fn new(group: &'a Group<'a>, claims: &'a Claims) -> Self {
        let members = group.members().len() as u32;
        let partitions = group.partition_count() as u32;
        let known = claims.disputed.len();
        let consumers = group.members().iter().map(|member| member.rack);
        let rack_aware =
            group.racks.as_ref().is_some_and(|racks| racks.matter(consumers, 0..partitions));
        Builder {
            group,
            claims,
            rack_aware,
            min_quota: partitions / members,
            max_quota: partitions.div_ceil(members),
            expected_over: partitions % members,
            over: 0,
            under: Vec::new(),
            exact: Vec::new(),
            sizes: vec![0; members as usize],
            revoked: vec![NONE; known],
            transferred: vec![NONE; known],
            kept: vec![false; partitions as usize],
            stall: NONE,
            given: Vec::with_capacity(partitions as usize),
        }
    }

    /// Step 1, in hash order, which decides who may keep one more.
    fn keep_owned(&mut self) {
        let topics = self.group.topic_table();
        let mut keys: Vec<u64> = Vec::new();
        for (member, owned) in self.claims.owned() {
            let rack = self.group.members()[member as usize].rack;
            keys.clear();
            for partition in owned {
                let racks = self.group.racks.as_ref().filter(|_| self.rack_aware);
                if racks.is_some_and(|racks| !racks.match_rack(rack, partition)) {
                    self.revoked[partition as usize] = member;
                } else if !self.claims.disputed[partition as usize] {
                    keys.push(self.sort_key(&topics, partition));
                }
            }
            keys.sort_unstable();
            let kept = self.quota(member, keys.len() as u32);
            for (at, &key) in keys.iter().enumerate() {
                let partition = self.partition_of(key);
                if at < kept {
                    self.keep(member, partition);
                } else {
                    self.revoked[partition as usize] = member;
                }
            }
        }
    }

    /// How many of `owned` partitions a member keeps.
    fn quota(&mut self, member: u32, owned: u32) -> usize {
        let kept = if owned < self.min_quota {
            self.under.push(member);
            owned
        } else if owned >= self.max_quota && self.over < self.expected_over {
            self.over += 1;
            if self.over == self.expected_over {
                self.exact.clear();
            }
            self.max_quota
        } else {
            if self.over < self.expected_over {
                self.exact.push(member);
            }
            self.min_quota
        };
        self.sizes[member as usize] = kept;
        kept as usize
    }

    fn keep(&mut self, member: u32, partition: u32) {
        self.given.push((member, partition));
        if let Some(kept) = self.kept.get_mut(partition as usize) {
            *kept = true;
            return;
        }
        let (topic, number) = self.group.place(partition);
        let partitions = self.group.partitions_of(topic);
        self.stall = self.stall.min(if number < 0 { partitions.start } else { partitions.end });
    }

    /// By number, then topic; negative numbers first.
    fn sort_key(&self, topics: &[u32], partition: u32) -> u64 {
        let (topic, number) = match topics.get(partition as usize) {
            Some(&topic) => (topic, (partition - self.group.partitions_of(topic).start) as i32),
            None => self.group.place(partition),
        };
        u64::from(number as u32 ^ 1 << 31) << 32 | u64::from(topic)
    }

    fn partition_of(&self, key: u64) -> u32 {
        let (number, topic) = ((key >> 32) as u32 ^ 1 << 31, key as u32);
        if number < self.group.size_of(topic) {
            return self.group.partitions_of(topic).start + number;
        }
        let phantom = (topic, number as i32);
        let at = self.group.phantoms.iter().position(|&other| other == phantom);
        (self.group.partition_count() + at.expect("a phantom that is claimed")) as u32
    }

    /// Step 2: partitions that no member keeps. Java merges two sorted lists in lock step, and a
    /// partition that does not exist among the kept ones stalls that for good (assignors section
    /// 5.2).
    fn unassigned(&self) -> Vec<u32> {
        let free = |&p: &u32| !self.kept[p as usize] || p >= self.stall;
        (0..self.kept.len() as u32).filter(free).collect()
    }

    /// Returns the member's new size.
    fn give(&mut self, partition: u32, member: u32) -> u32 {
        self.given.push((member, partition));
        let at = partition as usize;
        if (self.revoked[at] != NONE && self.revoked[at] != member) || self.claims.disputed[at] {
            self.transferred[at] = member;
        }
        self.sizes[member as usize] += 1;
        self.sizes[member as usize]
    }

    /// Step 5: as far as possible to members in a rack of the partition. Returns what is left.
    fn assign_in_rack(&mut self, racks: &Racks, partitions: &[u32]) -> Vec<u32> {
        let rack = |member: u32| self.group.members()[member as usize].rack;
        let mut under = RackList::new(racks.count(), &self.under, rack);
        let mut exact = RackList::new(racks.count(), &self.exact, rack);
        let mut left = Vec::new();
        let mut next = 0;
        for &partition in partitions {
            let near = racks.of(partition);
            if let Some((place, member)) = under.first_from(near, next) {
                next = place + 1;
                let size = self.give(partition, member);
                if size >= self.min_quota {
                    under.remove(place);
                    if size < self.max_quota && self.over < self.expected_over {
                        exact.push(member, self.group.members()[member as usize].rack);
                    }
                }
            } else if let Some((place, member)) = exact.first_from(near, 0) {
                if self.give(partition, member) == self.max_quota {
                    exact.remove(place);
                    self.over += 1;
                    if self.over == self.expected_over {
                        exact.clear();
                    }
                }
            } else {
                left.push(partition);
            }
        }
        self.under = under.into_members();
        self.exact = exact.into_members();
        left
    }

    /// Step 6: round and round those below the lower quota, then one more to those at it.
    fn assign_in_turn(&mut self, partitions: &[u32]) -> Result<(), JavaError> {
        let mut under = core::mem::take(&mut self.under);
        let mut exact = core::mem::take(&mut self.exact);
        let mut next_exact = 0;
        // Members before `kept` have had their turn in this round and stay.
        let (mut at, mut kept) = (0, 0);
        for &partition in partitions {
            if at == under.len() {
                under.truncate(kept);
                (at, kept) = (0, 0);
            }
            let from_under = !under.is_empty();
            let member = if from_under {
                under[at]
            } else {
                let member = *exact.get(next_exact).ok_or(JavaError::IllegalState)?;
                next_exact += 1;
                member
            };
            let size = self.give(partition, member);
            if from_under {
                at += 1;
                if size == self.min_quota {
                    exact.push(member);
                } else {
                    under[kept] = member;
                    kept += 1;
                }
            }
            self.over += u32::from(size != self.min_quota && size == self.max_quota);
        }
        under.drain(kept..at);
        self.under = under;
        Ok(())
    }

    /// Step 7, which only partitions that do not exist can fail.
    fn check(&self) -> Result<(), JavaError> {
        let full = |&member: &u32| self.sizes[member as usize] == self.min_quota;
        let sound = self.under.is_empty()
            || (self.over == self.expected_over && self.under.iter().all(full));
        if sound { Ok(()) } else { Err(JavaError::IllegalState) }
    }
}
