//! `Node`: N shards behind frames, one call per turn of the host's loop (kcoord_node).

use crate::config::config_from;
use crate::error::replay_error;
use crate::event::{event_row, is_start};
use crate::event_batch::PyEventBatch;
use crate::inspect;
use crate::loader::PyLoader;
use crate::session::PySession;
use crate::target_job::{PyNewTargets, PyTargetJob};
use std::collections::HashMap;

use kcoord_core::ErrorCode;
use kcoord_core::group_configs::{GroupConfig, GroupConfigs};
use kcoord_core::inspect::OpenTransaction;
use kcoord_core::outbox::Append;
use kcoord_core::record::{BatchKind, Producer};
use kcoord_core::request::Uuid;
use kcoord_node::{Frame, Node, Topic, Transactions, Turn, Verification};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyBytes, PyDict, PyList};

/// What one step yields: replies, appends, and when to call again.
#[pyclass(name = "Turn", module = "pykcoord._native", frozen, get_all)]
pub struct PyTurn {
    /// Ticket, and what goes before the rest of its reply; its end is among the replies of this step
    /// or of a later one. None but of a node that sends in parts.
    parts: Py<PyList>,
    /// Ticket, and the reply with its 4-byte length.
    replies: Py<PyList>,
    /// The fields of `pykcoord.Append`, in order.
    appends: Py<PyList>,
    /// What transaction coordinators are to be asked: the fields of `pykcoord.Verification`, in order.
    verifications: Vec<VerificationRow>,
    /// Tickets of frames whose API has no group in it: they are the caller's to answer.
    foreign: Vec<u64>,
    /// Ticket and reason of frames that cannot be parsed.
    invalid: Vec<(u64, String)>,
    /// Kind, group, generation, cause, member, count, detail; the member as its id, group instance
    /// id, client id, client host and reason. See `pykcoord.Event`.
    events: Py<PyList>,
    /// Starts of rebalances that `tell_starts` left out.
    starts_left_out: usize,
    /// All that happened to groups, of a node that records, if anything did.
    recorded: Option<Py<PyEventBatch>>,
    /// The time in ms at which to call `step` again; None: nothing is waiting.
    next_timeout_ms: Option<i64>,
}

/// producer id, producer epoch, first offset, time of the last commit, groups
type OpenTransactionRow = (i64, i16, i64, i64, Vec<String>);

/// ticket, transactional id, producer id, producer epoch, shard, adds partition, API version
type VerificationRow = (u64, String, i64, i16, usize, bool, i16);

/// group id, session timeout, heartbeat interval, assignment interval
type GroupConfigRow = (String, Option<i32>, Option<i32>, Option<i32>);

/// `shards` (at least 1) shards behind frames: see kcoord_node. Belongs to the thread that made it.
///
/// `config` has the fields of `pykcoord.Config` (`Config.native()`), `seed` is 32 bytes of entropy
/// for member ids and hash maps. Raises ValueError for arguments that cannot be right; so does each
/// method for a shard that there is not.
#[pyclass(name = "Node", module = "pykcoord._native")]
pub struct PyNode {
    pub(crate) node: Node,
    tells: bool,
    /// At most so many in a step, where not all is told.
    starts: usize,
    records: bool,
}

#[pymethods]
impl PyNode {
    #[new]
    fn new(config: &Bound<'_, PyDict>, shards: usize, seed: &[u8]) -> PyResult<Self> {
        let seed = seed.try_into().map_err(|_| {
            PyValueError::new_err(format!("seed: 32 bytes of entropy, not {}", seed.len()))
        })?;
        if shards == 0 {
            return Err(PyValueError::new_err("shards: at least 1"));
        }
        let node = Node::new(config_from(config)?, shards, seed);
        Ok(PyNode { node, tells: false, starts: 0, records: false })
    }

    /// The number of shards.
    #[getter]
    fn shards(&self) -> usize {
        self.node.shard_count()
    }

    /// All topics from now on: (name, id of 16 bytes, number of partitions). `end_offsets`: topic to
    /// partition to offset, as far as it is known. `racks`: topic to the racks of each partition.
    #[pyo3(signature = (topics, end_offsets = None, racks = None))]
    fn set_topics(
        &mut self,
        topics: Vec<(String, Vec<u8>, i32)>,
        end_offsets: Option<Ends>,
        racks: Option<HashMap<String, Vec<Vec<String>>>>,
    ) -> PyResult<()> {
        self.node.set_topics(topics_of(topics, end_offsets, racks)?);
        Ok(())
    }

    /// The same for those that are new or have changed, and the names of those that are gone.
    #[pyo3(signature = (changed, gone, ends = None))]
    fn change_topics(
        &mut self,
        changed: Vec<(String, Vec<u8>, i32)>,
        gone: Vec<String>,
        ends: Option<Ends>,
    ) -> PyResult<()> {
        let changed = topics_of(changed, ends, None)?;
        self.node.change_topics(changed, gone.into_iter().map(Into::into));
        Ok(())
    }

    /// What is set for single consumer groups, all of it: (group id, session timeout, heartbeat
    /// interval, assignment interval), each in ms, or None for the node's own.
    fn set_group_configs(&mut self, groups: Vec<GroupConfigRow>) {
        let config = |(group_id, session, heartbeat, assignment): GroupConfigRow| {
            let config = GroupConfig {
                session_timeout_ms: session,
                heartbeat_interval_ms: heartbeat,
                assignment_interval_ms: assignment,
            };
            (group_id.into(), config)
        };
        self.node.set_group_configs(GroupConfigs::new(groups.into_iter().map(config)));
    }

    /// As `Loader.replay`, on a shard of the node that is not `loaded` yet.
    fn replay(&mut self, py: Python<'_>, shard: usize, chunk: &[u8]) -> PyResult<()> {
        self.check(shard)?;
        self.node.replay(shard, chunk).map_err(|error| replay_error(py, error))
    }

    /// A new, empty shard, to be filled beside the node.
    fn loader(&self) -> PyLoader {
        PyLoader::new(self.node.loader())
    }

    /// Puts what was loaded in the place of a shard. The loader is of no further use.
    fn adopt(&mut self, shard: usize, loader: &mut PyLoader) -> PyResult<()> {
        self.check(shard)?;
        self.node.adopt(shard, loader.take()?);
        Ok(())
    }

    /// The shard has seen its whole log: it serves from `now_ms` on, and its next record gets
    /// `next_offset`. Sessions start anew.
    fn loaded(&mut self, shard: usize, now_ms: i64, next_offset: i64) -> PyResult<()> {
        self.check(shard)?;
        self.node.loaded(shard, now_ms, next_offset);
        Ok(())
    }

    /// One turn: handles frames, (ticket, session, header and body), in order, and learns that the
    /// logs are durable below the offsets of `committed`, (shard, offset). `now_ms` never runs back.
    /// `unsent_bytes`: replies that clients have not taken yet; together with those that are being
    /// made they are bounded. `timers`: False leaves what is due to a later step. Gives up the
    /// interpreter's lock.
    #[pyo3(signature = (now_ms, frames, committed, unsent_bytes = 0, timers = true))]
    fn step(
        &mut self,
        py: Python<'_>,
        now_ms: i64,
        frames: Vec<(u64, Py<PySession>, PyBackedBytes)>,
        committed: Vec<(usize, i64)>,
        unsent_bytes: usize,
        timers: bool,
    ) -> PyResult<PyTurn> {
        for (shard, _) in &committed {
            self.check(*shard)?;
        }
        let node = &mut self.node;
        node.set_unsent(unsent_bytes);
        node.hold_timers(!timers);
        let borrowed: Vec<Frame<'_>> = frames
            .iter()
            .map(|(ticket, session, bytes)| Frame {
                ticket: *ticket,
                session: &session.get().session,
                bytes,
            })
            .collect();
        let records = self.records;
        let (turn, recorded) = py.detach(|| {
            let turn = node.step(now_ms, &borrowed, &committed);
            let recorded = recorded_of(&turn, records);
            (turn, recorded)
        });
        into_python(py, turn, recorded, self)
    }

    /// Error codes as native-endian int16, one for each heartbeat.
    fn heartbeat_many<'py>(
        &mut self,
        py: Python<'py>,
        now_ms: i64,
        groups: Vec<PyBackedStr>,
        members: Vec<PyBackedStr>,
        generations: Vec<i32>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        if groups.len() != members.len() || groups.len() != generations.len() {
            return Err(PyValueError::new_err("groups, members, generations: of one length"));
        }
        let node = &mut self.node;
        let codes = py.detach(|| {
            let rows = groups.iter().zip(&members).zip(generations);
            let beats = rows.map(|((group, member), generation)| (&**group, &**member, generation));
            node.heartbeat_many(now_ms, beats)
        });
        let bytes: Vec<u8> = codes.iter().flat_map(|code| code.code().to_ne_bytes()).collect();
        Ok(PyBytes::new(py, &bytes))
    }

    /// Every group of a shard, sorted by id: (group_id, type, state, protocol_type, generation,
    /// protocol, leader, current_state_timestamp, members); each member (member_id,
    /// group_instance_id, client_id, client_host, rebalance_timeout_ms, session_timeout_ms,
    /// subscription, assignment). The type `simple` is a classic group without a record.
    fn groups<'py>(&self, py: Python<'py>, shard: usize) -> PyResult<Bound<'py, PyList>> {
        self.check(shard)?;
        inspect::groups(py, self.node.shard(shard))
    }

    /// Every committed offset of a shard, sorted by group, topic and partition: (group_id, topic,
    /// partition, offset, leader_epoch, metadata, commit_timestamp, expire_timestamp, topic_id).
    /// A leader epoch or expiry of -1 and a topic id of zeros are none.
    fn offsets<'py>(&self, py: Python<'py>, shard: usize) -> PyResult<Bound<'py, PyList>> {
        self.check(shard)?;
        inspect::offsets(py, self.node.shard(shard))
    }

    /// Every committed offset of a shard that expires one day if its group stays as it is, sorted:
    /// (group_id, topic, partition, offset, when in ms since the epoch).
    fn expirations<'py>(&self, py: Python<'py>, shard: usize) -> PyResult<Bound<'py, PyList>> {
        self.check(shard)?;
        PyList::new(py, self.node.shard(shard).expirations().collect::<Vec<_>>())
    }

    /// Partitions with a pending transactional offset, sorted: (group_id, topic, partition).
    fn unstable(&self, shard: usize) -> PyResult<Vec<(String, String, i32)>> {
        self.check(shard)?;
        Ok(self.node.shard(shard).unstable())
    }

    /// For each partition of a topic the highest offset that a group ever committed; 0: none.
    fn furthest_offsets(&self, topic: &str, partitions: Vec<i32>) -> Vec<i64> {
        self.node.furthest_offsets(topic, &partitions)
    }

    /// Counts of the whole node, for metrics: `groups_<state>`, `members`, `offsets`.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        inspect::stats(py, &self.node)
    }

    /// Long replies leave in parts from now on, some in each step, and many answers in several steps.
    fn send_in_parts(&mut self) {
        self.node.send_in_parts();
    }

    /// Large targets of consumer groups are computed by a thread of the node from now on, beside the
    /// steps.
    fn compute_targets_aside(&mut self) {
        self.node.compute_targets_aside();
    }

    /// The next target that an assignor of the program around is to compute, to be asked for after
    /// each step until there is none.
    fn poll_target_job(&mut self) -> Option<PyTargetJob> {
        self.node.poll_target_job().map(PyTargetJob::new)
    }

    /// What came of a job: the next step hears of it. One that nobody waits for any more is passed
    /// over.
    fn bring_targets(&mut self, number: u64, targets: &PyNewTargets) {
        self.node.bring_targets(number, Ok(targets.targets.clone()));
    }

    /// Nothing came of it: `uniform` takes its place, and a finding says why.
    fn refuse_targets(&mut self, number: u64, reason: String) {
        self.node.bring_targets(number, Err(reason));
    }

    /// Whether TxnOffsetCommit and WriteTxnMarkers are served from now on. `verified`: each step says
    /// what transaction coordinators are to be asked; else whoever commits has asked.
    fn serve_transactions(&mut self, verified: bool) {
        let mode = if verified { Transactions::Verified } else { Transactions::Trusted };
        self.node.serve_transactions(mode);
    }

    /// What came of a verification, as Kafka's error code, 0: the transaction is open. The next step
    /// goes on with the request. One that nobody waits for any more is passed over.
    fn verified(&mut self, ticket: u64, error_code: i16) {
        let error_code = ErrorCode::from_code(error_code).unwrap_or(ErrorCode::UnknownServerError);
        self.node.verified(ticket, Some(error_code).filter(|code| code.is_error()));
    }

    /// Transactions with records in a shard whose marker has not come: (producer id, producer epoch,
    /// first offset, time of the last commit in ms, groups).
    fn open_transactions(&self, shard: usize) -> PyResult<Vec<OpenTransactionRow>> {
        self.check(shard)?;
        let row = |of: OpenTransaction| {
            (of.producer_id, of.producer_epoch, of.first_offset, of.last_timestamp_ms, of.groups)
        };
        Ok(self.node.shard(shard).open_transactions().into_iter().map(row).collect())
    }

    /// Whether steps tell events besides findings from now on.
    fn tell_events(&mut self, on: bool) {
        self.tells = on;
        self.turn_events();
    }

    /// How many starts of rebalances each step tells at most from now on, where it does not tell all
    /// that happens; what it leaves out is counted.
    fn tell_starts(&mut self, most: usize) {
        self.starts = most;
        self.turn_events();
    }

    /// Whether steps have `recorded` from now on.
    fn record_events(&mut self, on: bool) {
        self.records = on;
        self.turn_events();
    }

    /// Forgets the parked request of a client that is gone. Its membership stays.
    fn abandon(&mut self, ticket: u64) {
        self.node.abandon(ticket);
    }

    /// Of a shard that does not serve: whether another node leads it (its requests are answered
    /// NOT_COORDINATOR) or it is being loaded here.
    fn set_away(&mut self, shard: usize, away: bool) -> PyResult<()> {
        self.check(shard)?;
        self.node.set_away(shard, away);
        Ok(())
    }

    /// Empties a shard whose append failed or that is released: what is parked is answered
    /// NOT_COORDINATOR, and its log must be loaded again.
    fn drop_shard(&mut self, py: Python<'_>, shard: usize) -> PyResult<PyTurn> {
        self.check(shard)?;
        let turn = self.node.drop_shard(shard);
        let recorded = recorded_of(&turn, self.records);
        into_python(py, turn, recorded, self)
    }
}

impl PyNode {
    fn turn_events(&mut self) {
        self.node.tell_events(self.tells || self.starts > 0 || self.records);
    }

    fn check(&self, shard: usize) -> PyResult<()> {
        let count = self.node.shard_count();
        if shard < count {
            return Ok(());
        }
        Err(PyValueError::new_err(format!("shard: {shard} of {count}")))
    }
}

/// What of a turn is kept.
fn recorded_of(turn: &Turn, records: bool) -> Option<PyEventBatch> {
    let is_any = records && !turn.events.is_empty();
    is_any.then(|| PyEventBatch::of(&turn.events, &turn.events_of))
}

/// Appends are copied; their memory goes back to where it came from. Events are rows where somebody is
/// told.
fn into_python(
    py: Python<'_>,
    turn: Turn,
    recorded: Option<PyEventBatch>,
    of: &mut PyNode,
) -> PyResult<PyTurn> {
    let node = &mut of.node;
    let appends: Vec<_> = turn
        .appends
        .into_iter()
        .map(|(shard, append)| {
            let records = PyBytes::new(py, &append.records);
            let Append { base_offset, record_count, base_timestamp, max_timestamp, .. } = append;
            let (producer, is_marker) = match append.kind {
                BatchKind::Plain => (Producer { id: -1, epoch: -1 }, false),
                BatchKind::Transactional(producer) => (producer, false),
                BatchKind::EndMarker(producer) => (producer, true),
            };
            let (from, to) = (base_timestamp, max_timestamp);
            let Producer { id, epoch } = producer;
            node.reuse(shard, append.records);
            (shard, base_offset, record_count, from, to, records, id, epoch, is_marker)
        })
        .collect();
    let part = |(ticket, bytes): (u64, Vec<u8>)| (ticket, PyBytes::new(py, &bytes));
    let parts = PyList::new(py, turn.parts.into_iter().map(part))?;
    let buffer = &turn.buffer;
    let reply =
        |(ticket, start, end): (u64, usize, usize)| (ticket, PyBytes::new(py, &buffer[start..end]));
    let replies = PyList::new(py, turn.replies.into_iter().map(reply))?;
    for (ticket, pieces) in turn.long_replies {
        replies.append((ticket, joined(py, pieces)?))?;
    }
    let (tells_all, most) = (of.tells, of.starts);
    let mut starts = 0;
    let told = turn.events.into_iter().filter(|event| {
        let is_told_start = !tells_all && is_start(event);
        starts += usize::from(is_told_start);
        tells_all || event.is_finding() || is_told_start && starts <= most
    });
    let events = told.map(event_row).collect::<Vec<_>>();
    Ok(PyTurn {
        parts: parts.unbind(),
        replies: replies.unbind(),
        appends: PyList::new(py, appends)?.unbind(),
        verifications: turn.verifications.into_iter().map(verification_row).collect(),
        foreign: turn.foreign,
        invalid: turn.invalid,
        events: PyList::new(py, events)?.unbind(),
        starts_left_out: if most > 0 { starts.saturating_sub(most) } else { 0 },
        recorded: recorded.map(|recorded| Py::new(py, recorded)).transpose()?,
        next_timeout_ms: turn.next_timeout_ms,
    })
}

fn verification_row(of: Verification) -> VerificationRow {
    let Producer { id, epoch } = of.producer;
    let transactional_id = of.transactional_id.into();
    (of.ticket, transactional_id, id, epoch, of.shard, of.adds_partition, of.api_version)
}

/// All pieces in one, each freed as it is copied.
fn joined(py: Python<'_>, pieces: Vec<Vec<u8>>) -> PyResult<Bound<'_, PyBytes>> {
    PyBytes::new_with(py, pieces.iter().map(Vec::len).sum(), |mut out| {
        for piece in pieces {
            let (here, behind) = out.split_at_mut(piece.len());
            here.copy_from_slice(&piece);
            out = behind;
        }
        Ok(())
    })
}

/// Where partitions end, by topic and number.
type Ends = HashMap<String, HashMap<i32, i64>>;

/// The rows of `set_topics` as topics. Raises ValueError for an id that is not 16 bytes.
fn topics_of(
    topics: Vec<(String, Vec<u8>, i32)>,
    end_offsets: Option<Ends>,
    racks: Option<HashMap<String, Vec<Vec<String>>>>,
) -> PyResult<Vec<Topic>> {
    let mut end_offsets = end_offsets.unwrap_or_default();
    let mut racks = racks.unwrap_or_default();
    let topic = |(name, id, partitions): (String, Vec<u8>, i32)| {
        let bytes: [u8; 16] = id.as_slice().try_into().map_err(|_| {
            PyValueError::new_err(format!("topic {name:?}: an id of 16 bytes, not {}", id.len()))
        })?;
        let end_offsets = end_offsets.remove(&name).into_iter().flatten().collect();
        let id = Uuid(u128::from_be_bytes(bytes));
        let of_partition = |racks: Vec<String>| racks.into_iter().map(Into::into).collect();
        let racks = racks.remove(&name).into_iter().flatten().map(of_partition).collect();
        Ok(Topic { name: name.into(), id, partitions, end_offsets, racks })
    };
    topics.into_iter().map(topic).collect()
}
