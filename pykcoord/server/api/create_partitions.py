"""CreatePartitions (37): more partitions for topics of the catalogue. Never fewer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kio.schema.errors import ErrorCode

from pykcoord.catalogue import InvalidPartitionsError, UnknownTopicError, check_partitions
from pykcoord.server._seen import Seen
from pykcoord.server.api.changes import are_all_here, named_twice, once_each, stored_together
from pykcoord.server.api.errors import error_of
from pykcoord.server.api.messages import NONE, PAUSE, Fields
from pykcoord.server.api.node_api import Cluster, NodeApi
from pykcoord.session import Session


def _answer(request: Any, version: int, cluster: Cluster, session: Session) -> Fields:
    return {"results": _results(request, cluster)}


def _results(request: Any, cluster: Cluster) -> Iterator[Fields]:
    twice = yield from named_twice(request.topics)
    elsewhere = Seen()
    for asked in request.topics:
        if not (yield from are_all_here(asked.assignments or (), cluster.node_id)):
            elsewhere.add(asked.name)
        yield PAUSE
    yield from stored_together(
        cluster.catalogue,
        once_each(
            request.topics,
            twice,
            lambda asked: _grow(asked, request.validate_only, elsewhere, cluster),
            _result,
        ),
        lambda result, code, text: _result(result["name"], code, text),
    )


def _grow(asked: Any, validate_only: bool, elsewhere: Seen, cluster: Cluster) -> Fields:
    try:
        _check(asked, elsewhere, cluster)
        if not validate_only:
            cluster.catalogue.add_partitions(asked.name, asked.count)
    except _InvalidAssignmentError as error:
        return _result(asked.name, ErrorCode.invalid_replica_assignment, str(error))
    except Exception as error:
        return _result(asked.name, *error_of(error))
    return _result(asked.name, NONE, None)


class _InvalidAssignmentError(ValueError):
    """Replicas that do not fit the new partitions."""


def _check(asked: Any, elsewhere: Seen, cluster: Cluster) -> None:
    topic = cluster.catalogue.topics().get(asked.name)
    if topic is None:
        raise UnknownTopicError("name", "This server does not host this topic-partition.")
    check_partitions(asked.count)
    if asked.count <= topic.partitions:
        raise InvalidPartitionsError(
            "count",
            f"The topic {asked.name} currently has {topic.partitions} partition(s); "
            f"{asked.count} would not be an increase.",
        )
    if asked.assignments is not None:
        more = asked.count - topic.partitions
        if len(asked.assignments) != more or elsewhere.has(asked.name):
            raise _InvalidAssignmentError(
                f"Each of the {more} new partition(s) must have "
                f"broker {cluster.node_id} as its one replica."
            )


def _result(name: str, error: ErrorCode, text: str | None) -> Fields:
    return {"name": name, "error_code": error, "error_message": text}


API = NodeApi(37, "CreatePartitions", 0, 3, _answer)
