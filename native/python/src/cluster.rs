//! `ClusterNode` and `ClusterView`: kcoord_cluster's, with tuples in place of its types.

use std::collections::BTreeMap;

use kcoord_cluster::{
    Action, Answer, Ask, Change, Entry, Incarnation, Kept, Node, Outcome, Released, Seat, Settings,
    Stop, Stretch, View,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

type AskFields = (u64, u64, u64, Vec<(u32, i32)>);
type AnswerFields = (u64, u64, u64, u64, bool, bool, Vec<(u32, i32, u64)>);
type Member = (u64, i32, String, u16, String, u16);

/// What a node of a cluster decides: who leads which shard, who is fenced, and who may answer.
///
/// Every input has the time, in ms of a clock that counts on while the machine sleeps; afterwards
/// `actions` says what is to be done, as tuples that begin with a word: ("follow", from),
/// ("put", index, text), ("ask", incarnation, ask), ("fence", incarnation, from), ("prove",),
/// ("take", shard, epoch, lineage), ("serve", shard, epoch), ("release", shard, epoch),
/// ("snapshot", shard, epoch, lineage), ("look", shard), ("delete", incarnation, below),
/// ("look_log",), ("snapshot_log", index, text), ("trim", head, below). A lineage
/// is a list of (incarnation, epoch, from, end or None, needed). `settings` are the lease, how often
/// the cluster log is read, after how long without the store a node says so, and how often a shard
/// gets a snapshot, all in ms; how many rounds go at once at least, and how often that is looked at
/// in ms; how many ms it waits before it joins; a snapshot of the cluster log is due after so many
/// entries, entries go so many ms after it. See the crate `kcoord-cluster`.
#[pyclass(name = "ClusterNode", module = "pykcoord._native")]
pub struct PyClusterNode {
    node: Node,
}

#[pymethods]
impl PyClusterNode {
    #[new]
    fn new(
        incarnation: u64,
        node_id: i32,
        address: (String, u16),
        control: (String, u16),
        shards: u32,
        settings: (u64, u64, u64, u64, u64, u64, u64, u64, u64),
        now: u64,
    ) -> Self {
        let (host, port) = address;
        let (control_host, control_port) = control;
        let seat = Seat { node_id, host, port, control_host, control_port };
        let (lease_ms, poll_ms, store_silence_ms, snapshot_ms, ..) = settings;
        let (.., prune_rounds, prune_ms, join_wait_ms, log_entries, trim_ms) = settings;
        let lease_margin_ms = lease_ms / 10;
        let settings = Settings {
            lease_ms,
            lease_margin_ms,
            poll_ms,
            store_silence_ms,
            snapshot_ms,
            prune_rounds,
            prune_ms,
            join_wait_ms,
            log_entries,
            trim_ms,
            behind_ms: trim_ms / 2,
            ..Settings::default()
        };
        PyClusterNode { node: Node::new(incarnation, seat, shards, settings, now) }
    }

    /// Time passes: to be called every 50 ms, or more often.
    fn tick(&mut self, now: u64) {
        self.node.tick(now);
    }

    /// The texts of the entries from `start` on; None: the store did not answer. ValueError for
    /// what is no entry, with its number.
    fn followed(&mut self, now: u64, start: u64, texts: Option<Vec<String>>) -> PyResult<()> {
        let Some(texts) = texts else {
            self.node.followed(now, start, None);
            return Ok(());
        };
        let mut entries = Vec::new();
        for (index, text) in (start..).zip(&texts) {
            let entry = Entry::of_text(text);
            let named = |error| PyValueError::new_err(format!("entry {index} {error}"));
            entries.push(entry.map_err(named)?);
        }
        self.node.followed(now, start, Some(&entries));
        Ok(())
    }

    /// The text of a snapshot of the cluster log, in place of the entries that were to be read from
    /// the first on. ValueError for what is none.
    fn restored(&mut self, now: u64, text: &str) -> PyResult<()> {
        self.node.restored(now, view_of(text)?);
        Ok(())
    }

    /// What came of putting an entry: True if it was made, False if there was one, None if nobody
    /// knows.
    fn entry_put(&mut self, now: u64, index: u64, made: Option<bool>) {
        self.node.entry_put(now, index, outcome(made));
    }

    /// A round stands that was put from `started` on; `next` is the journal's next number. It has
    /// records of these shards, each with the epoch in which it is led.
    fn proved(&mut self, now: u64, started: u64, next: u64, leaderships: Vec<(u32, i32)>) {
        self.node.proved(now, started, next, &leaderships);
    }

    /// The store did not take a round.
    fn prove_failed(&mut self, now: u64) {
        self.node.prove_failed(now);
    }

    /// There is a fence in the own journal.
    fn own_journal_fenced(&mut self) {
        self.node.own_journal_fenced();
    }

    /// Whether the store was heard of late: what is known of others is of now.
    fn is_healthy(&self, now: u64) -> bool {
        self.node.is_healthy(now)
    }

    /// A controller asks (term, number, next_index, [(shard, epoch)]). The answer: (incarnation,
    /// number, term, journal_next, is_healthy, leaves, [(shard, epoch, end)]).
    fn asked(&mut self, now: u64, ask: AskFields) -> AnswerFields {
        let (term, number, next_index, release) = ask;
        let answer = self.node.asked(now, &Ask { term, number, next_index, release });
        let released = answer.released.iter();
        (
            answer.incarnation,
            answer.number,
            answer.term,
            answer.journal_next,
            answer.is_healthy,
            answer.leaves,
            released.map(|one| (one.shard, one.epoch, one.end)).collect(),
        )
    }

    /// What a node answered that this one had asked.
    fn answered(&mut self, now: u64, asked: Incarnation, answer: AnswerFields) {
        let (incarnation, number, term, journal_next, is_healthy, leaves, released) = answer;
        let released = released.into_iter();
        let released = released.map(|(shard, epoch, end)| Released { shard, epoch, end }).collect();
        let answer =
            Answer { incarnation, number, term, journal_next, is_healthy, leaves, released };
        self.node.answered(now, asked, answer);
    }

    /// Nobody listens where this one is to be asked.
    fn refused(&mut self, now: u64, asked: Incarnation) {
        self.node.refused(now, asked);
    }

    /// The journal has a fence at `end`; None: the store did not take it.
    fn fenced(&mut self, now: u64, incarnation: Incarnation, end: Option<u64>) {
        match end {
            Some(end) => self.node.fenced(now, incarnation, end),
            None => self.node.fence_failed(now, incarnation),
        }
    }

    /// The shard was read.
    fn taken(&mut self, now: u64, shard: u32, epoch: i32) {
        self.node.taken(now, shard, epoch);
    }

    /// The shard cannot be read or written now.
    fn lost(&mut self, now: u64, shard: u32, epoch: i32) {
        self.node.lost(now, shard, epoch);
    }

    /// The shard's records are below `end`, and no more are under way.
    fn released(&mut self, now: u64, shard: u32, epoch: i32, end: u64) {
        self.node.released(now, shard, epoch, end);
    }

    /// (epoch, index) of the newest snapshots of a shard that can be read, the newest first. None:
    /// not known.
    fn snapshots(&mut self, now: u64, shard: u32, places: Option<Vec<(i32, u64)>>) {
        self.node.snapshots(now, shard, places.as_deref());
    }

    /// Some rounds of a journal were deleted, or none could be.
    fn deleted(&mut self, now: u64, incarnation: Incarnation, is_done: bool) {
        self.node.deleted(now, incarnation, is_done);
    }

    /// The numbers of the newest snapshots of the cluster log that can be read, the newest first.
    /// None: not known.
    fn log_snapshots(&mut self, now: u64, indices: Option<Vec<u64>>) {
        self.node.log_snapshots(now, indices.as_deref());
    }

    /// Some entries of the cluster log were deleted, or none could be.
    fn trimmed(&mut self, now: u64, is_done: bool) {
        self.node.trimmed(now, is_done);
    }

    /// Give all up for the others, and stop.
    fn leave(&mut self, now: u64) {
        self.node.leave(now);
    }

    /// Whether an answer may be made now. If not, ask again after `proved`.
    fn may_answer(&mut self, now: u64) -> bool {
        self.node.may_answer(now)
    }

    /// What is to be done now.
    fn actions<'py>(&mut self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        self.node.take_actions().into_iter().map(|action| tuple(py, action)).collect()
    }

    /// Why the node has ended: "fenced", "behind", "left", or a sentence; None while it has not.
    #[getter]
    fn stop(&self) -> Option<String> {
        self.node.stop().map(|stop| match stop {
            Stop::Fenced => "fenced".to_owned(),
            Stop::Behind => "behind".to_owned(),
            Stop::Left => "left".to_owned(),
            Stop::OtherShards(found) => format!("the cluster has {found} shards"),
            Stop::Invalid(error) => format!("the cluster log cannot be: {error}"),
        })
    }

    /// The rounds of the own journal, from and below, that the store has lost; None where nothing
    /// says so.
    #[getter]
    fn lost_rounds(&self) -> Option<(u64, u64)> {
        self.node.lost_rounds()
    }

    /// The shards that are answered here.
    #[getter]
    fn serving(&self) -> Vec<u32> {
        self.node.serving()
    }

    /// Host and port of another node with this one's id, for whose end this one waits.
    #[getter]
    fn waits_for(&self) -> Option<(String, u16)> {
        self.node.waits_for().map(|seat| (seat.host.clone(), seat.port))
    }

    /// The number of the first entry that was not read.
    #[getter]
    fn next_index(&self) -> u64 {
        self.node.view().next_index()
    }

    /// The incarnation of the last controller, unless it is gone.
    #[getter]
    fn controller(&self) -> Option<u64> {
        self.node.view().controller()
    }

    /// This node's own.
    #[getter]
    fn incarnation(&self) -> u64 {
        self.node.incarnation()
    }

    /// How many controllers there were.
    #[getter]
    fn term(&self) -> u64 {
        self.node.view().term()
    }

    /// (incarnation, node id, host, port, control host, control port) of the nodes, by id.
    #[getter]
    fn members(&self) -> Vec<Member> {
        members(self.node.view())
    }

    /// (incarnation, epoch) of who leads each shard, None for those without a leader.
    #[getter]
    fn leaders(&self) -> Vec<Option<(u64, i32)>> {
        leaders(self.node.view())
    }
}

/// What the cluster log amounts to, for who only looks: kcoord_cluster's.
#[pyclass(name = "ClusterView", module = "pykcoord._native")]
pub struct PyClusterView {
    view: View,
}

#[pymethods]
impl PyClusterView {
    /// What a snapshot of the cluster log says; None: nothing was read yet. ValueError for what is
    /// no snapshot.
    #[new]
    #[pyo3(signature = (text=None))]
    fn new(text: Option<&str>) -> PyResult<Self> {
        let view = text.map(view_of).transpose()?.unwrap_or_default();
        Ok(PyClusterView { view })
    }

    /// The text of the next entry. ValueError for what cannot stand there, with its number.
    fn apply(&mut self, text: &str) -> PyResult<()> {
        let index = self.view.next_index();
        let named = |error| PyValueError::new_err(format!("entry {index} {error}"));
        let entry = Entry::of_text(text).map_err(named)?;
        self.view.apply(&entry).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// The number of the first entry that was not read.
    #[getter]
    fn next_index(&self) -> u64 {
        self.view.next_index()
    }

    /// How many controllers there were.
    #[getter]
    fn term(&self) -> u64 {
        self.view.term()
    }

    /// The incarnation of the last controller, unless it is gone.
    #[getter]
    fn controller(&self) -> Option<u64> {
        self.view.controller()
    }

    /// See `ClusterNode.members`.
    #[getter]
    fn members(&self) -> Vec<Member> {
        members(&self.view)
    }

    /// See `ClusterNode.leaders`.
    #[getter]
    fn leaders(&self) -> Vec<Option<(u64, i32)>> {
        leaders(&self.view)
    }

    /// Node id of where operators want a shard to be, of those that are not left to the controller.
    #[getter]
    fn pins(&self) -> BTreeMap<u32, i32> {
        self.view.pins().clone()
    }

    /// The ids of nodes that operators want to lead nothing.
    #[getter]
    fn drained(&self) -> Vec<i32> {
        self.view.drained().iter().copied().collect()
    }

    /// The parts of journals that have the records of a shard: (incarnation, epoch, start, end,
    /// needed), the oldest first.
    fn lineage(&self, shard: u32) -> Vec<(u64, i32, u64, Option<u64>, u64)> {
        stretches(self.view.lineage(shard))
    }

    /// The text of the first entry of a cluster of which each shard begins with a snapshot. They are
    /// those of `writer`, a node that led all shards in epoch 0 and is gone: its only round is
    /// deleted, and its journal has a fence at 1.
    #[staticmethod]
    fn begun(writer: u64, shards: u32) -> String {
        let seat = Seat {
            node_id: 0,
            host: "-".to_owned(),
            port: 0,
            control_host: "-".to_owned(),
            control_port: 0,
        };
        let lead =
            |shard| Change::Lead { shard, incarnation: writer, epoch: 0, from: 0, end: None };
        let kept = (0..shards).map(|shard| Kept { shard, epoch: 0, below: 1 }).collect();
        let mut changes = vec![
            Change::Shards(shards),
            Change::Controller { term: 1, incarnation: writer },
            Change::Join { incarnation: writer, seat },
        ];
        changes.extend((0..shards).map(lead));
        changes.push(Change::Pruned { incarnation: writer, below: 1, kept });
        changes.push(Change::Gone { incarnation: writer, end: 1 });
        Entry { writer, changes }.to_text()
    }

    /// The text of an entry by which `writer` wants these shards on a node (None: on any).
    #[staticmethod]
    fn pin(writer: u64, shards: Vec<u32>, node_id: Option<i32>) -> String {
        let changes = shards.into_iter().map(|shard| Change::Pin { shard, node_id }).collect();
        Entry { writer, changes }.to_text()
    }

    /// The text of an entry by which `writer` wants a node to lead nothing, or to lead again.
    #[staticmethod]
    fn drain(writer: u64, node_id: i32, is_drained: bool) -> String {
        Entry { writer, changes: vec![Change::Drain { node_id, is_drained }] }.to_text()
    }
}

fn view_of(text: &str) -> PyResult<View> {
    View::of_text(text).map_err(|error| PyValueError::new_err(error.to_string()))
}

fn leaders(view: &View) -> Vec<Option<(u64, i32)>> {
    (0..view.shards()).map(|shard| view.leader(shard)).collect()
}

fn members(view: &View) -> Vec<Member> {
    let member = |&(_, incarnation): &(i32, u64)| {
        let Seat { node_id, host, port, control_host, control_port } =
            view.members()[&incarnation].clone();
        (incarnation, node_id, host, port, control_host, control_port)
    };
    view.by_id().iter().map(member).collect()
}

pub(crate) fn outcome(made: Option<bool>) -> Outcome {
    match made {
        Some(true) => Outcome::Created,
        Some(false) => Outcome::Exists,
        None => Outcome::Unknown,
    }
}

fn stretches(lineage: &[Stretch]) -> Vec<(u64, i32, u64, Option<u64>, u64)> {
    let stretch = |one: &Stretch| (one.incarnation, one.epoch, one.start(), one.end, one.needed);
    lineage.iter().map(stretch).collect()
}

fn tuple(py: Python<'_>, action: Action) -> PyResult<Bound<'_, PyTuple>> {
    match action {
        Action::Follow { from } => ("follow", from).into_pyobject(py),
        Action::PutEntry { index, entry } => ("put", index, entry.to_text()).into_pyobject(py),
        Action::Ask { to, ask } => {
            let ask = (ask.term, ask.number, ask.next_index, ask.release);
            ("ask", to, ask).into_pyobject(py)
        }
        Action::Fence { incarnation, from } => ("fence", incarnation, from).into_pyobject(py),
        Action::Prove => ("prove",).into_pyobject(py),
        Action::Take { shard, epoch, lineage } => {
            ("take", shard, epoch, stretches(&lineage)).into_pyobject(py)
        }
        Action::Snapshot { shard, epoch, lineage } => {
            ("snapshot", shard, epoch, stretches(&lineage)).into_pyobject(py)
        }
        Action::Look { shard } => ("look", shard).into_pyobject(py),
        Action::Delete { incarnation, below } => ("delete", incarnation, below).into_pyobject(py),
        Action::LookLog => ("look_log",).into_pyobject(py),
        Action::SnapshotLog { index, text } => ("snapshot_log", index, text).into_pyobject(py),
        Action::Trim { head, below } => ("trim", head, below).into_pyobject(py),
        Action::Serve { shard, epoch } => ("serve", shard, epoch).into_pyobject(py),
        Action::Release { shard, epoch } => ("release", shard, epoch).into_pyobject(py),
    }
}
