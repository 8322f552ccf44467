"""The effects of sys.exit() and of a broken loop: the listener ends alone, or every call fails at
once with the reason."""

from __future__ import annotations

import asyncio
import concurrent.futures
import sys
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.types import GroupId
from kio.static.primitive import i32

from pykcoord import Config, Coordinator, Member
from pykcoord._calls import Calls
from pykcoord.errors import CoordinatorClosedError, KcoordError, ListenerError

Join = Callable[..., Member]
SECONDS = 60.0
BEAT = HeartbeatRequest(group_id=GroupId("billing"), generation_id=i32(1), member_id="nobody")


def ending(error: BaseException) -> Callable[[object], None]:
    def listener(_partitions: object) -> None:
        raise error

    return listener


@pytest.mark.parametrize(
    "error",
    [
        SystemExit(3),
        KeyboardInterrupt(),
        GeneratorExit(),
        StopIteration(),
        concurrent.futures.CancelledError(),
        asyncio.CancelledError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_listener_fails_alone(join: Join, error: BaseException) -> None:
    other = join("other")
    other.wait()
    member = join(on_assigned=ending(error))
    with pytest.raises(ListenerError, match="listener of a member of group 'billing'") as caught:
        member.wait(SECONDS)
    assert caught.value.__cause__ is error
    with pytest.raises(ListenerError):
        asyncio.run(member.wait_async(SECONDS))
    other.commit({("orders", 0): 2}, SECONDS)
    join().wait(SECONDS)  # its group goes on as well


def test_sys_exit_in_on_revoked_is_logged(join: Join, caplog: pytest.LogCaptureFixture) -> None:
    member = join(on_revoked=lambda _: sys.exit("too late"))
    member.wait()
    member.close()
    assert "too late" in caplog.text
    join().wait(SECONDS)


def test_sys_exit_in_a_callback_of_a_future_ends_nothing(
    coordinator: Coordinator, caplog: pytest.LogCaptureFixture
) -> None:
    ready = threading.Event()
    call = coordinator.run(asyncio.to_thread(ready.wait, SECONDS))
    call.add_done_callback(lambda _: sys.exit("from a callback"))
    ready.set()
    assert call.result(SECONDS)
    assert coordinator.handle(BEAT).result(SECONDS).error_code.name == "unknown_member_id"
    assert "from a callback" in caplog.text


def test_sys_exit_in_a_callback_of_a_call_that_is_cancelled_ends_nothing(
    coordinator: Coordinator, caplog: pytest.LogCaptureFixture
) -> None:
    async def cancels_itself() -> None:
        await asyncio.to_thread(told.wait, SECONDS)
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(SECONDS)

    told = threading.Event()
    call = coordinator.run(cancels_itself())
    call.add_done_callback(lambda _: sys.exit("of a cancelled call"))
    told.set()
    with pytest.raises(concurrent.futures.CancelledError):
        call.result(SECONDS)
    assert coordinator.handle(BEAT).result(SECONDS).error_code.name == "unknown_member_id"
    assert "of a cancelled call" in caplog.text


def break_loop(coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def step(self, *_: object) -> None:
            raise SystemExit("out of the blue")

    runtime = coordinator._serving.parts.runtime
    monkeypatch.setattr(runtime, "node", Broken())
    assert runtime._loop is not None
    runtime._loop.call_soon_threadsafe(runtime.wake)


def test_all_calls_fail_at_once_when_the_loop_fails(
    coordinator: Coordinator, join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = join(heartbeat_interval_ms=44_000)
    member.wait()
    waits_for_the_group = join(heartbeat_interval_ms=44_000)
    stuck: concurrent.futures.Future[Any] = coordinator.run(asyncio.sleep(SECONDS))
    break_loop(coordinator, monkeypatch)
    for ends in (lambda: stuck.result(SECONDS), lambda: waits_for_the_group.wait(SECONDS)):
        with pytest.raises(CoordinatorClosedError, match="SystemExit: out of the blue"):
            ends()
    for use in (coordinator.groups, lambda: member.commit({("orders", 0): 1}), member.wait):
        with pytest.raises(CoordinatorClosedError, match="out of the blue"):
            use()
    assert coordinator.closed
    assert member.assignment == frozenset()
    coordinator.close()
    with pytest.raises(CoordinatorClosedError) as caught:
        coordinator.groups()
    assert isinstance(caught.value.__cause__, SystemExit)


def test_a_directory_is_free_after_its_loop_failed(
    tmp_path: Path, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator = Coordinator(tmp_path, topics={"orders": 1}, config=config)
    coordinator.start()
    with coordinator.join("billing", ["orders"]) as member:
        member.commit({("orders", 0): 5})
        break_loop(coordinator, monkeypatch)
        with pytest.raises(KcoordError):
            coordinator.run(asyncio.sleep(SECONDS)).result(SECONDS)
    coordinator.close()
    with Coordinator(tmp_path, config=config) as again:
        assert again.offsets()["offset"].to_pylist() == [5]


def test_a_call_that_never_began_fails_too() -> None:
    """Calls that were handed to a loop which never ran again."""

    async def never() -> None:
        raise AssertionError("it ran")

    loop = asyncio.new_event_loop()
    calls = Calls()
    handed: Coroutine[Any, Any, None] = never()
    call = calls.start(loop, handed)
    calls.fail(lambda: CoordinatorClosedError("the loop failed"))
    with pytest.raises(CoordinatorClosedError, match="the loop failed"):
        call.result(SECONDS)
    loop.call_soon(loop.stop)
    loop.run_forever()  # what it was handed comes to nothing
    loop.close()
