"""Directories that cannot be served as they are. Each is refused with one line that names the file,
the fault and the way out, and stays unchanged."""

from __future__ import annotations

import os
import shutil
import struct
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import segments
from support.asked import Asked
from support.server import PykcoordServer, ServerError

from pykcoord import cli

from .conftest import Serve

_FIRST = f"{0:020d}.log"


def _line(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one line on stderr of a command that fails with exit code 1."""
    assert cli.run([str(argument) for argument in arguments]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    return lines[0]


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """The line with which `pykcoord serve DIRECTORY` refuses to start with this number of
    partitions."""

    def run(directory: Path, partitions: int, *arguments: str) -> str:
        before = _contents(directory)
        before.pop(directory / ".lock", None)
        setting = f"offsets.topic.num.partitions={partitions}"
        line = _line(
            capsys, "serve", directory, "--listen", "127.0.0.1:0", "--set", setting, *arguments
        )
        (directory / ".lock").unlink(missing_ok=True)
        assert _contents(directory) == before
        return line

    return run


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Three partitions of Kafka's."""
    return segments.unpack(segments.OWN / "gzip-1", tmp_path / "data")


def _contents(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def _message(magic: int, offset: int, key: bytes, value: bytes) -> bytes:
    """One message of format 0 or 1 (before Kafka 0.11)."""
    timestamp = struct.pack(">q", 1_400_000_000_000) if magic else b""
    body = struct.pack(">bb", magic, 0) + timestamp
    for data in (key, value):
        body += struct.pack(">i", len(data)) + data
    body = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", offset, len(body)) + body


@pytest.mark.parametrize("magic", [0, 1])
def test_message_formats_before_kafka_0_11(
    tmp_path: Path, refused: Callable[..., str], capsys: pytest.CaptureFixture[str], magic: int
) -> None:
    folder = tmp_path / "data" / "__consumer_offsets-0"
    folder.mkdir(parents=True)
    messages = [_message(magic, n, b"\0\1\0\1g\0\1t\0\0\0\0", b"\0\1" + bytes(26)) for n in (0, 1)]
    (folder / _FIRST).write_bytes(b"".join(messages))
    reason = f"{folder / _FIRST}: byte 0, offset 0: magic {magic}, of Kafka before 0.11"
    advice = "let a broker of Kafka 0.11 to 3.9 write it anew, as docs/migration.md says"
    # It is not damage: an option that cuts damage must not cut it.
    for arguments in ([], ["--on-corruption", "truncate"]):
        line = refused(folder.parent, 1, *arguments)
        assert line.startswith(f"pykcoord: {reason}")
        assert advice in line
    assert cli.run(["log", "verify", str(folder.parent)]) == 1
    told = capsys.readouterr().err
    assert reason in told
    assert advice in told


def test_a_directory_of_a_zookeeper_broker_is_served(directory: Path, serve: Serve) -> None:
    """The log is the same. Only the file that names its broker differs, and it is not needed."""
    (directory / "meta.properties").write_text("version=0\nbroker.id=7\ncluster.id=abc\n")
    for path in directory.glob("*/partition.metadata"):
        path.unlink()
    expected = segments.expected(directory)
    with Asked(serve(directory, 3).address) as asked:
        assert asked.listed().keys() == expected["groups"].keys()
        assert asked.offsets(expected["groups"]) == expected["offsets"]


def test_a_segment_whose_name_is_not_its_first_offset(
    directory: Path, refused: Callable[..., str]
) -> None:
    segment = directory / "__consumer_offsets-0" / _FIRST
    renamed = segment.rename(segment.with_name(f"{100:020d}.log"))
    line = refused(directory, 3)
    assert f"{renamed}: byte 0, offset 100: a sound batch of base offset 0 does not fit" in line
    assert f"if the file was renamed, call it {_FIRST} again" in line


def test_a_segment_that_begins_below_the_one_before(
    directory: Path, refused: Callable[..., str]
) -> None:
    segment = directory / "__consumer_offsets-0" / _FIRST
    copy = segment.with_name(f"{3:020d}.log")
    shutil.copyfile(segment, copy)
    line = refused(directory, 3)
    assert f"{copy}: byte 0, offset " in line
    assert "the segment starts below the log's next offset" in line
    assert "restore the file from a copy, or give --on-corruption truncate" in line


def test_a_partition_beyond_the_configured_count(
    directory: Path, serve: Serve, refused: Callable[..., str]
) -> None:
    serve(directory, 3).stop()
    beyond = directory / "__consumer_offsets-7"
    shutil.copytree(directory / "__consumer_offsets-0", beyond)
    line = refused(directory, 3)
    assert f"{beyond} is beyond the 3 partitions that this directory was made with" in line
    assert "move the folder away, or bring its groups in with `pykcoord log import`" in line


def test_another_number_of_partitions(directory: Path, refused: Callable[..., str]) -> None:
    line = refused(directory, 50)
    assert line == (
        f"pykcoord: offsets.topic.num.partitions: {directory} was made with 3 partitions, not 50; "
        "set it to 3, or use another directory"
    )


def test_two_processes_on_one_directory(
    directory: Path, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    first = serve(directory, 3)
    expected = segments.expected(directory)
    second = PykcoordServer(directory, settings={"offsets.topic.num.partitions": "3"})
    with pytest.raises(ServerError, match=rf"{directory}: in use by process {first.pid}; stop it"):
        second.start()
    with Asked(first.address) as asked:
        assert asked.offsets(expected["groups"]) == expected["offsets"]
    # Commands that only read take no lock.
    for verb in ("state", "dump", "verify"):
        assert cli.run(["log", verb, str(directory)]) == 0
        assert capsys.readouterr().err == ""


@pytest.fixture
def read_only() -> Iterator[Path]:
    """A data directory in which the user of the test may write nothing."""
    with tempfile.TemporaryDirectory(prefix="pykcoord-read-only-") as name:
        directory = segments.unpack(segments.OWN / "gzip-1", Path(name) / "data")
        folders = [directory, *directory.glob("*/")]
        Path(name).chmod(0o755)
        for folder in folders:
            folder.chmod(0o555)
        user = os.geteuid()
        if user == 0:
            os.seteuid(65534)
        try:
            yield directory
        finally:
            os.seteuid(user)
            for folder in folders:
                folder.chmod(0o755)


def test_a_read_only_directory(read_only: Path, capsys: pytest.CaptureFixture[str]) -> None:
    setting = "offsets.topic.num.partitions=3"
    line = _line(capsys, "serve", read_only, "--listen", "127.0.0.1:0", "--set", setting)
    assert line == (
        f"pykcoord: {read_only}: cannot be written to (Permission denied); serve needs to write "
        "there, `pykcoord log state|dump|verify` do not"
    )
    for verb in ("state", "dump", "verify"):
        assert cli.run(["log", verb, str(read_only)]) == 0
        told = capsys.readouterr()
        assert told.err == ""
        assert told.out
