"""The cluster's own upgrade beside a node: refused while the node is registered, done once it is
gone, and the node stays away from what it does not know. Long: `make test-kafka`."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.kafka.three import skip_unless_asked, three_brokers
from support.kafka.tools import ToolError, tool

from .committing import Committing
from .test_real_cluster import _bootstrap, _create, _kafka, _leaders, _node, _refused

pytestmark = [pytest.mark.java, pytest.mark.client, pytest.mark.timeout(600)]

_ID = 130
# Of Kafka 4.5, which brokers of 4.4 know when they are told to take what is not finished.
_LATER = "metadata.version=34"


def test_an_upgrade_waits_for_the_node_to_go(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    skip_unless_asked(pytestconfig)
    with three_brokers(tmp_path / "three") as brokers:
        for broker in brokers:
            broker.stop()
            broker.settings["unstable.feature.versions.enable"] = "true"
            broker.start()
        bootstrap = _bootstrap(brokers)
        _create(bootstrap, "orders")
        member = Committing(bootstrap, "billing", "orders")
        member.go_on()
        upgrade = ("--bootstrap-server", bootstrap, "upgrade", "--feature", _LATER)
        with _node(brokers, tmp_path / "node", _ID).start():
            assert _kafka(brokers, "take", node_id=_ID) == 0
            with pytest.raises(ToolError, match=f"(?s){_ID}.*does not support|only supports"):
                tool("features", *upgrade)
            member.go_on()
            assert _kafka(brokers, "return", node_id=_ID) == 0
        tool("cluster", "unregister", "--bootstrap-server", bootstrap, "--id", str(_ID))
        assert "34" in tool("features", *upgrade)
        member.go_on()
        assert _ID not in _leaders(brokers)
        said = _refused(brokers, tmp_path / "node", "--set", f"node.id={_ID}")
        assert "metadata.version is 34, and up to 33 (Kafka 4.4) is known: take a newer" in said
        assert member.stop() == member.acknowledged
