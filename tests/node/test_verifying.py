"""What transaction coordinators are asked, and what producers are told."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from kio.schema.errors import ErrorCode

from pykcoord.kafka import UnreachableError
from pykcoord.node.verifying import Verifying, told
from pykcoord.transactions import Verification

_WAIT_S = 60


def _of(name: str, *, adds: bool = False, version: int = 4) -> Verification:
    return Verification(1, name, 7, 3, 5, adds, version)


class _Broker:
    """Leads all of `__transaction_state`. Each request waits until it is let through."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.codes: dict[str, ErrorCode] = {}
        self.top = ErrorCode.none
        self.error: Exception | None = None
        self.open = asyncio.Event()
        self.is_usable = True
        self.leader = 2

    async def connect(self, host: str, port: int) -> Any:
        return self

    async def ask(self, request: Any, *, seconds: float) -> Any:
        self.requests.append(request)
        await self.open.wait()
        if self.error is not None:
            raise self.error
        results = []
        for one in request.transactions:
            code = self.codes.get(str(one.transactional_id), ErrorCode.none)
            partition = SimpleNamespace(partition_index=5, partition_error_code=code)
            topic = SimpleNamespace(results_by_partition=(partition,))
            results.append(
                SimpleNamespace(transactional_id=one.transactional_id, topic_results=(topic,))
            )
        return SimpleNamespace(error_code=self.top, results_by_transaction=tuple(results))

    def close(self) -> None:
        self.is_usable = False

    def asker(self) -> Verifying:
        placement = SimpleNamespace(leader=self.leader)
        image: Any = SimpleNamespace(of=lambda topic: dict.fromkeys(range(3), placement))
        return Verifying(self, lambda: image, lambda broker: ("there", broker))  # type: ignore[arg-type]


async def _asked(verifying: Verifying, *all_of: Verification) -> list[int]:
    waiting: list[asyncio.Future[int]] = []
    for one in all_of:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        verifying.verify(one, future.set_result)
        waiting.append(future)
    try:
        return await asyncio.wait_for(asyncio.gather(*waiting), _WAIT_S)
    finally:
        await verifying.close()


def test_what_came_meanwhile_is_asked_together_each_id_once() -> None:
    async def story() -> None:
        broker = _Broker()
        broker.codes = {"b": ErrorCode.concurrent_transactions}
        verifying = broker.asker()
        asking = asyncio.ensure_future(
            _asked(verifying, _of("a"), _of("b", adds=True), _of("a"), _of("c"))
        )
        while not broker.requests:
            await asyncio.sleep(0)
        broker.open.set()
        assert await asking == [0, 51, 0, 0]
        asked = [[str(one.transactional_id) for one in of.transactions] for of in broker.requests]
        assert asked == [["a", "b", "c"], ["a"]]
        first, second, _ = broker.requests[0].transactions
        assert (first.producer_id, first.producer_epoch) == (7, 3)
        assert (first.verify_only, second.verify_only) == (True, False)
        assert [(one.name, one.partitions) for one in first.topics] == [
            ("__consumer_offsets", (5,))
        ]
        assert verifying.asked == 4

    asyncio.run(story())


def test_a_coordinator_that_does_not_answer_lets_producers_ask_again() -> None:
    async def story(error: Exception | None, leader: int, top: ErrorCode) -> int:
        broker = _Broker()
        broker.error, broker.leader, broker.top = error, leader, top
        broker.open.set()
        (code,) = await _asked(broker.asker(), _of("a"))
        return code

    gone = UnreachableError("there:2", "no connection")
    assert asyncio.run(story(gone, 2, ErrorCode.none)) == 14
    assert asyncio.run(story(None, -1, ErrorCode.none)) == 15
    assert asyncio.run(story(None, 2, ErrorCode.cluster_authorization_failed)) == 48
    assert asyncio.run(story(None, 2, ErrorCode.not_coordinator)) == 16


def test_what_producers_are_told_by_version() -> None:
    codes = {
        ErrorCode.producer_fenced: (47, 47),
        ErrorCode.transaction_abortable: (48, 120),
        ErrorCode.network_exception: (14, 14),
        ErrorCode.invalid_txn_state: (48, 48),
        ErrorCode.invalid_producer_id_mapping: (49, 49),
    }
    assert {code: (told(code, 3).value, told(code, 4).value) for code in codes} == codes
