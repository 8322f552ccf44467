"""AlterConfigs (33) and IncrementalAlterConfigs (44): settings of single consumer groups.

Nothing else can be altered through the protocol. Checks and texts are those of Kafka 4.4.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kio.schema.errors import ErrorCode

from pykcoord.errors import ArgumentError
from pykcoord.group_config import check_group_configs
from pykcoord.server._seen import Seen
from pykcoord.server.api.changes import stored_together
from pykcoord.server.api.config_resources import BROKER, GROUP, TOPIC
from pykcoord.server.api.errors import error_of
from pykcoord.server.api.messages import NONE, PAUSE, Fields
from pykcoord.server.api.node_api import Cluster, NodeApi
from pykcoord.session import Session

_SET, _DELETE, _APPEND, _SUBTRACT = range(4)  # AlterConfigOp.OpType
# There are far fewer; they are looked at in one go.
_MAX_CONFIGS = 100
# Of a group's id and its settings: those of 10,000 groups are stored whenever one of them changes.
_MAX_CHARACTERS = 2_048
_Altered = Callable[[Any, Cluster], dict[str, str]]


class _Refused(Exception):
    def __init__(self, code: ErrorCode, text: str | None) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


def _answering(altered: _Altered) -> Callable[[Any, int, Cluster, Session], Fields]:
    def answer(request: Any, version: int, cluster: Cluster, session: Session) -> Fields:
        return {"responses": _results(request, cluster, altered)}

    return answer


def _results(request: Any, cluster: Cluster, altered: _Altered) -> Iterator[Fields]:
    named, twice = Seen(), Seen()
    for asked in request.resources:
        if not named.add(asked.resource_name, asked.resource_type):
            twice.add(asked.resource_name, asked.resource_type)
        yield PAUSE

    def results() -> Iterator[Fields]:
        for asked in request.resources:
            if twice.has(asked.resource_name, asked.resource_type):
                text = "Each resource must appear at most once."
                yield _result(asked, ErrorCode.invalid_request, text)
            else:
                yield _alter(asked, request.validate_only, cluster, altered)

    yield from stored_together(
        cluster.catalogue, results(), lambda result, code, text: {**result, **_error(code, text)}
    )


def _alter(asked: Any, validate_only: bool, cluster: Cluster, altered: _Altered) -> Fields:
    try:
        _check_resource(asked, cluster)
        configs = altered(asked, cluster)
        try:
            check_group_configs(configs, cluster.broker_configs)
        except ArgumentError as error:
            return _result(asked, ErrorCode.invalid_config, error.reason)
        if len(asked.resource_name) + sum(map(len, configs.values())) > _MAX_CHARACTERS:
            text = f"At most {_MAX_CHARACTERS} characters of a group's id and its settings are kept"
            raise _Refused(ErrorCode.invalid_request, text)
        if not validate_only:
            cluster.catalogue.set_group_configs(asked.resource_name, configs)
    except _Refused as error:
        return _result(asked, error.code, error.text)
    except Exception as error:
        return _result(asked, *error_of(error))
    return _result(asked, NONE, None)


def _check_resource(asked: Any, cluster: Cluster) -> None:
    invalid = ErrorCode.invalid_request
    if len(asked.configs) > _MAX_CONFIGS:
        raise _Refused(invalid, f"At most {_MAX_CONFIGS} configurations of a resource are altered")
    names = [config.name for config in asked.configs]
    if len(set(names)) != len(names):
        raise _Refused(invalid, "Error due to duplicate config keys")
    if asked.resource_type == TOPIC:
        if asked.resource_name not in cluster.catalogue.topics():
            text = f"The topic '{asked.resource_name}' does not exist."
            raise _Refused(ErrorCode.unknown_topic_or_partition, text)
        raise _Refused(invalid, "Configurations of topics are not altered here")
    if asked.resource_type == BROKER:
        listed = ", ".join(names)
        raise _Refused(invalid, f"Cannot update these configs dynamically: [{listed}]")
    if asked.resource_type != GROUP:
        raise _Refused(invalid, f"Unknown resource type {asked.resource_type}")
    deleted = {config.name for config in asked.configs if _operation(config) == _DELETE}
    nulls = [c.name for c in asked.configs if c.value is None and c.name not in deleted]
    if nulls:
        raise _Refused(invalid, f"Null value not supported for : {','.join(nulls)}")
    if not asked.resource_name:
        raise _Refused(invalid, "Default group resources are not allowed.")


def _operation(config: Any) -> int:
    """AlterConfigs, which has none, sets."""
    return getattr(config, "config_operation", _SET)


def _replaced(asked: Any, cluster: Cluster) -> dict[str, str]:
    """Exactly what the request has."""
    return {config.name: config.value for config in asked.configs}


def _changed(asked: Any, cluster: Cluster) -> dict[str, str]:
    """What the group has, with the request's changes."""
    configs = dict(cluster.catalogue.next_group_configs(asked.resource_name))
    for config in asked.configs:
        if config.config_operation == _SET:
            configs[config.name] = config.value
        elif config.config_operation == _DELETE:
            configs.pop(config.name, None)
        elif config.config_operation in (_APPEND, _SUBTRACT):
            what = "APPEND" if config.config_operation == _APPEND else "SUBTRACT"
            text = f"Can't {what} to key {config.name} because its type is not LIST."
            raise _Refused(ErrorCode.invalid_config, text)
        else:
            raise _Refused(ErrorCode.unknown_server_error, None)
    return configs


def _result(asked: Any, code: ErrorCode, text: str | None) -> Fields:
    resource = {"resource_type": asked.resource_type, "resource_name": asked.resource_name}
    return {**resource, **_error(code, text)}


def _error(code: ErrorCode, text: str | None) -> Fields:
    return {"error_code": code, "error_message": text}


API = NodeApi(33, "AlterConfigs", 0, 2, _answering(_replaced))
INCREMENTAL_API = NodeApi(44, "IncrementalAlterConfigs", 0, 1, _answering(_changed))
