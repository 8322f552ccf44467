"""kafka-configs and kafka-features on consumer groups: set, describe, delete; settings stay."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.kafka import jars
from support.kafka.tools import ToolError, tool
from support.server import PykcoordServer

pytestmark = [pytest.mark.java, pytest.mark.client]

SESSION = "consumer.session.timeout.ms"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PykcoordServer]:
    if (reason := jars.missing_tool_chain()) is not None:
        pytest.skip(reason)
    with PykcoordServer(tmp_path / "data", topics={"orders": 2}) as server:
        yield server


def configs(server: PykcoordServer, *arguments: str) -> str:
    return tool("configs", "--bootstrap-server", server.address, *arguments)


def test_settings_of_a_group(server: PykcoordServer) -> None:
    group = ("--entity-type", "groups", "--entity-name", "billing")
    configs(server, "--alter", *group, "--add-config", f"{SESSION}=50000")
    assert f"{SESSION}=50000" in configs(server, "--describe", *group)
    with pytest.raises(ToolError, match="must be in the range 45000 to 60000 inclusive"):
        configs(server, "--alter", *group, "--add-config", f"{SESSION}=1")
    server.restart()
    described = configs(server, "--describe", *group)
    assert f"{SESSION}=50000" in described
    assert "DYNAMIC_GROUP_CONFIG" in described
    assert "group billing" in configs(server, "--describe", "--entity-type", "groups")
    kept = json.loads((server.directory / "catalogue.json").read_text())
    assert kept["group_configs"] == {"billing": {SESSION: "50000"}}
    configs(server, "--alter", *group, "--delete-config", SESSION)
    assert SESSION not in configs(server, "--describe", *group)


def test_the_feature_that_clients_look_at(server: PykcoordServer) -> None:
    described = tool("features", "--bootstrap-server", server.address, "describe")
    (line,) = [line for line in described.splitlines() if "group.version" in line]
    assert "FinalizedVersionLevel: 1" in line
