"""One micro-batch of one shard: each request is answered once, whichever worker serves it, however
often it is asked, and whichever worker dies."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pykcoord_spark import worker
from pykcoord_spark.worker import DivergedError, Settings
from support.story import CONFIG, SEED, START_MS, TOPICS, Story, row

from pykcoord import ArrowShard, Config
from pykcoord.arrow import REQUEST, RESPONSE
from pykcoord.errors import ArgumentError
from pykcoord.log.shared import FencedError, ShardLog, open_logs

from .stream_workers import another_worker, commits

QUERY = "6f9c1a52"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    topics = tuple(sorted(TOPICS.items()))
    return Settings(str(tmp_path / "log"), 1, CONFIG, topics, snapshot_every=5)


@pytest.fixture(autouse=True)
def member_ids(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Member ids as in the story. No shard is kept between tests, and no other worker is asked."""
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    monkeypatch.setattr(worker, "ArrowShard", functools.partial(ArrowShard, seed=SEED))
    yield
    worker._leaders.clear()


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, REQUEST)


def seqs(answers: pa.Table) -> list[int]:
    assert set(answers["error_code"].to_pylist()) <= {0}
    return list(answers["seq"].to_pylist())


def micro_batches(story: Story) -> list[list[dict[str, Any]]]:
    """The story in pieces, no rows of one time in two, each piece shuffled as Spark does."""
    chooser, pieces = random.Random(story.seed), [[]]
    for _, turn in itertools.groupby(story.requests, key=lambda asked: asked["ts"]):
        if chooser.random() < 0.2:
            pieces.append([])
        pieces[-1] += turn
    for piece in pieces:
        chooser.shuffle(piece)
    return pieces


@pytest.mark.parametrize("keeps", [True, False], ids=["one worker", "always another"])
def test_a_story_in_micro_batches_is_answered_as_frames_are(
    settings: Settings, keeps: bool
) -> None:
    story = Story(3).tell(120)
    told: dict[int, tuple[int, bytes]] = {}
    for sequence, rows in enumerate(micro_batches(story)):
        answers = worker.step(settings, 0, QUERY, sequence, table(rows))
        assert answers.schema == RESPONSE
        for answer in answers.to_pylist():
            assert answer["seq"] not in told
            told[answer["seq"]] = (answer["ts"], answer["payload"])
        if not keeps:
            worker._leaders.clear()
    assert told == {seq: at for seq, at in story.answers.items() if seq in told}
    late = {seq for seq in story.answers if seq not in told}
    assert all(story.answers[seq][0] > story.requests[-1]["ts"] for seq in late)


def test_a_repetition_is_answered_as_before(settings: Settings) -> None:
    first = worker.step(settings, 0, QUERY, 0, commits(0))
    assert seqs(first) == [0, 1, 2]
    assert worker.step(settings, 0, QUERY, 0, commits(0)).equals(first)
    worker._leaders.clear()
    assert worker.step(settings, 0, QUERY, 0, commits(0)).equals(first)
    second = worker.step(settings, 0, QUERY, 1, commits(3))
    with pytest.raises(ArgumentError, match="sequence: 0 of 6f9c1a52 comes after 1"):
        worker.step(settings, 0, QUERY, 0, commits(0))
    assert worker.step(settings, 0, QUERY, 1, commits(3)).equals(second)
    assert worker.step(settings, 0, "another", 0, commits(6)).num_rows == 3
    assert records_of(settings) == 9


def records_of(settings: Settings) -> int:
    log = open_logs(settings.log, settings.shards)[0]
    log.load()
    list(log.follow())
    return log.next_offset


def test_a_worker_that_dies_after_the_append_has_answered(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = ShardLog.append

    def dies(*arguments: Any, **named: Any) -> int:
        append(*arguments, **named)
        raise KeyboardInterrupt

    monkeypatch.setattr(ShardLog, "append", dies)
    with pytest.raises(KeyboardInterrupt):
        worker.step(settings, 0, QUERY, 0, commits(0))
    monkeypatch.undo()
    answers = another_worker().step(settings, 0, QUERY, 0, commits(0))
    assert (seqs(answers), records_of(settings)) == ([0, 1, 2], 3)


def test_two_workers_follow_each_other(settings: Settings) -> None:
    workers = [worker, another_worker(), another_worker()]
    for sequence in range(12):
        rows = commits(3 * sequence)
        answers = workers[sequence % 3].step(settings, 0, QUERY, sequence, rows)
        assert seqs(answers) == rows["seq"].to_pylist()
        assert workers[(sequence + 1) % 3].step(settings, 0, QUERY, sequence, rows).equals(answers)
    assert records_of(settings) == 36


def test_a_fenced_worker_answers_what_the_other_wrote(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It wakes up before its append, and the other has served the same micro-batch."""
    append, zombie, others = ShardLog.append, another_worker(), []
    worker.step(settings, 0, QUERY, 0, commits(0))
    zombie.step(settings, 0, QUERY, 1, commits(3))

    def overtaken(*arguments: Any, **named: Any) -> int:
        monkeypatch.undo()
        monkeypatch.setattr(worker, "ArrowShard", functools.partial(ArrowShard, seed=SEED))
        others.append(worker.step(settings, 0, QUERY, 2, commits(6)))
        return append(*arguments, **named)

    monkeypatch.setattr(ShardLog, "append", overtaken)
    answers = zombie.step(settings, 0, QUERY, 2, commits(6))
    assert [answers] == others
    assert records_of(settings) == 9


def test_a_log_of_another_number_of_shards_is_refused(settings: Settings) -> None:
    worker.step(settings, 0, QUERY, 0, commits(0))
    with pytest.raises(ArgumentError, match=r"shards: .* has 1 shards: ask for as many"):
        worker.step(replace(settings, shards=2), 0, QUERY, 1, commits(3))


def test_workers_that_begin_at_once_go_on_with_one_state(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each worker draws a seed of member ids, and the log decides which one counts."""
    monkeypatch.setattr(worker, "ArrowShard", ArrowShard)
    late = worker._Leader(settings, 0)
    answers = worker.step(settings, 0, QUERY, 0, commits(0))
    assert late.step(QUERY, 0, commits(0)).equals(answers)
    (leader,) = worker._leaders.values()
    assert late._shard.checkpoint() == leader._shard.checkpoint()
    assert seqs(late.step(QUERY, 1, commits(3))) == [3, 4, 5]


def test_who_loses_the_first_claim_takes_the_state_of_who_won(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "ArrowShard", ArrowShard)
    claim, winners = ShardLog.claim, []

    def claim_after_another(log: ShardLog, owner: str, now_ms: int, state: bytes) -> bool:
        if not winners:
            winners.append(worker._Leader(settings, 0))
            winners[0].step(QUERY, 0, commits(0))
        return claim(log, owner, now_ms, state)

    monkeypatch.setattr(ShardLog, "claim", claim_after_another)
    assert seqs(worker.step(settings, 0, QUERY, 0, commits(0))) == [0, 1, 2]
    (leader,) = worker._leaders.values()
    assert leader._shard.checkpoint() == winners[0]._shard.checkpoint()


def test_who_dies_after_the_first_claim_leaves_its_state(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a claim of a host, which has none."""
    monkeypatch.setattr(worker, "ArrowShard", ArrowShard)
    assert open_logs(settings.log, 1)[0].claim("a host that wrote nothing", START_MS)
    dying = worker._Leader(settings, 0)
    dying._follow()
    dying._claim(commits(0), START_MS)
    assert seqs(worker.step(settings, 0, QUERY, 0, commits(0))) == [0, 1, 2]
    dying._follow()
    (leader,) = worker._leaders.values()
    assert leader._shard.checkpoint() == dying._shard.checkpoint()


def test_a_first_claim_that_was_pruned_and_made_again_is_not_believed(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "ArrowShard", ArrowShard)
    idle, sleeper = worker._Leader(settings, 0), open_logs(settings.log, 1)[0]
    often = replace(settings, snapshot_every=1)
    worker.step(often, 0, QUERY, 0, commits(0))
    (Path(settings.log) / "shard-00000/chunks/000000000000").unlink()
    other = ArrowShard()
    other.advance(START_MS)
    with pytest.raises(FencedError):
        sleeper.claim("a worker that slept", START_MS, other.checkpoint())
    with pytest.raises(FencedError):
        idle.step(QUERY, 1, commits(3))
    assert seqs(worker.step(often, 0, QUERY, 1, commits(3))) == [3, 4, 5]


def test_a_log_that_hosts_write_is_refused(settings: Settings) -> None:
    worker.step(settings, 0, QUERY, 0, commits(0))
    log = open_logs(settings.log, 1)[0]
    log.load()
    list(log.follow())
    assert log.claim("a host", START_MS)
    log.append(b"records", 1, now_ms=START_MS)
    for _ in range(2):
        with pytest.raises(
            ArgumentError, match="log: shard 0: entry 3 was not written by a stream"
        ):
            worker.step(settings, 0, QUERY, 1, commits(3))


def test_a_log_with_a_snapshot_of_hosts_is_refused(settings: Settings) -> None:
    log = open_logs(settings.log, 1)[0]
    assert log.claim("a host", START_MS)
    log.snapshot(b"records")
    with pytest.raises(ArgumentError, match="log: shard 0: its snapshot is of hosts"):
        worker.step(settings, 0, QUERY, 0, commits(0))


def test_other_requests_of_the_same_micro_batch_are_not_swallowed(settings: Settings) -> None:
    """Two coordinate() of one query with one log."""
    first = worker.step(settings, 0, QUERY, 0, commits(0))
    with pytest.raises(ArgumentError, match="micro-batch 0 of this query has served other"):
        worker.step(settings, 0, QUERY, 0, commits(60))
    again = commits(0).take([2, 0, 1])
    assert worker.step(settings, 0, QUERY, 0, again).equals(first)


def test_a_shard_that_goes_elsewhere_is_not_kept_for_ever(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(worker.time, "monotonic", lambda: now[0])
    another = replace(settings, log=str(tmp_path / "another"))
    worker.step(settings, 0, QUERY, 0, commits(0))
    worker.step(another, 0, QUERY, 0, commits(0))
    assert len(worker._leaders) == 2
    now[0] += worker._IDLE_SECONDS + 1
    worker.step(another, 0, QUERY, 1, commits(3))
    assert len(worker._leaders) == 1
    assert seqs(worker.step(settings, 0, QUERY, 1, commits(3))) == [3, 4, 5]


def test_other_topics_are_noticed_before_anything_is_answered(settings: Settings) -> None:
    worker.step(settings, 0, QUERY, 0, commits(0))
    other = replace(settings, topics=(("else", 1),))
    with pytest.raises(DivergedError, match="shard 0, entry 1: its requests give other records"):
        worker.step(other, 0, QUERY, 1, commits(3))
    worker.step(replace(settings, snapshot_every=1), 0, QUERY, 1, commits(3))
    answers = worker.step(other, 0, QUERY, 2, commits(6))
    assert set(answers["error_code"].to_pylist()) == {3}  # UNKNOWN_TOPIC_OR_PARTITION


def test_rows_that_cannot_be_right_leave_nothing(settings: Settings) -> None:
    bad = table([row(0, START_MS, "billing", (8, 7), None)])
    with pytest.raises(ArgumentError, match="row 0, column payload: NULL"):
        worker.step(settings, 0, QUERY, 0, bad)
    assert seqs(worker.step(settings, 0, QUERY, 0, commits(0))) == [0, 1, 2]
    assert records_of(settings) == 3


def test_who_comes_late_is_served_when_it_comes(settings: Settings) -> None:
    worker.step(settings, 0, QUERY, 0, commits(0, ts=START_MS + 5_000))
    answers = worker.step(settings, 0, QUERY, 1, commits(3, ts=START_MS))
    assert answers["ts"].to_pylist() == [START_MS + 5_002] * 3


def test_with_the_clock_who_waits_is_answered(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A join waits for the initial delay: an empty micro-batch after it has the answer."""
    story = Story(1)
    join = story._body(11, story._members[0], -1)[1]
    now_ms = START_MS
    monkeypatch.setattr(worker.time, "time_ns", lambda: now_ms * 1_000_000)
    clocked = replace(settings, uses_clock=True)
    given = worker.step(
        clocked, 0, QUERY, 0, table([row(0, START_MS, "group-0", (11, 3), join_v3(join))])
    )
    assert given.num_rows == 0
    now_ms += 501
    answers = worker.step(clocked, 0, QUERY, 1, table([]))
    assert (seqs(answers), answers["ts"].to_pylist()) == ([0], [START_MS + 500])
    now_ms += 10
    worker._leaders.clear()
    assert worker.step(clocked, 0, QUERY, 1, table([])).equals(answers)


def join_v3(body: bytes) -> bytes:
    """A JoinGroup v5 of no instance as v3, whose members need no id before they join."""
    head, tail = body[: 2 + len("group-0") + 8 + 2], body[2 + len("group-0") + 8 + 2 + 2 :]
    return head + tail


def test_settings_are_shipped_to_workers(settings: Settings) -> None:
    import pickle

    sent = pickle.loads(pickle.dumps(replace(settings, config=Config())))
    assert sent == replace(settings, config=Config())
    assert hash(sent) == hash(replace(settings, config=Config()))
