"""The metadata log as a controller sends it: what counts, what is taken back, what comes as a
snapshot; and a registration that is refused, kept and lost."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.scripted_broker import ScriptedCluster

from pykcoord.kafka import ClientProperties, ClusterError, NonsenseError, UnreachableError
from pykcoord.node.errors import NodeError
from pykcoord.node.image import Image
from pykcoord.node.joining import Timing
from pykcoord.node.metadata_records import Endpoint, batches_of
from pykcoord.node.quorum import Quorum
from pykcoord.node.registration import Identity, Registration

_RECORDED = Path(__file__).with_name("metadata-log.bin").read_bytes()
_BATCHES = list(batches_of(_RECORDED))
_END = _BATCHES[-1].next_offset


def _code(value: int, name: str = "") -> SimpleNamespace:
    return SimpleNamespace(value=value, name=name or str(value))


class _Connection:
    """Answers with what it was given, in turn."""

    address = "controller:1"

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.asked: list[Any] = []

    async def ask(self, request: Any, **more: Any) -> Any:
        self.asked.append(request)
        return self._answers.pop(0)


def _fetched(
    records: bytes = b"",
    *,
    high_watermark: int = -1,
    code: int = 0,
    leader: tuple[int, int] = (-1, -1),
    snapshot: tuple[int, int] = (-1, -1),
    diverging: int = -1,
) -> Any:
    partition = SimpleNamespace(
        error_code=_code(code),
        current_leader=SimpleNamespace(leader_id=leader[0], leader_epoch=leader[1]),
        high_watermark=high_watermark,
        snapshot_id=SimpleNamespace(end_offset=snapshot[0], epoch=snapshot[1]),
        diverging_epoch=SimpleNamespace(end_offset=diverging),
        records=records,
    )
    topic = SimpleNamespace(partitions=[partition])
    return SimpleNamespace(error_code=_code(0), responses=[topic])


def _quorum() -> Quorum:
    controllers = {1: ("one", 1), 2: ("two", 2)}
    return Quorum(ClientProperties(), controllers, "cluster", 9, uuid.UUID(int=1))


def test_records_count_once_they_are_below_the_high_watermark() -> None:
    async def story() -> None:
        quorum, told = _quorum(), []
        quorum.on_change.append(lambda: told.append(quorum.image.offset))
        half = _BATCHES[len(_BATCHES) // 2].next_offset
        connection = _Connection(
            _fetched(_RECORDED, high_watermark=half), _fetched(high_watermark=_END)
        )
        assert await quorum._fetch(connection, 1)  # type: ignore[arg-type]
        assert told == [half]
        assert await quorum._fetch(connection, 1)  # type: ignore[arg-type]
        assert told == [half, _END]
        assert quorum.leader == 1
        assert connection.asked[1].topics[0].partitions[0].fetch_offset == _END

    asyncio.run(story())


def test_what_a_new_leader_does_not_have_is_taken_back() -> None:
    async def story() -> None:
        quorum = _quorum()
        half = _BATCHES[len(_BATCHES) // 2].next_offset
        connection = _Connection(
            _fetched(_RECORDED, high_watermark=half), _fetched(diverging=half, high_watermark=half),
            _fetched(_RECORDED, high_watermark=_END),
        )  # fmt: skip
        for _ in range(3):
            await quorum._fetch(connection, 1)  # type: ignore[arg-type]
        assert connection.asked[2].topics[0].partitions[0].fetch_offset == half
        assert quorum.image.offset == _END

    asyncio.run(story())


def test_a_log_that_begins_later_comes_with_a_snapshot() -> None:
    async def story() -> None:
        quorum = _quorum()

        def part(data: bytes) -> Any:
            partition = SimpleNamespace(
                error_code=_code(0), size=len(_RECORDED), unaligned_records=data
            )
            topic = SimpleNamespace(partitions=[partition])
            return SimpleNamespace(error_code=_code(0), topics=[topic])

        connection = _Connection(
            _fetched(snapshot=(5_000, 2), high_watermark=5_000),
            part(_RECORDED[:1_000]), part(_RECORDED[1_000:]),
            _fetched(high_watermark=5_000),
        )  # fmt: skip
        await quorum._fetch(connection, 1)  # type: ignore[arg-type]
        assert "__consumer_offsets" in quorum.image.topics
        assert quorum.image.offset == 5_000
        assert connection.asked[2].topics[0].partitions[0].position == 1_000
        await quorum._fetch(connection, 1)  # type: ignore[arg-type]
        asked = connection.asked[3].topics[0].partitions[0]
        assert (asked.fetch_offset, asked.last_fetched_epoch) == (5_000, 2)

    asyncio.run(story())


def test_who_is_no_leader_says_who_is() -> None:
    async def story() -> None:
        quorum = _quorum()
        connection = _Connection(_fetched(code=74, leader=(2, 7)), _fetched(code=6))
        assert await quorum._fetch(connection, 1)  # type: ignore[arg-type]
        assert quorum.leader == 2
        assert not await quorum._fetch(connection, 2)  # type: ignore[arg-type]
        assert quorum.leader == -1
        refused = SimpleNamespace(error_code=_code(31), responses=[])
        with pytest.raises(NodeError, match="CLUSTER_ACTION"):
            await quorum._fetch(_Connection(refused), 1)  # type: ignore[arg-type]
        other = SimpleNamespace(error_code=_code(104), responses=[])
        with pytest.raises(NodeError, match="not of cluster cluster: other ones answer"):
            await quorum._fetch(_Connection(other), 1)  # type: ignore[arg-type]

    asyncio.run(story())


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "it speaks HTTP"),
        (b"\x7f\xff\xff\xff", "a frame of 2147483647 bytes"),
        (b"\0\0\0\x04\0\0\x13\x37", "a request that was not sent"),
    ],
)
def test_a_controller_that_speaks_nonsense_ends_the_following_with_its_address(
    raw: bytes, said: str
) -> None:
    async def story() -> None:
        cluster = ScriptedCluster()
        cluster.raw = raw
        async with cluster.running():
            controllers = {1: ("127.0.0.1", cluster.ports[1])}
            quorum = Quorum(ClientProperties(), controllers, "cluster", 9, uuid.UUID(int=1))
            quorum.start()
            try:
                with pytest.raises(NonsenseError, match=f"127.0.0.1:{cluster.ports[1]}: .*{said}"):
                    await asyncio.wait_for(quorum.caught_up(), 60)
            finally:
                await quorum.close()

    asyncio.run(story())


async def _hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A controller that takes connections and says nothing."""
    await reader.read(-1)
    writer.close()


def test_a_controller_that_hangs_is_left_for_the_next_one_within_a_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pykcoord.node.quorum._ANSWER_SECONDS", 0.1)

    async def story() -> None:
        hanging = await asyncio.start_server(_hang, "127.0.0.1", 0)
        cluster = ScriptedCluster()
        cluster.raw = b"HTTP/1.1 400"
        async with hanging, cluster.running():
            controllers = {
                1: ("127.0.0.1", hanging.sockets[0].getsockname()[1]),
                2: ("127.0.0.1", cluster.ports[1]),
            }
            quorum = Quorum(ClientProperties(), controllers, "cluster", 9, uuid.UUID(int=1))
            quorum.start()
            try:
                async with asyncio.timeout(5):  # the broker of another kind is reached
                    with pytest.raises(NonsenseError):
                        await quorum.caught_up()
            finally:
                await quorum.close()

    asyncio.run(story())


def test_an_answer_is_waited_for_longer_as_long_as_the_log_is_read_from_its_start() -> None:
    async def story() -> None:
        waited: list[float] = []

        class Connection(_Connection):
            async def ask(self, request: Any, *, seconds: float = 0.0, **more: Any) -> Any:
                waited.append(seconds)
                return await super().ask(request)

        quorum = _quorum()
        half = _BATCHES[len(_BATCHES) // 2].next_offset
        connection = Connection(
            _fetched(_RECORDED, high_watermark=half), _fetched(high_watermark=_END),
            _fetched(high_watermark=_END),
        )  # fmt: skip
        for _ in range(3):
            await quorum._fetch(connection, 1)  # type: ignore[arg-type]
        assert waited == [10.5, 2.5, 2.5]

    asyncio.run(story())


def test_who_waits_for_nothing_hears_that_the_following_ended() -> None:
    async def story() -> None:
        cluster, heard = ScriptedCluster(), asyncio.Event()
        cluster.raw = b"\0\0\0\x04\0\0\x13\x37"
        async with cluster.running():
            controllers = {1: ("127.0.0.1", cluster.ports[1])}
            quorum = Quorum(ClientProperties(), controllers, "cluster", 9, uuid.UUID(int=1))
            told: list[Exception] = []

            def ended(error: Exception) -> None:
                told.append(error)
                heard.set()

            quorum.on_failure = ended
            quorum.start()
            try:
                await asyncio.wait_for(heard.wait(), 60)
            finally:
                await quorum.close()
        assert [type(one) for one in told] == [NonsenseError]
        assert told == [quorum.failure]

    asyncio.run(story())


class _Controllers:
    """In the place of a Quorum: answers by a function of the request's name."""

    def __init__(self, answer: Callable[[str], Any]) -> None:
        self.image = Image()
        self.asked: list[Any] = []
        self.is_current = True
        self._answer = answer

    async def current(self, seconds: float) -> bool:
        return self.is_current

    async def ask(self, request: Any, seconds: float = 30.0) -> Any:
        self.asked.append(request)
        answer = self._answer(type(request).__name__.removesuffix("Request"))
        if isinstance(answer, Exception):
            raise answer
        return answer


def _registration(answer: Callable[[str], Any]) -> tuple[Registration, _Controllers, list[int]]:
    kept: list[int] = []
    controllers = _Controllers(answer)
    identity = Identity(
        9, "cluster", uuid.UUID(int=1), [Endpoint("PLAINTEXT", "host", 1, 0)],
        [("metadata.version", 7, 33)], None,
    )  # fmt: skip
    quorum: Any = controllers
    return Registration(quorum, identity, 41, kept.append, Timing()), controllers, kept


def _registered(epoch: int) -> Any:
    return SimpleNamespace(error_code=_code(0), broker_epoch=epoch)


def test_a_registration_says_which_epoch_was_before_and_keeps_its_own() -> None:
    registration, controllers, kept = _registration(lambda name: _registered(77))
    asyncio.run(registration.register())
    assert controllers.asked[0].previous_broker_epoch == 41
    assert (kept, registration.broker_epoch, registration.is_alive) == ([77], 77, True)


def test_an_earlier_session_is_waited_for() -> None:
    answers = [SimpleNamespace(error_code=_code(101, "duplicate")), _registered(78)]
    registration, _, kept = _registration(lambda name: answers.pop(0))
    asyncio.run(registration.register())
    assert kept == [78]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (35, "newer than this version of pykcoord.*`pykcoord watch`"),
        (31, "CLUSTER_ACTION"),
        (104, "not of cluster cluster: name a broker of their cluster"),
        (119, "refuse the registration of node 9: 119; their own log says why"),
    ],
)
def test_a_refusal_says_what_to_do(code: int, said: str) -> None:
    registration, _, kept = _registration(lambda name: SimpleNamespace(error_code=_code(code)))
    with pytest.raises(NodeError, match=said):
        asyncio.run(registration.register())
    assert kept == []


def _beaten(code: int = 0, name: str = "") -> Any:
    return SimpleNamespace(error_code=_code(code, name), should_shut_down=False)


def test_one_that_the_controller_forgot_registers_again_and_reads_what_it_did() -> None:
    answers = {
        "BrokerRegistration": [_registered(77), _registered(99)],
        "BrokerHeartbeat": [_beaten(77, "stale_broker_epoch"), _beaten(), _beaten()],
    }
    registration, controllers, kept = _registration(lambda name: answers[name].pop(0))
    said: list[str] = []
    registration.on_lost = said.append
    registration.on_heard = lambda: said.append("heard")

    async def story() -> None:
        await registration.register()
        await registration._heartbeat()
        controllers.is_current = False
        await registration._heartbeat()
        assert said == ["the controller says stale_broker_epoch"]
        controllers.is_current = True
        await registration._heartbeat()

    asyncio.run(story())
    assert said[1:] == ["heard"]
    assert kept == [77, 99]


def test_a_process_that_stood_still_leads_nothing_before_it_is_heard_again() -> None:
    answers = {"BrokerRegistration": _registered(77), "BrokerHeartbeat": _beaten()}
    registration, controllers, _ = _registration(answers.__getitem__)
    said: list[str] = []

    async def story() -> None:
        await registration.register()
        heard = asyncio.Event()
        registration.on_lost = lambda reason: said.append(f"lost after {len(controllers.asked)}")
        registration.on_heard = heard.set
        registration.heard_at -= 10.0
        registration.start()
        await asyncio.wait_for(heard.wait(), 60)
        await registration.close()

    asyncio.run(story())
    assert said == ["lost after 1"], "before the first heartbeat"


def test_the_image_is_current_once_a_later_answer_was_taken_in() -> None:
    async def story() -> None:
        quorum = _quorum()
        half = _BATCHES[len(_BATCHES) // 2].next_offset
        connection = _Connection(
            _fetched(_RECORDED, high_watermark=half), _fetched(high_watermark=_END)
        )
        await quorum._fetch(connection, 1)  # type: ignore[arg-type]
        assert not await quorum.current(0.01), "more may have been committed"
        waiting = asyncio.create_task(quorum.current(60))
        await asyncio.sleep(0)
        await quorum._fetch(connection, 1)  # type: ignore[arg-type]
        assert await waiting
        assert quorum.image.offset == _END

    asyncio.run(story())


def test_a_heartbeat_that_nobody_answers_is_no_failure() -> None:
    def answer(name: str) -> Any:
        failure: ClusterError = UnreachableError("the controllers", "none of them is active")
        return _registered(77) if name == "BrokerRegistration" else failure

    registration, controllers, _ = _registration(answer)

    async def story() -> None:
        await registration.register()
        await registration._heartbeat()

    asyncio.run(story())
    assert controllers.asked[-1].cordoned_log_dirs == (uuid.UUID(int=1),)
    assert registration.is_alive
