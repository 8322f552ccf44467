"""When a node may be given replicas, and what its log says of it."""

from __future__ import annotations

import logging

import pytest

from pykcoord.node.cordon import Cordon


def test_the_log_says_when_replicas_may_be_assigned_and_when_no_more(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cordon = Cordon()
    with caplog.at_level(logging.INFO):
        assert not cordon.told(None)
        assert cordon.told("")
        assert not cordon.holds()
        assert cordon.told(None)
    assert cordon.holds()
    assert [one.getMessage() for one in caplog.records] == [
        "replicas may be assigned to this node for 30 s, also those of new topics",
        "replicas may not be assigned to this node any more",
    ]
