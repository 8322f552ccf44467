"""`--end-offsets FILE`: where partitions end, as an operator gives it, one a line.

    # topic partition offset
    orders 0 1000
    orders 1 2500

Read at the start, and again when the file changes, or SIGHUP comes where that ends nothing. A line
holds until another replaces it; lines of topics that do not exist yet count once they exist.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Iterator
from pathlib import Path

from pykcoord.catalogue import TopicCatalogue
from pykcoord.errors import KcoordError

logger = logging.getLogger("pykcoord.serve")

_LOOK_SECONDS = 1.0
_MAX_OFFSET = 2**63 - 1

Ends = dict[tuple[str, int], int]


class EndOffsetsError(KcoordError):
    """A line of the file that cannot be read; the message names file and line."""


def read_end_offsets(path: Path) -> Ends:
    """(topic, partition) to end offset. Raises EndOffsetsError, and OSError."""
    ends: Ends = {}
    for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        numbers = [int(word) for word in words[1:] if word.isascii() and word.isdigit()]
        if len(words) != 3 or len(numbers) != 2 or numbers[1] > _MAX_OFFSET:
            raise EndOffsetsError(
                f"{path}: line {number}: {line.strip()!r} is not `TOPIC PARTITION OFFSET`, such as "
                "`orders 3 1000`"
            )
        ends[words[0], numbers[0]] = numbers[1]
    return ends


@contextlib.contextmanager
def following(
    path: Path | None, catalogue: TopicCatalogue, *, on_sighup: bool = True
) -> Iterator[None]:
    """Give the catalogue the offsets of the file, now and as long as this lasts; None: no file.
    `on_sighup`: read it again when that signal comes. Raises what reading raises; a later error is
    a line of log, and the offsets before it hold."""
    if path is None:
        yield
        return
    file = _File(path, catalogue)
    file.read()
    loop = asyncio.get_running_loop()
    if on_sighup:
        loop.add_signal_handler(signal.SIGHUP, file.asked.set)
    task = loop.create_task(file.follow())
    try:
        yield
    finally:
        task.cancel()
        if on_sighup:
            loop.remove_signal_handler(signal.SIGHUP)


class _File:
    def __init__(self, path: Path, catalogue: TopicCatalogue) -> None:
        self.asked = asyncio.Event()
        self._path = path
        self._catalogue = catalogue
        self._stamp: tuple[int, ...] = ()
        self._told_version = -1
        self._ends: Ends = {}

    def read(self) -> None:
        stamp = self._look()
        self._take(stamp, read_end_offsets(self._path))

    async def follow(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self.asked.wait()
            asked = self.asked.is_set()
            self.asked.clear()
            # Off the loop: the file may be on a disk that hangs.
            stamp = await asyncio.to_thread(self._look)
            if asked or stamp != self._stamp:
                await self._read_again(stamp)
            if self._told_version != self._catalogue.version:
                self._tell()

    async def _read_again(self, stamp: tuple[int, ...]) -> None:
        try:
            self._take(stamp, await asyncio.to_thread(read_end_offsets, self._path))
        except (OSError, EndOffsetsError) as error:
            self._stamp = stamp  # applied once, until it changes again
            logger.error(
                "--end-offsets: %s; what was said before holds",
                error,
                extra={"event": "end_offsets", "error": str(error)},
            )

    def _take(self, stamp: tuple[int, ...], ends: Ends) -> None:
        self._stamp, self._ends = stamp, ends
        unknown = self._tell()
        logger.info(
            "ends of %d partitions read from %s%s",
            len(ends),
            self._path,
            f", {unknown} of them of partitions that do not exist" if unknown else "",
            extra={"event": "end_offsets", "partitions": len(ends), "unknown": unknown},
        )

    def _tell(self) -> int:
        """Tell the catalogue what is new, in one change; returns how many partitions it does not
        have."""
        topics = self._catalogue.topics()
        news: Ends = {}
        unknown = 0
        for (name, partition), end in self._ends.items():
            topic = topics.get(name)
            if topic is None or partition >= topic.partitions:
                unknown += 1
            elif topic.end_offset(partition) != end:
                news[name, partition] = end
        if news:
            self._catalogue.set_end_offsets(news)
        self._told_version = self._catalogue.version
        return unknown

    def _look(self) -> tuple[int, ...]:
        """A value that changes with the file's content; empty where there is no file."""
        try:
            status = self._path.stat()
        except OSError:
            return ()
        return status.st_ino, status.st_size, status.st_mtime_ns
