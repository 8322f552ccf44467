"""ISRs that are asked for: what counts while it is not known what became of a request."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pykcoord.kafka import UnreachableError
from pykcoord.node.alterations import Alterations
from pykcoord.node.image import Image
from pykcoord.node.leader import LedPartition

from .led import EPOCH, TOPIC_ID, Leader, run

_OTHER = 2


class _Controllers:
    """In the place of a Quorum: answers in turn, and the last one from then on."""

    def __init__(self, *answers: Any) -> None:
        self.image = Image()
        self.asked: list[Any] = []
        self._answers = list(answers)

    async def ask(self, request: Any, seconds: float = 30.0) -> Any:
        self.asked.append(request.topics[0].partitions[0])
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def _answer(code: int = 0, *, isr: tuple[int, ...] = (), epoch: int = 2, top: int = 0) -> Any:
    one = SimpleNamespace(
        partition_index=0, error_code=SimpleNamespace(value=code, name=str(code)),
        leader_epoch=EPOCH, isr=isr, partition_epoch=epoch,
    )  # fmt: skip
    topics = [] if top else [SimpleNamespace(partitions=[one])]
    return SimpleNamespace(error_code=SimpleNamespace(value=top, name=f"top {top}"), topics=topics)


_SILENCE = UnreachableError("the controllers", "none of them is active")


async def _asking(leader: Leader, controllers: _Controllers) -> tuple[Alterations, LedPartition]:
    """Broker 2 has all there is, and is to enter the ISR."""
    partition = leader.partition
    partition.placed((9, 1, _OTHER), (9, 1), 1)
    await leader.synced()
    leader.log.fetched(1, 4, [(0, 2)])
    leader.log.fetched(_OTHER, 4, [(0, 2)])
    quorum: Any = controllers
    registration: Any = SimpleNamespace(node_id=9, broker_epoch=7)
    eligible = lambda broker, epoch: True  # noqa: E731
    return Alterations(quorum, registration, leader.log, TOPIC_ID, eligible), partition


@pytest.mark.parametrize("unknown", [_SILENCE, _answer(7), _answer(95), _answer(top=77)])
def test_who_may_have_entered_holds_the_high_watermark(tmp_path: Path, unknown: Any) -> None:
    async def story(leader: Leader) -> None:
        controllers = _Controllers(unknown, _answer(isr=(9, 1, _OTHER)))
        alterations, partition = await _asking(leader, controllers)
        await alterations._ask(alterations._wanted())
        leader.append(2)
        await leader.synced()
        partition.followers[_OTHER].caught_up_at = float("-inf")  # it has lagged for long
        leader.log.fetched(1, 4, [(0, 3)])
        assert partition.high_watermark == 2, "it may be elected, and has no more"
        assert await alterations._ask(alterations._wanted())
        assert [
            tuple(of.broker_id for of in one.new_isr_with_epochs) for one in controllers.asked
        ] == 2 * [(9, 1, _OTHER)]
        assert (partition.isr, partition.pending) == ((9, 1, _OTHER), None)

    run(tmp_path / "d", story)


@pytest.mark.parametrize("code", [55, 107])
def test_who_was_refused_holds_nothing(tmp_path: Path, code: int) -> None:
    async def story(leader: Leader) -> None:
        alterations, partition = await _asking(leader, _Controllers(_answer(code)))
        assert not await alterations._ask(alterations._wanted())
        assert partition.pending is None

    run(tmp_path / "d", story)


def test_the_metadata_log_says_what_became_of_a_request(tmp_path: Path) -> None:
    async def story(leader: Leader) -> None:
        alterations, partition = await _asking(leader, _Controllers(_SILENCE))
        assert not await alterations._ask(alterations._wanted())
        partition.placed((9, 1, _OTHER), (9, 1), 1)  # as before
        assert partition.pending == (9, 1, _OTHER)
        partition.placed((9, 1, _OTHER), (9,), 2)
        assert (partition.isr, partition.pending) == ((9,), None)

    run(tmp_path / "d", story)


def test_a_controller_that_refuses_all_is_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(leader: Leader) -> None:
        alterations, _ = await _asking(leader, _Controllers(_answer(top=77)))
        with caplog.at_level(logging.WARNING):
            assert not await alterations._ask(alterations._wanted())
        assert "AlterPartition: top 77" in caplog.text

    run(tmp_path / "d", story)
