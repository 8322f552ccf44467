"""A disk with the faults of a test: faults.c preloaded into the server, and power cuts. The
server's directory is real. A power cut is played after the death of the process, from the journal
of its changes: everything that was not synced, of files and of names, is taken away, which is the
most that a file system may lose. It touches nothing outside its root.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).with_name("faults.c")


def build(directory: Path) -> Path:
    """Compiles faults.c; needs a C compiler, as the project itself does."""
    library = directory / "faults.so"
    command = [os.environ.get("CC", "cc"), "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run([*command, "-o", os.fspath(library), os.fspath(SOURCE), "-ldl"], check=True)
    return library


class Change(NamedTuple):
    """A line of the journal: a call that was made, `!` a fault that was played."""

    call: str
    path: str
    rest: list[str]


@dataclass
class _File:
    """`synced`: bytes that survive; `lost_from`: where a failed sync left pages that no later sync
    writes, unless they are written again (fsync(2): the error is told once)."""

    synced: int
    lost_from: int | None = None


class Disk:
    """`root` is what faults can reach; `data` in it is the server's directory."""

    def __init__(self, root: Path, library: Path) -> None:
        self.root = root / "disk"
        self.data = self.root / "data"
        self._rules = root / "rules"
        self._journal = root / "journal"
        kept = root / "kept"
        self.root.mkdir(parents=True)
        kept.mkdir()
        self.environment = {
            "LD_PRELOAD": os.fspath(library),
            "FAULTS_ROOT": os.fspath(self.root),
            "FAULTS_RULES": os.fspath(self._rules),
            "FAULTS_JOURNAL": os.fspath(self._journal),
            "FAULTS_KEPT": os.fspath(kept),
        }

    def fail(self, *rules: str) -> None:
        """From now on the server meets these faults (see faults.c); without any, the disk works."""
        fresh = self._rules.with_suffix(".tmp")
        fresh.write_text("".join(f"{rule}\n" for rule in rules))
        fresh.replace(self._rules)

    def changes(self, start: int = 0) -> list[Change]:
        """The journal, from line `start` on."""
        if not self._journal.exists():
            return []
        lines = self._journal.read_text().split("\n")[:-1][start:]
        return [Change(call, path, rest) for call, path, *rest in map(_words, lines)]

    def cut_power(self, *, torn: bool = False) -> None:
        """Takes away all that was not synced; `torn`: half of each file's unsynced bytes stay, and
        zeros behind them, as from a file that was grown and only partly written."""
        files: dict[str, _File] = {}
        names: list[Change] = []
        for change in self.changes():
            _follow(change, files, names)
        for change in reversed(names):
            self._undo(change, files)
        for path, file in files.items():
            _lose(self.root / path, file, torn)
        self._journal.write_text("")

    def _undo(self, change: Change, files: dict[str, _File]) -> None:
        path = self.root / change.path
        if change.call == "create":
            path.unlink(missing_ok=True)
            files.pop(change.path, None)
        elif change.call == "mkdir":
            shutil.rmtree(path, ignore_errors=True)
            for name in [name for name in files if name.startswith(f"{change.path}/")]:
                del files[name]
        elif change.call == "rename":
            old, kept = change.rest
            if path.exists():
                path.rename(self.root / old)
                files[old] = files.pop(change.path, _File(path_size(self.root / old)))
            _restore(kept, path)
        else:
            _restore(change.rest[0], path)


def path_size(path: Path) -> int:
    return path.stat().st_size


def _words(line: str) -> list[str]:
    return line.split("\t")


def _follow(change: Change, files: dict[str, _File], names: list[Change]) -> None:
    """`names` holds the changes of names that no sync of their directory made durable yet."""
    call, path, rest = change
    if call == "sync-directory":
        names[:] = [one for one in names if (os.path.dirname(one.path) or ".") != path]
    if call in ("create", "mkdir", "rename", "unlink"):
        names.append(change)
    if call == "create":
        files[path] = _File(0)
    elif call == "rename" and rest[0] in files:
        files[path] = files.pop(rest[0])
    elif call == "unlink":
        files.pop(path, None)
    elif call == "write":
        first, length = map(int, rest)
        file = files.setdefault(path, _File(first))
        if file.lost_from is not None and first <= file.lost_from < first + length:
            file.lost_from = None
    elif call == "truncate" and path in files:
        size, file = int(rest[0]), files[path]
        file.synced = min(file.synced, size)
        if file.lost_from is not None and size <= file.lost_from:
            file.lost_from = None
    elif call == "sync":
        file = files.setdefault(path, _File(0))
        # Of two at once, the one that saw less may be noted last: what is on disk stays there.
        size = max(file.synced, int(rest[0]))
        file.synced = size if file.lost_from is None else file.lost_from
    elif call == "sync-failed" and path in files:
        files[path].lost_from = files[path].synced


def _lose(path: Path, file: _File, torn: bool) -> None:
    if not path.exists() or path.stat().st_size <= file.synced:
        return
    size = path.stat().st_size
    os.truncate(path, file.synced + (size - file.synced) // 2 if torn else file.synced)
    if torn:
        os.truncate(path, size)


def _restore(kept: str, path: Path) -> None:
    if kept:
        path.unlink(missing_ok=True)
        os.link(kept, path)


def segments(data: Path) -> Iterator[Path]:
    """All segment files of a data directory, in order."""
    yield from sorted(data.glob("__consumer_offsets-*/*.log"))
