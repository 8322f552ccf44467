"""How the controller of a cluster asks the other nodes: a line of JSON each way, over TCP.

    {"format": 1, "ask": [term, number, next_index, [[shard, epoch], ...]], "topics": 3}
    {"format": 1, "answer": [incarnation, number, term, journal_next, ...], "topics": 3}

    {"format": 1, "ends": {"orders": [0, 1]}, "topics": 0}
    {"format": 1, "ends_are": {"orders": [17, 0]}, "topics": 0}

Any node may ask another for the ends of partitions: what its groups have committed at the most.
And for what happens to its groups from the first such question of a connection on; the answer comes
with the next event, or without any after a while:

    {"format": 1, "events": [], "topics": 0}
    {"format": 1, "events_are": [{"kind": "group_stable", "group_id": "billing", ...}], "topics": 0}

`topics` is the newest version of the topics that the sender knows of; older nodes do not say it.
Nothing depends on an earlier line, and nothing that was lost is sent again. With a secret both
ends begin with a number each, and all lines have a proof:

    {"format": 2, "hello": "5d41..."}
    {"format": 2, "greeting": "7b9c...", "proof": "..."}
    {"format": 2, "ask": [...], "topics": 3, "proof": "..."}

Who does not know the secret is told so in a line with `refused`. A line that says nothing of this
is refused: by who is asked with the end of the connection, by who asks as if there was no answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from pykcoord.clock import monotonic_seconds
from pykcoord.cluster.secret import Sealed, SecretError, new_nonce

__all__ = ["NONE_HERE", "AskClient", "Ends", "HeardEvents", "MalformedError", "serve_asks"]

logger = logging.getLogger("pykcoord.cluster")

_FORMAT = 1
_SEALED_FORMAT = 2
_LINE_BYTES = 4 * 1024 * 1024
# A program that connects has so long for what proves that it knows the secret.
_GREETING_SECONDS = 10.0
# About one address the log says no more often that it was refused.
_SAY_SECONDS = 60.0
_SAID_AT_MOST = 100

# Of who asks, as who is asked sees it; and the other way round.
_OTHER, _NONE, _GIVEN = "another secret", "no secret", "a secret"
_SEEN_BY_ASKED = {
    _OTHER: "it has another secret than this node",
    _NONE: "it has no secret, and this node has one",
    _GIVEN: "it has a secret, and this node has none",
}
_SEEN_BY_ASKER = {
    _OTHER: _SEEN_BY_ASKED[_OTHER],
    _NONE: _SEEN_BY_ASKED[_GIVEN],
    _GIVEN: _SEEN_BY_ASKED[_NONE],
}
# What there may be of each.
_PARTITIONS, _OFFSETS = range(2**31), range(2**63)
NONE_HERE = _SEEN_BY_ASKER[_GIVEN]
"""What SecretError says of a node that has no secret, to one that has."""

Fields = tuple[Any, ...]
Ends = Mapping[str, Sequence[int]]
"""Partitions of topics, or the end of each."""


class MalformedError(ValueError):
    """The other end has said what is none of these lines: `str` says why."""

    def __init__(self, error: Exception) -> None:
        super().__init__(f"what it says cannot be read: {error!r:.200}")


class HeardEvents(Protocol):
    """What happens to groups of a node from now on, for one that asks."""

    async def next(self) -> Sequence[Mapping[str, Any]] | None:
        """What happened since the last call; none after a while without any. None: there will be
        no more."""

    def close(self) -> None:
        """Nobody asks any more."""


_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def serve_asks(
    address: tuple[str, int],
    answer: Callable[[Fields, int], tuple[Fields, int]],
    secret: str | None = None,
    tell_ends: Callable[[Ends], Ends] = lambda wanted: {},
    new_events: Callable[[], HeardEvents] | None = None,
    failed: Callable[[BaseException], None] | None = None,
) -> asyncio.Server:
    """Answer controllers at `address` (host, port; port 0 takes a free one); with `secret` those
    alone that know it. `answer` gets and gives fields and the version of the topics, and raises
    MalformedError for what are none; `new_events` begins to hear events for one connection. What
    they raise beside that and OSError `failed` hears: a fault of the code. Raises OSError where the
    address cannot be had."""
    refused: dict[str, float] = {}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        events: HeardEvents | None = None
        try:
            sealed = await _greeted(reader, writer, secret) if secret is not None else None
            while heard := await _heard(reader, sealed):
                name, fields, topics = heard
                if name == "ends":
                    name, fields, topics = "ends_are", tell_ends(fields), 0
                elif name == "events" and new_events is not None:
                    events = events or new_events()
                    if (told := await events.next()) is None:
                        break
                    name, fields, topics = "events_are", told, 0
                else:
                    name, (fields, topics) = "answer", answer(fields, topics)
                writer.write(_line(name, fields, topics, sealed, is_answer=True))
                await writer.drain()
        except SecretError as error:
            _say(refused, writer, _SEEN_BY_ASKED.get(str(error), str(error)))
            writer.write(_encoded({"format": _SEALED_FORMAT, "refused": str(error)}))
        except MalformedError as error:  # it is none of the cluster's
            _say(refused, writer, str(error))
        except (OSError, asyncio.CancelledError):
            pass  # it is not there any more
        except BaseException as error:
            if failed is None:
                raise
            failed(error)
        finally:
            if events is not None:
                events.close()
            writer.close()

    return await asyncio.start_server(serve, *address, limit=_LINE_BYTES)


def _say(said: dict[str, float], writer: asyncio.StreamWriter, reason: str) -> None:
    host = str((writer.get_extra_info("peername") or ("?",))[0])
    now = monotonic_seconds()
    if now < said.get(host, -_SAY_SECONDS) + _SAY_SECONDS or len(said) > _SAID_AT_MOST:
        return
    said[host] = now
    extra = {"event": "control_refused", "host": host, "reason": reason}
    logger.warning("a node at %s was refused at the control port: %s", host, reason, extra=extra)


async def _greeted(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, secret: str
) -> Sealed:
    async with asyncio.timeout(_GREETING_SECONDS):
        hello = await _read_greeting(reader)
        with _reading():
            if "ask" in hello:
                raise SecretError(_NONE)
            own = new_nonce()
            sealed = Sealed(secret, str(hello["hello"]), own)
        greeting = {"format": _SEALED_FORMAT, "greeting": own, "proof": sealed.greeting()}
        writer.write(_encoded(greeting))
        await writer.drain()
    return sealed


async def _heard(
    reader: asyncio.StreamReader, sealed: Sealed | None
) -> tuple[str, Any, int] | None:
    """The next question: its name, fields, and the version of the topics."""
    if not (line := await _read_line(reader)):
        return None
    with _reading():
        said = json.loads(line)
        name = next(one for one in ("ends", "events", "ask") if one in said or one == "ask")
        fields, topics = _opened(said, name, sealed)
        if name == "ask":
            fields = _as_fields(fields, 3)
        elif name == "ends":
            fields = _as_ends(fields, _PARTITIONS)
        return name, fields, topics


class AskClient:
    """The connection to one node, which must know `secret`. Connects when it is used. What is asked
    while another answer is awaited has its turn after that."""

    def __init__(self, host: str, port: int, secret: str | None = None) -> None:
        self._address = (host, port)
        self._secret = secret
        self._streams: _Streams | None = None
        self._sealed: Sealed | None = None
        self._turn = asyncio.Lock()

    async def ask(self, ask: Fields, timeout_seconds: float, topics: int = 0) -> tuple[Fields, int]:
        """The answer, and the version of the topics there. Raises ConnectionRefusedError where
        nobody listens, TimeoutError where no answer comes in time, SecretError where the other has
        another secret, MalformedError for what is no answer, OSError for all else."""
        answer, known = await self._in_turn(timeout_seconds, "ask", ask, "answer", topics)
        with _reading():
            return _as_fields(answer, 6), known

    async def ends(self, wanted: Ends, timeout_seconds: float) -> Ends:
        """What groups of that node have committed at the most. Raises as `ask`."""
        ends, _ = await self._in_turn(timeout_seconds, "ends", wanted, "ends_are", 0)
        with _reading():
            told = _as_ends(ends, _OFFSETS)
            if any(len(some) != len(wanted[topic]) for topic, some in told.items()):
                raise ValueError("it does not tell one end of each partition")
            return told

    async def events(self, timeout_seconds: float) -> Sequence[Mapping[str, Any]]:
        """What happened to groups of that node since the last call, as JSON has events. Raises as
        `ask`; a node of an earlier version closes the connection."""
        events, _ = await self._in_turn(timeout_seconds, "events", [], "events_are", 0)
        with _reading():
            return [dict(one) for one in events]

    def close(self) -> None:
        """Close the connection: an answer that comes late must not be taken for the next."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def _in_turn(
        self, timeout_seconds: float, name: str, ask: Any, answer: str, topics: int
    ) -> tuple[Any, int]:
        async with asyncio.timeout(timeout_seconds), self._turn:
            try:
                return await self._asked(name, ask, answer, topics)
            except BaseException:
                self.close()
                raise

    async def _asked(self, name: str, ask: Any, answer: str, topics: int) -> tuple[Any, int]:
        was_connected = self._streams is not None
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._address, limit=_LINE_BYTES)
            self._sealed = await self._greet(*self._streams)
        reader, writer = self._streams
        try:
            writer.write(_line(name, ask, topics, self._sealed))
            line = await _read_line(reader)
        except ConnectionError:
            line = b""
        if line:
            with _reading():
                return _opened(json.loads(line), answer, self._sealed)
        self.close()
        if was_connected:  # it ended since; connecting again shows whether the node is gone
            return await self._asked(name, ask, answer, topics)
        raise ConnectionResetError(f"{self._address} closed the connection")

    async def _greet(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> Sealed | None:
        if self._secret is None:
            return None
        own = new_nonce()
        writer.write(_encoded({"format": _SEALED_FORMAT, "hello": own}))
        said = await _read_greeting(reader)
        with _reading():
            _hear_refusal(said)
            sealed = Sealed(self._secret, own, str(said["greeting"]))
            is_right = sealed.is_right(said["proof"], "greeting", None)
        if not is_right:
            # So that the other end hears of it, too.
            writer.write(_line("ask", (0, 0, 0, ()), 0, sealed))
            await writer.drain()
            raise SecretError(_SEEN_BY_ASKER[_OTHER])
        return sealed


def _line(
    name: str, fields: Any, topics: int, sealed: Sealed | None, *, is_answer: bool = False
) -> bytes:
    said = {"format": _FORMAT, name: fields, "topics": topics}
    if sealed is None:
        return _encoded(said)
    if not is_answer:
        sealed.next_line()
    proof = sealed.of(name, [fields, topics])
    return _encoded({**said, "format": _SEALED_FORMAT, "proof": proof})


def _opened(said: dict[str, Any], name: str, sealed: Sealed | None) -> tuple[Any, int]:
    """What a line says, and the version of the topics there. Raises SecretError for one without
    the proof that it must have, and anything for what is none."""
    _hear_refusal(said)
    if sealed is None:
        if "hello" in said:
            raise SecretError(_GIVEN)
        if said.get("format") != _FORMAT:
            raise ValueError(f"format {said.get('format')} is not {_FORMAT}")
        return said[name], int(said.get("topics", 0))
    fields, topics = said[name], int(said["topics"])
    if name in ("ask", "ends", "events"):
        sealed.next_line()
    if not sealed.is_right(said.get("proof"), name, [fields, topics]):
        raise SecretError(_OTHER)
    return fields, topics


def _hear_refusal(said: dict[str, Any]) -> None:
    if (refused := said.get("refused")) is not None:
        raise SecretError(_SEEN_BY_ASKER.get(str(refused), f"it refuses this node: {refused}"))


@contextlib.contextmanager
def _reading() -> Iterator[None]:
    """Whatever is wrong with what the other end says is no fault of this one."""
    try:
        yield
    except (SecretError, OSError):
        raise
    except Exception as error:
        raise MalformedError(error) from None


async def _read_line(reader: asyncio.StreamReader) -> bytes:
    """A line; empty at the end of the connection, also where that is within a line."""
    with _reading():
        line = await reader.readline()
    return line if line.endswith(b"\n") else b""


async def _read_greeting(reader: asyncio.StreamReader) -> Any:
    if not (line := await _read_line(reader)):
        raise ConnectionResetError("the other end has nothing to say")
    with _reading():
        return json.loads(line)


def _as_fields(said: Any, shards: int) -> Fields:
    """As they were sent, for JSON has no tuples. Who takes them knows what else they are to be."""
    fields = [*said]
    fields[shards] = [tuple(one) for one in fields[shards]]
    return tuple(fields)


def _as_ends(said: Any, numbers: range) -> Ends:
    for topic, some in said.items():
        topic.encode()
        if type(some) is not list or not all(type(one) is int and one in numbers for one in some):
            raise ValueError(f"these are no numbers of {topic}: {some}")
    ends: Ends = said
    return ends


def _encoded(said: dict[str, Any]) -> bytes:
    return json.dumps(said).encode() + b"\n"
