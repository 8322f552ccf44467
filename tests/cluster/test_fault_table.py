"""Each row of the table of faults in docs/cluster, with its bound: over a folder, and with `--s3`
over an S3 server.

The bounds of the design are those of a machine of one's own: 1 s for a process that is gone, 2.5 s
for one that is silent, and three more seconds over object stores, whose lease is longer. Machines
that run tests are busy: time in which a process waits for a processor is left out of a gap, so that
all of it counts where there is nothing else to do. `SLACK_S` is for disks, and what probes wait.
"""

from __future__ import annotations

import signal
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import gateway
from support.asked import Asked
from support.members import GROUPS, gap, probing, served_again
from support.probe import Probe
from support.proxied import ProxiedMembers, S3Members

from pykcoord.cluster.looking import ClusterFollower, ClusterState
from pykcoord.log.shared import FolderStore, Store, open_store

pytestmark = [pytest.mark.client, pytest.mark.crash]

GONE_S, SILENT_S, ELECTION_S = 1.0, 2.5, 1.5
OBJECT_STORE_S = 3.0
SLACK_S = 0.5
NOT_AVAILABLE = 15


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[gateway.Gateway]:
    with gateway.running(tmp_path_factory.mktemp("gateway")) as running:
        yield running


@pytest.fixture(params=["folder", "s3"])
def members(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ProxiedMembers]:
    made: ProxiedMembers
    wants_all = request.config.getoption("--s3")
    if not wants_all and request.node.get_closest_marker("brief") is None:
        pytest.skip("with --s3; test_members.py has the like over a folder")
    if request.param == "s3":
        if not wants_all:
            pytest.skip("an S3 server: with --s3")
        if (reason := gateway.missing_tool()) is not None:
            pytest.skip(reason)
        running = request.getfixturevalue("s3")
        for name, value in gateway.Gateway.environment(running.port).items():
            monkeypatch.setenv(name, value)
        made = S3Members(tmp_path, 3, running)
    else:
        made = ProxiedMembers(tmp_path, 3)
    try:
        made.start_all()
        yield made
    finally:
        made.close()


def more(members: ProxiedMembers) -> float:
    """What is added to each bound."""
    return SLACK_S + (OBJECT_STORE_S if isinstance(members, S3Members) else 0.0)


def state(members: ProxiedMembers) -> ClusterState:
    location = members.url if isinstance(members, S3Members) else str(members.folder)
    store: Store = open_store(location)
    assert isinstance(store, FolderStore) != isinstance(members, S3Members)
    return ClusterFollower(location, store).read()


def spread(members: ProxiedMembers) -> ClusterState:
    members.wait(lambda: all(len(one.shards) == 2 for one in state(members).nodes), "all is spread")
    return state(members)


def controller(members: ProxiedMembers) -> int:
    return next(one.node_id for one in state(members).nodes if one.is_controller)


def another(members: ProxiedMembers) -> int:
    return next(one.node_id for one in state(members).nodes if not one.is_controller)


def of_node(members: ProxiedMembers, probes: list[Probe], node: int) -> list[Probe]:
    """Those whose groups this node leads."""
    led = state(members).node(node)
    assert led is not None
    return [one for one in probes if one.group_id in {GROUPS[shard] for shard in led.shards}]


def found_at(members: ProxiedMembers, node: int, group: str) -> int:
    """The error code of this node's answer to who asks where the group is coordinated."""
    with Asked(f"127.0.0.1:{members.ports[node]}") as asked:
        return int(asked.ask(10, 2, key=group, key_type=0).error_code)


def is_there(members: ProxiedMembers, node: int) -> bool:
    return state(members).node(node) is not None


def test_a_node_is_killed(members: ProxiedMembers) -> None:
    with probing(members) as probes:
        spread(members)
        since = members.watched_from_now()
        members.kill(another(members))
        served_again(members, probes)
        assert gap(probes, since) < GONE_S + more(members)


def test_a_node_sleeps_and_wakes_into_a_fence(members: ProxiedMembers) -> None:
    with probing(members) as probes:
        spread(members)
        since, node = members.watched_from_now(), another(members)
        members.processes[node].send_signal(signal.SIGSTOP)
        members.wait(lambda: not is_there(members, node), "it is fenced")
        served_again(members, probes)
        assert gap(probes, since) < SILENT_S + more(members)
        members.processes[node].send_signal(signal.SIGCONT)
        members.wait(lambda: any("fenced" in line for line in members.lines[node]), "it says so")
        members.wait(lambda: is_there(members, node), "it begins anew")
        served_again(members, probes)


@pytest.mark.brief
def test_a_node_is_cut_off_from_the_others_and_not_from_the_store(
    members: ProxiedMembers,
) -> None:
    with probing(members) as probes:
        spread(members)
        since, node = members.watched_from_now(), another(members)
        before = state(members).node(node)
        members.controls[node].cut()
        members.wait(lambda: state(members).node(node) != before, "it is fenced")
        served_again(members, probes)
        assert gap(probes, since) < SILENT_S + more(members)
        members.controls[node].join()
        members.wait(lambda: is_there(members, node), "it begins anew")
        spread(members)
        served_again(members, probes)


def test_a_node_is_cut_off_from_the_store(members: ProxiedMembers) -> None:
    with probing(members) as probes:
        spread(members)
        since, node = members.watched_from_now(), another(members)
        members.cut_from_store(node)
        members.wait(lambda: not is_there(members, node), "it is fenced")
        served_again(members, probes)
        assert gap(probes, since) < SILENT_S + more(members)
        assert {found_at(members, node, one.group_id) for one in probes} == {NOT_AVAILABLE}
        members.join_to_store(node)
        members.wait(lambda: is_there(members, node), "it begins anew")
        served_again(members, probes)


def test_a_machine_is_lost(members: ProxiedMembers) -> None:
    """Nothing is refused; nobody hears of its node, and that of nobody."""
    with probing(members) as probes:
        spread(members)
        since, node = members.watched_from_now(), another(members)
        members.controls[node].cut()
        members.cut_from_store(node)
        members.wait(lambda: not is_there(members, node), "it is fenced")
        served_again(members, probes)
        assert gap(probes, since) < SILENT_S + more(members)
        members.controls[node].join()
        members.join_to_store(node)
        members.wait(lambda: is_there(members, node), "it begins anew")
        served_again(members, probes)


def test_all_are_cut_off_from_the_store(members: ProxiedMembers) -> None:
    with probing(members) as probes:
        spread(members)
        for node in members.ports:
            members.cut_from_store(node)
        cut_at = time.monotonic()
        members.wait(
            lambda: all(one.failed_at > cut_at + 3.0 for one in probes), "all were refused"
        )
        assert all(one.times[-1] < cut_at + 1.0 for one in probes)
        for node in members.ports:
            members.join_to_store(node)
        served_again(members, probes)


@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP])
def test_the_controller_dies_or_hangs_and_another_one_leads(
    members: ProxiedMembers, fault: signal.Signals
) -> None:
    with probing(members) as probes:
        spread(members)
        since, node, term = members.watched_from_now(), controller(members), state(members).term
        untouched = [one for one in probes if one not in of_node(members, probes, node)]
        members.processes[node].send_signal(fault)
        members.wait(lambda: state(members).term > term, "another one leads")
        served_again(members, probes)
        assert gap(untouched, since) < 1.0 + SLACK_S  # they notice nothing
        assert gap(probes, since) < ELECTION_S + SILENT_S + more(members)
        members.processes[node].send_signal(signal.SIGCONT)


@pytest.mark.brief
def test_a_controller_that_hears_nobody_gives_way(members: ProxiedMembers) -> None:
    """It reaches the store, as all do, and would fence the others before they stand for it."""
    with probing(members) as probes:
        spread(members)
        since, term = members.watched_from_now(), state(members).term
        for proxy in members.controls.values():
            proxy.cut()
        members.wait(lambda: state(members).term > term, "another one leads")
        for proxy in members.controls.values():
            proxy.join()
        spread(members)
        served_again(members, probes)
        assert gap(probes, since) < SILENT_S + more(members)


def test_there_are_two_controllers(members: ProxiedMembers) -> None:
    """The first sleeps until there is another. It hears nothing of the others, nor they of it, when
    it goes on asking."""
    with probing(members) as probes:
        spread(members)
        node, term = controller(members), state(members).term
        for proxy in members.controls.values():
            proxy.cut()
        members.processes[node].send_signal(signal.SIGSTOP)
        members.wait(lambda: state(members).term > term, "another one leads")
        members.processes[node].send_signal(signal.SIGCONT)
        members.wait(lambda: any("fenced" in line for line in members.lines[node]), "it is told")
        for proxy in members.controls.values():
            proxy.join()
        members.wait(lambda: is_there(members, node), "it is there, or again")
        spread(members)
        served_again(members, probes)


def test_a_commit_whose_answer_of_the_store_is_lost_is_slow_and_not_lost(
    members: ProxiedMembers,
) -> None:
    if not isinstance(members, S3Members):
        pytest.skip("a folder answers")
    with probing(members) as probes:
        spread(members)
        node = another(members)
        members.stores[node].cut("back")
        cut_at = time.monotonic()
        its = of_node(members, probes, node)
        members.wait(lambda: all(one.failed_at > cut_at for one in its), "no answer comes")
        members.stores[node].join()
        served_again(members, probes)


def ended(at: socket.socket) -> bool:
    at.settimeout(0)
    try:
        return at.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


@pytest.mark.brief
def test_a_stranger_at_the_control_port_changes_nothing(members: ProxiedMembers) -> None:
    with probing(members) as probes:
        before = spread(members)
        node = another(members)
        with socket.create_connection(("127.0.0.1", members.controls[node].port), 5) as stranger:
            stranger.sendall(struct.pack(">i", 12) + b"no line of JSON\n")
            members.wait(lambda: ended(stranger), "it is hung up on")
        served_again(members, probes)
        assert state(members) == before
