//! One run: events in virtual time, from the first connection to the calm at the end. It
//! moves messages and time; what the node's side does with them stands in `server.rs`.

mod mixed;
mod native;
mod server;
mod shown;

use std::rc::Rc;

use kcoord_wire::api::ResponseBody;
use rand::RngExt;

use crate::agenda::{Agenda, Event};
use crate::ask::Ask;
use crate::breaks::{Break, Check, Invariant, check};
use crate::catalogue::{Catalogue, Topic};
use crate::checker::Checker;
use crate::client::{Around, Client};
use crate::coverage::{Coverage, Event as Met};
use crate::faults::{FAULTS, Fault};
use crate::host::{Arrived, Host};
use crate::network::{Network, Sent};
use crate::plan::{CALM_MS, Options, PARTITIONS, Plan, Quirk, Role, TOPICS};
use crate::strikes::Strikes;
use crate::trace::Trace;
use server::Server;

/// A client that heard nothing for so long gives its connection up.
const REQUEST_TIMEOUT_MS: i64 = 12_000;
/// Between two looks for requests that are overdue, and whether all is well.
const SWEEP_MS: i64 = 1_000;

/// A client's side of its connection.
#[derive(Clone, Default)]
struct Link {
    ticket: Option<u64>,
    waiting: Option<Rc<Ask>>,
    deadline_ms: i64,
}

pub struct World {
    pub now_ms: i64,
    pub host: Host,
    pub server: Server,
    pub network: Network,
    pub faults: Strikes,
    pub checker: Checker,
    pub coverage: Coverage,
    pub trace: Trace,
    pub catalogue: Catalogue,
    pub broken: Option<Break>,
    agenda: Agenda,
    clients: Vec<Client>,
    links: Vec<Link>,
    next_value: i64,
    next_topic_id: u128,
    calm_at_ms: i64,
    is_over: bool,
}

impl World {
    pub fn new(plan: &Plan, options: &Options) -> World {
        let specs = plan.clients.iter().enumerate();
        let clients: Vec<Client> =
            specs.map(|(id, spec)| Client::new(plan.seed, id, spec)).collect();
        let first = Topic { id: 1, partitions: 3 };
        let catalogue = Catalogue { topics: [Some(first), None, None], version: 1 };
        let calm_at_ms = options.calm_at_ms.unwrap_or(i64::MAX).min(plan.calm_at_ms);
        let mut world = World {
            now_ms: 0,
            host: Host::new(plan, options.broken),
            server: Server::new(plan.seed),
            network: Network::new(plan.seed, clients.len()),
            faults: Strikes::new(plan, options),
            checker: Checker::new(plan),
            coverage: Coverage::of_one_run(),
            trace: Trace::new(options.trace),
            catalogue,
            broken: options.broken,
            agenda: Agenda::default(),
            links: vec![Link::default(); clients.len()],
            clients,
            next_value: 0,
            next_topic_id: 2,
            calm_at_ms,
            is_over: false,
        };
        world.checker.topics_are(&world.catalogue);
        world.change_topic(Fault::TopicCreated);
        world.plan(0, Event::Boot);
        world.plan(SWEEP_MS, Event::Sweep);
        world.plan(calm_at_ms, Event::Calm);
        for client in (0..world.clients.len()).filter(|id| !options.without_clients.contains(id)) {
            world.plan(world.clients[client].wake_ms, Event::Wake(client));
        }
        for silent in &options.without_clients {
            // It need not become stable.
            world.clients[*silent].spec.quirk = Quirk::Slow;
        }
        for fault in FAULTS.into_iter().filter(|fault| fault.is_timed()) {
            world.plan_fault(fault);
        }
        world
    }

    pub fn run(&mut self) -> Check {
        while !self.is_over {
            let (at_ms, event) = self.agenda.pop();
            debug_assert!(at_ms >= self.now_ms, "time goes forward");
            self.now_ms = at_ms;
            self.happen(event)?;
        }
        self.finish()
    }

    pub fn plan(&mut self, at_ms: i64, event: Event) {
        if at_ms != i64::MAX {
            self.agenda.plan(at_ms.max(self.now_ms), event);
        }
    }

    fn happen(&mut self, event: Event) -> Check {
        match event {
            Event::Wake(client) => self.wake(client),
            Event::Request(arrived) => self.request_arrives(*arrived),
            Event::Reply(ticket, reply) => {
                self.reply_arrives(ticket, &reply.0, &reply.1);
                return self.check_readers(Network::client_of(ticket));
            }
            Event::Lost(ticket) => self.lost(ticket),
            Event::Gone(ticket) => self.gone(ticket),
            Event::Turn => return self.turn_is_due(),
            Event::Synced(shard, epoch) => return self.synced(shard, epoch),
            Event::Load(shard, epoch) => return self.load(shard, epoch),
            Event::Boot => self.boot(),
            Event::Computed(boot, job) => self.computed(boot, &job),
            Event::Verified(boot, ticket) => self.verified(boot, ticket),
            Event::Fault(fault) => return self.fault_is_due(fault),
            Event::Sweep => return self.sweep(),
            Event::Calm => self.calm(),
        }
        Ok(())
    }

    fn wake(&mut self, client: usize) {
        let is_waiting = self.links[client].waiting.is_some();
        if is_waiting || self.clients[client].wake_ms > self.now_ms {
            return;
        }
        let mut around = Around {
            now_ms: self.now_ms,
            catalogue: &self.catalogue,
            next_value: &mut self.next_value,
            is_calm: self.faults.is_calm(),
            broken: self.broken,
        };
        match self.clients[client].act(&mut around) {
            Some(ask) => self.send(client, Rc::new(ask)),
            None => self.plan(self.clients[client].wake_ms, Event::Wake(client)),
        }
    }

    fn send(&mut self, client: usize, ask: Rc<Ask>) {
        self.coverage.requests += 1;
        self.trace.note(self.now_ms, || format!("c{client:<2} asks    {ask}"));
        let frame = ask.frame(&self.catalogue);
        let is_double = self.clients[client].spec.quirk == Quirk::Duplicate
            && self.clients[client].rng.random_ratio(1, 3);
        if is_double {
            self.coverage.requests += 1;
            let ticket = self.network.connect(client);
            self.transmit(ticket, Rc::clone(&ask), frame.clone());
        }
        let ticket = match self.links[client].ticket {
            Some(ticket) if self.network.is_open(ticket) => ticket,
            _ => self.network.connect(client),
        };
        let deadline_ms = self.now_ms + REQUEST_TIMEOUT_MS;
        let waiting = Some(Rc::clone(&ask));
        self.links[client] = Link { ticket: Some(ticket), waiting, deadline_ms };
        self.transmit(ticket, ask, frame);
    }

    fn transmit(&mut self, ticket: u64, ask: Rc<Ask>, frame: Vec<u8>) {
        let arrived = || Event::Request(Box::new(Arrived { ticket, ask, frame }));
        match self.network.send(self.now_ms, ticket, true, &mut self.faults) {
            Sent::Arrives(at_ms) => self.plan(at_ms, arrived()),
            Sent::Lost { arrives_ms, sender_notices_ms, receiver_notices_ms } => {
                if let Some(at_ms) = arrives_ms {
                    self.plan(at_ms, arrived());
                }
                self.plan(sender_notices_ms, Event::Lost(ticket));
                self.plan(receiver_notices_ms, Event::Gone(ticket));
            }
        }
    }

    fn request_arrives(&mut self, arrived: Arrived) {
        let ticket = arrived.ticket;
        if self.host.node.is_none() {
            self.network.close(ticket);
            return self.plan(self.now_ms + 1, Event::Lost(ticket));
        }
        if self.network.is_open(ticket) {
            self.host.inbox.push(arrived);
            self.plan_turn(self.now_ms);
        }
    }

    fn reply_arrives(&mut self, ticket: u64, ask: &Rc<Ask>, answer: &ResponseBody) {
        let client = Network::client_of(ticket);
        if self.links[client].ticket != Some(ticket) {
            // Of a request that was sent twice, or given up.
            return self.gone(ticket);
        }
        if self.links[client].waiting.take().is_none() {
            return;
        }
        let mut around = Around {
            now_ms: self.now_ms,
            catalogue: &self.catalogue,
            next_value: &mut self.next_value,
            is_calm: self.faults.is_calm(),
            broken: self.broken,
        };
        self.clients[client].answered(&mut around, ask, answer);
        self.plan(self.clients[client].wake_ms, Event::Wake(client));
    }

    fn lost(&mut self, ticket: u64) {
        let client = Network::client_of(ticket);
        if self.links[client].ticket != Some(ticket) {
            return;
        }
        self.trace.note(self.now_ms, || format!("c{client:<2} is disconnected"));
        let was_waiting = self.links[client].waiting.is_some();
        self.links[client] = Link::default();
        if was_waiting {
            self.clients[client].disconnected(self.now_ms);
            self.plan(self.clients[client].wake_ms, Event::Wake(client));
        }
    }

    /// Looks for what is overdue, and after the calm whether all is well.
    fn sweep(&mut self) -> Check {
        for client in 0..self.links.len() {
            let link = &self.links[client];
            if link.waiting.is_some() && link.deadline_ms <= self.now_ms {
                let ticket = link.ticket.expect("it waits on a connection");
                self.lost(ticket);
                self.plan(self.now_ms + 1, Event::Gone(ticket));
            }
        }
        if self.faults.is_calm() {
            let unrest = self.unrest();
            self.is_over = unrest.is_none();
            let is_late = self.now_ms > self.calm_at_ms + CALM_MS;
            check(!is_late || self.is_over, Invariant::Liveness, || {
                let unrest = unrest.unwrap_or_default();
                format!("{CALM_MS} ms after the last fault: {unrest}")
            })?;
        }
        self.plan(self.now_ms + SWEEP_MS, Event::Sweep);
        Ok(())
    }

    fn calm(&mut self) {
        self.faults.stop();
        self.host.is_calm = true;
        self.trace.note(self.now_ms, || "all faults stop".to_owned());
    }

    /// Who is not served as it should be; `None`: all are.
    fn unrest(&self) -> Option<String> {
        if let Some(unrest) = self.server_unrest() {
            return Some(unrest);
        }
        for client in self.clients.iter().filter(|client| client.is_well_behaved()) {
            let id = client.id;
            if client.is_fenced() || matches!(client.spec.role, Role::Native | Role::Migrant) {
                continue;
            }
            if client.committed_ms() <= self.calm_at_ms {
                return Some(format!("c{id} has committed nothing since"));
            }
            if client.spec.role != Role::Consumer {
                continue;
            }
            let generation_id = self.checker.generation(client.spec.group);
            match client.assignment() {
                Some((own, _)) if own == generation_id => {}
                other => {
                    let own = other.map(|(own, _)| own);
                    return Some(format!("c{id} is in {own:?}, its group in {generation_id}"));
                }
            }
        }
        self.unowned().or_else(|| self.native_unrest()).or_else(|| self.mixed_unrest())
    }

    /// A partition that no member owns although one subscribes to it, or that two do.
    fn unowned(&self) -> Option<String> {
        for group in 0..crate::plan::CONSUMER_GROUPS {
            let members = || {
                let clients = self.clients.iter().filter(|client| client.is_well_behaved());
                clients.filter(move |client| {
                    client.spec.group == group
                        && client.spec.role == Role::Consumer
                        && !client.is_fenced()
                })
            };
            for (topic, found) in self.catalogue.topics.iter().enumerate() {
                // A leader that was replaced may not know of a change, and does not assign it then.
                // The coordinator always knows.
                let version = self.catalogue.version;
                let is_wanted = members().any(|member| match self.checker.is_coordinated(group) {
                    true => member.subscribes_to(topic),
                    false => member.wanted(version).contains(&topic),
                });
                let Some(found) = *found else { continue };
                for partition in 0..found.partitions {
                    let owns = |member: &&Client| {
                        let (_, assignment) = member.assignment().expect("it has one");
                        assignment
                            .iter()
                            .any(|(of, some)| *of == topic && some.contains(&partition))
                    };
                    let owners = members().filter(owns).count();
                    if owners > 1 || (is_wanted && owners == 0) {
                        let name = TOPICS[topic];
                        return Some(format!(
                            "{name}-{partition} has {owners} owners in {}",
                            crate::plan::GROUPS[group]
                        ));
                    }
                }
            }
        }
        None
    }

    fn plan_fault(&mut self, fault: Fault) {
        if let Some(in_ms) = self.faults.next_in_ms(fault) {
            self.plan(self.now_ms + in_ms, Event::Fault(fault));
        }
    }

    fn fault_is_due(&mut self, fault: Fault) -> Check {
        self.plan_fault(fault);
        if !self.faults.count(fault) {
            return Ok(());
        }
        self.trace.note(self.now_ms, || format!("FAULT {fault}"));
        match fault {
            Fault::TopicCreated | Fault::TopicDeleted | Fault::TopicGrown => {
                if self.change_topic(fault) {
                    self.host.set_topics(&self.catalogue);
                    self.plan_turn(self.now_ms);
                }
                Ok(())
            }
            _ => self.strike(fault),
        }
    }

    fn change_topic(&mut self, fault: Fault) -> bool {
        let topic = self.faults.draw(fault, 0..TOPICS.len() as i64) as usize;
        let found = &mut self.catalogue.topics[topic];
        match (fault, &mut *found) {
            (Fault::TopicCreated, None) => {
                let partitions = 1 + (self.next_topic_id % 4) as i32;
                *found = Some(Topic { id: self.next_topic_id, partitions });
                self.next_topic_id += 1;
            }
            (Fault::TopicDeleted, Some(_)) if topic > 0 => {
                *found = None;
                if self.host.node.is_some() {
                    self.checker.topic_deleted(topic);
                }
            }
            (Fault::TopicGrown, Some(grown)) if (grown.partitions as usize) < PARTITIONS => {
                grown.partitions += 1;
            }
            _ => return false,
        }
        self.catalogue.version += 1;
        self.checker.topics_are(&self.catalogue);
        true
    }

    fn finish(&mut self) -> Check {
        let compared = self.compare_all();
        self.absorb_counters();
        self.coverage.events(Met::OffsetExpired, self.checker.offsets_expired);
        self.coverage.events(Met::GroupDeleted, self.checker.groups_deleted);
        self.coverage.events(Met::Assigned, self.checker.assigned);
        self.coverage.events(Met::Upgraded, self.checker.upgraded);
        self.coverage.events(Met::Downgraded, self.checker.downgraded);
        for (fault, _) in &self.faults.happened {
            self.coverage.fault(*fault);
        }
        compared
    }
}
