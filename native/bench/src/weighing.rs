//! What groups and offsets weigh: what is allocated for them, as the system's allocator counts it.

use kcoord_core::request::Request;
use kcoord_core::response::Response;

use crate::consumers;
use crate::hosted::Hosted;
use crate::requests::{MemberOf, commit, group_id, join, sync};

/// Offsets of a group that has many.
const OFFSETS_A_GROUP: i32 = 100;
/// Groups made before anything is weighed: what is made once is no group's.
const WARM_UP: usize = 500;

/// glibc's `struct mallinfo2`, see mallinfo(3).
#[repr(C)]
struct Mallinfo {
    before: [usize; 4],
    mapped_bytes: usize,
    between: [usize; 2],
    used_bytes: usize,
    behind: [usize; 2],
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
unsafe extern "C" {
    safe fn mallinfo2() -> Mallinfo;
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn mallinfo2() -> Mallinfo {
    panic!("only glibc says what is allocated")
}

/// Bytes of a group of one, of an offset at 100 a group, and of the only offset of a group.
pub fn weigh(groups: usize, offset_groups: usize) -> [f64; 3] {
    let mut scale = Scale { hosted: Hosted::new(), made: 0 };
    scale.bytes_each(WARM_UP, OFFSETS_A_GROUP);
    let group = scale.bytes_each(groups, 0);
    let many = scale.bytes_each(offset_groups, OFFSETS_A_GROUP);
    let one = scale.bytes_each(groups, 1);
    [group, (many - group) / f64::from(OFFSETS_A_GROUP), one - group]
}

/// Bytes of a consumer group of one, with 64 bytes of subscription and ten partitions.
pub fn weigh_consumers(groups: usize) -> f64 {
    let mut hosted = consumers::scale();
    (0..WARM_UP).for_each(|at| consumers::make_group(&mut hosted, at));
    let before = used_bytes();
    (WARM_UP..WARM_UP + groups).for_each(|at| consumers::make_group(&mut hosted, at));
    (used_bytes() - before) as f64 / groups as f64
}

struct Scale {
    hosted: Hosted,
    made: usize,
}

impl Scale {
    /// What each new group of one takes, with so many offsets.
    fn bytes_each(&mut self, groups: usize, offsets: i32) -> f64 {
        let before = used_bytes();
        for _ in 0..groups {
            self.put(offsets);
        }
        (used_bytes() - before) as f64 / groups as f64
    }

    /// Nothing of the requests stays behind.
    fn put(&mut self, offsets: i32) {
        let group_id = &*group_id(self.made);
        self.made += 1;
        self.ask(&join(group_id, ""));
        // The initial delay of zero is a timer that is due at once.
        self.hosted.shard.handle_timeout(self.hosted.now_ms);
        self.hosted.settle();
        let Some((_, Response::JoinGroup(joined))) = self.hosted.shard.poll_response() else {
            panic!("{group_id}: its member has not joined");
        };
        let member = MemberOf { group_id, member_id: &joined.member_id };
        self.ask(&sync(&member, 1, &[member.member_id]));
        if offsets > 0 {
            self.ask(&Request::OffsetCommit(commit(&member, offsets)));
        }
        assert_eq!(self.hosted.answered(), 1 + u64::from(offsets > 0));
    }

    fn ask(&mut self, request: &Request<'_>) {
        let context = self.hosted.context();
        self.hosted.shard.handle_request(self.hosted.now_ms, &context, request);
        self.hosted.settle();
    }
}

fn used_bytes() -> usize {
    let info = mallinfo2();
    info.used_bytes + info.mapped_bytes
}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    use super::*;

    #[test]
    fn groups_and_offsets_weigh_what_they_are_known_to() {
        let [group, offset, single] = weigh(2_000, 200);
        assert!((300.0..500.0).contains(&group), "{group}");
        assert!((30.0..50.0).contains(&offset), "{offset}");
        assert!((60.0..120.0).contains(&single), "{single}");
        let consumers = weigh_consumers(2_000);
        assert!((500.0..1_600.0).contains(&consumers), "{consumers}");
    }
}
