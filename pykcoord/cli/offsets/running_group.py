"""A group of a running coordinator, pykcoord's or Kafka's, through kafka-python's admin client."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pykcoord.errors import KcoordError
from pykcoord.offset_history import CommittedOffset

try:
    from kafka import KafkaAdminClient, TopicPartition
    from kafka import errors as kafka_errors
    from kafka.admin import MemberToRemove
    from kafka.structs import OffsetAndMetadata
except ImportError:
    raise ModuleNotFoundError(
        "pykcoord offsets restore needs kafka-python: pip install 'pykcoord[kafka-python]'",
        name="kafka",
    ) from None

__all__ = ["RunningGroup"]

_Place = tuple[str, int]
_REASON = "pykcoord offsets restore --force"
_WORDS = {
    "UnknownTopicOrPartitionError": "the topic or partition does not exist any more",
    "UnknownMemberIdError": "the group has members by now",
    "IllegalGenerationError": "the group has members by now",
    "GroupSubscribedToTopicError": "the group has members by now that read the topic",
}


class RunningGroup:
    """One group; its errors are KcoordErrors that say which server."""

    def __init__(self, admin: Any, group_id: str, servers: str) -> None:
        self._admin = admin
        self._group_id = group_id
        self._servers = servers

    @classmethod
    @contextmanager
    def connected(cls, servers: str, group_id: str) -> Iterator[RunningGroup]:
        """Within it, connected. Raises KcoordError where no server answers, or it refuses."""
        admin = None
        try:
            admin = KafkaAdminClient(bootstrap_servers=servers, client_id="pykcoord-offsets")
            yield cls(admin, group_id, servers)
        except kafka_errors.KafkaError as error:
            raise KcoordError(f"{servers}: {_reason(type(error))} ({error})") from None
        finally:
            if admin is not None:
                admin.close()

    def offsets(self) -> dict[_Place, int]:
        """What it has committed now."""
        found = self._admin.list_group_offsets(self._group_id)[self._group_id]
        return {(at.topic, at.partition): of.offset for at, of in found.items() if of.offset >= 0}

    def make_empty(self, *, force: bool) -> None:
        """Raises KcoordError if it has members; with `force` they are removed instead."""
        described = self._admin.describe_groups([self._group_id])[self._group_id]
        members = described["members"]
        if not members:
            return
        if not force:
            named = ", ".join(member["client_id"] for member in members[:3])
            raise KcoordError(
                f"{self._servers}: group {self._group_id!r} has {len(members)} members ({named}), "
                "which would commit over it; stop them, or say --force, which removes them"
            )
        gone = []
        for one in members:
            instance_id = one.get("group_instance_id") or None
            member_id = None if instance_id else one["member_id"]
            gone.append(MemberToRemove(member_id, instance_id, _REASON))
        self._admin.remove_group_members(self._group_id, gone)

    def commit(self, offsets: Mapping[_Place, CommittedOffset]) -> dict[_Place, str]:
        """Commits them; those that were refused, with why."""
        if not offsets:
            return {}
        asked = {
            TopicPartition(*at): OffsetAndMetadata(of.offset, of.metadata, of.leader_epoch)
            for at, of in offsets.items()
        }
        return _refused(self._admin.alter_group_offsets(self._group_id, asked))

    def remove(self, places: Sequence[_Place]) -> dict[_Place, str]:
        """Removes the offsets of these partitions; those that were refused, with why."""
        if not places:
            return {}
        asked = [TopicPartition(*at) for at in places]
        return _refused(self._admin.delete_group_offsets(self._group_id, asked))


def _refused(results: Mapping[Any, type[Exception]]) -> dict[_Place, str]:
    return {
        (at.topic, at.partition): _reason(error)
        for at, error in results.items()
        if error is not kafka_errors.NoError
    }


def _reason(error: type[BaseException]) -> str:
    return _WORDS.get(error.__name__, error.__name__.removesuffix("Error"))
