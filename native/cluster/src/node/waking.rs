//! What a node makes of time in which it did not run: what the store and the others said meanwhile
//! waits to be read, and is read next. That time counts as little against them.
//!
//! Not of a lease: who could not prove anything may have been fenced.

use super::Node;
use crate::Millis;
use crate::settings::HELD_UP_MS;

impl Node {
    /// Whether the store was heard of late, and takes rounds. If not: who leads what is known as it
    /// was then, or nothing can be acknowledged here.
    pub fn is_healthy(&self, now: Millis) -> bool {
        let since = self.unput_since.unwrap_or(now).min(self.store_heard_at);
        now < since + self.held_up_ms(now) + self.settings.store_silence_ms
    }

    /// Time passes.
    pub(super) fn wake(&mut self, now: Millis) {
        let held_up_ms = self.held_up_ms(now);
        self.ticked_at = now;
        self.store_heard_at = now.min(self.store_heard_at + held_up_ms);
        self.unput_since = self.unput_since.map(|at| now.min(at + held_up_ms));
        self.election.held_up(now, held_up_ms);
    }

    /// For how long it did not run since the last tick. One that has ended has no ticks.
    fn held_up_ms(&self, now: Millis) -> Millis {
        if self.stop.is_some() { 0 } else { now.saturating_sub(self.ticked_at + HELD_UP_MS) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Action, Ask, Change, Entry, Incarnation, NodeId, Seat, Settings};

    const OWN: Incarnation = 7;
    const CONTROLLER: Incarnation = 9;
    const TICK_MS: Millis = 50;
    const HELD_UP: Millis = 30_000;

    fn join(incarnation: Incarnation, node_id: NodeId) -> Change {
        let host = "h".to_owned();
        let control_host = host.clone();
        let seat = Seat { node_id, host, port: 1, control_host, control_port: 1 };
        Change::Join { incarnation, seat }
    }

    /// A node of two, of which the other is the controller and has asked just now.
    fn asked_node() -> Node {
        let controls = Change::Controller { term: 1, incarnation: CONTROLLER };
        let (other, own) = (join(CONTROLLER, 1), join(OWN, 2));
        let Change::Join { seat, .. } = own.clone() else { unreachable!() };
        let mut node = Node::new(OWN, seat, 1, Settings::default(), 0);
        node.tick(0);
        let changes = vec![Change::Shards(1), other, controls, own];
        node.followed(0, 0, Some(&[Entry { writer: CONTROLLER, changes }]));
        assert!(ask(&mut node, 0));
        node
    }

    /// Whether it says that it is healthy.
    fn ask(node: &mut Node, now: Millis) -> bool {
        let ask = Ask { term: 1, number: 1, next_index: 1, release: Vec::new() };
        node.asked(now, &ask).is_healthy
    }

    /// A tick, with what the store says, if it does: there is no news. Whether it stands.
    fn tick(node: &mut Node, now: Millis, store_answers: bool) -> bool {
        node.tick(now);
        let mut stands = false;
        for action in node.take_actions() {
            match action {
                Action::Follow { from } if store_answers => node.followed(now, from, Some(&[])),
                Action::PutEntry { .. } => stands = true,
                _ => {}
            }
        }
        stands
    }

    #[test]
    fn who_did_not_run_is_healthy_until_the_store_is_silent_for_as_long_as_it_runs() {
        let mut node = asked_node();
        assert!(node.is_healthy(HELD_UP));
        assert!(ask(&mut node, HELD_UP)); // before the store's answer is read
        let mut now = HELD_UP;
        while ask(&mut node, now) {
            now += TICK_MS;
            tick(&mut node, now, false);
            assert!(now < 2 * HELD_UP, "it is healthy for ever");
        }
        let silence_ms = Settings::default().store_silence_ms;
        assert_eq!(now, HELD_UP + silence_ms - HELD_UP_MS);
    }

    #[test]
    fn who_did_not_run_hears_the_controller_before_it_stands() {
        let mut node = asked_node();
        let mut now = HELD_UP;
        assert!(!tick(&mut node, now, true));
        assert!(ask(&mut node, now));
        let asked_at = now;
        while !tick(&mut node, now, true) {
            now += TICK_MS;
            assert!(now < 2 * HELD_UP, "it never stands");
        }
        assert_eq!(now, asked_at + Settings::default().election_ms);
    }

    #[test]
    fn who_reads_the_store_and_cannot_write_to_it_is_not_healthy() {
        let mut node = asked_node();
        let silence_ms = Settings::default().store_silence_ms;
        let mut now = 0;
        while ask(&mut node, now) {
            node.prove_failed(now);
            now += TICK_MS;
            tick(&mut node, now, true);
            assert!(now <= silence_ms, "it leads what nobody can commit to");
        }
        assert_eq!(now, silence_ms);
        node.proved(now, now, 1, &[]);
        assert!(ask(&mut node, now));
    }
}
