"""The directory: layout, number of partitions, lock, leader epoch, clean stop."""

from __future__ import annotations

import base64
import fcntl
import os
import re
import subprocess
import sys
import uuid
from pathlib import Path
from threading import Event

import pytest

from pykcoord.cluster import require_no_shard_log
from pykcoord.errors import (
    ArgumentError,
    ConfigError,
    CorruptLogError,
    KcoordError,
    LogError,
    LogFencedError,
    LogLockedError,
)
from pykcoord.log import Append, LogDirectory, LogReader
from pykcoord.log._record_batch import frame, header
from pykcoord.log.replicas import ReplicaDirectory
from pykcoord.log.shared import FolderStore
from pykcoord.log.shared.rounds import entry_name
from pykcoord.log.verify import verify

HOLDER = """
import sys
from pykcoord.log import LogDirectory
log = LogDirectory.open(sys.argv[1], partitions=2)
print("open", flush=True)
sys.stdin.read()
"""


def append(log: LogDirectory, shard: int) -> None:
    finished = Event()
    log.append([Append(shard, log.next_offset(shard), 1, 5, 5, b"x")], lambda *_: finished.set())
    assert finished.wait(30)


def epochs(log: LogDirectory, shard: int) -> list[int]:
    content = b"".join(log.read(shard))
    return [header(content, at).partition_leader_epoch for at in range(0, len(content), 62)]


def test_the_layout_is_kafkas(tmp_path: Path):
    with LogDirectory.open(tmp_path / "new" / "data") as log:
        append(log, 7)
        topic_id = log.topic_id
    data = tmp_path / "new" / "data"
    folders = sorted(path.name for path in data.iterdir() if path.is_dir())
    assert folders == sorted(f"__consumer_offsets-{number}" for number in range(50))
    assert sorted(path.name for path in data.iterdir() if path.is_file()) == [
        ".lock",
        "pykcoord.properties",
    ]
    partition = data / "__consumer_offsets-7"
    assert sorted(path.name for path in partition.iterdir()) == [
        f"{0:020d}.log",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ]
    encoded = base64.urlsafe_b64encode(topic_id).decode().rstrip("=")
    assert (partition / "partition.metadata").read_text() == f"version: 0\ntopic_id: {encoded}"
    assert (partition / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"
    assert list((data / "__consumer_offsets-0").iterdir()) == []
    assert LogDirectory.open(data).topic_id == topic_id


def test_every_start_raises_the_epoch(tmp_path: Path):
    for epoch in range(4):
        with LogDirectory.open(tmp_path, partitions=1) as log:
            assert log.leader_epoch == epoch
            if epoch != 2:
                append(log, 0)
    assert (tmp_path / "__consumer_offsets-0" / "leader-epoch-checkpoint").read_text() == (
        "0\n3\n0 0\n1 1\n3 2\n"
    )
    with LogDirectory.open(tmp_path, partitions=1) as log:
        assert epochs(log, 0) == [0, 1, 3]


def test_the_epoch_survives_the_loss_of_its_files(tmp_path: Path):
    for _ in range(3):
        with LogDirectory.open(tmp_path, partitions=1) as log:
            append(log, 0)
    (tmp_path / "pykcoord.properties").unlink()
    checkpoint = tmp_path / "__consumer_offsets-0" / "leader-epoch-checkpoint"
    checkpoint.write_text("0\n9\nnonsense")
    with LogDirectory.open(tmp_path, partitions=1) as log:
        assert log.leader_epoch == 3
        append(log, 0)
    assert checkpoint.read_text() == "0\n4\n0 0\n1 1\n2 2\n3 3\n"


def test_epochs_behind_a_cut_are_forgotten(tmp_path: Path):
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    (folder / f"{0:020d}.log").write_bytes(frame(b"x", 5, 0, 0, 0, 1))
    (folder / "leader-epoch-checkpoint").write_text("0\n3\n1 0\n4 5\n8 9\n")
    with LogDirectory.open(tmp_path, partitions=1) as log:
        append(log, 0)
    assert (folder / "leader-epoch-checkpoint").read_text() == "0\n2\n1 0\n2 5\n"


def test_broken_properties_are_refused(tmp_path: Path):
    (tmp_path / "pykcoord.properties").write_text("version=2\n")
    with pytest.raises(CorruptLogError, match="delete the file"):
        LogDirectory.open(tmp_path)
    with pytest.raises(CorruptLogError, match="delete the file"):
        LogReader.open(tmp_path)


def test_a_second_opening_is_refused(tmp_path: Path):
    with LogDirectory.open(tmp_path) as log:
        append(log, 0)
        with pytest.raises(LogLockedError, match=f"in use by process {os.getpid()}"):
            LogDirectory.open(tmp_path)
        append(log, 0)
        assert LogReader.open(tmp_path).next_offset(0) == 2
    LogDirectory.open(tmp_path).close()


def test_a_first_start_that_ended_among_its_folders_is_taken_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    mkdir = Path.mkdir

    def fails(path: Path, *arguments: object, **options: object) -> None:
        if path.name == "__consumer_offsets-1":
            raise OSError(28, "No space left on device")
        mkdir(path, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "mkdir", fails)
    with pytest.raises(OSError, match="No space left"):
        LogDirectory.open(tmp_path, partitions=3)
    assert [path.name for path in tmp_path.glob("__consumer_offsets-*")] == ["__consumer_offsets-0"]
    monkeypatch.undo()
    with LogDirectory.open(tmp_path, partitions=3) as log:
        append(log, 2)


def test_a_second_process_is_refused_until_the_first_is_gone(tmp_path: Path):
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        with pytest.raises(LogLockedError) as refused:
            LogDirectory.open(tmp_path, partitions=2)
        assert refused.value.pid == holder.pid
        assert f"process {holder.pid}" in str(refused.value)
    finally:
        holder.kill()
        holder.communicate()
    LogDirectory.open(tmp_path, partitions=2).close()


def test_a_running_kafka_broker_is_respected(tmp_path: Path):
    """Java's FileLock on the same file is fcntl's, which flock does not see."""
    program = (
        "import fcntl, sys; file = open(sys.argv[1], 'w'); fcntl.lockf(file, fcntl.LOCK_EX); "
        "print('locked', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(tmp_path / ".lock")]
    broker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert broker.stdout is not None
        assert broker.stdout.readline() == b"locked\n"
        with pytest.raises(LogLockedError, match="another process"):
            LogDirectory.open(tmp_path)
    finally:
        broker.kill()
        broker.communicate()


def test_a_newer_epoch_on_disk_fences_an_older_log(tmp_path: Path):
    """Somebody wrote past the lock (a copy, another machine): the first append already notices."""
    log = LogDirectory.open(tmp_path, partitions=1)
    append(log, 0)
    with open(tmp_path / "__consumer_offsets-0" / f"{0:020d}.log", "ab") as file:
        file.write(frame(b"x", 1, 1, 0, 0, 7))
    outcome: list[object] = []
    finished = Event()

    def done(committed: object, failed: list[tuple[int, Exception]]) -> None:
        outcome.extend(error for _, error in failed)
        finished.set()

    log.append([Append(0, 1, 1, 0, 0, b"x")], done)
    assert finished.wait(30)
    assert isinstance(outcome[0], LogFencedError)
    assert "leader epoch 0 was superseded by 7" in str(outcome[0])
    log.close()
    assert LogDirectory.open(tmp_path, partitions=1).leader_epoch == 8


@pytest.mark.parametrize("made_with", [1, 3])
def test_the_number_of_partitions_is_read_back(tmp_path: Path, made_with: int):
    LogDirectory.open(tmp_path, partitions=made_with).close()
    with pytest.raises(ConfigError, match=f"with {made_with} partitions, not 2; set it to"):
        LogDirectory.open(tmp_path, partitions=2)
    assert LogReader.open(tmp_path).shards == made_with


def test_a_kafka_folder_with_gaps_may_have_had_more(tmp_path: Path):
    for number in (0, 2, 5):
        (tmp_path / f"__consumer_offsets-{number}").mkdir()
    with pytest.raises(ConfigError, match="with 6 partitions, not 5"):
        LogDirectory.open(tmp_path, partitions=5)
    LogDirectory.open(tmp_path, partitions=50).close()


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"partitions": 0}, "partitions"),
        ({"segment_bytes": 13}, "segment_bytes"),
        ({"flush": "never"}, "flush"),
        ({"flush_interval_ms": 0}, "flush_interval_ms"),
        ({"on_corruption": "ignore"}, "on_corruption"),
    ],
)
def test_arguments_are_checked(tmp_path: Path, options: dict, argument: str):
    with pytest.raises(ArgumentError) as refused:
        LogDirectory.open(tmp_path / "log", **options)
    assert refused.value.argument == argument
    assert not (tmp_path / "log").exists()


def test_a_refused_start_gives_up_the_lock_and_changes_nothing(tmp_path: Path):
    good, bad = frame(b"x", 1, 0, 0, 0, 0), bytearray(frame(b"x", 1, 0, 0, 0, 0) * 2)
    bad[61] ^= 1
    for number, content in enumerate((good + b"torn", bytes(bad))):
        folder = tmp_path / f"__consumer_offsets-{number}"
        folder.mkdir()
        (folder / f"{0:020d}.log").write_bytes(content)
    with pytest.raises(CorruptLogError):
        LogDirectory.open(tmp_path, partitions=2)
    segment = tmp_path / "__consumer_offsets-0" / f"{0:020d}.log"
    assert segment.read_bytes() == good + b"torn"
    with LogDirectory.open(tmp_path, partitions=2, on_corruption="truncate") as log:
        assert [cut.cut_bytes for cut in log.cuts] == [4, 124]


def test_kafkas_mark_of_a_clean_stop_goes(tmp_path: Path):
    """With it, a broker started on the directory would not check what pykcoord wrote."""
    (tmp_path / ".kafka_cleanshutdown").touch()
    LogDirectory.open(tmp_path).close()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_the_lock_file_says_who(tmp_path: Path):
    with LogDirectory.open(tmp_path):
        assert (tmp_path / ".lock").read_text() == f"{os.getpid()}\n"
        with open(tmp_path / ".lock") as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)


def test_a_folder_that_went_away_is_missed(tmp_path: Path):
    with LogDirectory.open(tmp_path, partitions=3) as log:
        append(log, 1)
    folder = tmp_path / "__consumer_offsets-1"
    folder.rename(tmp_path / "elsewhere")
    said = re.escape(f"{folder} is missing, and its groups with it: bring the folder back")
    with pytest.raises(LogError, match=said):
        LogDirectory.open(tmp_path, partitions=3)
    (problem,) = verify(tmp_path).problems
    assert str(problem).startswith(f"{folder}: the folder is missing; its groups")
    (tmp_path / "elsewhere").rename(folder)
    assert verify(tmp_path).sound
    with LogDirectory.open(tmp_path, partitions=3) as log:
        assert log.leader_epoch == 1


def test_folders_that_a_broker_does_not_have_are_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    for number in (0, 2):
        (tmp_path / f"__consumer_offsets-{number}").mkdir()
    with LogDirectory.open(tmp_path, partitions=5):
        pass
    assert "has no folder for 3 of 5 partitions" in caplog.text
    caplog.clear()
    with LogDirectory.open(tmp_path, partitions=5):
        assert not caplog.text


def test_the_folder_of_a_cluster_and_a_node_of_a_kafka_are_of_another_kind(tmp_path: Path):
    """Served as a log they looked empty; a node deletes what brokers do not give it."""
    cluster, node = tmp_path / "cluster", tmp_path / "node"
    FolderStore(cluster).create(entry_name(0), b"")
    replicas = ReplicaDirectory.open(node, 1_048_576)
    replicas.begin("one", 100, uuid.uuid4(), 3, str(uuid.uuid4()))
    replicas.close()
    for directory, kind in (
        (cluster, f"the folder of a cluster; serve it with --cluster {cluster}"),
        (node, "the directory of a node of a Kafka cluster; serve it with --kafka HOST:PORT"),
    ):
        before = sorted(directory.iterdir())
        with pytest.raises(LogError, match=re.escape(f"{directory}: {kind}")):
            LogDirectory.open(directory, partitions=3)
        assert sorted(directory.iterdir()) == before


def test_a_cluster_is_not_made_in_the_data_directory_of_a_server(tmp_path: Path):
    store = FolderStore(tmp_path)
    require_no_shard_log(tmp_path, store)
    with LogDirectory.open(tmp_path, partitions=3):
        pass
    with pytest.raises(KcoordError, match="is the data directory of one server, which a cluster"):
        require_no_shard_log(tmp_path, store)
    store.create(entry_name(0), b"")  # made before it was refused
    require_no_shard_log(tmp_path, store)
