"""DescribeConfigs (32): this node's settings by Kafka's names, and what topics were created with.

Read only: nothing can be altered through the protocol.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from pykcoord.server._seen import Seen
from pykcoord.server.api.messages import NONE, PAUSE, Each, Fields
from pykcoord.server.api.node_api import Cluster, NodeApi
from pykcoord.session import Session

_TOPIC, _BROKER = 2, 4  # ConfigResource.Type
_DYNAMIC_TOPIC, _STATIC_BROKER = 1, 4  # DescribeConfigsResponse.ConfigSource
_BOOLEAN, _STRING, _LONG = 1, 2, 5  # DescribeConfigsResponse.ConfigType


def _answer(request: Any, version: int, cluster: Cluster, session: Session) -> Fields:
    return {"results": _results(request, cluster)}


def _results(request: Any, cluster: Cluster) -> Iterator[Fields]:
    """Each once: a short request must not be able to ask for a huge answer."""
    told = Seen()
    for asked in request.resources:
        if not told.add(asked.resource_name, asked.resource_type):
            yield PAUSE
            continue
        wanted = None
        if asked.configuration_keys is not None:
            wanted = Seen()
            for key in asked.configuration_keys:
                wanted.add(key)
                yield PAUSE
        yield _resource(asked, request, wanted, cluster)


def _resource(asked: Any, request: Any, wanted: Seen | None, cluster: Cluster) -> Fields:
    error, text = NONE, None
    configs: Mapping[str, str] = {}
    source = _STATIC_BROKER
    if asked.resource_type == _TOPIC:
        source = _DYNAMIC_TOPIC
        topic = cluster.catalogue.topics().get(asked.resource_name)
        if topic is None:
            error = ErrorCode.unknown_topic_or_partition
            text = f"Topic {asked.resource_name} does not exist"
        else:
            configs = topic.configs
    elif asked.resource_type == _BROKER:
        if asked.resource_name in ("", str(cluster.node_id)):
            configs = cluster.broker_configs
        else:
            error = ErrorCode.invalid_request
            text = f"Unexpected broker id {asked.resource_name}, expected {cluster.node_id}"
    else:
        error = ErrorCode.invalid_request
        text = f"Unsupported resource type {asked.resource_type}"
    told = [name for name in sorted(configs) if wanted is None or wanted.has(name)]
    return {
        "error_code": error,
        "error_message": text,
        "resource_type": asked.resource_type,
        "resource_name": asked.resource_name,
        "configs": Each(lambda name: _config(name, configs[name], source, request), told),
    }


def _config(name: str, value: str, source: int, request: Any) -> Fields:
    synonyms = [{"name": name, "value": value, "source": source}]
    return {
        "name": name,
        "value": value,
        "read_only": True,
        "config_source": source,
        "is_sensitive": False,
        "synonyms": synonyms if getattr(request, "include_synonyms", False) else [],
        "config_type": _type_of(value),
        "documentation": None,
    }


def _type_of(value: str) -> int:
    if value in ("true", "false"):
        return _BOOLEAN
    return _LONG if value.lstrip("-").isdecimal() else _STRING


API = NodeApi(32, "DescribeConfigs", 1, 4, _answer)
