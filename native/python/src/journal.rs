//! `JournalWriter`: kcoord_cluster's, with tuples in place of its types.

use kcoord_cluster::{JournalWriter, Step};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::cluster::outcome;

/// The writer of a journal: kcoord_cluster's. Steps are tuples of a word and the number: "durable",
/// "read", "put again", "fenced".
#[pyclass(name = "JournalWriter", module = "pykcoord._native")]
#[derive(Default)]
pub struct PyJournalWriter {
    writer: JournalWriter,
}

#[pymethods]
impl PyJournalWriter {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// The number of the next round.
    #[getter]
    fn next(&self) -> u64 {
        self.writer.next()
    }

    /// Where to put a round; None while another is not decided, and after the end.
    fn begin(&mut self) -> Option<u64> {
        self.writer.begin()
    }

    /// What came of the put: True if it was made, False if there was something, None if nobody
    /// knows. ValueError if nothing is being put.
    fn answered(&mut self, made: Option<bool>) -> PyResult<(&'static str, u64)> {
        self.check()?;
        Ok(step(self.writer.answered(outcome(made))))
    }

    /// Whether what stands there was put by the journal's owner. ValueError if nothing is being
    /// put.
    fn read(&mut self, is_own: bool) -> PyResult<(&'static str, u64)> {
        self.check()?;
        Ok(step(self.writer.read(is_own)))
    }
}

impl PyJournalWriter {
    fn check(&self) -> PyResult<()> {
        let is_putting = self.writer.is_putting();
        if is_putting { Ok(()) } else { Err(PyValueError::new_err("no round is being put")) }
    }
}

fn step(step: Step) -> (&'static str, u64) {
    match step {
        Step::Durable(index) => ("durable", index),
        Step::Read(index) => ("read", index),
        Step::PutAgain(index) => ("put again", index),
        Step::Fenced(index) => ("fenced", index),
    }
}
