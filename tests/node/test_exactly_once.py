"""Exactly once through a node in a real cluster of three: clients, the node and a broker are killed
in the middle, and what comes out is what went in, to the record. Long: `make test-kafka`."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from support.kafka.broker import KafkaBroker

from .exactly_once import PARTITIONS, Moving, franz_go, java_client, librdkafka
from .test_real_cluster import _bootstrap, _kafka, _leaders, _node, brokers

__all__ = ["brokers"]

pytestmark = [pytest.mark.java, pytest.mark.client, pytest.mark.timeout(1200)]

_ID = 120


def test_what_comes_out_is_what_went_in(brokers: list[KafkaBroker], tmp_path: Path) -> None:
    bootstrap = _bootstrap(brokers)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    names = [f"{name}-{end}" for name in ("rd", "java", "franz") for end in ("in", "out")]
    for future in admin.create_topics([NewTopic(name, PARTITIONS, 3) for name in names]).values():
        future.result(60)
    node = _node(brokers, tmp_path / "node", _ID)
    moving: list[Moving] = []
    try:
        node.start()
        assert _kafka(brokers, "take", node_id=_ID) == 0
        assert _leaders(brokers) == {_ID}
        programs = [(librdkafka, "rd"), (java_client, "java"), (franz_go, "franz")]
        loops = [program(bootstrap, name) for program, name in programs]
        moving += [Moving(bootstrap, loop) for loop in loops]
        for one in moving:
            one.go_on()
        for loop in loops:
            loop.kill()
        for one in moving:
            one.go_on()  # the next one fences what was killed
        node.kill()
        for one in moving:
            one.go_on()  # a broker coordinates, and ends what was open
        assert _ID not in _leaders(brokers)
        node.start()
        assert _kafka(brokers, "take", node_id=_ID) == 0
        for one in moving:
            one.go_on()
        assert _leaders(brokers) == {_ID}
        brokers[0].kill()
        for one in moving:
            one.go_on()
        brokers[0].start()
        for one in moving:
            one.go_on()
        for one in moving:
            one.finish()
        for one in moving:
            one.poll(2.0)  # nothing comes twice
            assert one.found == Counter(range(one.written)), one.loop.target
        assert _leaders(brokers) == {_ID}
        assert node.stop() == 0
    finally:
        for one in moving:
            one.close()
            one.loop.stop()
        if node.running:
            node.stop()
        sys.stderr.write(node.stderr()[-6000:])
        sys.stderr.write(str({one.loop.target: (one.written, one.loop.starts) for one in moving}))
