"""A small stored document: its objects and their members, changes of them, and how these reach the
store and the members that are current: in a thread beside the loop, and in slices.

When that is done, and in which order, is decided elsewhere (`pykcoord.gathering`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from pykcoord.comparing import Comparing, Known

__all__ = [
    "Changes", "PartsStore", "Read", "Store", "StoreConflictError", "Table", "Work",
    "changed_by_others",
]  # fmt: skip

_T = TypeVar("_T")
# So many members that were stored are made current at once.
_AT_ONCE = 32


class Store(Protocol):
    """Where a document is remembered (`pykcoord.log.state_file.StateFile`)."""

    def read(self) -> dict[str, Any] | None: ...
    def write(self, document: dict[str, Any]) -> None: ...


@runtime_checkable
class PartsStore(Store, Protocol):
    """A store that takes objects of the document as members that are encoded already
    (`pykcoord.log.state_file.StateFile.write_parts`), and gives its text; in any thread."""

    def as_written(self) -> bytes | None: ...
    def write_parts(
        self, document: dict[str, Any], objects: Mapping[str, Iterable[str]]
    ) -> None: ...


class StoreConflictError(OSError):
    """Another process has stored its changes first: nothing was stored. They are to be read."""


class Table(Generic[_T]):
    """One object of the document. `current` is what is stored; `fields_of` a value as JSON has
    it, and `value_of` the value of that by its key, which raises for what is none."""

    def __init__(
        self,
        current: dict[str, _T],
        fields_of: Callable[[_T], Any],
        value_of: Callable[[str, Any], _T],
    ) -> None:
        self.current = current
        self.fields_of = fields_of
        self.value_of = value_of
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
        self._waiting: list[asyncio.Future[None]] = []

    def __bool__(self) -> bool:
        return any(self.of.values())

    def end(self, error: Exception | None) -> None:
        """They are stored, or will not be."""
        self.is_stored, self.error = error is None, error
        waiting, self._waiting = self._waiting, []
        for ended in waiting:
            if not ended.done():
                ended.set_result(None)

    def ended(self) -> asyncio.Future[None]:
        """Done, with None, when that is known. Each caller has its own: to cancel it tells no
        other. To be called on a loop."""
        ended = asyncio.get_running_loop().create_future()
        if self.is_stored or self.error is not None:
            ended.set_result(None)
        else:
            self._waiting.append(ended)
        return ended


def changed_by_others(
    store: Store | None, tables: Mapping[str, Table[Any]], objects: Mapping[str, Known], rests: bool
) -> dict[Table[Any], dict[str, Any]]:
    comparing = Comparing(objects, rests=rests)
    content = store.as_written() if isinstance(store, PartsStore) else None
    found = comparing.of_text(content) if content is not None else None
    if found is None:
        document = store.read() if store is not None else None
        found = comparing.of_document(document) if document is not None else {}
    return {tables[name]: of for name, of in found.items()}


@dataclass(eq=False)
class Work:
    """Stores changes, or reads what others have stored: in a thread, which tells `loop`, or at
    once. `done` goes on with it, and is called again until there is other work, or none."""

    changes: Sequence[Changes]
    done: Callable[[Work], None]
    loop: asyncio.AbstractEventLoop | None
    error: Exception | None = None
    failure: Exception | None = None
    """Of who was told of it, the first."""
    is_cut: bool = False
    slices: deque[Changes] = field(default_factory=deque)
    _thread: threading.Thread | None = None

    def begin(self, call: Callable[[], None], tell: Callable[[Work], None]) -> None:
        """Have it called, and told."""
        if self.loop is None:
            self._try(call)
            tell(self)
            return
        thread = self._thread = threading.Thread(
            target=self._beside, args=(self.loop, call, tell),
            name="pykcoord-catalogue", daemon=True,
        )  # fmt: skip
        thread.start()

    def join(self) -> None:
        """Wait for the thread, if there is one."""
        if self._thread is not None:
            self._thread.join()

    def cut(self, changed: Iterable[Mapping[Table[Any], dict[str, Any]]]) -> None:
        """Changes in slices, one at least."""
        self.is_cut = True
        for of_tables in changed:
            for table, of in of_tables.items():
                left = iter(of.items())
                while some := dict(islice(left, _AT_ONCE)):
                    self.slices.append(Changes())
                    self.slices[-1].of[table] = some
        if not self.slices:
            self.slices.append(Changes())

    def _try(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:
            self.error = error

    def _beside(
        self,
        loop: asyncio.AbstractEventLoop,
        call: Callable[[], None],
        tell: Callable[[Work], None],
    ) -> None:
        """In the thread."""
        self._try(call)
        with contextlib.suppress(RuntimeError):  # it has ended
            loop.call_soon_threadsafe(tell, self)


@dataclass(eq=False)
class Read(Work):
    """`changes` are to be stored after it; `conflict`: why they are not yet. `asked` wait for it,
    and `keys` are those of others' changes."""

    conflict: Exception | None = None
    asked: Sequence[asyncio.Future[None]] = ()
    keys: set[tuple[Table[Any], str]] = field(default_factory=set)

    def tell(self) -> None:
        """Those who asked for it."""
        for asked in self.asked:
            if asked.done():
                continue
            if self.error is None:
                asked.set_result(None)
            else:
                asked.set_exception(self.error)
