"""The console of a coordinator in process: what it says is what the coordinator's tables say."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.console import Console, Stream

from pykcoord import ArgumentError, Config, Coordinator
from pykcoord.web import WebOptions, pages
from pykcoord.web.embedded import EmbeddedSource

HOSTILE = [
    "<script>document.title='owned'</script>",
    '"><img src=x onerror=alert(1)>',
    "line\nbreak\r\ttab\0nul",
    "abc\u202egnp.exe\u2066",
    "../../etc/passwd",
    "a?b=c&d#e%2F",
    " ",
    "😀" * 20,
]


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[Coordinator]:
    config = Config(group_initial_rebalance_delay_ms=0, offsets_topic_num_partitions=3)
    options = WebOptions(("127.0.0.1", 0), allows_changes=True)
    topics = {"orders": 12, "payments": 4}
    with Coordinator(tmp_path, config=config, topics=topics, web=options) as opened:
        yield opened


@pytest.fixture
def console(coordinator: Coordinator) -> Console:
    assert coordinator.web_url is not None
    return Console(coordinator.web_url)


def _rows(table: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def _owned(page: dict[str, Any]) -> dict[str, set[tuple[str, int]]]:
    owned: dict[str, set[tuple[str, int]]] = {one["member_id"]: set() for one in page["members"]}
    for row in page["offsets"]:
        for at in row["owners"]:
            owned[page["members"][at]["member_id"]].add((row["topic"], row["partition"]))
    return owned


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_is_as_its_members_and_the_tables_know_it(
    coordinator: Coordinator, console: Console, protocol: Any
) -> None:
    with (
        coordinator.join("billing", ["orders"], client_id="ann", protocol=protocol) as ann,
        coordinator.join("billing", ["orders"], client_id="bob", protocol=protocol) as bob,
    ):
        _until(lambda: len(ann.assignment) == len(bob.assignment) == 6)
        # Of the consumer protocol they say so with their next heartbeats.
        _until(lambda: coordinator.groups()["state"].to_pylist() == ["Stable"])
        ann.commit(dict.fromkeys(ann.assignment, 42))
        coordinator.set_end_offsets(dict.fromkeys(ann.assignment, 50))
        page = _until(lambda: _with_lag(console, "billing", 48))
        assert _owned(page) == {
            ann.member_id: set(ann.assignment), bob.member_id: set(bob.assignment),
        }  # fmt: skip
        (row,) = _rows(coordinator.groups())
        assert (page["state"], page["type"]) == (row["state"], protocol)
        assert page["epoch"] == row["group_epoch"]
        assert page["generation"] == row["generation_id"]
        members = {one["member_id"]: one for one in _rows(coordinator.members())}
        assert {one["member_id"] for one in page["members"]} == set(members)
        for one in page["members"]:
            assert one["client_id"] == members[one["member_id"]]["client_id"]
            assert one["epoch"] == members[one["member_id"]]["member_epoch"]
        assert _committed(page["offsets"]) == _committed(_rows(coordinator.offsets()))
        listed = console.get("/api/groups")
        assert [one["id"] for one in listed["groups"]] == ["billing"]
        assert listed["groups"][0]["members"] == 2
        assert listed["groups"][0]["rebalances"] >= 1


def _committed(rows: list[dict[str, Any]]) -> dict[tuple[str, int], int]:
    return {
        (row["topic"], row["partition"]): row["offset"] for row in rows if row["offset"] is not None
    }


def _with_lag(console: Console, group_id: str, lag: int) -> Any:
    page = console.get("/api/group", id=group_id)
    return page if page["lag"] == lag else None


def test_what_happens_is_told_at_once_with_its_cause(
    coordinator: Coordinator, console: Console
) -> None:
    stream = console.stream(id="billing")
    ticks = stream.ticks()
    next(ticks)
    with coordinator.join("billing", ["orders"], client_id="ann") as ann:
        ann.wait()
        _until(lambda: "billing" in next(ticks)["changed"])
        page = _until(lambda: _stable(console, "billing"))
        texts = [line["text"] for line in page["story"]]
        assert any("ann at" in text and "joined" in text for text in texts), texts
    _until(lambda: "billing" in next(ticks)["changed"])
    page = _until(lambda: _gone(console, "billing"))
    assert page["spans"][-1]["what"] == "empty"
    stream.close()


def _stable(console: Console, group_id: str) -> Any:
    page = console.get("/api/group", id=group_id)
    return page if [one["what"] for one in page["spans"]][-1:] == ["stable"] else None


def _gone(console: Console, group_id: str) -> Any:
    page = console.get("/api/group", id=group_id)
    return page if page["members"] == [] else None


@pytest.mark.parametrize("group_id", HOSTILE)
def test_any_group_id_is_data(coordinator: Coordinator, console: Console, group_id: str) -> None:
    with coordinator.join(group_id, ["orders"], client_id=group_id) as member:
        member.wait()
        member.commit({("orders", 0): 7})
        page = console.get("/api/group", id=group_id)
        assert page["id"] == group_id
        assert page["members"][0]["client_id"] == group_id
        _until(lambda: group_id in [one["id"] for one in console.get("/api/groups")["groups"]])
        found = console.get("/api/groups", search=group_id)["groups"]
        assert [one["id"] for one in found] == [group_id]
        _, headers, _ = console.ask("GET", "/api/group", {"id": group_id})
        assert headers["Content-Type"] == "application/json"
        assert headers["X-Content-Type-Options"] == "nosniff"


def test_groups_are_sorted_by_what_they_have(coordinator: Coordinator, console: Console) -> None:
    for number, name in enumerate(["a", "b", "c", "d"]):
        with coordinator.join(name, ["orders"]) as member:
            member.wait()
            member.commit({("orders", 0): 100 - 10 * number})
    coordinator.set_end_offsets({("orders", 0): 100})
    with coordinator.join("b", ["orders"]) as member:
        member.wait()

        def by(sort: str, **more: Any) -> list[str]:
            page = console.get("/api/groups", sort=sort, size=3, **more)
            assert page["sorted_by"] == sort
            return [one["id"] for one in page["groups"]]

        _until(lambda: by("lag") == ["d", "c", "b"])
        assert by("lag", skip=3) == ["a"]
        assert by("lag", order="asc") == ["a", "b", "c"]
        _until(lambda: by("members")[0] == "b")
        _until(lambda: by("rebalances")[0] == "b")
        assert [one["id"] for one in console.get("/api/groups", size=2)["groups"]] == ["a", "b"]
        page = console.get("/api/groups", size=2, after="b")
        assert ([one["id"] for one in page["groups"]], page["more"]) == (["c", "d"], False)


def test_more_groups_than_are_sorted_are_all_shown_page_by_page(
    coordinator: Coordinator, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "MOST_SORTED", 2)
    for name in "abcde":
        with coordinator.join(name, ["orders"]) as member:
            member.wait()
    _until(lambda: console.get("/api/groups")["total"] == 5)
    seen: list[str] = []
    more = True
    while more:
        at = {"after": seen[-1], "skip": len(seen)} if seen else {}
        page = console.get("/api/groups", sort="lag", size=2, **at)
        assert page["sorted_by"] == "group"
        assert not set(seen) & {one["id"] for one in page["groups"]}
        seen += [one["id"] for one in page["groups"]]
        more = page["more"]
    assert seen == list("abcde")


def test_health_metrics_and_cluster(coordinator: Coordinator, console: Console) -> None:
    with coordinator.join("billing", ["orders"]) as member:
        member.wait()
        for path in ("/healthz", "/readyz"):
            assert console.ask("GET", path)[0] == 200
        status, headers, text = console.ask("GET", "/metrics")
        assert (status, headers["Content-Type"].split(";")[0]) == (200, "text/plain")
        assert b"pykcoord_members 1.0" in text
        assert b"pykcoord_shards_led 3.0" in text
        cluster = _until(lambda: _counted(console, 1))
        assert (len(cluster["shards"]), cluster["topics"], cluster["partitions"]) == (3, 2, 16)
        assert cluster["figures"]["members"] == 1


def _told(console: Console, group_id: str) -> list[str]:
    return [one["kind"] for one in console.get("/api/group", id=group_id)["story"]]


def _counted(console: Console, groups: int) -> Any:
    cluster = console.get("/api/cluster")
    return cluster if cluster["total"] == groups else None


def test_changes_are_kafkas_own(coordinator: Coordinator, console: Console) -> None:
    group = {"id": "billing", "confirm": "billing"}
    with coordinator.join("billing", ["orders"]) as ann:
        ann.wait()
        ann.commit({("orders", 0): 5, ("orders", 1): 6})
        everything = [{"topic": "orders", "partition": one} for one in (0, 1)]
        reset = {**group, "partitions": everything, "to": "offset", "offset": 3}
        assert console.post("/api/group/delete", group)[0] == 409
        status, answer = console.post("/api/group/reset", reset)
        assert (status, "members" in answer["error"]) == (409, True)
        status, _ = console.post("/api/group/expel", {**group, "member_id": ann.member_id})
        assert status == 200
        assert console.post("/api/group/expel", {**group, "member_id": "nobody"})[0] == 409
    with coordinator.join("later", ["orders"], protocol="consumer") as bob:
        bob.wait()
        ask = {"id": "later", "confirm": "later", "member_id": bob.member_id}
        assert console.post("/api/group/expel", ask)[0] == 200
        assert console.post("/api/group/expel", {**ask, "member_id": "nobody"})[0] == 409
        _until(lambda: "member_gone" in _told(console, "later"))
    assert console.post("/api/group/reset", reset)[0] == 200
    offsets = {row["partition"]: row["offset"] for row in _rows(coordinator.offsets())}
    assert offsets == {0: 3, 1: 3}
    # Nobody said where they end: not below what was committed.
    status, answer = console.post("/api/group/reset", {**reset, "to": "latest"})
    assert (status, [one["offset"] for one in answer["reset"]]) == (200, [5, 6])
    coordinator.set_end_offsets({("orders", 0): 9, ("orders", 1): 8})
    assert console.post("/api/group/reset", {**reset, "to": "latest"})[0] == 200
    offsets = {row["partition"]: row["offset"] for row in _rows(coordinator.offsets())}
    assert offsets == {0: 9, 1: 8}
    assert console.post("/api/group/delete", group)[0] == 200
    assert [row["group_id"] for row in _rows(coordinator.groups())] == ["later"]


def test_two_hundred_browsers_go_away_in_mid_stream(
    coordinator: Coordinator, console: Console
) -> None:
    """And the group is served meanwhile, and nothing is left of them."""
    with coordinator.join("billing", ["orders"], heartbeat_interval_ms=50) as member:
        member.wait()
        alone = member.generation
        streams: list[Stream] = []
        for _ in range(200):
            stream = console.stream()
            assert stream.status == 200
            next(stream.ticks())
            streams.append(stream)
        assert _watchers() == 200
        for number, stream in enumerate(streams):
            stream.close()
            if number == 100:  # something to tell those that are gone, and those that are not
                with coordinator.join("billing", ["orders"]) as other:
                    other.wait()
        _until(lambda: _watchers() == 0)
        _until(lambda: member.generation >= alone + 2)  # the other one came, and is gone
        member.commit({("orders", 0): 1})
        assert console.get("/api/group", id="billing")["members"]


def _watchers() -> int:
    from pykcoord.web.feed import Feed

    return sum(len(one) for one in gc.get_objects() if isinstance(one, Feed))


def test_more_browsers_than_can_be_are_told_so(
    coordinator: Coordinator, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pykcoord.web.feed.MOST_STREAMS", 2)
    open_ones = [console.stream() for _ in range(2)]
    for one in open_ones:
        next(one.ticks())
    assert console.stream().status == 503
    for one in open_ones:
        one.close()


def test_a_console_ends_with_its_coordinator(tmp_path: Path) -> None:
    with Coordinator(tmp_path, web="127.0.0.1:0") as coordinator:
        assert coordinator.web_url is not None
        console = Console(coordinator.web_url)
        stream = console.stream()
        next(stream.ticks())
    assert not any(one["changed"] for one in stream.ticks())
    with pytest.raises(OSError, match="refused"):
        console.get("/api/session")
    assert not [one for one in threading.enumerate() if one.name == "pykcoord-web"]


def test_a_port_that_is_taken_is_said_at_the_start(tmp_path: Path) -> None:
    with Coordinator(tmp_path / "one", web="127.0.0.1:0") as coordinator:
        assert coordinator.web_url is not None
        other = Coordinator(tmp_path / "two", web=Console(coordinator.web_url).address)
        with pytest.raises(OSError, match="in use"):
            other.start()
        assert other.closed


@pytest.mark.parametrize(
    "web",
    [
        "8080",
        "127.0.0.1:x",
        "0.0.0.0:0",
        "[::]:0",
        7,
        WebOptions(("192.0.2.1", 80)),
        WebOptions(("0.0.0.0", 0), token="short"),
        WebOptions(("0.0.0.0", 0), token="ü" * 20),
    ],
)
def test_a_console_that_cannot_be_is_refused(web: Any, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="web"):
        Coordinator(tmp_path, web=web)


def _until(check: Any) -> Any:
    from support.browser import until

    return until(check, "what the console says", 60)


def test_what_happened_before_the_console_began_is_told(tmp_path: Path) -> None:
    config = Config(group_initial_rebalance_delay_ms=0, offsets_topic_num_partitions=3)

    def opened() -> Coordinator:
        return Coordinator(tmp_path, config=config, topics={"orders": 12}, web="127.0.0.1:0")

    with opened() as first:
        with first.join("billing", ["orders"]) as member:
            member.wait()
        assert first.web_url is not None
        before = Console(first.web_url).get("/api/group", id="billing")
    with opened() as second:
        assert second.web_url is not None
        console = Console(second.web_url)
        page = console.get("/api/group", id="billing")
        told = before["why"]["rebalances"]
        assert told
        assert page["why"]["rebalances"][: len(told)] == told
        assert page["story"][: len(before["story"])] == before["story"]
        assert page["events_since_ms"] == before["events_since_ms"]
        counted = len(page["why"]["rebalances"])
        wait = threading.Event()
        for _ in range(600):  # counted on a thread of its own
            (row,) = console.get("/api/groups")["groups"]
            if row["rebalances"] == counted:
                break
            wait.wait(0.1)
        assert row["rebalances"] == counted
        # What happens now follows what was kept, each event once.
        with second.join("billing", ["orders"]) as member:
            member.wait()
            after = console.get("/api/group", id="billing")
        assert [one["text"] for one in after["why"]["rebalances"]][:counted] == [
            one["text"] for one in page["why"]["rebalances"]
        ]
        assert len(after["story"]) == len({(of["at_ms"], of["text"]) for of in after["story"]})


def test_how_long_a_group_has_been_behind_and_its_lag_over_time(
    coordinator: Coordinator, console: Console
) -> None:
    places = {("orders", number) for number in range(12)}
    with coordinator.join("billing", ["orders"], client_id="ann") as ann:
        _until(lambda: ann.assignment == places)
        coordinator.set_end_offsets(dict.fromkeys(places, 40))
        ann.commit(dict.fromkeys(places, 40))
        page = _until(lambda: _with_lag(console, "billing", 0))
        assert (page["behind_ms"], {one["behind_ms"] for one in page["offsets"]}) == (0, {0})
        # The end is seen at 40; when it is seen beyond, time begins to count.
        console.ask("GET", "/metrics")
        coordinator.set_end_offsets({("orders", 3): 50})
        first = _until(lambda: _with_lag(console, "billing", 10))
        later = _until(lambda: _behind_more(console, first["behind_ms"] or 0))
        (late,) = [one for one in later["offsets"] if one["behind_ms"]]
        assert (late["partition"], late["behind_is_at_least"]) == (3, False)
        assert later["behind_ms"] == late["behind_ms"] <= later["at_ms"]
        (row,) = console.get("/api/groups")["groups"]
        assert (row["lag"], row["behind_ms"] >= late["behind_ms"]) == (10, True)
        told = console.get("/api/group/lag", id="billing")
        assert [(one["topic"], one["partition"]) for one in told["partitions"]] == sorted(places)
        assert all(of["lag"][0][1] == 0 for of in told["partitions"])
        assert told["lag"][0][1] == 0
    nobody = console.get("/api/group/lag", id="nobody")
    assert (nobody["lag"], nobody["partitions"]) == ([], [])


def _behind_more(console: Console, than_ms: int) -> Any:
    page = console.get("/api/group", id="billing")
    return page if (page["behind_ms"] or 0) > than_ms else None


def test_a_page_leaves_the_node_to_its_own_thread() -> None:
    class Stepping:
        """As the native node is, while its loop has a turn of it."""

        def __getattr__(self, name: str) -> Any:
            raise RuntimeError("Already mutably borrowed")

    runtime = SimpleNamespace(log=SimpleNamespace(shards=3))
    host: Any = SimpleNamespace(parts=SimpleNamespace(node=Stepping(), runtime=runtime))
    source = EmbeddedSource("a directory", host, None)
    assert (source.shards, source.node_of(2)) == (3, 0)
