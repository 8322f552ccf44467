//! A host: the loop that turns a shard into a coordinator. The sockets, the log and the clock are
//! yours: `World` says what the loop needs of them.
//!
//! `cargo run -p kcoord-core --example host` runs the loop on a script, a log in memory and a clock
//! that jumps. pykcoord's own host is `pykcoord/runtime.py`, with many shards and a log on disk.

#![allow(clippy::print_stdout)]

use std::io;

use kcoord_core::outbox::Append;
use kcoord_core::record::BatchHeader;
use kcoord_core::request::{
    JoinGroupProtocol, JoinGroupRequest, OffsetCommitPartition, OffsetCommitRequest,
    OffsetCommitTopic, OffsetFetchRequest, Request, RequestContext, Ticket, Uuid,
};
use kcoord_core::response::Response;
use kcoord_core::{Config, Shard};

type Incoming = (RequestContext<'static>, Request<'static>);

trait World {
    /// Milliseconds since the epoch; never runs back.
    fn now_ms(&mut self) -> i64;
    /// The log as chunks of whole batches whose checksums were verified, and the offset of its end.
    fn read_log(&mut self) -> io::Result<(Vec<Vec<u8>>, i64)>;
    /// Waits for requests until `deadline_ms`; returns none when that has come. `None`: stop.
    fn wait(&mut self, deadline_ms: Option<i64>) -> Option<Vec<Incoming>>;
    /// Writes a batch behind the log's end, and comes back when it is durable.
    fn append(&mut self, append: &Append) -> io::Result<()>;
    fn answer(&mut self, ticket: Ticket, response: Response);
    /// A request that gets no answer any more: its member has sent another.
    fn forget(&mut self, ticket: Ticket);
}

/// Serves until the world says stop. After an error, call it again: the log is the only state.
fn serve(config: Config, world: &mut impl World) -> io::Result<()> {
    let mut shard = Shard::new(config);
    let (chunks, end_offset) = world.read_log()?;
    for chunk in &chunks {
        shard.replay(chunk).map_err(|damage| io::Error::other(damage.to_string()))?;
    }
    shard.loaded(world.now_ms(), end_offset);
    while let Some(requests) = world.wait(shard.poll_timeout()) {
        let now_ms = world.now_ms();
        shard.handle_timeout(now_ms);
        shard.handle_batch(now_ms, &requests);
        let written = write(&mut shard, now_ms, world);
        while let Some((ticket, response)) = shard.poll_response() {
            world.answer(ticket, response);
        }
        while let Some(ticket) = shard.poll_given_up() {
            world.forget(ticket);
        }
        if written.is_err() {
            // What waits for the lost records is refused; what they changed goes with the shard.
            for (ticket, response) in shard.drop_parked() {
                world.answer(ticket, response);
            }
            return written;
        }
    }
    for (ticket, response) in shard.drop_parked() {
        world.answer(ticket, response);
    }
    Ok(())
}

/// Makes durable what the shard decided, and reports that to it; the shard releases the answers.
fn write(shard: &mut Shard, now_ms: i64, world: &mut impl World) -> io::Result<()> {
    while let Some(append) = shard.poll_append() {
        world.append(&append)?;
        shard.handle_committed(now_ms, append.end_offset());
        shard.reuse(append.records);
    }
    Ok(())
}

/// A world for trying: requests from a script, and a log that fails once it is `full`.
#[derive(Default)]
struct Script {
    now_ms: i64,
    turns: std::collections::VecDeque<Vec<Incoming>>,
    log: Vec<u8>,
    end_offset: i64,
    full: bool,
    answers: Vec<(i64, Ticket, Response)>,
}

impl World for Script {
    fn now_ms(&mut self) -> i64 {
        self.now_ms
    }

    fn read_log(&mut self) -> io::Result<(Vec<Vec<u8>>, i64)> {
        Ok((vec![self.log.clone()], self.end_offset))
    }

    fn wait(&mut self, deadline_ms: Option<i64>) -> Option<Vec<Incoming>> {
        let requests = self.turns.pop_front()?;
        if requests.is_empty() {
            self.now_ms = self.now_ms.max(deadline_ms.unwrap_or(self.now_ms));
        }
        Some(requests)
    }

    fn append(&mut self, append: &Append) -> io::Result<()> {
        if self.full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        // Leader epoch and checksum are the log's to fill in; replay reads neither.
        BatchHeader::of(append).encode(&append.records, &mut self.log);
        self.end_offset = append.end_offset();
        Ok(())
    }

    fn answer(&mut self, ticket: Ticket, response: Response) {
        println!("{} ms: ticket {ticket}: {response:?}", self.now_ms);
        self.answers.push((self.now_ms, ticket, response));
    }

    fn forget(&mut self, ticket: Ticket) {
        println!("{} ms: ticket {ticket} gets no answer", self.now_ms);
    }
}

fn request(ticket: Ticket, request: Request<'static>) -> Incoming {
    // The uuid must be random where clients are not trusted: member ids are made of it.
    let uuid = u128::from(ticket) << 64;
    let (client_id, client_host) = ("trial", "/127.0.0.1");
    (RequestContext { ticket, api_version: 3, client_id, client_host, uuid }, request)
}

fn join(ticket: Ticket) -> Incoming {
    let join = JoinGroupRequest {
        group_id: "billing",
        session_timeout_ms: 45_000,
        rebalance_timeout_ms: 60_000,
        member_id: "",
        group_instance_id: None,
        protocol_type: "consumer",
        protocols: vec![JoinGroupProtocol { name: "range", metadata: b"" }],
        reason: None,
    };
    request(ticket, Request::JoinGroup(join))
}

fn commit(ticket: Ticket, committed_offset: i64) -> Incoming {
    let partition = OffsetCommitPartition {
        partition_index: 0,
        committed_offset,
        committed_leader_epoch: -1,
        committed_metadata: None,
    };
    let commit = OffsetCommitRequest {
        group_id: "audit",
        generation_id_or_member_epoch: -1,
        member_id: "",
        group_instance_id: None,
        retention_time_ms: -1,
        topics: vec![OffsetCommitTopic {
            name: "orders",
            topic_id: Uuid::ZERO,
            partitions: vec![partition],
        }],
    };
    request(ticket, Request::OffsetCommit(commit))
}

fn fetch(ticket: Ticket) -> Incoming {
    let fetch = OffsetFetchRequest {
        group_id: "audit",
        member_id: None,
        member_epoch: -1,
        topics: None,
        require_stable: false,
    };
    request(ticket, Request::OffsetFetch(fetch))
}

/// A join that is answered after the initial delay, a commit, a disk that fills up, a restart.
fn run() -> Script {
    let mut world = Script { now_ms: 1_000, ..Script::default() };
    world.turns = [vec![join(1)], vec![commit(2, 42)], vec![]].into();
    serve(Config::default(), &mut world).expect("a log that works");
    world.full = true;
    world.turns = [vec![commit(3, 99)]].into();
    serve(Config::default(), &mut world).expect_err("a log that is full");
    world.full = false;
    world.turns = [vec![fetch(4)]].into();
    serve(Config::default(), &mut world).expect("a log that works again");
    world
}

fn main() {
    run();
}

/// Run by `cargo test`: what was acknowledged is there after a restart, and nothing else.
#[test]
fn the_log_is_the_only_state() {
    use kcoord_core::ErrorCode;

    let [
        (commit_ms, 2, Response::OffsetCommit(_)),
        (join_ms, 1, Response::JoinGroup(joined)),
        refused,
        fetched,
    ] = &run().answers[..]
    else {
        panic!("other answers");
    };
    assert_eq!((*commit_ms, *join_ms), (1_000, 4_000));
    assert_eq!((joined.error_code, joined.generation_id), (ErrorCode::None, 1));
    let (_, 3, Response::OffsetCommit(refused)) = refused else { panic!("{refused:?}") };
    assert_eq!(refused.topics[0].partitions, [(0, ErrorCode::NotCoordinator)]);
    let (_, 4, Response::OffsetFetch(fetched)) = fetched else { panic!("{fetched:?}") };
    let offsets = fetched.topics().flat_map(|topic| topic.partitions);
    assert_eq!(offsets.map(|one| one.committed_offset).collect::<Vec<_>>(), [42]);
}
