"""The losses of a power cut, by the journal alone."""

from __future__ import annotations

import pytest

from crash.disk import Change, _File, _follow

_WRITTEN = Change("write", "log", ["0", "100"])


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        ([_WRITTEN], 0),
        ([_WRITTEN, Change("sync", "log", ["100", "0"])], 100),
        # Two at once: the one that saw less is noted last, and takes nothing back.
        ([_WRITTEN, Change("sync", "log", ["100", "0"]), Change("sync", "log", ["40", "0"])], 100),
        (
            [_WRITTEN, Change("sync", "log", ["100", "0"]), Change("truncate", "log", ["60", "0"])],
            60,
        ),
        ([_WRITTEN, Change("sync-failed", "log", []), Change("sync", "log", ["100", "0"])], 0),
    ],
)
def test_what_is_synced_is_kept(changes: list[Change], kept: int) -> None:
    files: dict[str, _File] = {}
    for change in changes:
        _follow(change, files, [])
    assert files["log"].synced == kept
