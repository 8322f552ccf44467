//! What is to happen, by time, and of the same time in the order in which it was planned. It is asked
//! five times for each request, so time and order are one number, and turns, of which most are
//! overtaken by an earlier one, stand in a list of their own.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;

use kcoord_core::targets::TargetJob;
use kcoord_wire::api::ResponseBody;

use crate::ask::Ask;
use crate::faults::Fault;
use crate::host::Arrived;

/// Bits of a moment for the order; the rest is for the time, in milliseconds.
const ORDER_BITS: u32 = 40;

pub enum Event {
    /// A client's time has come.
    Wake(usize),
    Request(Box<Arrived>),
    Reply(u64, Box<(Rc<Ask>, ResponseBody)>),
    /// A client notices that its connection is gone.
    Lost(u64),
    /// The node notices.
    Gone(u64),
    Turn,
    /// A sync is done, of a shard in an epoch.
    Synced(usize, u64),
    /// A shard is to be loaded, in an epoch.
    Load(usize, u64),
    Boot,
    /// The host has computed targets, which were asked for by the process of that boot.
    Computed(u64, Box<TargetJob>),
    /// The boot, and the ticket of a commit whose transaction coordinator has answered.
    Verified(u64, u64),
    Fault(Fault),
    Sweep,
    Calm,
}

struct Planned {
    moment: u64,
    event: Event,
}

impl PartialEq for Planned {
    fn eq(&self, other: &Planned) -> bool {
        self.moment == other.moment
    }
}

impl Eq for Planned {}

impl PartialOrd for Planned {
    fn partial_cmp(&self, other: &Planned) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Planned {
    fn cmp(&self, other: &Planned) -> std::cmp::Ordering {
        self.moment.cmp(&other.moment)
    }
}

#[derive(Default)]
pub struct Agenda {
    events: BinaryHeap<Reverse<Planned>>,
    /// Moments of turns, the next one last.
    turns: Vec<u64>,
    planned: u64,
}

impl Agenda {
    pub fn plan(&mut self, at_ms: i64, event: Event) {
        let moment = self.moment(at_ms);
        if matches!(event, Event::Turn) {
            let at = self.turns.partition_point(|other| *other > moment);
            self.turns.insert(at, moment);
        } else {
            self.events.push(Reverse(Planned { moment, event }));
        }
    }

    /// What comes next, and when.
    ///
    /// # Panics
    /// If nothing is planned.
    pub fn pop(&mut self) -> (i64, Event) {
        let first = self.events.peek().map_or(u64::MAX, |Reverse(first)| first.moment);
        let (moment, event) = match self.turns.pop_if(|turn| *turn < first) {
            Some(turn) => (turn, Event::Turn),
            None => {
                let Reverse(Planned { moment, event }) = self.events.pop().expect("it goes on");
                (moment, event)
            }
        };
        ((moment >> ORDER_BITS) as i64, event)
    }

    fn moment(&mut self, at_ms: i64) -> u64 {
        self.planned += 1;
        let at_ms = u64::try_from(at_ms).expect("a run begins at 0");
        let fits = at_ms >> (u64::BITS - ORDER_BITS) == 0 && self.planned >> ORDER_BITS == 0;
        assert!(fits, "a run of minutes");
        at_ms << ORDER_BITS | self.planned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Plan = (i64, fn(usize) -> Event);

    #[test]
    fn what_is_planned_comes_by_time_and_then_in_order() {
        let mut agenda = Agenda::default();
        let plans: [Plan; 7] = [
            (5, Event::Wake),
            (3, |_| Event::Turn),
            (3, Event::Wake),
            (1, |_| Event::Turn),
            (3, |_| Event::Turn),
            (0, Event::Wake),
            (3, Event::Wake),
        ];
        for (number, (at_ms, event)) in plans.into_iter().enumerate() {
            agenda.plan(at_ms, event(number));
        }
        let came: Vec<String> = plans
            .iter()
            .map(|_| match agenda.pop() {
                (at_ms, Event::Turn) => format!("{at_ms} turn"),
                (at_ms, Event::Wake(number)) => format!("{at_ms} {number}"),
                _ => unreachable!("not planned"),
            })
            .collect();
        assert_eq!(came, ["0 5", "1 turn", "3 turn", "3 2", "3 turn", "3 6", "5 0"]);
    }
}
