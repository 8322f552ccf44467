"""Changes of a small stored document that are gathered, and stored together beside the loop.

The document has objects, each with members by key (`Table`). What is gathered is in the next write;
the next changes build on it, and nobody else sees it before it is stored. Belongs to one thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

__all__ = ["Changes", "Gathering", "PartsStore", "Store", "StoreConflictError", "Table"]

_T = TypeVar("_T")
_NOT_GATHERED: Any = object()


class Store(Protocol):
    """Where a document is remembered (`pykcoord.log.state_file.StateFile`)."""

    def read(self) -> dict[str, Any] | None: ...
    def write(self, document: dict[str, Any]) -> None: ...


@runtime_checkable
class PartsStore(Store, Protocol):
    """A store that takes objects of the document as members that are encoded already
    (`pykcoord.log.state_file.StateFile.write_parts`), and in any thread."""

    def write_parts(
        self, document: dict[str, Any], objects: Mapping[str, Iterable[str]]
    ) -> None: ...


class StoreConflictError(OSError):
    """Another process has stored its changes first: nothing was stored. They are to be read."""


class Table(Generic[_T]):
    """One object of the document. `current` is what is stored; `fields_of` a value as JSON has
    it."""

    def __init__(self, current: dict[str, _T], fields_of: Callable[[_T], Any]) -> None:
        self.current = current
        self.fields_of = fields_of
        self.texts: dict[str, str] = {}
        """What the next write stores by key; of a store that takes no text, keys alone."""

    def member(self, key: str, value: _T) -> str:
        """As text."""
        return f"{json.dumps(key)}: {json.dumps(self.fields_of(value))}"


class Changes:
    """Changes that are stored together, or not at all: for each table by key what is there then;
    None: nothing."""

    def __init__(self) -> None:
        self.of: dict[Table[Any], dict[str, Any]] = {}
        self.is_stored = False
        self.error: Exception | None = None
        """Why none of them was made."""
        self._ended: asyncio.Future[None] | None = None

    def __bool__(self) -> bool:
        return any(self.of.values())

    def end(self, error: Exception | None) -> None:
        """They are stored, or will not be."""
        self.is_stored, self.error = error is None, error
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    def ended(self) -> asyncio.Future[None]:
        """Done, with None, when that is known. To be called on a loop."""
        if self._ended is None:
            self._ended = asyncio.get_running_loop().create_future()
            if self.is_stored or self.error is not None:
                self._ended.set_result(None)
        return self._ended


class Gathering:
    """What is asked of the document in `store` (None: it is only in memory).

    `tables` by the names of their objects; `other`: the rest of the document. `stored(changes)` is
    called when changes are stored: it makes them current. `others_first(pending)` is called where
    others have stored something first: it makes that current, and says whether it is apart from
    the changes that are not stored yet, which are stored on top of it then.
    """

    def __init__(
        self,
        store: Store | None,
        other: dict[str, Any],
        tables: Mapping[str, Table[Any]],
        stored: Callable[[Changes], None],
        others_first: Callable[[Sequence[Changes]], bool] = lambda pending: False,
    ) -> None:
        self._store = store
        self._others_first = others_first
        self._takes_text = isinstance(store, PartsStore)
        self._other = other
        self._tables = tables
        self._stored = stored
        self._gathered = Changes()
        self._write: _Write | None = None
        self._is_asked = False
        # What the changes of a block replaced among what was gathered.
        self._undo: list[tuple[Table[Any], str, Any]] | None = None
        for table in tables.values():
            self.renew(table, table.current)

    @property
    def is_in_block(self) -> bool:
        """Whether somebody gathers changes now."""
        return self._undo is not None

    def pending(self) -> list[Changes]:
        """What is not stored yet: what is written now, and the rest."""
        writing = [*self._write.changes] if self._write is not None else []
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
        elif self._write is None:
            self._begin([self._take_gathered()], asyncio.get_running_loop())
        else:
            self._is_asked = True

    def settle(self) -> None:
        """Wait for what is written now."""
        self._is_asked = False
        while (write := self._write) is not None:
            write.join()
            self._written(write)

    def others_have_stored(self, error: Exception) -> None:
        """To be called where nothing is written now, to make current what others have stored. What
        is gathered is stored on top of it, or not at all, for this error."""
        if self._others_first([self._gathered]):
            self._encode_again([self._gathered])
        else:
            self._drop(error)

    def _drop(self, error: Exception, *before: Changes) -> None:
        """What is gathered, and these changes before it, will not be stored."""
        dropped = [*before, self._take_gathered()]
        for changes in dropped:
            for table, of in changes.of.items():
                for key in of:
                    self._encode(table, key)
            changes.end(error)

    def close(self) -> None:
        """Wait for what is written now; nothing is told of it."""
        self._stored = lambda changes: None
        if self._write is not None:
            self._write.join()

    def write_all(self) -> None:
        """Store the document as it is. Raises what the store raises."""
        self._writer()()

    def renew(self, table: Table[_T], current: dict[str, _T]) -> None:
        """What is current is another. What is to come is encoded later, on top of it."""
        before, texts = table.current, table.texts
        keys = {key for changes in self.pending() for key in changes.of.get(table, ())}
        table.current = current
        table.texts = {
            key: texts[key]
            if key in texts and key not in keys and _is_same(before.get(key), value)
            else self._text(table, key, value)
            for key, value in current.items()
        }

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

    def _encode_again(self, pending: Iterable[Changes]) -> None:
        """On top of another document."""
        for changes in pending:
            for table, of in changes.of.items():
                for key in of:
                    self._encode(table, key)

    def _take_gathered(self) -> Changes:
        gathered, self._gathered, self._is_asked = self._gathered, Changes(), False
        return gathered

    def _begin(self, pending: Sequence[Changes], loop: asyncio.AbstractEventLoop | None) -> None:
        """Store these changes, on top of what is current; nothing else is gathered. In a thread,
        where that is to tell a loop."""
        write = self._write = _Write(pending, self._written, loop)
        write.store = self._writer()
        if loop is None:
            write.run()
        else:
            write.start()

    def _written(self, write: _Write) -> None:
        """Where changes could not be stored, those that were gathered since are not either: they
        build on them."""
        if self._write is not write:
            return  # somebody has waited for it
        if isinstance(write.error, StoreConflictError):
            pending = [*write.changes, self._gathered]
            try:
                is_apart = self._others_first(pending)
            except Exception as error:
                write.error, is_apart = error, False
            if is_apart:
                self._encode_again(pending)
                self._take_gathered()
                self._begin(pending, write.loop)
                return
        self._write = None
        if write.error is not None:
            self._drop(write.error, *write.changes)
            return
        for changes in write.changes:
            changes.end(None)
        try:
            for changes in write.changes:
                if changes:
                    self._stored(changes)
        finally:
            if self._is_asked:
                self.store_soon()


def _is_same(before: Any, now: Any) -> bool:
    return before is now or bool(before == now)


class _Write(threading.Thread):
    """Stores changes: as a thread, which tells `loop`, or at once by `run()`. `done` is called
    there."""

    def __init__(
        self,
        changes: Sequence[Changes],
        done: Callable[[_Write], None],
        loop: asyncio.AbstractEventLoop | None,
    ) -> None:
        super().__init__(name="pykcoord-catalogue", daemon=True)
        self.changes = changes
        self.error: Exception | None = None
        self.loop = loop
        self.store: Callable[[], None] = lambda: None
        self._done = done

    def run(self) -> None:
        """Store, and tell."""
        try:
            self.store()
        except Exception as error:
            self.error = error
        if self.loop is None:
            self._done(self)
            return
        with contextlib.suppress(RuntimeError):  # it has ended
            self.loop.call_soon_threadsafe(self._done, self)
