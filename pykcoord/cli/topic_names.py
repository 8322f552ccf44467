"""Names of topics by their ids: records of consumer groups have ids alone."""

from __future__ import annotations

import contextlib
from pathlib import Path

from pykcoord.catalogue import STATE_FILE, stored_topics
from pykcoord.errors import KcoordError
from pykcoord.log.state_file import StateFile
from pykcoord.log.transfer import kafka_topics

__all__ = ["topic_names"]


def topic_names(path: Path) -> dict[bytes, str]:
    """Names from what lies beside a log: a catalogue, or the folders of a broker's topics.

    `path` is a data directory, one partition's folder, or a segment file. What cannot be read is
    left out: a log is worth looking at without names.
    """
    names: dict[bytes, str] = {}
    path = path.absolute()
    for directory in (path, path.parent, path.parent.parent)[: 2 if path.is_dir() else 3]:
        if not directory.is_dir():
            continue
        with contextlib.suppress(OSError, KcoordError):
            for topic in stored_topics(StateFile(directory / STATE_FILE)):
                names.setdefault(topic.topic_id.bytes, topic.name)
        with contextlib.suppress(OSError):
            for name, topic_id, _ in kafka_topics([directory]):
                if topic_id is not None:
                    names.setdefault(topic_id, name)
    return names
