//! When a node stands for controller.

use crate::{Change, Incarnation, Millis, Settings};

/// How often the wait is doubled at most.
const DOUBLED: u32 = 2;

/// When a controller was heard last, and how many there were since.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Election {
    heard_at: Millis,
    controller: Option<Incarnation>,
    unheard: u32,
}

impl Election {
    /// A node that begins.
    pub fn new(now: Millis) -> Self {
        Election { heard_at: now, controller: None, unheard: 0 }
    }

    /// A node that knows who is the controller, by a snapshot of the cluster log.
    pub fn restored(&mut self, now: Millis, controller: Option<Incarnation>) {
        self.heard_at = now;
        self.controller = controller;
    }

    /// A controller has asked, or a node has answered this one.
    pub fn heard(&mut self, now: Millis) {
        self.heard_at = now;
        self.unheard = 0;
    }

    /// A change of the cluster log. A controller that is new, and one that this node comes to, are to
    /// have time to reach it, or else to fence it. What else a controller puts says that it reaches
    /// the store.
    pub fn follow(&mut self, now: Millis, change: &Change, own: Incarnation) {
        match *change {
            Change::Controller { incarnation, .. } => {
                self.heard_at = now;
                self.controller = Some(incarnation);
                self.unheard += 1;
            }
            Change::Gone { incarnation, .. } if self.controller == Some(incarnation) => {
                self.controller = None;
            }
            Change::Join { incarnation, .. } if incarnation == own => {
                self.heard_at = now;
                self.unheard = u32::from(self.controller.is_some());
            }
            _ => {}
        }
    }

    /// This node did not run for so long, up to now: what a controller said then is not heard yet.
    pub fn held_up(&mut self, now: Millis, ms: Millis) {
        self.heard_at = now.min(self.heard_at + ms);
    }

    /// This node is the controller.
    pub fn is_won(&mut self, now: Millis) {
        self.heard_at = now;
    }

    /// Whether it is time for the node of this place in the order of all, from 0. Where nodes hear
    /// nobody they stand one after the other, and each has longer than the one before: long enough
    /// in the end to fence who is silent.
    pub fn is_due(&self, now: Millis, place: Millis, settings: &Settings) -> bool {
        let wait = settings.election_ms << self.unheard.min(DOUBLED);
        now >= self.heard_at + wait + place * settings.election_step_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seat;

    const OWN: Incarnation = 1;

    fn due(election: &Election, place: Millis) -> Millis {
        let settings = Settings::default();
        let mut times = (0..60_000).step_by(100);
        times.find(|&now| election.is_due(now, place, &settings)).expect("at some time")
    }

    #[test]
    fn nodes_stand_in_their_order_and_each_has_longer_until_one_is_heard() {
        let settings = Settings::default();
        let mut election = Election::new(0);
        assert_eq!((due(&election, 0), due(&election, 2)), (1_000, 1_600));
        let another = Change::Controller { term: 2, incarnation: 7 };
        election.follow(0, &another, OWN);
        assert_eq!(due(&election, 1), 2_300);
        election.follow(0, &another, OWN);
        election.follow(0, &another, OWN);
        let longest = due(&election, 0);
        assert!(longest > 2 * settings.ask_timeout_ms + settings.alone_ms + 500, "{longest}");
        assert_eq!(longest, 4_000);
        election.heard(0);
        assert_eq!(due(&election, 0), 1_000);
    }

    #[test]
    fn who_comes_to_a_controller_is_fenced_by_it_before_it_stands() {
        let settings = Settings { poll_ms: 1_000, ..Settings::default() };
        let host = "h".to_owned();
        let control_host = host.clone();
        let seat = Seat { node_id: 1, host, port: 1, control_host, control_port: 1 };
        let join = Change::Join { incarnation: OWN, seat };
        let mut election = Election::new(0);
        election.follow(0, &Change::Controller { term: 5, incarnation: 7 }, OWN);
        election.follow(0, &join, OWN);
        let fenced = settings.poll_ms + 2 * settings.ask_timeout_ms;
        assert!(due(&election, 0) > fenced + 100);
        election.follow(0, &Change::Gone { incarnation: 7, end: 3 }, OWN);
        election.follow(0, &join, OWN);
        assert_eq!(due(&election, 0), 1_000);
    }
}
