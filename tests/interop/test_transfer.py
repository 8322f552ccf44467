"""`pykcoord log import` and `export`: the same groups and offsets elsewhere, whatever the number of
partitions; a source that is not touched; a destination that is whole or not there."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import segments
from support.asked import OFFSET_FETCH, Asked
from support.server import PykcoordServer

from pykcoord import cli
from pykcoord._native import dump, partition_of
from pykcoord.cli import transfer
from pykcoord.cli.state import state_of
from pykcoord.errors import LogLockedError
from pykcoord.log import LogDirectory, LogReader, verify
from pykcoord.log.transfer import Target

from .conftest import Serve

Run = Callable[..., tuple[int, str]]
_ID = "A" * 21 + "Q"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `pykcoord log ...`: its exit code, and what it printed (on stderr if it failed)."""

    def call(*arguments: object) -> tuple[int, str]:
        code = cli.run(["log", *map(str, arguments)])
        told = capsys.readouterr()
        return code, told.err if code else told.out

    return call


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Three partitions of Kafka's."""
    return segments.unpack(segments.OWN / "gzip-1", tmp_path / "source")


def _contents(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def _placed(groups: dict[str, Any]) -> dict[str, Any]:
    """Groups without the partition that they are in, which moves."""
    return {
        name: {field: of for field, of in group.items() if field != "partition"}
        for name, group in groups.items()
    }


def _records(directory: Path, kind: str) -> list[dict[str, Any]]:
    """Values of all records of a kind."""
    log = LogReader.open(directory)
    rows = [row for shard in log.partitions for chunk in log.read(shard) for row in dump(chunk)]
    return [dict(row[10]) for row in rows if row[8] == kind and row[10] is not None]


@pytest.mark.parametrize("partitions", [1, 7])
def test_every_log_of_kafka_is_imported(
    scenario: Path, tmp_path: Path, run: Run, partitions: int
) -> None:
    expected = segments.expected(scenario)
    before = _contents(scenario)
    code, told = run(
        "import", scenario, tmp_path / "new", "--partitions", partitions,
        "--open-transactions", "keep", "--on-corruption", "truncate",
    )  # fmt: skip
    assert code == 0, told
    assert _contents(scenario) == before
    assert verify(tmp_path / "new").sound
    names = segments.topic_names(expected)
    found = state_of(LogReader.open(tmp_path / "new"), topic_names=names)
    assert found["offsets"] == expected["offsets"]
    assert found["unstable"] == expected["unstable"]
    source = LogReader.open(scenario, on_corruption="truncate")
    was = state_of(source, topic_names=names)["groups"]
    assert found["groups"].keys() == expected["groups"].keys()
    assert _placed(found["groups"]) == _placed({name: was[name] for name in expected["groups"]})
    for name, group in found["groups"].items():
        assert group["partition"] == partition_of(name, partitions)


def test_an_imported_log_is_served(tmp_path: Path, run: Run, serve: Serve) -> None:
    source = segments.unpack(segments.OWN / "classic-2", tmp_path / "source")
    expected = segments.expected(source)
    new = tmp_path / "new"
    assert run("import", source, new, "--source-partitions", 3, "--partitions", 11)[0] == 0
    server = serve(new, 11, "--topic", "orders:1")
    with Asked(server.address) as asked:
        assert asked.listed().keys() == expected["groups"].keys()
        assert asked.offsets(expected["groups"]) == expected["offsets"]
        for name, group in asked.described(expected["groups"]).items():
            assert group["state"] == expected["groups"][name]["state"]
            assert len(group["members"]) == len(expected["groups"][name]["members"])


def test_the_summary_names_what_came_along_and_what_comes_next(
    source: Path, tmp_path: Path, run: Run
) -> None:
    new = tmp_path / "new"
    code, told = run("import", source, new)
    assert code == 0
    rows = {line[:16].strip(): line[16:].split() for line in told.splitlines()}
    assert rows["classic groups"] == ["3", "3"]
    assert rows["consumer groups"] == ["1", "1"]
    assert rows["offsets"] == ["48", "48"]
    assert rows["partitions"] == ["3", "3"]
    assert told.endswith(f"next: pykcoord serve {new} --set offsets.topic.num.partitions=3\n")


def test_another_number_of_partitions_for_pykcoords_own_directory(
    tmp_path: Path, run: Run, serve: Serve
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    server = serve(old, 5, "--topic", "orders:4")
    with Asked(server.address) as asked:
        for number in range(20):
            joined = asked.join_alone(f"group-{number}", instance_id=f"at-{number}")
            asked.commit(
                f"group-{number}", [("orders", 1, number)], metadata="kept",
                generation_id=joined.generation_id, member_id=joined.member_id,
            )  # fmt: skip
        before = _asked(asked)
    assert run("import", old, new) == (
        1,
        f"pykcoord: {old}: in use by process {server.pid}; stop it, or use another directory\n",
    )
    server.stop()
    assert run("import", old, new, "--partitions", 9)[0] == 0
    with Asked(serve(new, 9).address) as asked:  # the topics came along
        assert _asked(asked) == before
        errors = asked.commit("simple", [("orders", 3, 1)])
        assert {error.name for error in errors} == {"none"}


def _asked(asked: Asked) -> tuple[Any, ...]:
    groups = asked.listed()
    return groups, asked.described(groups), asked.offsets(groups)


def _broker(source: Path, topics: dict[str, tuple[str, int]]) -> Path:
    """Gives a recorded log the folders that a broker has for its topics."""
    for name, (topic_id, partitions) in topics.items():
        for number in range(partitions):
            folder = source / f"{name}-{number}"
            folder.mkdir()
            text = f"version: 0\ntopic_id: {topic_id}"
            (folder / "partition.metadata").write_text(text)
    return source


def test_topics_come_along_with_their_ids(
    source: Path, tmp_path: Path, run: Run, serve: Serve
) -> None:
    """Clients that fetch offsets by topic id (v10) find them; those of topics that are not there
    any more lose their id, and so are good for a topic of that name."""
    expected = segments.expected(source)
    topics = {name: (of["id"], of["partitions"]) for name, of in expected["topics"].items()}
    gone = sorted(topics)[0]
    _broker(source, {name: of for name, of in topics.items() if name != gone})
    new = tmp_path / "new"
    code, told = run("import", source, new)
    assert code == 0
    assert told.split("topics")[1].split()[0] == str(len(topics) - 1)
    ids = {value.get("topicId") for value in _records(new, "OffsetCommit")}
    was = {value.get("topicId") for value in _records(source, "OffsetCommit")}
    assert ids - {None} == was - {None} - {_decoded(topics[gone][0])}
    assert len(ids - {None}) == len(topics) - 1
    versions = {value["version"] for value in _records(new, "OffsetCommit")}
    assert versions == {3, 4}
    with Asked(serve(new, 3).address) as asked:
        group, of_topics = next(
            (group, {name: of for name, of in found.items() if name in topics and name != gone})
            for group, found in sorted(expected["offsets"].items())
            if found.keys() & topics.keys() - {gone}
        )
        response = asked.ask(
            OFFSET_FETCH, 9, groups=[{"group_id": group, "topics": None}], require_stable=False
        )
        fetched = {str(topic.name) for topic in response.groups[0].topics}
        assert of_topics.keys() <= fetched


def _decoded(topic_id: str) -> bytes:
    return base64.urlsafe_b64decode(topic_id + "==")


def test_the_partitions_of_several_brokers(source: Path, tmp_path: Path, run: Run) -> None:
    """Of two replicas the one that has more counts."""
    expected = segments.expected(source)
    other = tmp_path / "other"
    other.mkdir()
    shutil.move(source / "__consumer_offsets-1", other)
    shutil.copytree(source / "__consumer_offsets-2", other / "__consumer_offsets-2")
    lagging = next((other / "__consumer_offsets-2").glob("*.log"))
    first = next(LogReader.open(other).read(2))
    assert len(first) > 0
    lagging.write_bytes(b"")
    assert run("import", source, tmp_path / "new")[1] == (
        f"pykcoord: {source}: __consumer_offsets-1 is missing (1 of at least 3); name the "
        "directories of all brokers, or say with --source-partitions N that the topic has N "
        "partitions and those held nothing\n"
    )
    for order in ([source, other], [other, source]):
        assert run("import", *order, tmp_path / "new", "--partitions", 2)[0] == 0
        assert state_of(LogReader.open(tmp_path / "new"))["offsets"] == expected["offsets"]
        shutil.rmtree(tmp_path / "new")


def test_open_transactions_are_nobodys_silent_loss(tmp_path: Path, run: Run) -> None:
    source = segments.unpack(segments.OWN / "transactions-2", tmp_path / "source")
    expected, new = segments.expected(source), tmp_path / "new"
    code, told = run("import", source, new)
    assert code == 1
    assert told.startswith(f"pykcoord: {source}: 3 offsets of ")
    assert "say --open-transactions abort to leave them out, or keep" in told
    assert not new.exists()
    assert run("import", source, new, "--open-transactions", "abort")[0] == 0
    found = state_of(LogReader.open(new))
    assert (found["offsets"], found["unstable"]) == (expected["offsets"], {})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--source-partitions", "2"], "__consumer_offsets-2 is beyond 2 partitions"),
        (["--source-partitions", "4"], "say which with --source-partitions"),
    ],
)
def test_a_wrong_number_of_partitions_of_the_source(
    source: Path, tmp_path: Path, run: Run, arguments: list[str], message: str
) -> None:
    code, told = run("import", source, tmp_path / "new", *arguments)
    assert code == 1
    assert message in told
    assert not any(path.name.startswith("new") for path in tmp_path.iterdir())


def test_a_destination_that_is_not_new(source: Path, tmp_path: Path, run: Run) -> None:
    used = tmp_path / "used"
    used.mkdir()
    (used / "file").touch()
    assert run("import", source, used) == (
        1, f"pykcoord: DIRECTORY: {used} is not empty; name a new one\n",
    )  # fmt: skip
    inside = source / "new"
    assert run("import", source, inside) == (
        1, f"pykcoord: {inside}: lies in {source}, which is only read; name another\n",
    )  # fmt: skip
    partial = tmp_path / "new.partial"
    partial.mkdir()
    code, told = run("import", source, tmp_path / "new")
    assert code == 1
    assert f"{partial} is there, of a run that was interrupted or goes on" in told
    assert partial.exists()


def test_a_source_without_a_log(tmp_path: Path, run: Run) -> None:
    code, told = run("import", tmp_path, tmp_path / "new")
    assert (code, told.startswith(f"pykcoord: {tmp_path}: no __consumer_offsets-N folder")) == (
        1, True,
    )  # fmt: skip


def test_nobody_writes_into_a_source_meanwhile(
    source: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    LogDirectory.open(source, partitions=3).close()
    append, refused = Target.append, []

    def appending(self: Target, *arguments: Any) -> None:
        with pytest.raises(LogLockedError) as error:
            LogDirectory.open(source, partitions=3)
        refused.append(error)
        append(self, *arguments)

    monkeypatch.setattr(Target, "append", appending)
    assert run("import", source, tmp_path / "new")[0] == 0
    assert refused


def test_what_fails_leaves_nothing(
    source: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device", str(tmp_path / "new.partial"))

    monkeypatch.setattr(Target, "append", fail)
    code, told = run("import", source, tmp_path / "new")
    assert (code, told) == (1, f"pykcoord: {tmp_path / 'new.partial'}: No space left on device\n")
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_a_folder_that_cannot_be_made_leaves_nothing(
    source: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    mkdir = Path.mkdir

    def fail(self: Path, *arguments: Any, **options: Any) -> None:
        if self.name == "__consumer_offsets-2":
            raise OSError(28, "No space left on device", str(self))
        mkdir(self, *arguments, **options)

    monkeypatch.setattr(Path, "mkdir", fail)
    assert "No space left on device" in run("import", source, tmp_path / "new")[1]
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_a_difference_is_found_before_the_directory_is_there(
    source: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = Target.append

    def losing(self: Target, partition: int, batches: Any) -> None:
        append(self, partition, batches[1:])

    monkeypatch.setattr(Target, "append", losing)
    code, told = run("import", source, tmp_path / "new")
    assert code == 1
    assert "not made: group " in told
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_large_partitions_have_several_segments(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "_SEGMENT_BYTES", 400_000)
    source = segments.unpack(segments.OWN / "medium-1", tmp_path / "source")
    assert run("import", source, tmp_path / "new", "--partitions", 1)[0] == 0
    assert len(list((tmp_path / "new/__consumer_offsets-0").glob("*.log"))) > 2
    assert verify(tmp_path / "new").sound


def test_an_export_is_for_one_topic_of_a_broker(source: Path, tmp_path: Path, run: Run) -> None:
    out = tmp_path / "out"
    assert run("export", source, out)[0] == 2
    assert run("export", source, out, "--topic-id", "no")[1] == (
        "pykcoord log export: --topic-id no: not 22 characters of URL-safe base64 (see --help)\n"
    )
    code, told = run("export", source, out, "--broker-log-dir", source, "--partitions", 6)
    assert (code, "--partitions goes with --topic-id" in told) == (2, True)
    assert run("export", source, out, "--topic-id", _ID, "--partitions", 6)[0] == 0
    assert sorted(path.name for path in out.iterdir()) == [
        f"__consumer_offsets-{number}" for number in range(6)
    ]
    for folder in out.iterdir():
        text = (folder / "partition.metadata").read_text()
        assert text == f"version: 0\ntopic_id: {_ID}"
    # No topic id of the source's topics means anything to the broker.
    values = _records(out, "OffsetCommit")
    assert values
    assert not any("topicId" in value or value["version"] == 4 for value in values)


def test_a_broker_that_has_some_partitions_only(source: Path, tmp_path: Path, run: Run) -> None:
    broker = tmp_path / "broker"
    shutil.copytree(source, broker)
    assert run("export", source, tmp_path / "out", "--broker-log-dir", broker)[0] == 0
    shutil.rmtree(tmp_path / "out")
    shutil.rmtree(broker / "__consumer_offsets-1")
    code, told = run("export", source, tmp_path / "out", "--broker-log-dir", broker)
    assert code == 1
    assert told.startswith(f"pykcoord: {broker}: has some of the partitions of __consumer_offsets")
    assert "say with --topic-id ID --partitions N" in told


def test_the_broker_may_not_run(source: Path, tmp_path: Path, run: Run, serve: Serve) -> None:
    server: PykcoordServer = serve(tmp_path / "broker", 3)
    code, told = run("export", source, tmp_path / "out", "--broker-log-dir", tmp_path / "broker")
    assert (code, f"in use by process {server.pid};" in told) == (1, True)
    server.stop()
