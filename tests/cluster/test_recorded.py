"""Shared logs that earlier versions wrote are led, with all that was acknowledged."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest
from support.hosting import InProcess

from pykcoord.log.shared import FolderStore

RECORDED = Path(__file__).parents[1] / "recorded"
VERSIONS = sorted(folder for folder in RECORDED.iterdir() if folder.is_dir())


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
@pytest.mark.parametrize("with_snapshots", [True, False], ids=["snapshots", "whole log"])
def test_a_shared_log_is_led_with_all_that_was_acknowledged(
    version: Path, tmp_path: Path, with_snapshots: bool
) -> None:
    log = Path(shutil.copytree(version / "shared-log", tmp_path / "log"))
    expected = json.loads((version / "expected.json").read_text())["shared-log"]
    shards = json.loads((log / "log.json").read_text())["shards"]
    snapshots = list(log.glob("*/snapshots/*"))
    assert snapshots
    if not with_snapshots:
        for snapshot in snapshots:
            snapshot.unlink()

    async def main() -> dict[str, tuple[int, int]]:
        host = InProcess(FolderStore(log), shards, "later")
        await host.lead(*range(shards))
        found = {group_id: await host.committed(group_id) for group_id in expected}
        await host.close()
        return found

    found = asyncio.run(asyncio.wait_for(main(), 60))
    assert expected
    assert found == {group_id: (0, offset) for group_id, offset in expected.items()}
