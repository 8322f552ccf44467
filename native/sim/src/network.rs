//! Connections: in order within one, in any order across them; messages are late, and connections
//! go with all that is under way in them. It knows nothing of what is in a message.

use rand::RngExt;
use rand_xorshift::XorShiftRng;

use crate::faults::Fault;
use crate::plan::random;
use crate::strikes::Strikes;
use crate::tickets::Tickets;

/// What becomes of a message.
pub enum Sent {
    /// It arrives then.
    Arrives(i64),
    /// The connection is lost: both ends notice, each at its time. The message may arrive before.
    Lost { arrives_ms: Option<i64>, sender_notices_ms: i64, receiver_notices_ms: i64 },
}

/// A connection is known by its ticket; it belongs to one client.
struct Connection {
    /// When the last message of each direction arrives.
    last_ms: [i64; 2],
}

pub struct Network {
    rngs: Vec<XorShiftRng>,
    connections: Tickets<Connection>,
    tickets: Vec<u64>,
}

impl Network {
    pub fn new(seed: u64, clients: usize) -> Network {
        Network {
            rngs: (0..clients as u64).map(|client| random(seed, 10_000 + client)).collect(),
            connections: Tickets::default(),
            tickets: vec![0; clients],
        }
    }

    /// A new connection; its ticket was never used before.
    pub fn connect(&mut self, client: usize) -> u64 {
        self.tickets[client] += 1;
        let ticket = self.tickets[client] << 16 | client as u64;
        self.connections.insert(ticket, Connection { last_ms: [0; 2] });
        ticket
    }

    pub fn client_of(ticket: u64) -> usize {
        (ticket & 0xffff) as usize
    }

    pub fn is_open(&self, ticket: u64) -> bool {
        self.connections.contains(ticket)
    }

    pub fn close(&mut self, ticket: u64) {
        self.connections.remove(ticket);
    }

    /// In the order of tickets.
    pub fn close_all(&mut self) -> Vec<u64> {
        self.connections.drain()
    }

    /// A request (to the node), or a reply.
    pub fn send(&mut self, now_ms: i64, ticket: u64, to_node: bool, faults: &mut Strikes) -> Sent {
        let rng = &mut self.rngs[Self::client_of(ticket)];
        let mut delay_ms = rng.random_range(0..4);
        if faults.strikes(Fault::Delay) {
            delay_ms += faults.draw(Fault::Delay, 10..3_000);
        }
        let connection = self.connections.of_mut(ticket).expect("an open connection");
        let last_ms = &mut connection.last_ms[usize::from(to_node)];
        let arrives_ms = (now_ms + delay_ms).max(*last_ms);
        *last_ms = arrives_ms;
        if !faults.strikes(Fault::Drop) {
            return Sent::Arrives(arrives_ms);
        }
        let arrives = faults.draw(Fault::Drop, 0..2) == 0;
        Sent::Lost {
            arrives_ms: arrives.then_some(arrives_ms),
            sender_notices_ms: arrives_ms + faults.draw(Fault::Drop, 1..500),
            receiver_notices_ms: arrives_ms + faults.draw(Fault::Drop, 1..500),
        }
    }
}
