"""The owners of every recorded state follow from its registrations and topics."""

from __future__ import annotations

import pytest

from pykcoord.zookeeper import Registration, StrategyError, assign, offset_of, threads_by_topic
from pykcoord.zookeeper.registration import partitions_of

from .recordings import NAMES, Step, steps

STEPS = [(name, number) for name in NAMES for number in range(len(steps(name)))]


def _computed(step: Step) -> dict[str, str]:
    registered = step.below(f"/consumers/{step.group}/ids")
    members = {
        consumer_id: Registration.decode(data, f"/consumers/{step.group}/ids/{consumer_id}")
        for consumer_id, data in registered.items()
    }
    topics = {
        topic: partitions_of(data, f"/brokers/topics/{topic}")
        for topic, data in step.below("/brokers/topics").items()
    }
    if not step.below("/brokers/ids"):
        return {}  # nobody assigns without brokers
    strategy = "roundrobin" if "roundrobin" in step.group else "range"
    owners = assign(strategy, threads_by_topic(members, topics), topics)
    return {f"{one.topic}-{one.partition}": thread for one, thread in owners.items()}


@pytest.mark.parametrize(("name", "number"), STEPS)
def test_owners_are_what_was_recorded(name: str, number: int) -> None:
    step = steps(name)[number]
    if "can't rebalance" in step.note:
        with pytest.raises(StrategyError, match="_c4-0"):
            _computed(step)
        assert step.owners == {}
        return
    assert _computed(step) == step.owners


def test_all_37_recorded_states_are_here() -> None:
    """The first step of `range-static` is that nobody was there yet."""
    assert len(STEPS) == 37 + 1
    assert steps("range-static")[0].did == "nobody yet"


@pytest.mark.parametrize(("name", "number"), STEPS)
def test_registrations_are_written_as_they_were(name: str, number: int) -> None:
    step = steps(name)[number]
    path = f"/consumers/{step.group}/ids"
    for consumer_id, data in step.below(path).items():
        assert Registration.decode(data, f"{path}/{consumer_id}").encode() == data


@pytest.mark.parametrize(("name", "number"), STEPS)
def test_offsets_are_read(name: str, number: int) -> None:
    step = steps(name)[number]
    offsets = f"/consumers/{step.group}/offsets"
    for topic in step.below(offsets):
        for partition, data in step.below(f"{offsets}/{topic}").items():
            assert offset_of(data, f"{offsets}/{topic}/{partition}") == int(data or b"-1")
