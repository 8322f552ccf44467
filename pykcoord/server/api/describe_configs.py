"""DescribeConfigs (32): this node's settings by Kafka's names, what topics were created with, and
what holds for consumer groups. Only the last can be altered through the protocol."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from pykcoord.group_config import GROUP_SETTINGS, group_defaults
from pykcoord.server._seen import Seen
from pykcoord.server.api.config_resources import (
    BOOLEAN,
    BROKER,
    DEFAULT,
    DYNAMIC_GROUP,
    DYNAMIC_TOPIC,
    GROUP,
    INT,
    LONG,
    STATIC_BROKER,
    STRING,
    TOPIC,
)
from pykcoord.server.api.messages import LOOKED_AT, NONE, PAUSE, Each, Fields
from pykcoord.server.api.node_api import Cluster, NodeApi
from pykcoord.session import Session


def _answer(request: Any, version: int, cluster: Cluster, session: Session) -> Fields:
    return {"results": _results(request, cluster)}


def _results(request: Any, cluster: Cluster) -> Iterator[Fields]:
    """Each once: a short request must not be able to ask for a huge answer."""
    told = Seen(len(request.resources))
    for asked in request.resources:
        if not told.add(asked.resource_name, asked.resource_type):
            yield PAUSE
            continue
        wanted = None
        if asked.configuration_keys is not None:
            wanted = Seen(len(asked.configuration_keys))
            for number, key in enumerate(asked.configuration_keys):
                wanted.add(key)
                if number % LOOKED_AT == 0:
                    yield PAUSE
        yield _resource(asked, request, wanted, cluster)


def _resource(asked: Any, request: Any, wanted: Seen | None, cluster: Cluster) -> Fields:
    error, text = NONE, None
    configs: Mapping[str, str] = {}
    source = STATIC_BROKER
    if asked.resource_type == TOPIC:
        source = DYNAMIC_TOPIC
        topic = cluster.catalogue.topics().get(asked.resource_name)
        if topic is None:
            error = ErrorCode.unknown_topic_or_partition
            text = f"Topic {asked.resource_name} does not exist"
        else:
            configs = topic.configs
    elif asked.resource_type == BROKER:
        if asked.resource_name in ("", str(cluster.node_id)):
            configs = cluster.broker_configs
        else:
            error = ErrorCode.invalid_request
            text = f"Unexpected broker id {asked.resource_name}, expected {cluster.node_id}"
    elif asked.resource_type == GROUP and asked.resource_name:
        configs = group_defaults(cluster.broker_configs)
    else:
        error = ErrorCode.invalid_request
        text = f"Unsupported resource type {asked.resource_type}"
        if asked.resource_type == GROUP:
            text = "Group name must not be empty"
    told = [name for name in sorted(configs) if wanted is None or wanted.has(name)]
    own = cluster.catalogue.group_configs().get(asked.resource_name, {})

    def described(name: str) -> Fields:
        if asked.resource_type == GROUP:
            return _of_group(name, configs[name], own.get(name), request)
        return _config(name, configs[name], source, request)

    return {
        "error_code": error,
        "error_message": text,
        "resource_type": asked.resource_type,
        "resource_name": asked.resource_name,
        "configs": Each(described, told),
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


def _of_group(name: str, broker_value: str, own: str | None, request: Any) -> Fields:
    """A group's own value comes before the server's."""
    known = GROUP_SETTINGS[name]
    is_default = broker_value == known.default
    broker_source = DEFAULT if is_default else STATIC_BROKER
    synonyms = [{"name": known.broker_name, "value": broker_value, "source": broker_source}]
    if own is not None:
        synonyms.insert(0, {"name": name, "value": own, "source": DYNAMIC_GROUP})
    return {
        "name": name,
        "value": broker_value if own is None else own,
        "read_only": False,
        "config_source": synonyms[0]["source"],
        "is_sensitive": False,
        "synonyms": synonyms if getattr(request, "include_synonyms", False) else [],
        "config_type": INT,
        "documentation": known.doc if getattr(request, "include_documentation", False) else None,
    }


def _type_of(value: str) -> int:
    if value in ("true", "false"):
        return BOOLEAN
    return LONG if value.lstrip("-").isdecimal() else STRING


API = NodeApi(32, "DescribeConfigs", 1, 4, _answer)
