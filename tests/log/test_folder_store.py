"""A folder as a shared store: what goes wrong with the folder itself."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pykcoord.log.shared import FolderStore


def moved_away(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))


def replaced(folder: Path) -> None:
    moved_away(folder)
    folder.mkdir()


def deleted(folder: Path) -> None:
    shutil.rmtree(folder)


def made_again(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


def emptied(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / "a").mkdir()


def a_file_instead(folder: Path) -> None:
    moved_away(folder)
    folder.write_text("no folder")


@pytest.mark.parametrize(
    "gone", [moved_away, replaced, deleted, made_again, emptied, a_file_instead]
)
def test_a_folder_that_is_another_one_now_takes_and_tells_nothing(
    tmp_path: Path, gone: Callable[[Path], None]
) -> None:
    """As where it is unmounted under a process: what is written there nobody else sees."""
    folder = tmp_path / "log"
    store = FolderStore(folder)
    assert store.create("a/b", b"first")
    gone(folder)
    for call in (
        lambda: store.create("a/c", b"late"),
        lambda: store.read("a/b"),
        lambda: store.read("a/c"),
        lambda: store.names("a"),
        lambda: store.delete("a/b"),
    ):
        with pytest.raises(OSError, match="log is not the folder that it was"):
            call()
    assert [path for path in tmp_path.rglob("*") if path.name == "c"] == []
    assert not folder.is_dir() or {*folder.rglob("*")} <= {folder / "a"}


def test_a_folder_that_is_put_back_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    store = FolderStore(folder)
    assert store.create("a/b", b"first")
    replaced(folder)
    with pytest.raises(OSError, match="another one is there"):
        store.names("a")
    folder.rmdir()
    (tmp_path / "elsewhere").rename(folder)
    assert store.create("a/c", b"second")
    assert store.names("a") == ["b", "c"]


def test_another_mount_of_the_same_folder_is_the_same(tmp_path: Path) -> None:
    """It may have another device number; a copy of all files stands for it here."""
    folder = tmp_path / "log"
    store = FolderStore(folder)
    assert store.create("a/b", b"first")
    moved_away(folder)
    shutil.copytree(tmp_path / "elsewhere", folder)
    assert not store.create("a/b", b"second")
    assert store.create("a/c", b"second")
    assert (folder / "a" / "c").read_bytes() == b"second"
