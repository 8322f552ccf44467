"""Workers of one executor: a shard is loaded in one of them, and the others ask that one."""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from support.story import CONFIG, TOPICS
from support.waiting import SECONDS

pytest.importorskip("pyspark")
from pykcoord_spark import neighbours
from pykcoord_spark.neighbours import Neighbours
from pykcoord_spark.worker import Settings

from pykcoord.log.shared import open_logs

from .stream_workers import another_worker, commits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERY = "6f9c1a52"
ROWS = pa.table({"seq": [1, 2, 3]})


@pytest.fixture(autouse=True)
def executor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An executor's folder, deeper than the name of a socket may be long."""
    folder = tmp_path / ("deep" * 30) / "blockmgr"
    folder.mkdir(parents=True)
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{folder},{tmp_path}")
    return folder


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(str(tmp_path / "log"), 1, CONFIG, tuple(sorted(TOPICS.items())))


def end_of(settings: Settings) -> tuple[int, int]:
    """The epoch of the last leader, and how many records there are."""
    log = open_logs(settings.log, settings.shards)[0]
    log.load()
    list(log.follow())
    return log.epoch, log.next_offset


def test_a_shard_stays_where_it_is(settings: Settings) -> None:
    workers = [another_worker() for _ in range(3)]
    for sequence in range(9):
        rows = commits(3 * sequence)
        answers = workers[sequence % 3].step(settings, 0, QUERY, sequence, rows)
        assert answers["seq"].to_pylist() == rows["seq"].to_pylist()
        again = workers[(sequence + 1) % 3].step(settings, 0, QUERY, sequence, rows)
        assert again.equals(answers)
    assert [len(module._leaders) for module in workers] == [1, 0, 0]
    assert end_of(settings) == (0, 27)


def test_who_has_lost_it_is_not_asked_again(settings: Settings) -> None:
    first, second = another_worker(), another_worker()
    first.step(settings, 0, QUERY, 0, commits(0))
    first._leaders.clear()
    assert second.step(settings, 0, QUERY, 1, commits(3)).num_rows == 3
    assert first.step(settings, 0, QUERY, 2, commits(6)).num_rows == 3
    assert [len(module._leaders) for module in (first, second)] == [0, 1]
    assert end_of(settings) == (1, 9)


def test_of_two_that_have_it_one_stays(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = another_worker(), another_worker()
    first.step(settings, 0, QUERY, 0, commits(0))
    with monkeypatch.context() as deaf:
        deaf.setattr(second._neighbours, "ask", lambda *_: None)
        second.step(settings, 0, QUERY, 1, commits(3))
    assert first.step(settings, 0, QUERY, 2, commits(6)).num_rows == 3
    assert [len(module._leaders) for module in (first, second)] == [0, 1]
    assert end_of(settings) == (1, 9)


def test_a_worker_and_its_neighbour_take_turns(settings: Settings) -> None:
    """Both have rows for one shard at once, of two queries: neither is fenced."""
    first, second = another_worker(), another_worker()
    first.step(settings, 0, "query-0", 0, commits(0, 1))

    def query(module: ModuleType, source: str) -> None:
        for sequence in range(1, 20):
            assert module.step(settings, 0, source, sequence, commits(sequence)).num_rows == 3

    others = threading.Thread(target=query, args=(second, "query-1"))
    others.start()
    query(first, "query-0")
    others.join()
    assert end_of(settings) == (0, 1 + 2 * 19 * 3)


def test_what_a_neighbour_raises_comes_from_the_worker_itself(settings: Settings) -> None:
    first, second = another_worker(), another_worker()
    for sequence in range(2):
        first.step(settings, 0, QUERY, sequence, commits(3 * sequence))
    with pytest.raises(Exception, match="sequence: 0 of 6f9c1a52 comes after 1"):
        second.step(settings, 0, QUERY, 0, commits(0))
    assert second.step(settings, 0, QUERY, 2, commits(6)).num_rows == 3


def test_a_shard_under_other_settings_is_another(settings: Settings, tmp_path: Path) -> None:
    first, second = another_worker(), another_worker()
    other = Settings(str(tmp_path / "other"), 1, CONFIG)
    first.step(settings, 0, QUERY, 0, commits(0))
    second.step(other, 0, QUERY, 0, commits(0))
    assert [len(module._leaders) for module in (first, second)] == [1, 1]


def test_a_neighbour_that_was_killed_is_done_without(settings: Settings, executor: Path) -> None:
    program = (
        "import sys, pickle; from pykcoord_spark import worker\n"
        "worker.step(*pickle.loads(sys.stdin.buffer.read(int(sys.argv[1])))); print(flush=True)\n"
        "sys.stdin.read()"
    )
    given = pickle.dumps((settings, 0, QUERY, 0, commits(0)))
    held = subprocess.Popen(
        [sys.executable, "-c", program, str(len(given))],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    with held, contextlib.ExitStack() as ending:
        ending.callback(held.kill)
        assert held.stdin is not None
        assert held.stdout is not None
        held.stdin.write(given)
        held.stdin.flush()
        assert held.stdout.readline() == b"\n"
        worker = another_worker()
        worker.step(settings, 0, QUERY, 1, commits(3))
        assert len(worker._leaders) == 0
        before = {each.name for each in executor.iterdir()}
    worker.step(settings, 0, QUERY, 2, commits(6))
    assert len(worker._leaders) == 1
    assert len(before - {each.name for each in executor.iterdir()}) == 1, "its socket is left"
    assert end_of(settings) == (1, 9)


@pytest.fixture
def stranger(executor: Path) -> Iterator[Callable[[Callable[[socket.socket], None]], None]]:
    """A listener in the place of a shard named `shard`, which does as it is told."""
    with contextlib.ExitStack() as ending, neighbours._here() as here:

        def listen(does: Callable[[socket.socket], None]) -> None:
            listening = ending.enter_context(socket.socket(socket.AF_UNIX))
            listening.bind(f"{here}/stranger")
            listening.listen()
            (executor / "kcoord-shard").symlink_to("stranger")

            def hear() -> None:
                asking, _ = listening.accept()
                with asking:
                    does(asking)

            threading.Thread(target=hear, daemon=True).start()

        yield listen


@pytest.mark.parametrize("sent", [b"", b"\x01", b"\x01\x00\x00\x00\x00\x00\x00\x00\x09abc"])
def test_an_answer_that_breaks_off_is_none(
    stranger: Callable[[Callable[[socket.socket], None]], None], sent: bytes
) -> None:
    stranger(lambda asking: asking.sendall(sent))
    assert Neighbours(lambda *_: None).ask("shard", QUERY, 0, ROWS) is None


def test_nobody_waits_for_a_neighbour_that_stopped(
    stranger: Callable[[Callable[[socket.socket], None]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbours, "_PATIENCE_S", 0.2)
    may_end = threading.Event()
    stranger(lambda _: may_end.wait(SECONDS))
    began = time.monotonic()
    assert Neighbours(lambda *_: None).ask("shard", QUERY, 0, ROWS) is None
    assert time.monotonic() - began > 0.1
    may_end.set()


def test_a_neighbour_that_takes_long_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "_PATIENCE_S", 1.0)
    monkeypatch.setattr(neighbours, "_BEAT_S", 0.05)

    def serve(name: str, source: str, sequence: int, rows: pa.Table) -> pa.Table:
        time.sleep(2.0)
        return rows

    holder = Neighbours(serve)
    holder.hold("shard")
    told = Neighbours(lambda *_: None).ask("shard", QUERY, 0, ROWS)
    assert told is not None
    assert told.equals(ROWS)


def test_spark_tells_its_workers_the_folder(spark: SparkSession) -> None:
    def folders(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            with neighbours._here() as here:
                yield pa.record_batch({"has_one": [os.path.isdir(here)]})

    told = spark.range(1).mapInArrow(folders, "has_one BOOLEAN").collect()
    assert [row.has_one for row in told] == [True]


def test_rows_and_answers_arrive_as_they_are() -> None:
    asked = []

    def serve(name: str, source: str, sequence: int, rows: pa.Table) -> pa.Table:
        asked.append((name, source, sequence, rows))
        return rows.slice(1)

    holder = Neighbours(serve)
    holder.hold("shard")
    told = Neighbours(lambda *_: None).ask("shard", QUERY, 7, ROWS)
    assert told is not None
    assert told.equals(ROWS.slice(1))
    assert asked == [("shard", QUERY, 7, ROWS)]
    assert holder.ask("shard", QUERY, 7, ROWS) is None  # it has the shard itself


def test_without_an_executor_there_are_no_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_LOCAL_DIRS")
    holder = Neighbours(lambda *_: ROWS)
    holder.hold("shard")
    assert Neighbours(lambda *_: None).ask("shard", QUERY, 0, ROWS) is None
    assert not list(Path(os.curdir).glob("kcoord-*"))
