//! How a member moves to its target, at its own pace (`CurrentAssignmentBuilder`,
//! consumer-protocol section 5).
//!
//! A pure function of what the member has, what it is to have, what it says it owns, and what others
//! still hold. A partition moves only when its owner has said that it gave it up.

use crate::record::consumer::MemberState;
use crate::topic_partition::{AssignedPartition, TopicPartition, Walk, intersects};

/// What a member has: what its record says (type 8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Current<'a> {
    pub state: MemberState,
    pub member_epoch: i32,
    pub previous_member_epoch: i32,
    pub assigned: &'a [AssignedPartition],
    /// What it has to give up.
    pub revoking: &'a [AssignedPartition],
}

/// The same, to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Next {
    pub state: MemberState,
    pub member_epoch: i32,
    pub previous_member_epoch: i32,
    pub assigned: Vec<AssignedPartition>,
    pub revoking: Vec<AssignedPartition>,
}

impl Next {
    pub fn as_current(&self) -> Current<'_> {
        Current {
            state: self.state,
            member_epoch: self.member_epoch,
            previous_member_epoch: self.previous_member_epoch,
            assigned: &self.assigned,
            revoking: &self.revoking,
        }
    }
}

/// What a member is to come to.
#[derive(Clone, Copy, Debug)]
pub struct Goal<'a> {
    pub target: &'a [TopicPartition],
    pub target_epoch: i32,
    /// What the member says it owns; `None`: it did not say.
    pub reported: Option<&'a [TopicPartition]>,
    /// Its topics are others since this heartbeat.
    pub has_subscription_changed: bool,
}

/// What the rest of the group says of partitions.
pub trait Surroundings {
    /// Whether the member subscribes to the topic, and it exists.
    fn is_subscribed(&self, partition: TopicPartition) -> bool;

    /// Whether a member, this one or another, has the partition or has yet to give it up.
    fn is_owned(&self, partition: TopicPartition) -> bool;
}

/// The member's record cannot be understood, and it does not say that it owns nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fenced;

/// What becomes of the member; `None`: it stays as it is.
pub fn reconcile(
    current: Current<'_>,
    goal: Goal<'_>,
    around: &impl Surroundings,
) -> Result<Option<Next>, Fenced> {
    let next = match current.state {
        MemberState::Stable if current.member_epoch != goal.target_epoch => {
            next(current, goal, current.member_epoch, around)
        }
        MemberState::Stable if goal.has_subscription_changed => {
            drop_unsubscribed(current, goal, around)
        }
        MemberState::Stable => None,
        MemberState::UnrevokedPartitions if still_owns(goal.reported, current.revoking) => {
            if !goal.has_subscription_changed {
                return Ok(None);
            }
            drop_unsubscribed(current, goal, around)
        }
        MemberState::UnrevokedPartitions | MemberState::UnreleasedPartitions => {
            next(current, goal, current.member_epoch, around)
        }
        MemberState::Unknown if goal.reported.is_some_and(<[_]>::is_empty) => {
            next(current, goal, goal.target_epoch, around)
        }
        MemberState::Unknown => return Err(Fenced),
    };
    Ok(next.filter(|next| next.as_current() != current))
}

/// A member that does not say what it owns may own all that it had.
fn still_owns(reported: Option<&[TopicPartition]>, revoking: &[AssignedPartition]) -> bool {
    reported.is_none_or(|reported| intersects(reported, revoking))
}

/// Towards the target, from an epoch that holds while something is to be revoked.
fn next(
    current: Current<'_>,
    goal: Goal<'_>,
    epoch: i32,
    around: &impl Surroundings,
) -> Option<Next> {
    let is_due = |partition: &TopicPartition| around.is_subscribed(*partition);
    let mut target = Walk::of(goal.target);
    let is_kept = |had: &AssignedPartition| target.holds(had.at) && is_due(&had.at);
    let (keep, revoke): (Vec<_>, Vec<_>) = current.assigned.iter().copied().partition(is_kept);
    if !revoke.is_empty() && still_owns(goal.reported, &revoke) {
        return Some(Next {
            state: MemberState::UnrevokedPartitions,
            member_epoch: epoch,
            previous_member_epoch: current.member_epoch,
            assigned: keep,
            revoking: revoke,
        });
    }
    let (mut kept, mut revoking) = (keep.iter().peekable(), Walk::of(current.revoking));
    let mut assigned = Vec::with_capacity(goal.target.len());
    let mut waits = false;
    for partition in goal.target.iter().filter(|partition| is_due(partition)) {
        if let Some(had) = kept.next_if(|had| had.at == *partition) {
            assigned.push(*had);
        } else if !around.is_owned(*partition) || revoking.holds(*partition) {
            assigned.push(AssignedPartition { at: *partition, epoch: goal.target_epoch });
        } else {
            waits = true;
        }
    }
    debug_assert!(kept.next().is_none(), "what is kept is in the target");
    Some(Next {
        state: if waits { MemberState::UnreleasedPartitions } else { MemberState::Stable },
        member_epoch: goal.target_epoch,
        previous_member_epoch: current.member_epoch,
        assigned,
        revoking: Vec::new(),
    })
}

/// What the member does not subscribe to any more goes at once, while the target waits.
fn drop_unsubscribed(
    current: Current<'_>,
    goal: Goal<'_>,
    around: &impl Surroundings,
) -> Option<Next> {
    let is_kept = |had: &AssignedPartition| around.is_subscribed(had.at);
    let (assigned, mut revoking): (Vec<_>, Vec<_>) =
        current.assigned.iter().copied().partition(is_kept);
    if revoking.is_empty() {
        return None;
    }
    revoking.extend_from_slice(current.revoking);
    revoking.sort_by_key(|had| had.at);
    let owns = still_owns(goal.reported, &revoking);
    Some(Next {
        state: if owns { MemberState::UnrevokedPartitions } else { current.state },
        member_epoch: current.member_epoch,
        previous_member_epoch: current.member_epoch,
        assigned,
        revoking: if owns { revoking } else { current.revoking.to_vec() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Uuid;

    /// Partitions of one topic that others hold, and topics that the member subscribes to.
    struct Around(&'static [i32], &'static [u128]);

    impl Surroundings for Around {
        fn is_subscribed(&self, partition: TopicPartition) -> bool {
            self.1.contains(&partition.topic_id().0)
        }

        fn is_owned(&self, partition: TopicPartition) -> bool {
            partition.topic_id() == Uuid(1) && self.0.contains(&partition.partition)
        }
    }

    const FREE: Around = Around(&[], &[1, 2]);

    fn set(topic: u128, numbers: &[i32]) -> Vec<TopicPartition> {
        numbers.iter().map(|number| TopicPartition::new(Uuid(topic), *number)).collect()
    }

    fn had(topic: u128, numbers: &[i32], epoch: i32) -> Vec<AssignedPartition> {
        set(topic, numbers).into_iter().map(|at| AssignedPartition { at, epoch }).collect()
    }

    fn member(state: MemberState, epochs: (i32, i32), assigned: &[i32], revoking: &[i32]) -> Next {
        Next {
            state,
            member_epoch: epochs.0,
            previous_member_epoch: epochs.1,
            assigned: had(1, assigned, 2),
            revoking: had(1, revoking, 2),
        }
    }

    /// Towards a target of topic 1 at an epoch, with what the member reports.
    fn step(
        from: &Next,
        target: (&[i32], i32),
        reported: Option<&[i32]>,
        around: &Around,
    ) -> Option<Next> {
        let (target, target_epoch) = (set(1, target.0), target.1);
        let reported = reported.map(|numbers| set(1, numbers));
        let reported = reported.as_deref();
        let goal =
            Goal { target: &target, target_epoch, reported, has_subscription_changed: false };
        reconcile(from.as_current(), goal, around).expect("its state is known")
    }

    use MemberState::{Stable, UnreleasedPartitions, UnrevokedPartitions};

    #[test]
    fn one_gives_up_and_the_other_waits_for_it() {
        let a = member(Stable, (2, 0), &[0, 1, 2, 3, 4, 5], &[]);
        assert_eq!(step(&a, (&[0, 1, 2, 3, 4, 5], 2), None, &FREE), None);
        let revoking = step(&a, (&[0, 1, 2], 3), None, &FREE).expect("it has too much");
        assert_eq!(revoking, member(UnrevokedPartitions, (2, 2), &[0, 1, 2], &[3, 4, 5]));
        for reported in [None, Some(&[0, 1, 2, 3][..])] {
            assert_eq!(step(&revoking, (&[0, 1, 2], 3), reported, &FREE), None);
        }
        let done = step(&revoking, (&[0, 1, 2], 3), Some(&[0, 1, 2]), &FREE);
        assert_eq!(done, Some(member(Stable, (3, 2), &[0, 1, 2], &[])));

        let b = member(Stable, (2, 0), &[], &[]);
        let held = Around(&[0, 1, 2, 3, 4, 5], &[1]);
        let waits = step(&b, (&[3, 4, 5], 3), None, &held).expect("its epoch moves");
        assert_eq!(waits, member(UnreleasedPartitions, (3, 2), &[], &[]));
        let waits = step(&waits, (&[3, 4, 5], 3), None, &held).expect("so does the one before");
        assert_eq!(waits.previous_member_epoch, 3);
        assert_eq!(step(&waits, (&[3, 4, 5], 3), None, &held), None);
        let some = step(&waits, (&[3, 4, 5], 3), None, &Around(&[0, 1, 2, 5], &[1]));
        let some = some.expect("two are free");
        assert_eq!((some.state, &some.assigned), (UnreleasedPartitions, &had(1, &[3, 4], 3)));
        let all = step(&some, (&[3, 4, 5], 3), None, &Around(&[0, 1, 2, 3, 4], &[1]));
        let all = all.expect("the last is free");
        assert_eq!((all.state, all.assigned), (Stable, had(1, &[3, 4, 5], 3)));
    }

    #[test]
    fn who_says_that_it_owns_nothing_of_it_need_not_revoke() {
        let a = member(Stable, (2, 0), &[0, 1], &[]);
        let done = step(&a, (&[0], 3), Some(&[0]), &Around(&[0, 1], &[1]));
        assert_eq!(done, Some(member(Stable, (3, 2), &[0], &[])));
    }

    #[test]
    fn a_newer_target_may_give_back_what_is_being_revoked() {
        let a = member(UnrevokedPartitions, (2, 2), &[0], &[1]);
        let own = Around(&[0, 1], &[1]);
        let back = step(&a, (&[0, 1], 4), Some(&[0]), &own).expect("it moves");
        assert_eq!(back.state, Stable);
        assert_eq!(back.assigned, [had(1, &[0], 2), had(1, &[1], 4)].concat());
        let less = step(&a, (&[], 4), Some(&[0]), &own);
        assert_eq!(less, Some(member(UnrevokedPartitions, (2, 2), &[], &[0])));
    }

    #[test]
    fn what_is_not_subscribed_any_more_goes_before_the_target_does() {
        let one = Around(&[], &[2]);
        let mut a = member(Stable, (2, 1), &[0, 1], &[]);
        a.assigned.extend(had(2, &[7], 2));
        let target = [set(1, &[0, 1]), set(2, &[7])].concat();
        let drop = |a: &Next, reported: Option<&[TopicPartition]>| {
            let goal =
                Goal { target: &target, target_epoch: 2, reported, has_subscription_changed: true };
            reconcile(a.as_current(), goal, &one).expect("its state is known")
        };
        let revoking = drop(&a, None).expect("it has too much");
        assert_eq!((revoking.state, &revoking.assigned), (UnrevokedPartitions, &had(2, &[7], 2)));
        assert_eq!(revoking.revoking, had(1, &[0, 1], 2));
        assert_eq!((revoking.member_epoch, revoking.previous_member_epoch), (2, 2));
        let gone = drop(&a, Some(&set(2, &[7]))).expect("it has too much");
        assert_eq!((gone.state, &gone.assigned), (Stable, &had(2, &[7], 2)));
        assert_eq!(gone.revoking, []);
        assert_eq!(drop(&gone, None), None);
        // Nor does a target bring it back.
        let goal = Goal {
            target: &target,
            target_epoch: 3,
            reported: None,
            has_subscription_changed: false,
        };
        let next = reconcile(gone.as_current(), goal, &one).expect("its state is known");
        assert_eq!(next.expect("its epoch moves").assigned, had(2, &[7], 2));
    }

    #[test]
    fn a_state_of_a_later_release_is_left_by_owning_nothing() {
        let a = member(MemberState::of(9), (2, 1), &[], &[]);
        assert_eq!(a.state, MemberState::Unknown);
        let target = set(1, &[0]);
        for reported in [None, Some(&target[..])] {
            let goal = Goal {
                target: &target,
                target_epoch: 5,
                reported,
                has_subscription_changed: false,
            };
            assert_eq!(reconcile(a.as_current(), goal, &FREE), Err(Fenced));
        }
        let next = step(&a, (&[0], 5), Some(&[]), &FREE).expect("it moves");
        assert_eq!((next.state, next.member_epoch, next.assigned), (Stable, 5, had(1, &[0], 5)));
    }

    mod whatever_comes {
        use proptest::prelude::*;

        use super::*;
        use crate::topic_partition::contains;

        struct Others<'a>(Vec<&'a Next>);

        impl Surroundings for Others<'_> {
            fn is_subscribed(&self, _: TopicPartition) -> bool {
                true
            }

            fn is_owned(&self, partition: TopicPartition) -> bool {
                let owns = |other: &&Next| {
                    contains(&other.assigned, partition) || contains(&other.revoking, partition)
                };
                self.0.iter().any(owns)
            }
        }

        const MEMBERS: usize = 4;
        const PARTITIONS: i32 = 12;

        /// A target gives each partition to one member; then members beat, and some say what they own.
        #[derive(Clone, Debug)]
        enum Step {
            Target(Vec<usize>),
            Beat(usize, bool),
        }

        fn steps() -> impl Strategy<Value = Vec<Step>> {
            let target = proptest::collection::vec(0..MEMBERS, PARTITIONS as usize);
            let beat = (0..MEMBERS, any::<bool>()).prop_map(|(who, says)| Step::Beat(who, says));
            let step = prop_oneof![1 => target.prop_map(Step::Target), 9 => beat];
            proptest::collection::vec(step, 1..120)
        }

        struct World {
            members: Vec<Next>,
            /// What each client reads now; it follows its answers at once.
            owned: Vec<Vec<TopicPartition>>,
            targets: Vec<Vec<TopicPartition>>,
            epoch: i32,
        }

        impl World {
            fn beat(&mut self, who: usize, says: bool) -> bool {
                let goal = Goal {
                    target: &self.targets[who],
                    target_epoch: self.epoch,
                    reported: says.then_some(&self.owned[who]),
                    has_subscription_changed: false,
                };
                let around = Others(self.members.iter().collect());
                let next = reconcile(self.members[who].as_current(), goal, &around);
                let Some(next) = next.expect("its state is known") else { return false };
                self.owned[who] = next.assigned.iter().map(|had| had.at).collect();
                self.members[who] = next;
                true
            }

            fn check(&self) {
                let mut seen = std::collections::BTreeSet::new();
                for member in &self.members {
                    for had in member.assigned.iter().chain(&member.revoking) {
                        assert!(seen.insert(had.at), "{had:?} has two owners");
                        assert!(had.epoch <= self.epoch);
                    }
                }
            }
        }

        proptest! {
            #[test]
            fn a_partition_has_one_owner_and_all_reach_their_targets(steps in steps()) {
                let new = Next {
                    state: Stable,
                    member_epoch: 0,
                    previous_member_epoch: -1,
                    assigned: Vec::new(),
                    revoking: Vec::new(),
                };
                let mut world = World {
                    members: vec![new; MEMBERS],
                    owned: vec![Vec::new(); MEMBERS],
                    targets: vec![Vec::new(); MEMBERS],
                    epoch: 1,
                };
                for step in steps {
                    match step {
                        Step::Target(owners) => {
                            world.epoch += 1;
                            world.targets = (0..MEMBERS).map(|who| {
                                let mine = owners.iter().zip(0..).filter(|(owner, _)| **owner == who);
                                set(1, &mine.map(|(_, number)| number).collect::<Vec<i32>>())
                            }).collect();
                        }
                        Step::Beat(who, says) => { world.beat(who, says); }
                    }
                    world.check();
                }
                // Without further targets: two rounds to give up, one to get, one to tell the last epoch.
                for _ in 0..4 {
                    (0..MEMBERS).for_each(|who| { world.beat(who, true); });
                    world.check();
                }
                for (member, target) in world.members.iter().zip(&world.targets) {
                    prop_assert_eq!((member.state, member.member_epoch), (Stable, world.epoch));
                    let has: Vec<TopicPartition> = member.assigned.iter().map(|had| had.at).collect();
                    prop_assert_eq!(&has, target);
                }
            }
        }
    }
}
