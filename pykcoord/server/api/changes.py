"""Changes of the catalogue, as requests ask for them: many topics, each once, stored together."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import islice
from typing import Any

from kio.schema.errors import ErrorCode

from pykcoord.catalogue import Catalogue
from pykcoord.server._seen import Seen
from pykcoord.server.api.errors import error_of
from pykcoord.server.api.messages import LOOKED_AT, NONE, PAUSE, SLICE_ELEMENTS, Fields
from pykcoord.storing import Changes

# So many changes of a request are stored together, since the whole catalogue is written each time.
_BATCH = 128
# So many are made without a pause, and each costs as much as so many elements that are written.
_AT_ONCE = 4
_CHANGE = (PAUSE,) * 4


def named_twice(topics: Sequence[Any]) -> Generator[Fields, None, Seen]:
    """Which names the topics of a request have in common."""
    named, twice = Seen(len(topics)), Seen()
    for number, asked in enumerate(topics):
        if not named.add(asked.name):
            twice.add(asked.name)
        if number % LOOKED_AT == 0:
            yield PAUSE
    return twice


def are_all_here(
    assignments: Sequence[Any], node_id: int, index_of: Callable[[Any], int] | None = None
) -> Generator[Fields, None, bool]:
    """Whether this node is the one replica of each partition, and the indexes are 0, 1, 2 and so
    on, in any order."""
    indexes = Seen()
    for number, assignment in enumerate(assignments):
        if number % LOOKED_AT == 0:
            yield PAUSE
        if len(assignment.broker_ids) != 1 or next(iter(assignment.broker_ids)) != node_id:
            return False
        index = index_of(assignment) if index_of is not None else len(indexes)
        if not 0 <= index < len(assignments) or not indexes.add(None, index):
            return False
    return True


def once_each(
    topics: Sequence[Any],
    twice: Seen,
    change: Callable[[Any], Fields],
    refused: Callable[[str, ErrorCode, str], Fields],
) -> Iterator[Fields]:
    """The result of `change` for each topic that the request names once. One that it names again
    (`twice`) is refused, in one result, and not changed."""
    told = Seen()
    for asked in topics:
        if not twice.has(asked.name):
            yield change(asked)
        elif told.add(asked.name):
            yield refused(asked.name, ErrorCode.invalid_request, "Duplicate topic name.")
        else:
            yield PAUSE


def stored_together(
    catalogue: Catalogue,
    results: Iterator[Fields],
    refused: Callable[[Fields, ErrorCode, str], Fields],
) -> Iterator[Any]:
    """The results of changes that are made while `results` is consumed. They come once they are
    stored: up to 128 changes at a time, and futures among them until then. PAUSE stands for the
    work on each.

    Where that fails none of a batch was made: `refused(result, code, text)` replaces those
    without an error. Should the client go away, later batches are not made.
    """
    has_more = True
    try:
        while has_more:
            made: deque[tuple[Fields, Changes]] = deque()
            taken, are_changed = 0, False
            while has_more and taken < (_BATCH if are_changed else SLICE_ELEMENTS):
                with catalogue.gathered() as changes:
                    some = list(islice(results, _AT_ONCE))
                has_more = len(some) == _AT_ONCE
                taken += len(some)
                for of in some:
                    if of is PAUSE:
                        yield PAUSE
                        continue
                    made.append((of, changes))
                    are_changed = are_changed or of["error_code"] is NONE
                    yield from _CHANGE
            yield from _stored(catalogue)
            yield from _told(made, refused)
    finally:
        catalogue.store_soon()


def _stored(catalogue: Catalogue) -> Iterator[Any]:
    """Until all that is gathered is stored, that of others too: results may say what they did."""
    catalogue.store_soon()
    for changes in catalogue.pending():
        yield changes.ended()


def _told(
    made: deque[tuple[Fields, Changes]], refused: Callable[[Fields, ErrorCode, str], Fields]
) -> Iterator[Fields]:
    failed: dict[Changes, tuple[ErrorCode, str]] = {}
    while made:
        of, changes = made.popleft()
        if changes.error is None or of["error_code"] is not NONE:
            yield of
            continue
        if changes not in failed:
            failed[changes] = error_of(changes.error)
        yield refused(of, *failed[changes])
