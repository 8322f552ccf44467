//! The decisions of the delayed operations (states section 8).

use kcoord_core::delayed::*;
use proptest::prelude::*;

proptest! {
    /// The compact operation against the rule as states section 5.8 words it.
    #[test]
    fn initial_delay_as_the_rule_words_it(
        configured in 0i32..10_000,
        timeout in -1i32..60_000,
        arrivals in prop::collection::vec(any::<bool>(), 0..30),
    ) {
        let mut operation = InitialDelayedJoin::new(9, configured, timeout);
        let (mut current, mut remaining) = (configured, (timeout - configured).max(0));
        for new_member_added in arrivals {
            let expected = (new_member_added && remaining != 0).then(|| {
                let next = configured.min(remaining);
                remaining = (remaining - current).max(0);
                current = next;
                next
            });
            match (operation.on_expiration(configured, new_member_added), expected) {
                (InitialJoinExpiry::Extend { delay_ms, next }, Some(expected)) => {
                    prop_assert_eq!(delay_ms, expected);
                    operation = next;
                }
                (InitialJoinExpiry::Complete, None) => break,
                (decision, expected) => prop_assert!(false, "{decision:?} for {expected:?}"),
            }
        }
    }
}

/// Timings of vector P3: when the phase ends if members arrive all the time.
#[test]
fn constant_arrivals_extend_the_initial_delay_to_the_rebalance_timeout() {
    for (configured, timeout, end) in [(3_000, 7_000, 7_000), (3_000, 2_000, 3_000), (0, 5, 0)] {
        let mut operation = InitialDelayedJoin::new(0, configured, timeout);
        let mut now_ms = configured;
        for _ in 0..10 {
            match operation.on_expiration(configured, true) {
                InitialJoinExpiry::Extend { delay_ms, next } => {
                    now_ms += delay_ms;
                    operation = next;
                }
                InitialJoinExpiry::Complete => break,
            }
        }
        assert_eq!(now_ms, end);
    }
    let once = InitialDelayedJoin::new(0, 3_000, 60_000);
    assert_eq!(once.on_expiration(3_000, false), InitialJoinExpiry::Complete);
}

#[test]
fn a_join_phase_completes_when_all_have_joined() {
    let joined = JoinProgress { members: 2, awaiting_join: 2, pending_members: 0 };
    assert!(DelayedJoin::can_complete(joined, false));
    assert!(!DelayedJoin::can_complete(joined, true));
    let silent = JoinProgress { awaiting_join: 1, ..joined };
    assert!(!DelayedJoin::can_complete(silent, false));
    let pending = JoinProgress { pending_members: 1, ..joined };
    assert!(!DelayedJoin::can_complete(pending, false));
    assert_eq!(DelayedJoin::on_expiration(2, 1), JoinExpiry::Complete);
    assert_eq!(DelayedJoin::on_expiration(0, 0), JoinExpiry::Complete);
    assert_eq!(DelayedJoin::on_expiration(2, 0), JoinExpiry::ArmAgain);
}

#[test]
fn a_sync_evicts_only_in_its_own_generation() {
    let operation = DelayedSync { group: 1, generation_id: 4 };
    let waiting = SyncProgress { generation_id: 4, is_sync_phase: true, pending_sync_members: 1 };
    assert!(operation.evicts_pending_members(waiting));
    for over in [
        SyncProgress { generation_id: 5, ..waiting },
        SyncProgress { is_sync_phase: false, ..waiting },
        SyncProgress { pending_sync_members: 0, ..waiting },
    ] {
        assert!(operation.can_complete(over));
        assert!(!operation.evicts_pending_members(over));
    }
}

#[test]
fn a_session_timer_follows_its_deadline() {
    let silent = MemberLiveness {
        deadline_ms: 10,
        is_new: false,
        is_awaiting_join: false,
        is_awaiting_sync: false,
    };
    let parked = MemberLiveness { is_awaiting_join: true, ..silent };
    let decide = |member| DelayedHeartbeat::on_expiration(10, Some(member));
    assert_eq!(decide(silent), HeartbeatExpiry::Expire);
    assert_eq!(decide(parked), HeartbeatExpiry::Ignore);
    assert_eq!(
        decide(MemberLiveness { is_awaiting_sync: true, ..silent }),
        HeartbeatExpiry::Ignore
    );
    assert_eq!(decide(MemberLiveness { is_new: true, ..parked }), HeartbeatExpiry::Expire);
    let moved = HeartbeatExpiry::ArmAgain { deadline_ms: 11 };
    assert_eq!(decide(MemberLiveness { deadline_ms: 11, ..silent }), moved);
    assert_eq!(decide(MemberLiveness { deadline_ms: 11, ..parked }), moved);
    assert_eq!(DelayedHeartbeat::on_expiration(10, None), HeartbeatExpiry::Ignore);
    assert!(DelayedHeartbeat::must_arm(None, 10));
    assert!(DelayedHeartbeat::must_arm(Some(11), 10));
    assert!(!DelayedHeartbeat::must_arm(Some(10), 10));
}

#[test]
fn a_pending_id_that_expires_may_end_the_join_phase() {
    let join = JoinProgress { members: 1, awaiting_join: 1, pending_members: 1 };
    let decide = PendingMember::on_expiration;
    assert_eq!(decide(false, Some(join)), PendingExpiry::Ignore);
    assert_eq!(decide(true, None), PendingExpiry::Drop);
    assert_eq!(decide(true, Some(join)), PendingExpiry::DropAndCompleteJoin);
    let more = JoinProgress { pending_members: 2, ..join };
    assert_eq!(decide(true, Some(more)), PendingExpiry::Drop);
    let silent = JoinProgress { members: 2, ..join };
    assert_eq!(decide(true, Some(silent)), PendingExpiry::Drop);
}
