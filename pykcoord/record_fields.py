"""What the coordinator keeps and does not interpret, decoded for people: records of share and
streams groups, and what consumers wrote into their group's record.

For `log dump` and `log state` only; nothing that serves requests or
replays a log may use this. Schemas: Kafka's ShareGroup*.json and StreamsGroup*.json, version 0 of
each, as of 4.3 (all flexible).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

from pykcoord._native import decode_assignment, decode_subscription

__all__ = ["assignment_of", "decode_key", "decode_value", "subscription_of", "with_protocol"]


class _Reader:
    """Bounds-checked: every method raises ValueError where the bytes end early."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        taken = self.data[self.at : self.at + size]
        if size < 0 or len(taken) != size:
            raise ValueError("ends in the middle of a field")
        self.at += size
        return taken

    def number(self, form: str) -> int:
        (value,) = struct.unpack(form, self.take(struct.calcsize(form)))
        return int(value)

    def unsigned_varint(self) -> int:
        value = shift = 0
        while (byte := self.take(1)[0]) & 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
            if shift > 28:
                raise ValueError("a varint is too long")
        return value | byte << shift

    @property
    def ended(self) -> bool:
        return self.at == len(self.data)


_Type = Callable[[_Reader], Any]
_Fields = Mapping[str, _Type]


def _integer(form: str) -> _Type:
    return lambda reader: reader.number(form)


def _uuid(reader: _Reader) -> bytes:
    return reader.take(16)


def _data(reader: _Reader) -> bytes | None:
    size = reader.unsigned_varint()
    return reader.take(size - 1) if size else None


def _text(reader: _Reader) -> str | None:
    data = _data(reader)
    return None if data is None else data.decode()


def _array(of: _Type) -> _Type:
    def read(reader: _Reader) -> list[Any] | None:
        count = reader.unsigned_varint()
        # Each element takes a byte at least: no count is believed beyond that.
        if count > len(reader.data) - reader.at + 1:
            raise ValueError("an array longer than the bytes")
        return [of(reader) for _ in range(count - 1)] if count else None

    return read


def _struct(fields: _Fields, tags: Mapping[int, tuple[str, _Type]] | None = None) -> _Type:
    def read(reader: _Reader) -> dict[str, Any]:
        found = {name: of(reader) for name, of in fields.items()}
        for _ in range(reader.unsigned_varint()):
            tag = reader.unsigned_varint()
            data = reader.take(reader.unsigned_varint())
            name, of = (tags or {}).get(tag, (f"tag {tag}", lambda rest: rest.data))
            found[name] = of(_Reader(data))
        return found

    return read


def _nullable(of: _Type) -> _Type:
    return lambda reader: of(reader) if reader.number(">b") > 0 else None


_int8, _int16, _int32, _int64 = (_integer(form) for form in (">b", ">h", ">i", ">q"))
_pair = _struct({"key": _text, "value": _text})
_epochs = {0: ("assignmentEpochs", _array(_int32))}
_topic_partitions: _Fields = {"topicId": _uuid, "partitions": _array(_int32)}
_share_topic = _struct({"topicId": _uuid, "topicName": _text, "partitions": _array(_int32)})
_task: _Fields = {"subtopologyId": _text, "partitions": _array(_int32)}
_tasks = _array(_struct(_task))
_tasks_with_epochs = _array(_struct(_task, _epochs))
_topic_info = _struct(
    {
        "name": _text,
        "partitions": _int32,
        "replicationFactor": _int16,
        "topicConfigs": _array(_pair),
    }
)
_copartition_group = _struct(
    {
        "sourceTopics": _array(_int16),
        "sourceTopicRegex": _array(_int16),
        "repartitionSourceTopics": _array(_int16),
    }
)
_subtopology = _struct(
    {
        "subtopologyId": _text,
        "sourceTopics": _array(_text),
        "sourceTopicRegex": _array(_text),
        "stateChangelogTopics": _array(_topic_info),
        "repartitionSinkTopics": _array(_text),
        "repartitionSourceTopics": _array(_topic_info),
        "copartitionGroups": _array(_copartition_group),
    }
)
_target_assignment = _struct({"assignmentEpoch": _int32}, {0: ("assignmentTimestamp", _int64)})
_target_member = _struct({"topicPartitions": _array(_struct(_topic_partitions))})
_member_epochs: _Fields = {
    "memberEpoch": _int32,
    "previousMemberEpoch": _int32,
    "state": _int8,
}

_VALUES: dict[int, _Type] = {
    10: _struct(
        {
            "rackId": _text,
            "clientId": _text,
            "clientHost": _text,
            "subscribedTopicNames": _array(_text),
        }
    ),
    11: _struct({"epoch": _int32, "metadataHash": _int64}),
    12: _target_assignment,
    13: _target_member,
    14: _struct({**_member_epochs, "assignedPartitions": _array(_struct(_topic_partitions))}),
    15: _struct(
        {
            "initializingTopics": _array(_share_topic),
            "initializedTopics": _array(_share_topic),
            "deletingTopics": _array(_struct({"topicId": _uuid, "topicName": _text})),
        }
    ),
    17: _struct(
        {"epoch": _int32, "metadataHash": _int64},
        {0: ("validatedTopologyEpoch", _int32), 1: ("lastAssignmentConfigs", _array(_pair))},
    ),
    19: _struct(
        {
            "instanceId": _text,
            "rackId": _text,
            "clientId": _text,
            "clientHost": _text,
            "rebalanceTimeoutMs": _int32,
            "topologyEpoch": _int32,
            "processId": _text,
            "userEndpoint": _nullable(_struct({"host": _text, "port": _integer(">H")})),
            "clientTags": _array(_pair),
        }
    ),
    20: _target_assignment,
    21: _struct({"activeTasks": _tasks, "standbyTasks": _tasks, "warmupTasks": _tasks}),
    22: _struct(
        {
            **_member_epochs,
            "activeTasks": _tasks_with_epochs,
            "standbyTasks": _tasks_with_epochs,
            "warmupTasks": _tasks_with_epochs,
            "activeTasksPendingRevocation": _tasks_with_epochs,
            "standbyTasksPendingRevocation": _tasks_with_epochs,
            "warmupTasksPendingRevocation": _tasks_with_epochs,
        }
    ),
    23: _struct({"epoch": _int32, "subtopologies": _array(_subtopology)}),
}
# What follows the group id in the key.
_KEYS = dict.fromkeys((10, 13, 14, 19, 21, 22), "memberId")


def decode_key(raw: bytes) -> dict[str, Any] | None:
    """The fields of a key; None for an unknown type, or bytes that do not fit the type."""
    reader = _Reader(raw)
    try:
        record_type = reader.number(">h")
        if record_type not in _VALUES:
            return None
        found: dict[str, Any] = {"groupId": _key_text(reader)}
        if (name := _KEYS.get(record_type)) is not None:
            found[name] = _key_text(reader)
    except ValueError:
        return None
    return found if reader.ended else None


def decode_value(key: bytes, raw: bytes) -> dict[str, Any] | None:
    """The fields of the value under a key, with its version; None as above, or for a newer
    version."""
    record_type, reader = int.from_bytes(key[:2], "big"), _Reader(raw)
    try:
        version = reader.number(">h")
        if version != 0 or record_type not in _VALUES:
            return None
        found = {"version": version, **_VALUES[record_type](reader)}
    except ValueError:
        return None
    return found if reader.ended else None


def subscription_of(data: bytes) -> dict[str, Any] | None:
    """The fields of a ConsumerProtocolSubscription; None where the bytes are not one."""
    if (decoded := decode_subscription(data)) is None:
        return None
    version, topics, user_data, owned_partitions, generation_id, rack_id = decoded
    return {
        "version": version,
        "topics": topics,
        "ownedPartitions": _sorted(owned_partitions),
        "generationId": generation_id,
        "rackId": rack_id,
        "userData": user_data,
    }


def assignment_of(data: bytes) -> dict[str, Any] | None:
    """The fields of a ConsumerProtocolAssignment; None where the bytes are not one."""
    if (decoded := decode_assignment(data)) is None:
        return None
    version, partitions, user_data = decoded
    return {"version": version, "partitions": _sorted(partitions), "userData": user_data}


def with_protocol(value: dict[str, Any]) -> dict[str, Any]:
    """The value of a record with the subscriptions and assignments in it decoded: those of a
    classic group of consumers, and of a classic member of a consumer group. What cannot be decoded
    stays bytes."""
    if value.get("protocolType") == "consumer":
        return {**value, "members": [_member(member) for member in value["members"]]}
    if classic := value.get("classicMemberMetadata"):
        protocols = [
            {**protocol, "metadata": _subscription_or_bytes(protocol["metadata"])}
            for protocol in classic["supportedProtocols"] or []
        ]
        return {**value, "classicMemberMetadata": {**classic, "supportedProtocols": protocols}}
    return value


def _subscription_or_bytes(data: bytes | None) -> Any:
    return data if data is None else subscription_of(data) or data


def _member(member: dict[str, Any]) -> dict[str, Any]:
    assignment = member["assignment"]
    return {
        **member,
        "subscription": _subscription_or_bytes(member["subscription"]),
        "assignment": assignment_of(assignment) or assignment,
    }


def _sorted(topics: list[tuple[str, list[int]]]) -> dict[str, list[int]]:
    """Partitions in the order of their numbers: the order in the bytes means nothing."""
    return {topic: sorted(partitions) for topic, partitions in topics}


def _key_text(reader: _Reader) -> str:
    return reader.take(reader.number(">h")).decode()
