"""A node that does what a test says: the runtime's and the sockets' other side.

Heartbeat is answered at once, JoinGroup when `join_answers` says so, OffsetCommit once its
append is committed; key 99 is invalid, every other key is foreign.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pykcoord.session import Session

COMMIT, JOIN, HEARTBEAT, INVALID = 8, 11, 12, 99
NOT_COORDINATOR = b"\x00\x10"


@dataclass
class ScriptedTurn:
    parts: list[tuple[int, bytes]] = field(default_factory=list)
    replies: list[tuple[int, bytes]] = field(default_factory=list)
    appends: list[tuple[int, int, int, int, int, bytes, int, int, bool]] = field(
        default_factory=list
    )
    verifications: list[tuple[int, str, int, int, int, bool, int]] = field(default_factory=list)
    foreign: list[int] = field(default_factory=list)
    invalid: list[tuple[int, str]] = field(default_factory=list)
    events: list[tuple[Any, ...]] = field(default_factory=list)
    starts_left_out: int = 0
    recorded: Any = None
    next_timeout_ms: int | None = None

    def reply(self, ticket: int, frame: bytes, body: bytes) -> None:
        reply = struct.pack(">i", 4 + len(body)) + frame[4:8] + body
        self.replies.append((ticket, reply))


class ScriptedLoader:
    def __init__(self) -> None:
        self.chunks: list[bytes] = []

    def replay(self, chunk: bytes) -> None:
        self.chunks.append(chunk)


class ScriptedNode:
    """`steps` holds (now_ms, frames, committed) of every step."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, list[tuple[int, Session, bytes]], list[tuple[int, int]]]] = []
        self.topics: list[tuple[str, bytes, int]] = []
        self.parked_joins: dict[int, bytes] = {}
        self.parked_commits: dict[int, tuple[int, bytes]] = {}
        self.next_offset = 0
        self.abandoned: list[int] = []
        self.dropped: list[int] = []
        self.replayed: list[tuple[int, bytes]] = []
        self.loads: list[tuple[int, int]] = []
        self.answer_joins = False
        self.timeouts: list[int] = []
        self.unsent_bytes: list[int] = []
        self.timers: list[bool] = []
        self.more_turns = 0
        self.error: BaseException | None = None
        self.loaded_shards: set[int] = set()
        self.furthest: dict[tuple[str, int], int] = {}
        self.events: list[tuple[Any, ...]] = []
        self.tells_events = False
        self.extra_appends: list[tuple[int, int, int, int, int, bytes, int, int, bool]] = []

    def set_topics(
        self,
        topics: list[tuple[str, bytes, int]],
        end_offsets: dict[str, dict[int, int]] | None = None,
        racks: dict[str, list[list[str]]] | None = None,
    ) -> None:
        self.topics = topics
        self.end_offsets = end_offsets

    def change_topics(
        self,
        changed: list[tuple[str, bytes, int]],
        gone: list[str],
        ends: dict[str, dict[int, int]] | None = None,
    ) -> None:
        names = {*gone, *(name for name, *_ in changed)}
        self.topics = [topic for topic in self.topics if topic[0] not in names] + changed
        self.end_offsets = {**(self.end_offsets or {}), **(ends or {})}

    def set_group_configs(self, groups: list[Any]) -> None:
        self.group_configs = groups

    def poll_target_job(self) -> Any:
        return None

    def bring_targets(self, number: int, targets: Any) -> None: ...

    def refuse_targets(self, number: int, reason: str) -> None: ...

    def furthest_offsets(self, topic: str, partitions: Sequence[int]) -> list[int]:
        return [self.furthest.get((topic, partition), 0) for partition in partitions]

    def loader(self) -> ScriptedLoader:
        return ScriptedLoader()

    def adopt(self, shard: int, loader: ScriptedLoader) -> None:
        self.replayed += [(shard, chunk) for chunk in loader.chunks]

    def set_away(self, shard: int, away: bool) -> None:
        assert shard not in self.loaded_shards

    def loaded(self, shard: int, now_ms: int, next_offset: int) -> None:
        self.loads.append((shard, next_offset))
        self.loaded_shards.add(shard)
        self.next_offset = next_offset

    def serve_transactions(self, verified: bool) -> None: ...

    def verified(self, ticket: int, error_code: int) -> None: ...

    def record_events(self, on: bool) -> None:
        self.records_events = on

    def tell_starts(self, most: int) -> None: ...

    def tell_events(self, on: bool) -> None:
        self.tells_events = on

    def abandon(self, ticket: int) -> None:
        self.abandoned.append(ticket)
        self.parked_joins.pop(ticket, None)

    def drop_shard(self, shard: int) -> ScriptedTurn:
        self.dropped.append(shard)
        self.loaded_shards.discard(shard)
        turn = ScriptedTurn()
        if shard != 0:  # all groups are of the first
            return turn
        for ticket, (_, frame) in self.parked_commits.items():
            turn.reply(ticket, frame, NOT_COORDINATOR)
        for ticket, frame in self.parked_joins.items():
            turn.reply(ticket, frame, NOT_COORDINATOR)
        self.parked_commits.clear()
        self.parked_joins.clear()
        return turn

    def step(
        self,
        now_ms: int,
        frames: list[tuple[int, Session, bytes]],
        committed: list[tuple[int, int]],
        unsent_bytes: int = 0,
        timers: bool = True,
    ) -> ScriptedTurn:
        if self.error is not None:
            raise self.error
        self.unsent_bytes.append(unsent_bytes)
        self.timers.append(timers)
        self.steps.append((now_ms, frames, committed))
        turn = ScriptedTurn(events=self.events)
        self.events = []
        for ticket, _, frame in frames:
            self._handle(turn, now_ms, ticket, frame)
        if self.answer_joins:
            for ticket, frame in self.parked_joins.items():
                turn.reply(ticket, frame, b"joined")
            self.parked_joins.clear()
        for offset in [end for shard, end in committed if shard == 0]:
            for ticket, (end, frame) in list(self.parked_commits.items()):
                if end <= offset:
                    turn.reply(ticket, frame, b"durable")
                    del self.parked_commits[ticket]
        if timers:
            self.timeouts = [at for at in self.timeouts if at > now_ms]
        turn.next_timeout_ms = min(self.timeouts, default=None)
        if self.more_turns:
            self.more_turns -= 1
            turn.next_timeout_ms = now_ms
        return turn

    def _handle(self, turn: ScriptedTurn, now_ms: int, ticket: int, frame: bytes) -> None:
        (key,) = struct.unpack_from(">h", frame)
        if key == HEARTBEAT:
            turn.reply(ticket, frame, b"beat")
        elif key == JOIN:
            self.parked_joins[ticket] = frame
        elif key == COMMIT and 0 not in self.loaded_shards:
            turn.reply(ticket, frame, NOT_COORDINATOR)
        elif key == COMMIT:
            turn.appends.append((0, self.next_offset, 1, now_ms, now_ms, b"record"))
            self.next_offset += 1
            turn.appends += self.extra_appends
            self.extra_appends = []
            self.parked_commits[ticket] = (self.next_offset, frame)
        elif key == INVALID:
            turn.invalid.append((ticket, "the script says so"))
        else:
            turn.foreign.append(ticket)
