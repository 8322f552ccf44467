"""What a move asks of a cluster, and what it refuses, against a scripted one."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from pykcoord._native import partition_of
from pykcoord.cli import kafka
from pykcoord.kafka import UnreachableError
from pykcoord.node import moving
from pykcoord.node.errors import NodeError
from pykcoord.node.moving import Move, Mover, Progress

_NODE = 9


def _ok(value: int = 0, name: str = "none") -> SimpleNamespace:
    return SimpleNamespace(value=value, name=name)


class _Cluster:
    """Four partitions at brokers 1 to 3. What is asked for is done at once, one step a question."""

    def __init__(self) -> None:
        self.view = SimpleNamespace(brokers={1: None, 2: None, 3: None, _NODE: None})
        self.failure = None
        self.is_down = False  # the node is registered all the same
        self.silent: set[int] = set()
        self.refreshes = 0
        self.known_after = 0  # after so many refreshes the node is in the view
        self.replicas = dict.fromkeys(range(4), (1, 2, 3))
        self.leaders = dict.fromkeys(range(4), 1)
        self.groups: dict[int, list[tuple[str, str]]] = {}
        self.listing: list[int] = []  # codes of ListGroups, before it is answered
        self.settings: list[str | None] = []
        self.cordoned = 2  # so many reassignments are refused first
        self.topics: set[str] = set()
        self.returned: list[object] = []
        """Partitions that were given back at a time, and what brokers said of them."""
        self.loading = {number: [16, 14, 0] for number in range(4)}

    async def refreshed(self) -> None:
        await asyncio.sleep(0)
        self.refreshes += 1
        if self.refreshes == self.known_after:
            self.view.brokers[_NODE] = None

    async def control(self, broker: int) -> Any:
        if broker in self.silent:
            raise UnreachableError(f"h:{9000 + broker}", "Connection refused")
        return SimpleNamespace(has=lambda key, version: broker != _NODE)

    async def ask(self, broker: int, request: Any, seconds: float | None = None) -> Any:
        answer = getattr(self, f"_{type(request).__name__.removesuffix('Request')}")
        return answer(broker, request)

    def _DescribeCluster(self, broker: int, request: Any) -> Any:
        assert request.include_fenced_brokers
        ids = [*self.view.brokers, *([_NODE] if self.is_down else [])]
        brokers = [SimpleNamespace(broker_id=one, host="h", port=9000 + one) for one in ids]
        return SimpleNamespace(brokers=brokers)

    def _Metadata(self, broker: int, request: Any) -> Any:
        partitions = [
            SimpleNamespace(
                partition_index=number, leader_id=self.leaders[number], replica_nodes=of,
                isr_nodes=of,
            )
            for number, of in self.replicas.items()
        ]  # fmt: skip
        return SimpleNamespace(topics=[SimpleNamespace(error_code=_ok(), partitions=partitions)])

    def _ListGroups(self, broker: int, request: Any) -> Any:
        groups = [
            SimpleNamespace(group_id=name, group_type=kind)
            for name, kind in self.groups.get(broker, [])
        ]
        code = self.listing.pop(0) if self.listing else 0
        return SimpleNamespace(error_code=_ok(code, f"error {code}"), groups=() if code else groups)

    def _OffsetFetch(self, broker: int, request: Any) -> Any:
        (group,) = request.groups
        number = partition_of(group.group_id, 4)
        assert self.leaders[number] == broker
        self.returned.append((number, code := self.loading[number].pop(0)))
        return SimpleNamespace(groups=[SimpleNamespace(error_code=_ok(code))])

    def _IncrementalAlterConfigs(self, broker: int, request: Any) -> Any:
        assert broker == _NODE
        self.settings.append(request.resources[0].configs[0].value)
        return SimpleNamespace(responses=[SimpleNamespace(error_code=_ok(), error_message=None)])

    def _AlterPartitionReassignments(self, broker: int, request: Any) -> Any:
        self.topics |= {topic.name for topic in request.topics}
        self.cordoned -= 1
        if self.cordoned >= 0 and self.settings:
            refused = SimpleNamespace(
                partition_index=0, error_code=_ok(39), error_message="all are cordoned"
            )
            return SimpleNamespace(
                error_code=_ok(), responses=[SimpleNamespace(partitions=[refused])]
            )
        if request.topics[0].partitions[0].replicas[0] != _NODE:
            self.returned.append([int(one.partition_index) for one in request.topics[0].partitions])
        for one in request.topics[0].partitions:
            self.replicas[int(one.partition_index)] = tuple(map(int, one.replicas))
            if self.leaders[int(one.partition_index)] not in one.replicas:
                self.leaders[int(one.partition_index)] = int(one.replicas[0])
        return SimpleNamespace(error_code=_ok(), responses=[])

    def _ListPartitionReassignments(self, broker: int, request: Any) -> Any:
        return SimpleNamespace(topics=[])

    def _ElectLeaders(self, broker: int, request: Any) -> Any:
        for topic in request.topic_partitions:
            self.topics.add(topic.topic)
            for number in topic.partitions:
                self.leaders[int(number)] = self.replicas[int(number)][0]
        return SimpleNamespace(error_code=_ok(), replica_election_results=[])


def _mover(cluster: _Cluster) -> Mover:
    given: Any = cluster
    return Mover(given, _NODE)


def _taken(cluster: _Cluster, numbers: set[int] | None = None) -> list[Move]:
    async def story() -> list[Move]:
        mover = _mover(cluster)
        moves = await mover.plan(numbers, takes=True)
        await mover.take(moves, lambda progress: None)
        return moves

    return asyncio.run(story())


def test_a_broker_that_does_not_list_its_groups_has_not_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pykcoord.node.moving._POLL_SECONDS", 0.0)
    cluster = _Cluster()
    group = next(name for one in range(99) if partition_of(name := f"g{one}", 4) == 0)
    cluster.groups[1] = [(group, "Share")]
    cluster.listing = [14, 15]  # it loads
    (refused,) = [move for move in _taken(cluster) if move.refusal]
    assert refused.partition == 0
    cluster.listing = [31]
    with pytest.raises(NodeError, match="broker 1 does not list its groups: error 31"):
        _taken(cluster)


def test_a_take_and_a_return_leave_all_as_it_was() -> None:
    cluster = _Cluster()
    _taken(cluster, {1, 2})
    assert cluster.replicas == {0: (1, 2, 3), 1: (9, 1, 2, 3), 2: (9, 1, 2, 3), 3: (1, 2, 3)}
    assert cluster.leaders == {0: 1, 1: 9, 2: 9, 3: 1}
    assert cluster.settings == [None, "", None], "opened for the move alone"
    told: list[Progress] = []

    async def back() -> None:
        mover = _mover(cluster)
        moves = await mover.plan(None, takes=False)
        assert [move.partition for move in moves] == [1, 2]
        await mover.give_back(moves, told.append)

    asyncio.run(back())
    assert set(cluster.replicas.values()) == {(1, 2, 3)}
    assert set(cluster.leaders.values()) == {1}
    assert (told[-1].moved, told[-1].total) == (2, 2)
    assert cluster.topics == {"__consumer_offsets"}


def test_a_broker_loads_one_partition_before_it_is_given_another() -> None:
    cluster = _Cluster()
    cluster.replicas[1] = (2, 3, 1)
    _taken(cluster, {0, 1, 2})

    async def back() -> None:
        mover = _mover(cluster)
        await mover.give_back(await mover.plan(None, takes=False), lambda progress: None)

    asyncio.run(back())
    assert cluster.returned == [
        [0, 1], (0, 16), (0, 14), (0, 0), (1, 16), (1, 14), (1, 0), [2], (2, 16), (2, 14), (2, 0),
    ]  # fmt: skip


def test_partitions_with_groups_of_other_kinds_are_not_taken() -> None:
    cluster = _Cluster()
    cluster.groups = {
        1: [("a", "classic"), ("b", "Consumer"), ("c", "share")], _NODE: [("d", "streams")]
    }  # fmt: skip
    moves = {move.partition: move for move in _taken(cluster)}
    refused = {partition_of(name, 4): name for name in "cd"}
    assert {number for number, move in moves.items() if move.refusal} == set(refused)
    for number, move in moves.items():
        assert (_NODE in cluster.replicas[number]) == (move.refusal is None)
    assert "share group c" in str(moves[partition_of("c", 4)].refusal)
    assert sum(sum(move.kinds.values()) for move in moves.values()) == 4
    assert sorted(name for move in moves.values() for name in move.groups) == ["a", "b", "c", "d"]


def test_a_partition_that_the_node_has_alone_goes_to_brokers() -> None:
    cluster = _Cluster()
    cluster.replicas[0], cluster.leaders[0] = (_NODE,), _NODE
    (move,) = asyncio.run(_mover(cluster).plan(None, takes=False))
    assert move.then == (1, 2, 3)


def test_a_node_that_brokers_have_not_heard_of_yet_is_waited_for() -> None:
    cluster = _Cluster()
    del cluster.view.brokers[_NODE]
    cluster.known_after = 3
    asyncio.run(_mover(cluster).check_node())
    assert cluster.refreshes == 3


def test_what_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving, "_KNOWN_SECONDS", 0.05)
    cluster = _Cluster()
    for numbers, takes, said in (({7}, True, "no partition 7"), ({2}, False, "not at node 9")):
        with pytest.raises(NodeError, match=said):
            asyncio.run(_mover(cluster).plan(numbers, takes=takes))
    del cluster.view.brokers[_NODE]
    with pytest.raises(NodeError, match=r"no node 9 .*node\.id=9"):
        asyncio.run(_mover(cluster).check_node())


def test_a_node_that_is_registered_and_down_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving, "_KNOWN_SECONDS", 0.05)
    cluster = _Cluster()
    cluster.silent = {_NODE}
    with pytest.raises(
        NodeError, match=r"\(h:9009\) and does not answer \(Connection refused\): start"
    ):
        asyncio.run(_mover(cluster).check_node())
    del cluster.view.brokers[_NODE]
    cluster.is_down, cluster.silent = True, {1}
    with pytest.raises(
        NodeError, match=r"node 9 is registered \(h:9009\) and is not up: .*node\.id=9"
    ):
        asyncio.run(_mover(cluster).check_node())


def test_a_plan_names_some_of_the_groups(capsys: pytest.CaptureFixture[str]) -> None:
    kafka._print([Move(0, (1,), 1, (_NODE, 1), {"classic": 5}, list("edcba"))])
    assert capsys.readouterr().out.endswith("5 classic: a, b, c, 2 more\n")
