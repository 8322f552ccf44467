"""A shard behind Arrow batches: the same as behind frames, and the batches that are refused."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.story import (
    CONFIG,
    SEED,
    START_MS,
    TOPICS,
    Story,
    commit_body,
    heartbeat_body,
    row,
    string,
)

from pykcoord import ArrowShard, Shard
from pykcoord.arrow import ENVELOPE, RECORD, REQUEST, RESPONSE
from pykcoord.errors import ArgumentError
from pykcoord.shard import Request, record_batch

COMMIT = (8, 7)
HEARTBEAT = (12, 3)


def batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, REQUEST)


def new_shard(**arguments: Any) -> ArrowShard:
    return ArrowShard(CONFIG, topics=TOPICS, seed=SEED, **arguments)


def commit(seq: int = 0, ts: int = START_MS, group: str = "billing", **columns: Any) -> Any:
    return row(seq, ts, group, COMMIT, commit_body(group, 0, seq)) | columns


def beat(seq: int = 0, ts: int = START_MS, group: str = "billing", **columns: Any) -> Any:
    return row(seq, ts, group, HEARTBEAT, heartbeat_body(group, "nobody", 1)) | columns


class Told:
    """The output of a shard, in the form of a story."""

    def __init__(self) -> None:
        self.answers: dict[int, tuple[int, bytes]] = {}
        self.records: list[tuple[int, bytes, bytes | None]] = []

    def add(self, envelope: pa.RecordBatch) -> None:
        assert envelope.schema == ENVELOPE
        for told in envelope.to_pylist():
            if told["kind"] == 0:
                assert told["seq"] not in self.answers, "two answers to one request"
                self.answers[told["seq"]] = (told["ts"], told["body"])
            else:
                self.records.append((told["offset"], told["key"], told["body"]))


def cuts(rows: list[Any], chooser: random.Random) -> list[list[Any]]:
    """The rows in batches of any size, none at all among them."""
    cut, at = [], 0
    while at < len(rows):
        size = chooser.choice([0, 1, 2, 7, 40, 200])
        cut.append(rows[at : at + size])
        at += size
    return cut


@pytest.mark.parametrize("seed", range(4))
def test_rows_are_served_as_frames_are(seed: int) -> None:
    story = Story(seed).tell(250)
    told, shard, chooser = Told(), new_shard(), random.Random(seed)
    shard.advance(START_MS)
    for rows in cuts(story.requests, chooser):
        told.add(shard.process(batch(rows)))
    told.add(shard.advance(story.end_ms))
    assert told.records == story.records
    assert told.answers == story.answers
    assert shard.next_offset == len(story.records)
    unanswered = [one for one in story.requests if one["seq"] not in story.answers]
    assert {one["api_key"] for one in unanswered} <= {11, 14}
    assert shard.waiting == 0, "a minute ends every wait: what has no answer was let go"
    assert {ts for ts, _ in told.answers.values()} - {one["ts"] for one in story.requests}


@pytest.mark.parametrize("seed", range(4))
def test_a_shard_goes_on_from_its_checkpoint(seed: int) -> None:
    """After every batch another shard takes over, without any difference."""
    story = Story(seed).tell(250)
    told, shard, chooser = Told(), new_shard(), random.Random(seed)
    shard.advance(START_MS)
    for rows in cuts(story.requests, chooser):
        told.add(shard.process(batch(rows)))
        successor = ArrowShard(CONFIG, topics=TOPICS)
        successor.resume(shard.checkpoint())
        assert (successor.waiting, successor.next_offset) == (shard.waiting, shard.next_offset)
        assert successor.checkpoint() == shard.checkpoint()
        shard = successor
    told.add(shard.advance(story.end_ms))
    assert (told.answers, told.records) == (story.answers, story.records)


def test_what_a_turn_left_behind_is_no_part_of_the_next() -> None:
    """A shard that has served many requests answers like one that was made of its checkpoint."""
    used, named = new_shard(), commit_body("billing", 0, 0)
    # Four thousand answers with a long topic name take more than the memory that is kept for the
    # next turn.
    unknown = named.replace(string("orders"), string("t" * 200))
    used.process(batch([commit(seq, payload=unknown) for seq in range(4_000)]))
    member = Story(0)._members[0]
    first = row(4_000, START_MS, "group-0", (11, 5), Story(0)._body(11, member, -1)[1])
    _, told = used.process(batch([first])).to_pylist()
    member.member_id = told["member_id"]
    join = Story(0)._body(11, member, -1)[1]
    joins = [row(seq, START_MS + 1, "group-0", (11, 5), join) for seq in (4_001, 4_002)]
    unreadable = commit(4_003, START_MS + 1, payload=named[:-3])
    used.process(batch([*joins, unreadable]))
    fresh = ArrowShard(CONFIG, topics=TOPICS)
    fresh.resume(used.checkpoint())
    later = [
        [beat(4_004, START_MS + 2)],
        [commit(4_005, START_MS + 3), commit(4_006, START_MS + 3)],
    ]
    for rows in later:
        assert used.process(batch(rows)).equals(fresh.process(batch(rows)))
    told = used.advance(START_MS + 60_000)
    assert told.equals(fresh.advance(START_MS + 60_000))
    assert told.num_rows, "joins are answered in time"


def test_what_time_did_is_no_measure_for_the_next_batch() -> None:
    """One request behind thousands of records of time, and then thousands of requests: memory is
    not reserved as if each of these came with as many records."""
    program = """if True:
        import resource, sys
        sys.path.insert(0, sys.argv[1])
        from embedding.test_arrow import START_MS, batch, beat, commit, new_shard
        shard = new_shard()
        day = 86_400_000
        shard.process(batch([commit(n, group=f"group-{n}") for n in range(5_000)]))
        told = shard.process(batch([beat(5_000, START_MS + 8 * day)]))
        assert told.num_rows > 5_000, told.num_rows
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 29),) * 2)
        told = shard.process(batch([beat(n, START_MS + 8 * day) for n in range(10_000)]))
        assert told.num_rows == 10_000
    """
    command = [sys.executable, "-c", program, str(Path(__file__).parents[1])]
    subprocess.run(command, check=True)


def test_the_records_come_as_a_log_has_them() -> None:
    """`take_batches` gives what `record_batch` makes of a step's appends."""
    rows, framed, turned = (
        [commit(seq, START_MS + seq // 2) for seq in range(6)],
        b"",
        Shard(CONFIG, topics=TOPICS),
    )
    for first in range(0, 6, 2):
        requests = [Request(one["seq"], framed_commit(one)) for one in rows[first : first + 2]]
        (append,) = turned.step(rows[first]["ts"], requests, first).appends
        framed += record_batch(append, leader_epoch=4)
    shard = new_shard()
    assert shard.take_batches(4) == b""
    shard.process(batch(rows))
    assert shard.take_batches() == framed
    assert shard.take_batches() == b""
    replayed = new_shard()
    replayed.replay(framed, 6)
    assert replayed.next_offset == 6


def test_no_answer_comes_before_a_record_that_it_tells_of() -> None:
    refused = commit(4, api_version=99)
    rows = [commit(0), beat(1), refused, commit(2), beat(3), commit(5, START_MS + 1)]
    told = new_shard().process(batch(rows)).to_pylist()
    order = [
        ("answer", row["seq"]) if row["kind"] == 0 else ("record", row["offset"]) for row in told
    ]
    first, second = order[:7], order[7:]
    assert first == [("record", 0), ("record", 1), *(("answer", seq) for seq in range(5))]
    assert second == [("record", 2), ("answer", 5)]


def framed_commit(asked: dict[str, Any]) -> bytes:
    return b"\0\x08\0\x07\0\0\0\0" + b"\0\x0aconsumer-1" + asked["payload"]


def test_a_checkpoint_is_whole_and_of_this_shard() -> None:
    shard = new_shard(shard=5, shards=8)
    with pytest.raises(ArgumentError, match="it has served no rows"):
        shard.checkpoint()
    shard.process(batch([commit()]))
    checkpoint = shard.checkpoint()
    for broken in (checkpoint[:-1], b"", checkpoint[:20] + b"?" + checkpoint[21:]):
        with pytest.raises(ArgumentError, match=r"it is not what ArrowShard\.checkpoint gave"):
            new_shard(shard=5, shards=8).resume(broken)
    with pytest.raises(ArgumentError, match="it is of shard 5 of 8, not 0 of 1"):
        new_shard().resume(checkpoint)
    with pytest.raises(ArgumentError, match="it has a state already"):
        shard.resume(checkpoint)
    resumed = new_shard(shard=5, shards=8)
    resumed.resume(checkpoint)
    assert resumed.process(batch([commit(1)])).equals(shard.process(batch([commit(1)])))


def test_an_answer_says_what_it_came_to() -> None:
    shard = new_shard(shard=3, shards=50, epoch=7)
    join = Story(0)._body(11, Story(0)._members[0], -1)
    rows = [
        beat(5, group="g", generation=1, member_id="nobody"),
        commit(6, group="g"),
        row(7, START_MS, "g", (11, 5), join[1].replace(b"\0\x07group-0", b"\0\x01g")),
    ]
    record, *answers = shard.process(batch(rows)).to_pylist()
    answered = {told["seq"]: told for told in answers}
    common = {"kind": 0, "shard": 3, "offset": None, "epoch": None, "ts": START_MS, "key": None}
    common |= {"group_id": "g"}
    beaten = {"seq": 5, "member_id": "nobody", "api_key": 12, "error_code": 25, "generation": 1}
    assert answered[5] == common | beaten | {"body": b"\0\0\0\0\0\x19"}
    assert (answered[6]["error_code"], answered[6]["member_id"]) == (0, None)
    assert answered[7]["error_code"] == 79  # MEMBER_ID_REQUIRED: and this is the one
    assert answered[7]["member_id"].startswith("consumer-1-")
    assert (record["kind"], record["offset"], record["epoch"], record["ts"]) == (1, 0, 7, START_MS)
    assert record["seq"] == 6
    assert record["key"].startswith(b"\0\1\0\1g")
    assert record["api_key"] is None


@pytest.mark.parametrize("seed", range(4))
def test_a_record_names_the_request_that_it_came_of(seed: int) -> None:
    """In batches of any size the same as one by one, where the cause is certain."""
    story, causes = Story(seed).tell(250), {}
    alone, together, chooser = new_shard(), new_shard(), random.Random(seed)
    for asked in story.requests:
        for told in alone.process(batch([asked])).to_pylist():
            if told["kind"] == 1:
                causes[told["offset"]] = told["seq"]
                assert told["seq"] in (None, asked["seq"])
                # A record due to time has its own time, unless it is due together with the request.
                assert told["seq"] is None or told["ts"] == asked["ts"]
    told = [row for rows in cuts(story.requests, chooser)
            for row in together.process(batch(rows)).to_pylist() if row["kind"] == 1]  # fmt: skip
    assert {row["offset"]: row["seq"] for row in told} == causes
    by_request = {seq for seq in causes.values() if seq is not None}
    apis = {story.requests[seq]["api_key"] for seq in by_request}
    assert apis >= {8, 11, 42, 47}
    assert None in causes.values(), "the end of a session does too"


def test_a_request_that_its_member_repeats_waits_no_longer() -> None:
    """Only the last JoinGroup or SyncGroup of a member is answered: the others are let go."""
    member = Story(0)._members[0]
    first = row(0, START_MS, "group-0", (11, 5), Story(0)._body(11, member, -1)[1])
    _, told = (shard := new_shard()).process(batch([first])).to_pylist()
    member.member_id = told["member_id"]
    join = Story(0)._body(11, member, -1)[1]
    joins = [row(seq, START_MS + seq // 2, "group-0", (11, 5), join) for seq in (1, 2, 3, 4)]
    assert shard.process(batch(joins)).num_rows == 0
    assert shard.waiting == 1
    successor = ArrowShard(CONFIG, topics=TOPICS)
    successor.resume(shard.checkpoint())
    assert [told["seq"] for told in successor.advance(START_MS + 1_000).to_pylist()] == [4]
    assert successor.waiting == 0


def test_a_heartbeat_needs_no_payload() -> None:
    shard, columns = new_shard(), {"member_id": "nobody", "generation": 1}
    rows = [beat(0, **columns), beat(1, payload=None, **columns)]
    first, second = shard.process(batch(rows)).to_pylist()
    assert first | {"seq": 1} == second


def test_a_heartbeat_of_a_client_with_too_long_a_name_is_refused_alone() -> None:
    """Heartbeats are served together, but for one that cannot be served."""
    rows = [beat(0), beat(1, client_id="c" * 32_767), beat(2, payload=b"")]
    answers = new_shard().process(batch(rows)).to_pylist()
    codes = {told["seq"]: told["error_code"] for told in answers}
    assert codes == {0: 25, 1: 42, 2: 42}


def test_a_request_that_cannot_be_read_is_answered_without_a_body() -> None:
    rows = [
        commit(0, api_version=99),
        commit(1, api_key=0, payload=None),
        commit(2, payload=commit_body("billing", 0, 0)[:-3]),
        commit(3, payload=b""),
        commit(4, client_id="c" * 32_767),
        beat(5),
    ]
    answers = new_shard().process(batch(rows)).to_pylist()
    codes = {told["seq"]: (told["error_code"], told["body"]) for told in answers}
    invalid, unsupported = (42, None), (35, None)
    assert codes.pop(5)[0] == 25
    assert codes == {0: unsupported, 1: unsupported, 2: invalid, 3: invalid, 4: invalid}


def without(column: str) -> pa.RecordBatch:
    return batch([commit()]).drop_columns([column])


def retyped(column: str, kind: pa.DataType, values: list[Any] | None = None) -> pa.RecordBatch:
    given = batch([commit()])
    at = given.schema.get_field_index(column)
    cast = pa.array(values, kind) if values else given.column(at).cast(kind)
    return given.set_column(at, pa.field(column, kind), cast)


BAD_BATCHES = [
    (without("group_id"), "batch: column group_id is missing: the batch has seq, ts, member_id"),
    (without("payload"), "batch: column payload is missing"),
    (retyped("ts", pa.timestamp("ms")), "column ts is timestamp(ms), not int64"),
    (retyped("api_key", pa.int32()), "column api_key is int32, not int16"),
    (retyped("group_id", pa.binary()), "column group_id is binary, not string"),
    (retyped("payload", pa.string(), ["x"]), "column payload is string, not binary"),
    (retyped("group_id", pa.string(), [None]), "column group_id is NULL in row 0"),
    (retyped("seq", pa.int64(), [None]), "column seq is NULL in row 0"),
    ([commit(), commit(ts=START_MS - 1)], f"row 1, column ts: {START_MS - 1} comes after"),
    ([commit(ts=-1)], "row 0, column ts: -1 comes after 0"),
    ([commit(ts=1 << 62)], "row 0, column ts: 4611686018427387904 is no time in milliseconds"),
    ([commit(), commit(payload=None)], "row 1, column payload: NULL, which only a heartbeat"),
    ([beat(payload=None)], "row 0, column payload: NULL, in a heartbeat without member_id"),
    (
        [commit(), commit(group="other") | {"group_id": "billing"}],
        'row 1, column group_id: "billing", but the payload says "other"',
    ),
]


@pytest.mark.parametrize(("given", "reason"), BAD_BATCHES, ids=[why for _, why in BAD_BATCHES])
def test_a_batch_that_cannot_be_right_does_nothing(given: Any, reason: str) -> None:
    shard = new_shard()
    bad = batch(given) if isinstance(given, list) else given
    with pytest.raises(ArgumentError) as caught:
        shard.process(bad)
    assert reason in str(caught.value)
    assert (shard.next_offset, shard.waiting) == (0, 0)
    assert shard.process(batch([commit()])).num_rows == 2


def test_rows_of_another_shard_are_refused() -> None:
    shard = new_shard(shard=2, shards=8)
    with pytest.raises(ArgumentError, match='group_id: "billing" belongs to shard 5 of 8, not 2'):
        shard.process(batch([commit()]))
    describe = (
        b"\0\0\0\x02" + b"\0\x07billing" + b"\0\x05sales" + b"\0"
    )  # v4: two groups of two shards
    shard = new_shard(shard=5, shards=8)
    with pytest.raises(ArgumentError, match='payload: it names "sales", which belongs to shard'):
        shard.process(batch([row(0, START_MS, "billing", (15, 4), describe)]))
    describe = b"\x03" + b"\x08billing" + b"\x06sales" + b"\0\0"  # the same of consumer groups
    with pytest.raises(ArgumentError, match='payload: it names "sales", which belongs to shard'):
        shard.process(batch([row(0, START_MS, "billing", (69, 0), describe)]))
    assert shard.process(batch([commit()])).num_rows == 2
    with pytest.raises(ArgumentError, match="shard: 8 is not between 0 and 7"):
        new_shard(shard=8, shards=8)


def test_time_does_not_run_back_between_batches() -> None:
    shard = new_shard()
    shard.process(batch([commit(ts=START_MS)]))
    shard.advance(START_MS + 10)
    with pytest.raises(ArgumentError, match=f"row 0, column ts: {START_MS} comes after"):
        shard.process(batch([commit(ts=START_MS)]))
    assert shard.advance(START_MS).num_rows == 0


def test_a_shard_takes_frames_or_rows_and_its_class_says_which() -> None:
    frames, rows = Shard(CONFIG), new_shard()
    assert not hasattr(frames, "process")
    assert not hasattr(rows, "step")
    with pytest.raises(ArgumentError, match=r"a pyarrow.RecordBatch, not list"):
        rows.process([commit()])  # type: ignore[arg-type]
    rows.process(batch([]))
    frames.step(START_MS)
    for begun in (frames, rows):
        with pytest.raises(ArgumentError, match="replay comes before"):
            begun.replay(b"", 0)


@pytest.mark.parametrize("layout", ["large", "view", "sliced"])
def test_every_layout_of_strings_is_read(layout: str) -> None:
    rows = [commit(seq) if seq % 3 else beat(seq) for seq in range(20)]
    given = batch(rows)
    if layout == "sliced":
        given = batch([beat(), *rows, beat()]).slice(1, 20)
    else:
        wide = {"string": pa.large_string(), "binary": pa.large_binary()}
        view = {"string": pa.string_view(), "binary": pa.binary_view()}
        of = wide if layout == "large" else view
        fields = [each.with_type(of.get(str(each.type), each.type)) for each in REQUEST]
        given = pa.RecordBatch.from_pylist(rows, pa.schema(fields))
    assert new_shard().process(given).equals(new_shard().process(batch(rows)))


def test_schemas_fit_together() -> None:
    """An envelope is a response and a record, under the names that they have there."""
    both = {each.name: each for each in ENVELOPE}
    for schema, renamed in ((RESPONSE, {"payload": "body"}), (RECORD, {"value": "body"})):
        for each in schema:
            if each.name != "cause_seq":
                assert both[renamed.get(each.name, each.name)].type == each.type
    assert not any(pa.types.is_dictionary(each.type) for each in ENVELOPE)


@pytest.mark.parametrize(
    "use", ["ArrowShard().advance(1)", "tables.groups([])", "tables.commits_of(1)"]
)
def test_without_pyarrow_the_error_says_what_to_install(use: str) -> None:
    program = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from pykcoord import ArrowShard, tables\n"
        f"try: {use}\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    said = "Arrow tables and batches need pyarrow: pip install 'pykcoord[arrow]'\n"
    assert done.stdout == said, done.stderr


def kinds(shard: ArrowShard) -> list[tuple[str, str, int]]:
    return [(event.kind, event.group_id, event.timestamp_ms) for event in shard.take_events()]


def test_events_are_gathered_for_who_asks_with_their_times() -> None:
    shard, silent = new_shard(tells_events=True), new_shard()
    rows = [commit(0, START_MS, "a"), commit(1, START_MS + 5, "b"), commit(2, START_MS + 9, "a")]
    for each in (shard, silent):
        each.process(batch(rows))
    expected = [("group_created", "a", START_MS), ("group_created", "b", START_MS + 5)]
    assert kinds(shard) == expected
    assert kinds(shard) == kinds(silent) == []
    resumed = new_shard(tells_events=True)
    resumed.resume(shard.checkpoint())
    resumed.process(batch([commit(3, START_MS + 20, "c")]))
    assert kinds(resumed) == [("group_created", "c", START_MS + 20)]


def test_the_newest_events_are_kept_and_the_others_counted() -> None:
    shard = new_shard(tells_events=True)
    for first in range(0, 12_000, 3_000):
        numbers = range(first, first + 3_000)
        shard.process(batch([commit(at, START_MS + at, f"g{at}") for at in numbers]))
    assert shard.events_dropped == 2_000
    told = kinds(shard)
    assert (len(told), told[0], told[-1][1]) == (
        10_000, ("group_created", "g2000", START_MS + 2_000), "g11999",
    )  # fmt: skip
    assert (kinds(shard), shard.events_dropped) == ([], 2_000)
