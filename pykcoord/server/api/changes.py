"""Changes of the catalogue, as requests ask for them: many topics, each once, stored together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from kio.schema.errors import ErrorCode

from pykcoord.catalogue import Catalogue
from pykcoord.errors import KcoordError
from pykcoord.server.api.errors import error_of
from pykcoord.server.api.messages import NONE, PAUSE, Fields

# So many changes are made in one go: their work is one slice, and each batch is stored alone.
_BATCH = 1_000


def once_each(
    topics: Sequence[Any],
    named: Counter[str],
    change: Callable[[Any], Fields],
    refused: Callable[[str, ErrorCode, str], Fields],
) -> Iterator[Fields]:
    """The result of `change` for each topic that the request names once. One that it names again
    (`named`: how often it names each) is refused, in one result, and not changed."""
    repeated = set()
    for asked in topics:
        if named[asked.name] == 1:
            yield change(asked)
        elif asked.name in repeated:
            yield PAUSE
        else:
            repeated.add(asked.name)
            yield refused(asked.name, ErrorCode.invalid_request, "Duplicate topic name.")


def stored_together(
    catalogue: Catalogue,
    results: Iterator[Fields],
    refused: Callable[[Fields, ErrorCode, str], Fields],
) -> Iterator[Fields]:
    """The results of changes that are made while `results` is consumed, a thousand at a time, each
    batch stored once.

    Where that fails none of a batch was made: `refused(result, code, text)` replaces those
    without an error. Should the client go away, later batches are not made.
    """
    while True:
        made: list[Fields] = []
        try:
            with catalogue.together():
                made.extend(islice(results, _BATCH))
        except (OSError, KcoordError) as error:
            code, text = error_of(error)
            for index, of in enumerate(made):
                if of is not PAUSE and of["error_code"] is NONE:
                    made[index] = refused(of, code, text)
        if not made:
            return
        yield from made
