"""Files are replaced whole or not at all, and a directory's name outlives a power cut."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pykcoord.log import LogDirectory
from pykcoord.log.checkpoint import write_epochs
from pykcoord.log.durable import make_directory, replacing
from pykcoord.log.state_file import StateFile


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Files and folders that are synced, in order."""
    paths: list[Path] = []
    fsync = os.fsync

    def noting(descriptor: int) -> None:
        paths.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noting)
    return paths


def test_every_name_above_a_new_directory_is_durable(tmp_path: Path, synced: list[Path]):
    make_directory(tmp_path / "a" / "b" / "c")
    assert synced == [tmp_path, tmp_path / "a", tmp_path / "a" / "b"]
    make_directory(tmp_path / "a" / "b" / "c")
    assert len(synced) == 3


def test_a_log_deep_below_what_is_there(tmp_path: Path, synced: list[Path]):
    LogDirectory.open(tmp_path / "a" / "data", partitions=1).close()
    assert synced[:2] == [tmp_path, tmp_path / "a"]


def test_a_file_is_synced_before_it_has_its_name(tmp_path: Path, synced: list[Path]):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with replacing(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert synced == [tmp_path / "file.tmp"]
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (b"new", [path])


@pytest.mark.parametrize("failing", ["fsync", "replace"])
@pytest.mark.parametrize("what", ["epochs", "catalogue"])
def test_what_cannot_be_replaced_stays_and_leaves_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, failing: str
):
    def write(epoch: int) -> None:
        if what == "epochs":
            write_epochs(tmp_path, [(epoch, 0)])
        else:
            StateFile(tmp_path / "catalogue.json").write({"epoch": epoch})

    write(1)
    (path,) = tmp_path.iterdir()
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(OSError, match="No space left"):
        write(2)
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (before, [path])
