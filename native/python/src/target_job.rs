//! Targets of consumer groups that assignors of the program around compute (kcoord_core::targets).
//!
//! A job is taken apart, and its answer put together, member by member, so that no single call keeps
//! the interpreter's lock for long.

use std::sync::Arc;

use kcoord_core::targets::{Given, NewTargets, TargetInput, TargetJob};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;

/// Member id, group instance id, rack, topics, and what it is to have by now.
type MemberRow = (String, Option<String>, Option<String>, Vec<String>, Vec<(String, i32)>);

/// One target that is to be computed. Of any thread.
#[pyclass(name = "TargetJob", module = "pykcoord._native", frozen)]
pub struct PyTargetJob {
    job: TargetJob,
}

impl PyTargetJob {
    pub fn new(job: TargetJob) -> PyTargetJob {
        PyTargetJob { job }
    }
}

#[pymethods]
impl PyTargetJob {
    /// The node's number for it.
    #[getter]
    fn number(&self) -> u64 {
        self.job.number
    }

    /// The group's id.
    #[getter]
    fn group_id(&self) -> &str {
        &self.job.group_id
    }

    /// The name of the assignor that is asked.
    #[getter]
    fn assignor(&self) -> &str {
        self.job.input.assignor().name()
    }

    /// The topics that have a subscriber and exist, by name, with their numbers of partitions.
    fn topics(&self, py: Python<'_>) -> Vec<(String, u32)> {
        let input = &self.job.input;
        let of = |(name, count): (&str, u32)| (name.to_owned(), count);
        py.detach(|| input.topics().into_iter().map(of).collect())
    }

    /// How many members the group has.
    fn __len__(&self) -> usize {
        self.job.input.members().len()
    }

    /// One of them, by member id. Raises IndexError.
    fn member(&self, at: usize) -> PyResult<MemberRow> {
        let input = &self.job.input;
        let none = || PyIndexError::new_err(format!("member {at} of {}", input.members().len()));
        let member = input.members().get(at).ok_or_else(none)?;
        let mut topics: Vec<String> = member.topics().map(Into::into).collect();
        topics.sort_unstable();
        topics.dedup();
        let target = input.target_of(member).map(|(topic, number)| (topic.to_owned(), number));
        let instance_id = member.instance_id.as_deref().map(Into::into);
        let rack_id = member.rack_id.as_deref().map(Into::into);
        Ok((member.id.to_string(), instance_id, rack_id, topics, target.collect()))
    }

    /// An answer without partitions, to be filled.
    fn answer(&self) -> PyTargetAnswer {
        PyTargetAnswer { input: Arc::clone(&self.job.input), given: Given::new() }
    }
}

/// What an assignor gives.
#[pyclass(name = "TargetAnswer", module = "pykcoord._native")]
pub struct PyTargetAnswer {
    input: Arc<TargetInput>,
    given: Given,
}

#[pymethods]
impl PyTargetAnswer {
    /// Partitions of a member.
    fn give(&mut self, member_id: &str, partitions: Vec<(String, i32)>) {
        let named = partitions.into_iter().map(|(topic, number)| (topic.into(), number));
        self.given.entry(member_id.into()).or_default().extend(named);
    }

    /// The targets. Raises ValueError, which says why, where it is no assignment: each partition of
    /// the topics goes to one member that subscribes to it.
    fn targets(&self, py: Python<'_>) -> PyResult<PyNewTargets> {
        let targets =
            py.detach(|| self.input.accept(&self.given)).map_err(PyValueError::new_err)?;
        Ok(PyNewTargets { targets })
    }
}

/// Targets for `Node.bring_targets`.
#[pyclass(name = "NewTargets", module = "pykcoord._native", frozen)]
pub struct PyNewTargets {
    pub(crate) targets: NewTargets,
}
