//! Whether a node may answer, and what it does where it may not.

use super::Node;
use crate::{Action, Epoch, Millis, Shard};

impl Node {
    /// Whether an answer may be made at `now`, of what is served. If not: ask again after `proved`.
    pub fn may_answer(&mut self, now: Millis) -> bool {
        self.wanted_at = Some(now);
        let holds = self.stop.is_none() && self.lease.holds(now);
        if !holds {
            self.prove(now);
        }
        holds
    }

    /// A round stands in the own journal that was put from `started` on: nobody had fenced this
    /// node then. The journal's next number is `next`; the round has records of these leaderships.
    pub fn proved(
        &mut self,
        now: Millis,
        started: Millis,
        next: u64,
        leaderships: &[(Shard, Epoch)],
    ) {
        self.pruning.wrote(next - 1, leaderships);
        self.journal_next = next;
        self.proving = None;
        self.prove_at = now;
        self.store_heard_at = now;
        self.unput_since = None;
        self.lease.proved(started);
        self.tick(now);
    }

    /// The store did not take the round, and nothing is known. It is put again until it stands, or
    /// until there is a fence.
    pub fn prove_failed(&mut self, now: Millis) {
        self.unput_since.get_or_insert(now);
        self.proving = None;
        self.prove_at = now + self.settings.retry_ms;
    }

    pub(super) fn prove(&mut self, now: Millis) {
        if self.proving.is_none() && self.prove_at <= now && self.stop.is_none() {
            self.proving = Some(now);
            self.actions.push(Action::Prove);
        }
    }

    /// Prove in time for who asks. Where nothing has come of it for as long as a lease, who asks
    /// may find another node that leads: nothing is served until there is a proof.
    pub(super) fn keep_lease(&mut self, now: Millis) {
        let is_wanted = self.wanted_at.is_some_and(|at| now < at + 2 * self.settings.lease_ms);
        if is_wanted && self.lease.is_half_over(now) {
            self.prove(now);
        }
        let waits = is_wanted && !self.lease.holds(now);
        if self.unproved.tick(now, waits) >= self.settings.lease_ms {
            self.leading.suspend(now + self.settings.retry_ms, &mut self.actions);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Entry, Outcome, Seat, Settings};

    const LEASE_MS: Millis = 500;
    const TICK_MS: Millis = 50;

    /// A cluster of one node, which serves its one shard and was asked nothing for a minute.
    struct Idle {
        node: Node,
        now: Millis,
    }

    impl Idle {
        fn new() -> Self {
            let host = "h".to_owned();
            let control_host = host.clone();
            let seat = Seat { node_id: 1, host, port: 1, control_host, control_port: 1 };
            let mut idle = Idle { node: Node::new(7, seat, 1, Settings::default(), 0), now: 0 };
            while idle.node.serving().is_empty() {
                idle.pass(TICK_MS);
                assert!(idle.now < 10_000, "it serves nothing");
                for action in idle.node.take_actions() {
                    idle.act(action);
                }
            }
            idle.node.proved(idle.now, idle.now, 1, &[]);
            assert!(idle.node.may_answer(idle.now));
            idle.now += 60_000;
            idle.node.followed(idle.now, idle.node.view().next_index(), Some(&[]));
            idle.node.take_actions();
            idle
        }

        fn pass(&mut self, by: Millis) {
            self.now += by;
            self.node.tick(self.now);
        }

        /// All but a proof succeeds at once.
        fn act(&mut self, action: Action) {
            let now = self.now;
            match action {
                Action::Follow { from } => self.node.followed(now, from, Some(&[] as &[Entry])),
                Action::PutEntry { index, .. } => {
                    self.node.entry_put(now, index, Outcome::Created);
                }
                Action::Take { shard, epoch, .. } => self.node.taken(now, shard, epoch),
                _ => {}
            }
        }

        fn proves(&mut self) -> bool {
            self.node.take_actions().contains(&Action::Prove)
        }
    }

    #[test]
    fn who_was_idle_proves_first_and_keeps_what_it_leads() {
        let mut idle = Idle::new();
        assert!(!idle.node.may_answer(idle.now));
        assert!(idle.proves());
        let started = idle.now;
        for _ in 0..6 {
            idle.pass(TICK_MS); // the store is slow
            assert!(!idle.node.may_answer(idle.now));
            assert_eq!(idle.node.serving(), [0]);
        }
        idle.node.proved(idle.now, started, 2, &[]);
        assert!(idle.node.may_answer(idle.now));
    }

    #[test]
    fn who_cannot_prove_serves_nothing_once_somebody_has_waited_as_long_as_a_lease() {
        let mut idle = Idle::new();
        let asked_at = idle.now;
        while !idle.node.serving().is_empty() {
            assert!(!idle.node.may_answer(idle.now));
            idle.pass(TICK_MS);
            assert!(idle.now <= asked_at + LEASE_MS);
        }
        assert_eq!(idle.now, asked_at + LEASE_MS);
    }

    #[test]
    fn who_did_not_run_reads_what_came_meanwhile_before_it_lets_go() {
        let mut idle = Idle::new();
        assert!(!idle.node.may_answer(idle.now));
        assert!(idle.proves());
        idle.pass(LEASE_MS * 3 / 2);
        assert_eq!(idle.node.serving(), [0]);
        let started = idle.now - 10; // of the proof
        idle.node.proved(idle.now, started, 2, &[]);
        assert!(idle.node.may_answer(idle.now));
    }
}
