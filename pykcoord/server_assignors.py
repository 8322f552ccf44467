"""Assignors of one's own as server assignors of consumer groups: which there are, and how they are
called.

Each is called on a thread of its own, one call at a time, so that the loop and all groups go on
meanwhile. Whatever it does, somebody hears of each job: of targets, or why there are none.
"""

from __future__ import annotations

import importlib
import logging
import queue
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias

from pykcoord._native import TargetJob
from pykcoord.assignors import Assignor, Subscription
from pykcoord.clock import monotonic_seconds
from pykcoord.config import SETTINGS, Config
from pykcoord.consumer_protocol import TopicPartition
from pykcoord.errors import ArgumentError, ConfigError

__all__ = ["Given", "ServerAssignors", "configured", "given"]

logger = logging.getLogger("pykcoord.assignors")

_SETTING = "group.consumer.assignors"
_BUILT_IN = SETTINGS[_SETTING].choices
# Calls of one assignor that were late and have not come back: with more it is not called any more.
_MOST_LATE = 3
_MOST_REASON = 500  # characters of what an assignor raised, in a finding

Given: TypeAlias = tuple[Sequence[str], Mapping[str, Assignor]]
"""The names of all server assignors, the default first, and those of one's own by name."""


Tell: TypeAlias = Callable[[Any, str], None]
"""Takes targets and an empty text, or None and why there are none; on any thread."""


def given(assignors: Iterable[str | Assignor]) -> Given:
    """Checks what stands in the place of `group.consumer.assignors`: names of the built-in ones,
    and assignors of one's own. Raises ArgumentError."""
    if isinstance(assignors, str | bytes | Assignor) or not isinstance(assignors, Iterable):
        raise ArgumentError("assignors", f"{assignors!r} is no list of names and Assignors")
    names: list[str] = []
    own: dict[str, Assignor] = {}
    for one in assignors:
        if isinstance(one, Assignor):
            try:
                name = _checked_name(one)
            except ValueError as error:
                raise ArgumentError("assignors", str(error)) from None
            own[name] = one
        elif one in _BUILT_IN:
            name = one
        else:
            known = ", ".join(_BUILT_IN)
            hint = "; make an object of it" if callable(one) else ""
            raise ArgumentError(
                "assignors", f"{one!r} is neither an Assignor nor one of {known}{hint}"
            )
        if name in names:
            raise ArgumentError("assignors", f"two have the name {name!r}")
        names.append(name)
    if not names:
        raise ArgumentError("assignors", "at least one")
    return names, own


def configured(config: Config) -> Given:
    """Those of the setting, with `module:Class` imported and made. Raises ConfigError."""
    names: list[str] = []
    own: dict[str, Assignor] = {}
    for word in config.group_consumer_assignors.split(","):
        name = word
        if word not in _BUILT_IN:
            made = _made(word)
            name = made.name
            own[name] = made
        if name in names:
            raise ConfigError(_SETTING, f"two have the name {name!r}")
        names.append(name)
    return names, own


def _made(place: str) -> Assignor:
    module, _, kind = place.partition(":")
    try:
        found = getattr(importlib.import_module(module), kind)
        made = found() if isinstance(found, type) else found
    except Exception as error:  # whatever that module does
        reason = f"{place}: {type(error).__name__}: {error}"
        raise ConfigError(_SETTING, reason) from error
    if not isinstance(made, Assignor):
        raise ConfigError(_SETTING, f"{place} is no pykcoord.Assignor")
    try:
        _checked_name(made)
    except ValueError as error:
        raise ConfigError(_SETTING, f"{place}: {error}") from None
    return made


def _checked_name(assignor: Assignor) -> str:
    """Raises ValueError for what cannot be a server assignor."""
    name = getattr(assignor, "name", None)
    if not isinstance(name, str) or not name or "," in name or not name.isprintable():
        raise ValueError(f"{assignor!r} has no `name` that members could send")
    if name in _BUILT_IN:
        raise ValueError(f"{assignor!r} has the name of a built-in one, {name!r}")
    if assignor.shares_partitions:
        raise ValueError(f"{name!r} shares partitions: in a consumer group each has one owner")
    return name


class ServerAssignors:
    """Calls assignors, by their names. `ask` and `close` are of one thread, the loop's.

    A job whose turn comes after `timeout_ms` is not begun: the node has given it to `uniform` by
    then. A call that takes longer loses its thread, and the next call gets another one.
    """

    def __init__(self, assignors: Mapping[str, Assignor], timeout_ms: int) -> None:
        self._callers = {
            name: _Caller(assignor, timeout_ms / 1000) for name, assignor in assignors.items()
        }

    def ask(self, job: TargetJob, tell: Tell) -> None:
        """Have the job done; `tell` is called once, unless it comes too late to matter."""
        self._callers[job.assignor].ask(job, tell)

    def close(self) -> None:
        """End the threads that are idle; one that is busy ends with its call."""
        for caller in self._callers.values():
            caller.close()


class _Worker:
    """A thread, and what it is to do."""

    def __init__(self, name: str) -> None:
        self.queue: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self.begun_at: float | None = None  # the call that goes on
        self._name = name
        threading.Thread(target=self._run, name=f"pykcoord-{name}", daemon=True).start()

    def is_late(self, timeout_seconds: float) -> bool:
        begun_at = self.begun_at
        return begun_at is not None and monotonic_seconds() - begun_at > timeout_seconds

    def _run(self) -> None:
        while (work := self.queue.get()) is not None:
            self.begun_at = monotonic_seconds()
            work()
            self.begun_at = None


class _Caller:
    """Calls one assignor."""

    def __init__(self, assignor: Assignor, timeout_seconds: float) -> None:
        self._assignor = assignor
        self._timeout_seconds = timeout_seconds
        self._worker: _Worker | None = None
        self._late: list[_Worker] = []

    def ask(self, job: TargetJob, tell: Tell) -> None:
        asked_at = monotonic_seconds()

        def work() -> None:
            if monotonic_seconds() - asked_at <= self._timeout_seconds:
                tell(*_outcome(self._assignor, job))

        if (worker := self._free_worker()) is None:
            tell(None, f"{len(self._late)} calls of it have not come back")
        else:
            worker.queue.put(work)

    def close(self) -> None:
        for worker in (self._worker, *self._late):
            if worker is not None:
                worker.queue.put(None)

    def _free_worker(self) -> _Worker | None:
        """One that is not behind; None: there would be too many that are."""
        old = self._worker
        if old is not None and not old.is_late(self._timeout_seconds):
            return old
        self._late = [worker for worker in self._late if worker.begun_at is not None]
        if old is not None:
            if len(self._late) >= _MOST_LATE:
                return None
            self._late.append(old)
        self._worker = new = _Worker(self._assignor.name)
        while old is not None and not old.queue.empty():
            try:
                new.queue.put(old.queue.get_nowait())
            except queue.Empty:
                break
        if old is not None:
            old.queue.put(None)
        return new


def _outcome(assignor: Assignor, job: TargetJob) -> tuple[Any, str]:
    try:
        return _targets(assignor, job), ""
    except _NoAssignmentError as error:
        return None, str(error)
    except BaseException as error:  # SystemExit of `sys.exit()` too: it must end no thread of ours
        logger.error(
            "assignor %r raised for group %r; `uniform` computes this assignment",
            assignor.name, job.group_id, exc_info=error,
        )  # fmt: skip
        return None, f"{type(error).__name__}: {error}"[:_MOST_REASON]


class _NoAssignmentError(Exception):
    """What an assignor gave is none."""


def _targets(assignor: Assignor, job: TargetJob) -> Any:
    members: dict[str, Subscription] = {}
    for at in range(len(job)):
        member_id, instance_id, rack_id, topics, owned = job.member(at)
        partitions = [TopicPartition(topic, number) for topic, number in owned]
        members[member_id] = Subscription(
            topics, partitions, rack_id=rack_id, group_instance_id=instance_id
        )
    assigned: object = assignor.assign(dict(job.topics()), members)
    if not isinstance(assigned, Mapping):
        reason = f"gives a {type(assigned).__name__}, not a mapping of member ids to partitions"
        raise _NoAssignmentError(reason)
    answer = job.answer()
    # More than all, of an iterator that may have no end, is refused as too many are.
    most = sum(count for _, count in job.topics()) + 1
    for member_id, listed in assigned.items():
        try:
            answer.give(member_id, list(islice(listed, most)))
        except (TypeError, ValueError, OverflowError):
            shown = repr(listed)[:_MOST_REASON]
            reason = f"gives {member_id!r} {shown}, not a list of (topic, partition)"
            raise _NoAssignmentError(reason) from None
    try:
        return answer.targets()
    except ValueError as error:
        raise _NoAssignmentError(str(error)) from None
