"""The run with a million groups, with sixty: what its figures come from does happen."""

from __future__ import annotations

import sys
from pathlib import Path

# benches is not part of the package; it is run from the root.
sys.path.append(str(Path(__file__).parents[2]))

from benches import scale
from benches.workload import Host
from pykcoord.log import LogDirectory

GROUPS = 60


def test_heartbeats_and_a_storm(tmp_path: Path) -> None:
    point = scale.Point(GROUPS)
    with LogDirectory.open(tmp_path, partitions=2, flush="os") as log:
        host = Host(2)
        members = scale.fill(host, log, GROUPS)
        scale.beat(host, log, members, point, 0.1)
        log.sync()
        assert log.size_bytes > 0
    assert len(members) == GROUPS
    assert point.beats_per_s > 0
    assert point.storm_groups == GROUPS * scale.STORM_SHARE
    assert f"| {GROUPS} |" in scale.markdown([point])
