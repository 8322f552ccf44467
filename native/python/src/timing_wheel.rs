//! `TimingWheel`: kcoord_timer's wheel with Python objects as payloads.

use kcoord_timer::{TimerId, TimingWheel};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::import_exception;
use pyo3::prelude::*;

import_exception!(pykcoord.errors, ArgumentError);

/// A hierarchical timing wheel: many timers, cheap to add and to cancel, 1 ms precision.
///
/// It knows no clock and makes no calls: its owner moves time with `advance`, on any monotonic
/// time line in milliseconds, and gets back what is due, in order of deadline and then of
/// insertion. A timer is never early. Adding and cancelling take constant time, and idle time
/// costs nothing.
///
/// >>> wheel = TimingWheel(now_ms=0)
/// >>> session = wheel.insert(30_000, "session of consumer-1")
/// >>> join = wheel.insert(3_000, "join phase of billing")
/// >>> wheel.next_deadline()
/// 3000
/// >>> wheel.advance(3_000)
/// [(3000, 'join phase of billing')]
/// >>> wheel.cancel(session)
/// 'session of consumer-1'
/// >>> wheel.cancel(join) is None          # it has fired: the id is stale, and harmless
/// True
/// >>> len(wheel)
/// 0
///
/// `now_ms` is the time to start at. Every time and deadline is a signed 64-bit number;
/// `ArgumentError` says which one is not. Source: Kafka's `TimingWheel` and `SystemTimer`.
#[pyclass(name = "TimingWheel", module = "pykcoord._native", generic)]
pub struct PyTimingWheel {
    wheel: TimingWheel<Py<PyAny>>,
}

#[pymethods]
impl PyTimingWheel {
    #[new]
    #[pyo3(signature = (now_ms = 0))]
    fn new(#[pyo3(from_py_with = now_ms)] now_ms: i64) -> Self {
        PyTimingWheel { wheel: TimingWheel::new(now_ms) }
    }

    /// The time of the last `advance`, in milliseconds.
    #[getter]
    fn now_ms(&self) -> i64 {
        self.wheel.now_ms()
    }

    /// Adds a timer and returns its id, an int greater than 0 that is never given out again.
    ///
    /// A deadline that is not after `now_ms` is due at the next `advance`.
    ///
    /// >>> wheel = TimingWheel(now_ms=100)
    /// >>> _ = wheel.insert(40, "late already")
    /// >>> wheel.advance(100)
    /// [(40, 'late already')]
    fn insert(
        &mut self,
        #[pyo3(from_py_with = deadline_ms)] deadline_ms: i64,
        value: Py<PyAny>,
    ) -> u64 {
        self.wheel.insert(deadline_ms, value).to_bits()
    }

    /// Removes a timer and returns its value, or `default` if it has fired or was cancelled.
    ///
    /// >>> wheel = TimingWheel()
    /// >>> timer = wheel.insert(10, "tea")
    /// >>> wheel.cancel(timer), wheel.cancel(timer), wheel.cancel(timer, default="gone")
    /// ('tea', None, 'gone')
    #[pyo3(signature = (timer_id, default = None))]
    fn cancel(
        &mut self,
        #[pyo3(from_py_with = timer_id)] timer_id: TimerId,
        default: Option<Py<PyAny>>,
    ) -> Option<Py<PyAny>> {
        self.wheel.cancel(timer_id).or(default)
    }

    /// Moves time to `now_ms` and returns `(deadline_ms, value)` of every timer that is due.
    ///
    /// Time never runs back: `ArgumentError` if `now_ms` lies before the current time.
    ///
    /// >>> wheel = TimingWheel()
    /// >>> for deadline_ms in (20, 10, 30):
    /// ...     _ = wheel.insert(deadline_ms, f"due at {deadline_ms}")
    /// >>> wheel.advance(25)
    /// [(10, 'due at 10'), (20, 'due at 20')]
    fn advance(
        &mut self,
        #[pyo3(from_py_with = now_ms)] now_ms: i64,
    ) -> PyResult<Vec<(i64, Py<PyAny>)>> {
        check_time(now_ms, self.wheel.now_ms())?;
        self.wheel.advance(now_ms);
        Ok(core::iter::from_fn(|| self.wheel.pop_expired()).collect())
    }

    /// When to call `advance` next, in milliseconds: no timer is due before. `None` without timers.
    ///
    /// It is the next timer's deadline, or earlier if a timer that was due before it has been
    /// cancelled: `advance` then returns nothing, and a later time is given here.
    ///
    /// >>> wheel = TimingWheel()
    /// >>> wheel.next_deadline() is None
    /// True
    /// >>> _ = wheel.insert(1_000_000, "some day")
    /// >>> wheel.next_deadline()
    /// 1000000
    fn next_deadline(&self) -> Option<i64> {
        self.wheel.next_deadline()
    }

    /// The timer's deadline in milliseconds, or `None` if it has fired or was cancelled.
    fn deadline(&self, #[pyo3(from_py_with = timer_id)] timer_id: TimerId) -> Option<i64> {
        self.wheel.deadline(timer_id)
    }

    /// Timers that have neither fired nor been cancelled.
    fn __len__(&self) -> usize {
        self.wheel.len()
    }

    fn __repr__(&self) -> String {
        format!("<TimingWheel at {} ms, {} timers>", self.wheel.now_ms(), self.wheel.len())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.wheel.payloads().try_for_each(|value| visit.call(value))
    }

    fn __clear__(&mut self) {
        self.wheel = TimingWheel::new(self.wheel.now_ms());
    }
}

pub(crate) fn now_ms(value: &Bound<'_, PyAny>) -> PyResult<i64> {
    extract(value, "now_ms", "more than 64 bits")
}

pub(crate) fn deadline_ms(value: &Bound<'_, PyAny>) -> PyResult<i64> {
    extract(value, "deadline_ms", "more than 64 bits")
}

fn timer_id(value: &Bound<'_, PyAny>) -> PyResult<TimerId> {
    extract(value, "timer_id", "not an id of this wheel").map(TimerId::from_bits)
}

/// Extracts an argument, with errors that name the argument: PyO3's own do so in a note at most.
pub(crate) fn extract<'py, T>(
    value: &Bound<'py, PyAny>,
    argument: &'static str,
    out_of_range: &'static str,
) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    value.extract::<T>().map_err(|error| {
        let py = value.py();
        if error.is_instance_of::<PyOverflowError>(py) {
            return ArgumentError::new_err((argument, out_of_range));
        }
        if error.is_instance_of::<PyTypeError>(py) {
            return PyTypeError::new_err(format!("{argument}: {}", error.value(py)));
        }
        error
    })
}

pub(crate) fn check_time(now_ms: i64, current_ms: i64) -> PyResult<()> {
    if now_ms < current_ms {
        let reason = format!("time ran back to {now_ms} from {current_ms}");
        return Err(ArgumentError::new_err(("now_ms", reason)));
    }
    Ok(())
}
