//! `Purgatory`: kcoord_timer's purgatory with Python objects as keys and operations.

use core::hash::{Hash, Hasher};

use kcoord_timer::{OperationId, Purgatory};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;

use crate::timing_wheel::{check_time, deadline_ms, extract, now_ms};

/// Delayed operations: things that wait until a condition holds or their time has run out.
///
/// An operation is any object. It is watched under keys. After a change that it may depend on, the
/// owner checks the key and gets back the operations whose condition holds now. The others
/// come back from `advance` when their time is over. Each comes back exactly once, and nothing
/// is ever called but the predicate.
///
/// >>> purgatory = Purgatory(now_ms=0)
/// >>> join = purgatory.watch(["billing"], 60_000, {"waiting for": 2})
/// >>> both = purgatory.watch(["billing", "audit"], 5_000, {"waiting for": 3})
/// >>> purgatory.check_and_complete("billing", lambda operation: operation["waiting for"] <= 2)
/// [{'waiting for': 2}]
/// >>> purgatory.next_deadline()
/// 5000
/// >>> purgatory.advance(5_000)
/// [{'waiting for': 3}]
/// >>> len(purgatory), purgatory.watched
/// (0, 2)
///
/// The last line shows the price of cheap completion: an operation that has left through one key
/// or by the timer stays listed under its other keys until they are checked or `purge` is called,
/// which happens by itself before such garbage outgrows 1,000 entries and the live ones.
///
/// `now_ms` is the time to start at. A key is any hashable object; one whose `__eq__` raises is
/// equal to none. Source: Kafka's `DelayedOperationPurgatory`.
#[pyclass(name = "Purgatory", module = "pykcoord._native", generic)]
pub struct PyPurgatory {
    purgatory: Purgatory<Key, Py<PyAny>>,
}

#[pymethods]
impl PyPurgatory {
    #[new]
    #[pyo3(signature = (now_ms = 0))]
    fn new(py: Python<'_>, #[pyo3(from_py_with = now_ms)] now_ms: i64) -> PyResult<Self> {
        // Python's own hash of a string is seeded by the interpreter already.
        let seed = "pykcoord".into_pyobject(py)?.hash()? as u64;
        Ok(PyPurgatory { purgatory: Purgatory::new(now_ms, [seed, 0]) })
    }

    /// The time of the last `advance`, in milliseconds.
    #[getter]
    fn now_ms(&self) -> i64 {
        self.purgatory.now_ms()
    }

    /// Watches `operation` under each of `keys` until `deadline_ms`, and returns its id, an int
    /// greater than 0 that is never given out again.
    ///
    /// Its condition is not tested: watch what has just been found not to hold. A deadline that is
    /// not after `now_ms` is due at the next `advance`.
    fn watch(
        &mut self,
        #[pyo3(from_py_with = keys)] keys: Vec<Key>,
        #[pyo3(from_py_with = deadline_ms)] deadline_ms: i64,
        operation: Py<PyAny>,
    ) -> u64 {
        self.purgatory.watch(&keys, deadline_ms, operation).to_bits()
    }

    /// Tests the operations under `key`, oldest first, and returns those for which `predicate` is
    /// true; without one, all. If `predicate` raises, nothing is completed.
    ///
    /// >>> purgatory = Purgatory()
    /// >>> for size in (3, 1, 2):
    /// ...     _ = purgatory.watch(["bytes"], 1_000, size)
    /// >>> purgatory.check_and_complete("bytes", lambda size: size <= 2)
    /// [1, 2]
    /// >>> purgatory.check_and_complete("bytes")
    /// [3]
    #[pyo3(signature = (key, predicate = None))]
    fn check_and_complete(
        slf: &Bound<'_, Self>,
        key: Key,
        predicate: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<Py<PyAny>>> {
        let Some(predicate) = predicate else {
            return Ok(slf.borrow_mut().purgatory.cancel_for_key(&key).into_vec());
        };
        // The predicate may come back to this purgatory, so that it is not borrowed meanwhile.
        let operations: Vec<(OperationId, Py<PyAny>)> = {
            let this = slf.borrow();
            let operations = this.purgatory.operations(&key);
            operations.map(|(id, operation)| (id, operation.clone_ref(slf.py()))).collect()
        };
        let mut completed = Vec::new();
        for (id, operation) in &operations {
            if predicate.call1((operation,))?.is_truthy()? {
                completed.push(*id);
            }
        }
        let purgatory = &mut slf.borrow_mut().purgatory;
        let completed = completed.into_iter().filter_map(|id| purgatory.cancel(id)).collect();
        purgatory.check_and_complete(&key, |_| false);
        Ok(completed)
    }

    /// Moves time to `now_ms` and returns the operations whose time has run out, in order of
    /// deadline and then of watching. `ArgumentError` if `now_ms` lies before the current time.
    fn advance(&mut self, #[pyo3(from_py_with = now_ms)] now_ms: i64) -> PyResult<Vec<Py<PyAny>>> {
        check_time(now_ms, self.purgatory.now_ms())?;
        Ok(self.purgatory.expire(now_ms))
    }

    /// When to call `advance` next, in milliseconds, as `TimingWheel.next_deadline`.
    fn next_deadline(&self) -> Option<i64> {
        self.purgatory.next_deadline()
    }

    /// Takes one operation out and returns it, or `default` if it has left already.
    ///
    /// >>> purgatory = Purgatory()
    /// >>> fetch = purgatory.watch(["orders-0", "orders-1"], 500, "a long poll")
    /// >>> purgatory.cancel(fetch), purgatory.cancel(fetch)
    /// ('a long poll', None)
    #[pyo3(signature = (operation_id, default = None))]
    fn cancel(
        &mut self,
        #[pyo3(from_py_with = operation_id)] operation_id: OperationId,
        default: Option<Py<PyAny>>,
    ) -> Option<Py<PyAny>> {
        self.purgatory.cancel(operation_id).or(default)
    }

    /// Takes out all operations under `key` and returns them, oldest first.
    fn cancel_for_key(&mut self, key: Key) -> Vec<Py<PyAny>> {
        self.purgatory.cancel_for_key(&key).into_vec()
    }

    /// Forgets under all keys what has left already.
    fn purge(&mut self) {
        self.purgatory.purge();
    }

    /// Entries under all keys, garbage included (Kafka's gauge PurgatorySize).
    #[getter]
    fn watched(&self) -> usize {
        self.purgatory.watched()
    }

    /// Operations that wait (Kafka's gauge NumDelayedOperations).
    fn __len__(&self) -> usize {
        self.purgatory.delayed()
    }

    fn __repr__(&self) -> String {
        let (now_ms, delayed) = (self.purgatory.now_ms(), self.purgatory.delayed());
        format!("<Purgatory at {now_ms} ms, {delayed} operations>")
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.purgatory.all_operations().try_for_each(|operation| visit.call(operation))
    }

    fn __clear__(&mut self) {
        self.purgatory = Purgatory::new(self.purgatory.now_ms(), [0, 0]);
    }
}

fn keys(value: &Bound<'_, PyAny>) -> PyResult<Vec<Key>> {
    extract(value, "keys", "too many")
}

fn operation_id(value: &Bound<'_, PyAny>) -> PyResult<OperationId> {
    extract(value, "operation_id", "not an id of this purgatory").map(OperationId::from_bits)
}

/// A hashable Python object. It is hashed once, where an exception can still be raised.
struct Key {
    hash: isize,
    object: Py<PyAny>,
}

impl FromPyObject<'_, '_> for Key {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        Ok(Key { hash: object.hash()?, object: object.to_owned().unbind() })
    }
}

impl Clone for Key {
    fn clone(&self) -> Self {
        let object = Python::attach(|py| self.object.clone_ref(py));
        Key { hash: self.hash, object }
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_isize(self.hash);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        if self.hash != other.hash || self.object.is(&other.object) {
            return self.hash == other.hash;
        }
        Python::attach(|py| {
            self.object.bind(py).eq(&other.object).unwrap_or_else(|error| {
                error.write_unraisable(py, Some(self.object.bind(py)));
                false
            })
        })
    }
}

impl Eq for Key {}
