"""Where partitions end: a node knows what groups of its own shards have committed, and asks the
others. The supervisor hands the question on, and gives back the highest that was said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pykcoord.cli.nodes.process import NodeProcess

__all__ = ["EndsRelay"]

Wanted = Mapping[str, Sequence[int]]


@dataclass
class _Question:
    asker: NodeProcess
    number: int
    ends: dict[str, list[int]]
    waiting: set[NodeProcess]


class EndsRelay:
    """Questions on their way. Who asks waits a bounded time; here they wait as long as a node that
    was asked lives."""

    def __init__(self) -> None:
        self._questions: dict[int, _Question] = {}
        self._last = 0

    def ask(
        self, asker: NodeProcess, number: int, wanted: Wanted, nodes: Iterable[NodeProcess]
    ) -> None:
        """Ask all nodes but the asker that are known to answer."""
        others = {one for one in nodes if one is not asker and one.is_ready and not one.unanswered}
        self._last += 1
        ends = {topic: [0] * len(partitions) for topic, partitions in wanted.items()}
        self._questions[self._last] = _Question(asker, number, ends, others)
        for one in others:
            one.send(ends=[self._last, wanted])
        self._answer(self._last)

    def hear(self, process: NodeProcess, number: int, ends: Mapping[str, Sequence[int]]) -> None:
        """What one of them says."""
        if question := self._questions.get(number):
            for topic, said in ends.items():
                question.ends[topic] = list(map(max, question.ends[topic], said))
            question.waiting.discard(process)
            self._answer(number)

    def forget(self, process: NodeProcess) -> None:
        """It has ended: nobody waits for it, and it waits for nothing."""
        for number, question in list(self._questions.items()):
            if question.asker is process:
                del self._questions[number]
            elif process in question.waiting:
                question.waiting.discard(process)
                self._answer(number)

    def _answer(self, number: int) -> None:
        question = self._questions[number]
        if not question.waiting:
            del self._questions[number]
            question.asker.send(ends_are=[question.number, question.ends])
