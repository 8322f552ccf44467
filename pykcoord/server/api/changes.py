"""Changes of the catalogue, as requests ask for them: many topics, each once, stored together."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from pykcoord.catalogue import Catalogue
from pykcoord.errors import KcoordError
from pykcoord.server._seen import Seen
from pykcoord.server.api.errors import error_of
from pykcoord.server.api.messages import LOOKED_AT, NONE, PAUSE, SLICE_ELEMENTS, Fields

# So many changes are stored together, since the whole catalogue is written each time.
_BATCH = 256


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
) -> Iterator[Fields]:
    """The results of changes that are made while `results` is consumed, up to 256 at a time, each
    batch stored once.

    Where that fails none of a batch was made: `refused(result, code, text)` replaces those
    without an error. Should the client go away, later batches are not made.
    """
    while True:
        made: list[Fields] = []
        try:
            with catalogue.together():
                _take_batch(results, made)
        except (OSError, KcoordError) as error:
            code, text = error_of(error)
            for index, of in enumerate(made):
                if of is not PAUSE and of["error_code"] is NONE:
                    made[index] = refused(of, code, text)
        if not made:
            return
        yield from made


def _take_batch(results: Iterator[Fields], made: list[Fields]) -> None:
    """A slice of what changes nothing, or changes that are worth a write."""
    are_changed = False
    for of in results:
        made.append(of)
        are_changed = are_changed or (of is not PAUSE and of["error_code"] is NONE)
        if len(made) >= (_BATCH if are_changed else SLICE_ELEMENTS):
            return
