"""Changes of a small stored document that are gathered, and stored together beside the loop.

What is gathered is in the next write; the next changes build on it, and nobody else sees it before
it is stored. What other processes have stored is read beside the loop too, and made current in
slices. Here is what is done when; how, and what a document is, stands in `pykcoord.storing`.
Belongs to one thread.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from pykcoord.clock import thread_seconds
from pykcoord.comparing import Known
from pykcoord.storing import (
    Changes,
    PartsStore,
    Read,
    Store,
    StoreConflictError,
    Table,
    Work,
    changed_by_others,
)

__all__ = ["Gathering"]

_T = TypeVar("_T")
_NOT_GATHERED: Any = object()
# A slice is followed by a rest of so many times as long as it took the processor.
_REST = 3.0


class Gathering:
    """What is asked of the document in `store` (None: it is only in memory).

    `tables` by the names of their objects; `other`: the rest of the document. `stored(changes,
    is_all)` is called when changes are stored, by this process or another: it makes them current,
    and what it returns is called to tell of them. Without `is_all` there are more that were stored
    at the same time. `others_error` makes the error of what is gathered, and not stored, since
    others have changed the same.
    """

    def __init__(
        self,
        store: Store | None,
        other: dict[str, Any],
        tables: Mapping[str, Table[Any]],
        stored: Callable[[Changes, bool], Callable[[], None]],
        others_error: Callable[[], Exception],
    ) -> None:
        self._store = store
        self._takes_text = isinstance(store, PartsStore)
        self._other = other
        self._tables = tables
        self._stored = stored
        self._others_error = others_error
        self._gathered = Changes()
        self._work: Work | None = None
        self._is_asked = False
        # What others have stored could not be read: it is read again before anything is stored.
        self._is_behind = False
        self._asked_to_read: list[asyncio.Future[None]] = []
        # What the changes of a block replaced among what was gathered.
        self._undo: list[tuple[Table[Any], str, Any]] | None = None
        for table in tables.values():
            table.texts = {key: self._text(table, key, of) for key, of in table.current.items()}

    @property
    def is_in_block(self) -> bool:
        """Whether somebody gathers changes now."""
        return self._undo is not None

    @property
    def is_behind(self) -> bool:
        """Whether what others have stored could not be read."""
        return self._is_behind

    def pending(self) -> list[Changes]:
        """What is not stored yet: what is written now, and the rest."""
        writing = [*self._work.changes] if self._work is not None else []
        return [*writing, self._gathered] if self._gathered else writing

    def next(self, table: Table[_T], key: str) -> _T | None:
        """What is there once all is stored."""
        for changes in reversed(self.pending()):
            known: dict[str, _T | None] = changes.of.get(table, {})
            if key in known:
                return known[key]
        return table.current.get(key)

    @contextlib.contextmanager
    def block(self) -> Iterator[Changes]:
        """Within, `gather` may be called. If it raises, none of its changes is gathered."""
        undo = self._undo = []
        try:
            yield self._gathered
        except BaseException:
            for table, key, before in reversed(undo):
                of = self._gathered.of[table]
                if before is _NOT_GATHERED:
                    del of[key]
                else:
                    of[key] = before
                self._encode(table, key)
            raise
        finally:
            self._undo = None

    def gather(self, table: Table[_T], key: str, value: _T | None) -> None:
        """A change, in a block; None: `key` goes."""
        assert self._undo is not None
        of = self._gathered.of.setdefault(table, {})
        self._undo.append((table, key, of.get(key, _NOT_GATHERED)))
        of[key] = value
        self._encode(table, key)

    def store_now(self) -> None:
        """Store what is gathered, and wait for it; its changes say whether it is stored."""
        self.settle()
        if self._gathered:
            self._begin([self._take_gathered()], None)

    def store_soon(self) -> None:
        """Begin to store what is gathered, in a thread where the store can. To be called on a
        loop."""
        if not self._gathered:
            return
        if not self._takes_text:
            self.store_now()
        elif self._work is None:
            self._begin([self._take_gathered()], asyncio.get_running_loop())
        else:
            self._is_asked = True

    def settle(self) -> None:
        """Wait for what is written or read now."""
        self._is_asked = False
        while (work := self._work) is not None:
            work.join()
            work.done(work)

    def take(self, changes: Changes, is_all: bool) -> None:
        """Make current what the owner of the store has changed there: it is not read."""
        tell = self._stored(changes, is_all)
        self._encode_all(changes)
        tell()

    def read_now(self) -> None:
        """Make current what others have stored, and wait for it. What is gathered is stored on top
        of it, or not at all. Raises what the store and `Table.value_of` raise."""
        is_asked = self._is_asked
        self.settle()
        work = self._read([], None)
        if is_asked:
            self.store_soon()
        if work.error is not None:
            raise work.error

    def read_soon(self) -> asyncio.Future[None]:
        """The same in a thread and in slices, where the store gives text. Done then, or it has the
        error. To be called on a loop."""
        asked = asyncio.get_running_loop().create_future()
        self._asked_to_read.append(asked)
        if self._work is None:
            self._begin_next()
        return asked

    def _drop(self, error: Exception, *before: Changes) -> None:
        """What is gathered, and these changes before it, will not be stored."""
        dropped = [*before, self._take_gathered()]
        for changes in dropped:
            self._encode_all(changes)
            changes.end(error)

    def close(self) -> None:
        """Wait for what is written now; nothing is told of it."""
        self._stored = lambda changes, is_all: lambda: None
        if self._work is not None:
            self._work.join()

    def write_all(self) -> None:
        """Store the document as it is. Raises what the store raises."""
        self._writer()()

    def _encode_all(self, changes: Changes) -> None:
        for table, of in changes.of.items():
            for key in of:
                self._encode(table, key)

    def _encode(self, table: Table[Any], key: str) -> None:
        value = self.next(table, key)
        if value is None:
            table.texts.pop(key, None)
        else:
            table.texts[key] = self._text(table, key, value)

    def _text(self, table: Table[_T], key: str, value: _T) -> str:
        return table.member(key, value) if self._takes_text else ""

    def _writer(self) -> Callable[[], None]:
        """What stores all that is asked for at this moment; for any thread."""
        store, tables = self._store, self._tables.items()
        if isinstance(store, PartsStore):
            objects = {name: list(of.texts.values()) for name, of in tables if of.texts}
            return partial(store.write_parts, self._other, objects)
        if store is None:
            return lambda: None
        document = dict(self._other)
        for name, of in tables:
            if of.texts:
                document[name] = {key: of.fields_of(self.next(of, key)) for key in of.texts}
        return partial(store.write, document)

    def _reader(self, rests: bool) -> Callable[[], dict[Table[Any], dict[str, Any]]]:
        """What finds what others have changed in what is current at this moment; for any thread."""
        pending, objects = self.pending(), {}
        for name, table in self._tables.items():
            texts = dict(table.texts) if self._takes_text else {}
            for changes in pending:
                for key in changes.of.get(table, ()):
                    texts.pop(key, None)
            objects[name] = Known(table.current, texts, table.fields_of, table.value_of)
        return partial(changed_by_others, self._store, self._tables, objects, rests)

    def _take_gathered(self) -> Changes:
        gathered, self._gathered, self._is_asked = self._gathered, Changes(), False
        return gathered

    def _begin(self, pending: Sequence[Changes], loop: asyncio.AbstractEventLoop | None) -> None:
        """Store these changes, on top of what is current; nothing else is gathered. In a thread,
        where that is to tell a loop."""
        if self._is_behind:
            self._read(pending, loop)
            return
        work = self._work = Work(pending, self._written, loop)
        work.begin(self._writer(), self._go_on)

    def _read(
        self,
        pending: Sequence[Changes],
        loop: asyncio.AbstractEventLoop | None,
        conflict: Exception | None = None,
    ) -> Read:
        """Make current what others have stored, and store these changes on top of it; `conflict`:
        why they are not yet."""
        asked, self._asked_to_read = self._asked_to_read, []
        work = self._work = Read(pending, self._was_read, loop, conflict=conflict, asked=asked)
        reader = self._reader(loop is not None)
        work.begin(lambda: work.cut([reader()]), self._go_on)
        return work

    def _begin_next(self) -> None:
        """What was asked for meanwhile."""
        if self._asked_to_read:
            self._read([], self._asked_to_read[0].get_loop() if self._takes_text else None)
        elif self._is_asked:
            self.store_soon()

    def _go_on(self, work: Work) -> None:
        """With what was stored or read, unless somebody has waited for it: on the loop, with rests
        in between."""
        while self._work is work:
            began = thread_seconds()
            work.done(work)
            if work.loop is not None:
                rest = _REST * (thread_seconds() - began)
                if self._work is work:
                    work.loop.call_later(rest, self._go_on, work)
                return

    def _written(self, work: Work) -> None:
        """Where changes could not be stored, those that were gathered since are not either: they
        build on them."""
        if isinstance(work.error, StoreConflictError):
            self._read(work.changes, work.loop, work.error)
            return
        if work.error is not None:
            self._work = None
            self._drop(work.error, *work.changes)
            self._begin_next()
            return
        if not work.is_cut:
            work.cut([changes.of for changes in work.changes])
        if self._has_more(work):
            return
        self._work = None
        for changes in work.changes:
            changes.end(None)
        self._begin_next()
        if work.failure is not None:
            raise work.failure

    def _was_read(self, work: Work) -> None:
        """A slice of it is made current; after the last, what waits is stored on top."""
        assert isinstance(work, Read)
        if work.error is None and self._has_more(work):
            return
        self._work = None
        self._is_behind = work.error is not None
        work.error = work.error or work.failure
        pending = [*work.changes, self._gathered]
        own = {(table, key) for one in pending for table, keys in one.of.items() for key in keys}
        if work.error is None and not own.isdisjoint(work.keys):
            self._drop(work.conflict or self._others_error(), *work.changes)
        elif work.error is not None and work.changes:
            self._drop(work.error, *work.changes)
        elif work.changes:
            self._take_gathered()
            self._begin(pending, work.loop)
        work.tell()
        if self._work is None:
            self._begin_next()

    def _has_more(self, work: Work) -> bool:
        """Make the next slice current; False: that was the end. Who is told may make a change, and
        wait for it: then the work was ended meanwhile."""
        if work.slices:
            self._make_current(work, work.slices.popleft())
        return bool(work.slices) or self._work is not work

    def _make_current(self, work: Work, changes: Changes) -> None:
        """Where somebody who is told of it fails, the others come all the same: they are stored."""
        tell = self._stored(changes, not work.slices)
        if isinstance(work, Read):
            work.keys.update((table, key) for table, of in changes.of.items() for key in of)
            self._encode_all(changes)
        try:
            tell()
        except Exception as error:
            if self._work is not work:
                raise
            work.failure = work.failure or error
