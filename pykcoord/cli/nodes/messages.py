"""What a supervisor and a node say to each other: one line of JSON each, over the node's stdin and
stdout.

The supervisor's first line is a `Start`. After that each line is an object with one name:

| to a node | | from a node | |
|---|---|---|---|
| `begin` | epoch and topic id: write your shards | `read` | the newest epoch of my shards |
| `ping` | answer it on your loop | `pong` | the same number |
| `topics` | read them again | `has_topics` | the same number: done |
| `told` | every node has your change of this number | `topics` | I have changed them, so often |
| `ends` | what do you know of the ends of these partitions? | `ends_are` | this |
| `ends_are` | what the others know | `ends` | what do the others know? |
| | | `cleaned` | how far shards are compacted |
| | | `ready` | clients are served |
| | | `failed` | why I end; `lost`: another process may write the directory |
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pykcoord.cli.logs import LogFormat, LogLevel
from pykcoord.cli.serving import Options
from pykcoord.config import Config
from pykcoord.server import Broker
from pykcoord.web import WebOptions

__all__ = ["LINE_BYTES", "Message", "Start", "decoded", "encoded"]

LINE_BYTES = 16 * 1024 * 1024
"""No line is longer: the longest names each shard once."""

Message = dict[str, Any]


@dataclass(frozen=True)
class Start:
    """All that a node needs to know. `node` is its number, from 0, among `brokers`; `starts` counts
    this start and those before. `lock_descriptor` is the directory's lock, which it inherits."""

    node: int
    brokers: Sequence[Broker]
    starts: int
    lock_descriptor: int
    options: Options
    config: Config
    log_format: LogFormat
    log_level: LogLevel

    def to_line(self) -> bytes:
        """As it is sent."""
        fields = asdict(self)
        fields["config"] = self.config.values()
        fields["options"]["directory"] = str(self.options.directory)
        if self.options.end_offsets is not None:
            fields["options"]["end_offsets"] = str(self.options.end_offsets)
        return encoded(fields)

    @staticmethod
    def of_line(line: bytes) -> Start:
        """As it was sent."""
        fields = decoded(line)
        options = fields["options"]
        for name in ("listen", "advertise", "metrics"):
            options[name] = options[name] and (options[name][0], options[name][1])
        if (web := options["web"]) is not None:
            listen = web["listen"]
            options["web"] = WebOptions(**{**web, "listen": (listen[0], listen[1])})
        options["directory"] = Path(options["directory"])
        options["end_offsets"] = options["end_offsets"] and Path(options["end_offsets"])
        fields["options"] = Options(**options)
        fields["config"], _ = Config.of(fields["config"])
        fields["brokers"] = [Broker(*broker) for broker in fields["brokers"]]
        return Start(**fields)


def encoded(message: Message) -> bytes:
    """A line."""
    return json.dumps(message).encode() + b"\n"


def decoded(line: bytes) -> Message:
    """What a line says."""
    message: Message = json.loads(line)
    return message
