"""Where the partitions of the cluster end that groups of this node read: asked of their leaders,
and said to the catalogue, by which lag is measured.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

from pykcoord.catalogue import TopicCatalogue
from pykcoord.clock import monotonic_seconds
from pykcoord.kafka import ClientProperties, Cluster, ClusterError
from pykcoord.kafka.ends import Ends

__all__ = ["ClusterEnds"]

logger = logging.getLogger("pykcoord.node")

_SECONDS = 10.0
# Between two rounds at least so many times what the last one took.
_PAUSE_FACTOR = 20.0


class ClusterEnds:
    """Asks from `start` to `close`. `furthest(topic, partitions)` is what groups here have
    committed at the most: of topics of which nothing is, nothing is asked."""

    def __init__(
        self,
        properties: ClientProperties,
        catalogue: TopicCatalogue,
        furthest: Callable[[str, Sequence[int]], Sequence[int]],
    ) -> None:
        self._properties = properties
        self._catalogue = catalogue
        self._furthest = furthest
        self._opening = asyncio.Lock()
        self._cluster: Cluster | None = None
        self._ends: Ends | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to ask. What no leader says keeps its former end."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Ask no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._cluster is not None:
            await self._cluster.close()

    async def refresh(self) -> None:
        """Ask for all now. Raises ClusterError where no broker is there."""
        cluster = await self._opened()
        if self._ends is None:
            self._ends = Ends(cluster)
        await self._ends.refresh(await self._committed())
        topics = self._catalogue.topics()
        news = {}
        for (name, partition), end in self._ends.known.items():
            topic = topics.get(name)
            if topic is None or partition >= topic.partitions:
                continue
            if topic.end_offsets.get(partition) != end.offset:
                news[name, partition] = end.offset
        if news:
            self._catalogue.set_end_offsets(news)

    async def of(self, topics: Iterable[str]) -> dict[tuple[str, int], int]:
        """Where the partitions of these topics end now; what no leader says is missing. Raises
        ClusterError."""
        ends = Ends(await self._opened())
        await ends.refresh(topics)
        return {place: end.offset for place, end in ends.known.items()}

    async def _run(self) -> None:
        while True:
            began = monotonic_seconds()
            try:
                await self.refresh()
            except ClusterError as error:
                logger.debug("ends of partitions: %s", error, extra={"event": "ends"})
            except Exception as error:  # nobody waits for this task
                logger.error("ends of partitions", exc_info=error, extra={"event": "failure"})
            took = monotonic_seconds() - began
            await asyncio.sleep(max(_SECONDS, _PAUSE_FACTOR * took))

    async def _opened(self) -> Cluster:
        async with self._opening:
            if self._cluster is None:
                self._cluster = await Cluster.open(self._properties)
            return self._cluster

    async def _committed(self) -> list[str]:
        found = []
        for name, topic in self._catalogue.topics().items():
            if any(self._furthest(name, range(topic.partitions))):
                found.append(name)
            await asyncio.sleep(0)
        return found
