"""Fetch of those who follow this node: what they have, what they get, and how long they wait.

A follower is answered as soon as there are records for it, but not more often than every
`GATHER_SECONDS`: what is appended meanwhile goes with them. That a high watermark moved is told
with the next records of the partition, or when the wait is over, or within `MARK_SECONDS`: an
answer for each move would cost more than the records.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterable

from kio.schema.errors import ErrorCode

from pykcoord.clock import monotonic_seconds
from pykcoord.log.folders import TOPIC
from pykcoord.node._fetch_frames import Asked, Partition, answer
from pykcoord.node.fetch_sessions import FetchSession, FetchSessions, Followed, Key, SessionError
from pykcoord.node.image import Image
from pykcoord.node.store import Led, NodeLog

__all__ = [
    "EPOCH_SECONDS",
    "GATHER_SECONDS",
    "MARK_SECONDS",
    "FollowerFetch",
    "FollowerFetches",
    "epoch_error",
    "most_bytes_of",
]

# How long a request of a later leader epoch waits for the metadata log to say so.
EPOCH_SECONDS = 0.5
GATHER_SECONDS = 0.003
MARK_SECONDS = 0.1
# Kafka's fetch.max.bytes: whatever is asked for, no answer is larger, but for one batch that is.
MOST_BYTES = 55 << 20

_NONE = ErrorCode.none.value
_NOT_LEADER = ErrorCode.not_leader_or_follower.value
_OUT_OF_RANGE = ErrorCode.offset_out_of_range.value
_UNKNOWN_PARTITION = ErrorCode.unknown_topic_or_partition.value
_UNKNOWN_ID = ErrorCode.unknown_topic_id.value


def epoch_error(led: Led | None, epoch: int) -> int:
    """Why this node does not answer as the leader in that leader epoch; 0: it does."""
    if led is None:
        return _NOT_LEADER
    known = led.partition.leader_epoch
    if epoch in (-1, known):
        return _NONE
    early = ErrorCode.fenced_leader_epoch, ErrorCode.unknown_leader_epoch
    return int(early[epoch > known].value)


def most_bytes_of(asked: int) -> int:
    """How many bytes of records an answer has where so many are asked for."""
    return max(1, min(asked, MOST_BYTES))


class FollowerFetch:
    """A request. `timer` ends its wait, `soon` is its answer on the way."""

    __slots__ = ("asked", "correlation_id", "is_over", "reply", "session", "soon", "timer")

    def __init__(
        self,
        correlation_id: bytes,
        asked: Asked,
        session: FetchSession,
        reply: Callable[[bytes], None],
    ) -> None:
        self.correlation_id = correlation_id
        self.asked = asked
        self.session = session
        self.reply = reply
        self.is_over = False
        self.timer: asyncio.TimerHandle | None = None
        self.soon: asyncio.Handle | None = None

    def end(self) -> None:
        """No answer leaves any more."""
        self.is_over = True
        for handle in (self.timer, self.soon):
            if handle is not None:
                handle.cancel()


class FollowerFetches:
    """`image()` is what the metadata log says now. To be told of each append, each move of a high
    watermark, and each partition that is led from now on, or is not any more."""

    def __init__(self, log: NodeLog, topic_id: uuid.UUID, image: Callable[[], Image]) -> None:
        self.sent_bytes = 0
        self._log = log
        self._topic_id = topic_id.bytes
        self._image = image
        self._sessions = FetchSessions()
        self._waiting: dict[FetchSession, FollowerFetch] = {}
        self._early: set[FollowerFetch] = set()

    def take(
        self, correlation_id: bytes, asked: Asked, reply: Callable[[bytes], None]
    ) -> FollowerFetch | None:
        """Calls `reply` with the frame of the answer: at once, or when the request that is given
        back is over."""
        try:
            session = self._sessions.of(asked, monotonic_seconds())
        except SessionError as error:
            reply(answer(correlation_id, error.code, 0, []))
            return None
        for topic_id, number in asked.forgotten:
            led = self._log.led.get(number)
            if topic_id == self._topic_id and led is not None:
                led.partition.dropped(asked.replica)
        fetch = FollowerFetch(correlation_id, asked, session, reply)
        if self._is_early(asked):
            self._early.add(fetch)
            loop = asyncio.get_running_loop()
            fetch.timer = loop.call_later(EPOCH_SECONDS, self._begin, fetch)
        else:
            self._begin(fetch)
        return None if fetch.is_over else fetch

    def abandon(self, fetch: FollowerFetch) -> None:
        """The client is gone."""
        fetch.end()
        self._early.discard(fetch)
        if self._waiting.get(fetch.session) is fetch:
            del self._waiting[fetch.session]

    def appended(self, numbers: Iterable[int]) -> None:
        """Records of these partitions are there."""
        for session in self._following(numbers):
            if (fetch := self._waiting.get(session)) is not None and self._is_enough(fetch):
                self._answer_soon(fetch)

    def watermarks_moved(self, numbers: Iterable[int]) -> None:
        """So did the high watermarks of these partitions."""
        keys = [(self._topic_id, number) for number in numbers]
        for session in self._all():
            session.marks.update((key, None) for key in keys if key in session.asked)

    def led_otherwise(self, number: int) -> None:
        """It is led from now on, or not any more."""
        for session in self._following((number,)):
            if (fetch := self._waiting.get(session)) is not None:
                self._answer_soon(fetch)

    def image_moved(self) -> None:
        """The metadata log went on, and what this node leads was brought in line."""
        for fetch in list(self._early):
            if not self._is_early(fetch.asked):
                self._begin(fetch)

    def _all(self) -> list[FetchSession]:
        return [*self._sessions, *(one for one in self._waiting if not one.session_id)]

    def _following(self, numbers: Iterable[int]) -> list[FetchSession]:
        """The sessions that follow one of the partitions, which have to look at it."""
        keys = [(self._topic_id, number) for number in numbers]
        return [session for session in self._all() if session.look_at(keys)]

    def _is_early(self, asked: Asked) -> bool:
        """Followers may know of a new leader before this node does."""
        for topic_id, number, epoch, *_ in asked.named:
            if topic_id != self._topic_id:
                continue
            led = self._log.led.get(number)
            if led is not None:
                if epoch > led.partition.leader_epoch:
                    return True
                continue
            known = self._image().of(TOPIC).get(number)
            if epoch >= 0 and known is not None and epoch >= known.leader_epoch:
                return True
        return False

    def _begin(self, fetch: FollowerFetch) -> None:
        """Takes in what the follower has, and answers it, or has it wait."""
        self._early.discard(fetch)
        if fetch.timer is not None:
            fetch.timer.cancel()
        session, asked = fetch.session, fetch.asked
        session.heard.at = monotonic_seconds()
        has: list[tuple[int, int]] = []
        is_urgent = is_there_more = False
        for key in list(session.news):
            followed = session.asked[key]
            led, code, diverging = self._examine(key, followed, asked.replica)
            if led is None or code or diverging is not None:
                is_urgent = True
                continue
            has.append((key[1], followed.offset))
            if led.partition.end > followed.offset:
                is_there_more = True
            elif followed.told is not None:
                del session.news[key]
        if has:
            self._log.fetched(asked.replica, asked.replica_epoch, has, session.heard)
        self._waiting[session] = fetch
        if asked.wait_ms <= 0:
            self._answer(fetch)
        elif is_urgent or (is_there_more and self._is_enough(fetch)):
            self._answer_soon(fetch)
        else:
            loop = asyncio.get_running_loop()
            fetch.timer = loop.call_later(asked.wait_ms / 1000, self._answer, fetch)

    def _is_enough(self, fetch: FollowerFetch) -> bool:
        """Whether there are as many bytes as the follower waits for; there is something."""
        left = fetch.asked.min_bytes
        if left <= 1:
            return True
        for key in fetch.session.news:
            followed = fetch.session.asked[key]
            left -= len(self._row(key, followed, fetch.asked.replica, followed.most_bytes)[5])
        return left <= 0

    def _answer_soon(self, fetch: FollowerFetch) -> None:
        if fetch.soon is not None:
            return
        loop = asyncio.get_running_loop()
        left = fetch.session.answered_at + GATHER_SECONDS - monotonic_seconds()
        if left <= 0:
            fetch.soon = loop.call_soon(self._answer, fetch)
        else:
            fetch.soon = loop.call_later(left, self._answer, fetch)

    def _answer(self, fetch: FollowerFetch) -> None:
        fetch.end()
        session, asked = fetch.session, fetch.asked
        if self._waiting.get(session) is fetch:
            del self._waiting[session]
        session.answered_at = now = monotonic_seconds()
        most_bytes = left = most_bytes_of(asked.max_bytes)
        topics: dict[bytes, list[Partition]] = {}
        for key in list(session.news):
            followed = session.asked[key]
            row = self._row(key, followed, asked.replica, min(left, followed.most_bytes))
            _, code, *marks, records, diverging, _ = row
            left = max(left - len(records), 0)
            is_first = followed.told is None
            if code or records or diverging is not None or is_first:
                followed.told = None if code else marks
                topics.setdefault(key[0], []).append(row)
            if not code and diverging is None and (records or not self._has_more(key, followed)):
                del session.news[key]  # a request names what has changed by that
        if session.marks and (not topics or now - session.marks_told_at >= MARK_SECONDS):
            session.marks_told_at = now
            self._tell_marks(session, topics)
        self.sent_bytes += most_bytes - left
        frame = answer(fetch.correlation_id, _NONE, session.session_id, list(topics.items()))
        fetch.reply(frame)

    def _tell_marks(self, session: FetchSession, topics: dict[bytes, list[Partition]]) -> None:
        """High watermarks that have moved since they were told."""
        marked, session.marks = session.marks, {}
        for key in marked:
            led, followed = self._log.led.get(key[1]), session.asked.get(key)
            if led is None or followed is None or followed.led is not led:
                continue
            marks = [led.partition.high_watermark, led.stable, led.log.start_offset]
            if followed.told is not None and marks != followed.told:
                followed.told = marks
                row = (key[1], _NONE, marks[0], marks[1], marks[2], b"", None, None)
                topics.setdefault(key[0], []).append(row)

    def _has_more(self, key: Key, followed: Followed) -> bool:
        led = self._log.led.get(key[1])
        return led is not None and led.partition.end > followed.offset

    def _examine(
        self, key: Key, followed: Followed, replica: int
    ) -> tuple[Led | None, int, tuple[int, int] | None]:
        """The partition, where it is led here; the error; where the follower's log is another one
        (epoch, end)."""
        topic_id, number = key
        if topic_id == self._topic_id and followed.led is not None:
            if self._log.led.get(number) is followed.led:
                return followed.led, _NONE, None
            followed.led = None
        if topic_id != self._topic_id:
            is_known = uuid.UUID(bytes=topic_id) in self._image().names
            return None, _NOT_LEADER if is_known else _UNKNOWN_ID, None
        led = self._log.led.get(number)
        code = epoch_error(led, followed.leader_epoch)
        if code or led is None:
            return None, code, None
        partition, log, offset = led.partition, led.log, followed.offset
        if replica not in partition.followers:
            return None, _UNKNOWN_PARTITION, None
        if followed.last_epoch >= 0:
            at, end = log.end_of_epoch(followed.last_epoch)
            if at < 0:
                return led, _OUT_OF_RANGE, None
            if at < followed.last_epoch or end < offset:
                return led, _NONE, (at, end)
        if not log.start_offset <= offset <= partition.end:
            return led, _OUT_OF_RANGE, None
        followed.led = led
        return led, _NONE, None

    def _row(self, key: Key, followed: Followed, replica: int, most_bytes: int) -> Partition:
        led, code, diverging = self._examine(key, followed, replica)
        number = key[1]
        if led is None:
            return number, code, -1, -1, -1, b"", None, self._leader(key)
        partition, log, records = led.partition, led.log, b""
        if not code and diverging is None and most_bytes > 0:
            records = self._log.read(led, followed.offset, most_bytes)
        leader = self._leader(key) if code else None
        marks = partition.high_watermark, led.stable, log.start_offset
        return number, code, *marks, records, diverging, leader

    def _leader(self, key: Key) -> tuple[int, int] | None:
        """(broker, leader epoch), as the metadata log has it."""
        topic_id, number = key
        image = self._image()
        name = TOPIC if topic_id == self._topic_id else image.names.get(uuid.UUID(bytes=topic_id))
        known = image.of(name).get(number) if name is not None else None
        return None if known is None else (known.leader, known.leader_epoch)
