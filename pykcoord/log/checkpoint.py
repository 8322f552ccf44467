"""The small text files beside the segments: epochs, topic id, and the directory's own properties.

`leader-epoch-checkpoint` is derived from the batches and rebuilt where it is missing or damaged,
`cleaner-offset-checkpoint` spares work only; the others are replaced whole or not at all. None is
ever edited in place.
"""

from __future__ import annotations

import base64
import itertools
from pathlib import Path
from typing import NamedTuple

from pykcoord.errors import CorruptLogError
from pykcoord.log.durable import replacing, sync_directory

__all__ = [
    "CLEANER_FILE",
    "EPOCH_FILE",
    "PROPERTIES_FILE",
    "Properties",
    "decoded_id",
    "read_cleaner_offsets",
    "read_epochs",
    "read_properties",
    "write_cleaner_offsets",
    "write_epochs",
    "write_partition_metadata",
    "write_properties",
]

CLEANER_FILE = "cleaner-offset-checkpoint"
EPOCH_FILE = "leader-epoch-checkpoint"
PROPERTIES_FILE = "pykcoord.properties"


class Properties(NamedTuple):
    """What a directory says of itself: how many `partitions` it has, the `leader_epoch` that was
    given last. `topic_id` is that of `__consumer_offsets`, 16 bytes;
    `is_whole`: the folders of all partitions were made, so that one that is not there is lost."""

    partitions: int
    leader_epoch: int
    topic_id: bytes
    is_whole: bool = False


def read_epochs(directory: Path) -> list[tuple[int, int]]:
    """(leader epoch, first offset), ascending; empty if the file is missing or makes no sense."""
    try:
        lines = (directory / EPOCH_FILE).read_text("ascii").split("\n")
        epochs = [(int(epoch), int(start)) for epoch, start in map(str.split, lines[2:-1])]
        sound = lines[0] == "0" and int(lines[1]) == len(epochs)
    except (FileNotFoundError, ValueError, IndexError):
        return []
    ascending = all(one[0] < two[0] and one[1] <= two[1] for one, two in itertools.pairwise(epochs))
    return epochs if sound and ascending else []


def write_epochs(directory: Path, epochs: list[tuple[int, int]]) -> None:
    """Kafka's LeaderEpochCheckpointFile: version, count, one line per epoch."""
    lines = ["0", str(len(epochs)), *(f"{epoch} {start}" for epoch, start in epochs)]
    _replace(directory / EPOCH_FILE, "\n".join(lines) + "\n")


def write_partition_metadata(directory: Path, topic_id: bytes) -> None:
    """Kafka's PartitionMetadataFile: version and topic id."""
    _replace(directory / "partition.metadata", f"version: 0\ntopic_id: {_encoded(topic_id)}")


def read_cleaner_offsets(directory: Path, topic: str) -> dict[int, int]:
    """Partition of `topic` to the first offset that is not clean (Kafka's OffsetCheckpointFile);
    empty if the file is missing or makes no sense: then all of it counts as dirty."""
    return {
        partition: offset
        for (of, partition), offset in _read_offsets(directory / CLEANER_FILE).items()
        if of == topic
    }


def write_cleaner_offsets(directory: Path, topic: str, offsets: dict[int, int]) -> None:
    """Replaces what the file says of `topic`; what Kafka wrote there of others stays."""
    known = _read_offsets(directory / CLEANER_FILE)
    known = {place: offset for place, offset in known.items() if place[0] != topic}
    known |= {(topic, partition): offset for partition, offset in offsets.items()}
    rows = [f"{of} {partition} {offset}" for (of, partition), offset in known.items()]
    _replace(directory / CLEANER_FILE, "\n".join(["0", str(len(rows)), *rows]) + "\n")


def read_properties(directory: Path) -> Properties | None:
    """None for a directory that pykcoord has not written. CorruptLogError if it makes no sense."""
    path = directory / PROPERTIES_FILE
    try:
        lines = path.read_text("ascii").splitlines()
    except FileNotFoundError:
        return None
    except ValueError:
        lines = []
    pairs = dict(line.split("=", 1) for line in lines if "=" in line)
    try:
        found = Properties(
            int(pairs["offsets.topic.num.partitions"]),
            int(pairs["leader.epoch"]),
            decoded_id(pairs["topic.id"]),
            pairs.get("folders") == "whole",
        )
        if pairs["version"] != "1" or found.partitions < 1 or len(found.topic_id) != 16:
            raise ValueError(pairs)
    except (KeyError, ValueError):
        advice = "delete the file: it is written anew from the folders and their epochs"
        raise CorruptLogError(path, 0, -1, "not pykcoord's properties", advice) from None
    return found


def write_properties(directory: Path, properties: Properties) -> None:
    """Replaces the properties, durably."""
    text = (
        "# Written by pykcoord at every start. The log itself has Kafka's layout.\n"
        "version=1\n"
        f"offsets.topic.num.partitions={properties.partitions}\n"
        f"leader.epoch={properties.leader_epoch}\n"
        f"topic.id={_encoded(properties.topic_id)}\n"
        f"folders={'whole' if properties.is_whole else 'unfinished'}\n"
    )
    _replace(directory / PROPERTIES_FILE, text)
    sync_directory(directory)


def decoded_id(text: str) -> bytes:
    """Kafka's Uuid.fromString. Raises ValueError."""
    return base64.urlsafe_b64decode(text + "==")


def _read_offsets(path: Path) -> dict[tuple[str, int], int]:
    try:
        lines = path.read_text("ascii").split("\n")
        rows = [line.split() for line in lines[2:-1]]
        offsets = {(of, int(partition)): int(offset) for of, partition, offset in rows}
        sound = lines[0] == "0" and int(lines[1]) == len(rows)
    except (FileNotFoundError, ValueError, IndexError):
        return {}
    return offsets if sound else {}


def _replace(path: Path, text: str) -> None:
    with replacing(path) as file:
        file.write(text.encode("ascii"))


def _encoded(topic_id: bytes) -> str:
    # Kafka's Uuid.toString.
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode("ascii")
