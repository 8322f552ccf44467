"""Requests that cost more than they should: answered or refused, without harm to other clients."""

from __future__ import annotations

from pathlib import Path

from fuzz.bodies import KEYS, one_of_each, versions

from attack.attacks import ATTACKS, send
from attack.frames import GROUP_LEVEL, LYING_COUNT, NODE_LEVEL
from attack.target import attacked
from attack.wire import header

_FULL_BYTES = 1 << 30


def test_requests_that_stall_are_answered_or_refused(scale: float, tmp_path: Path) -> None:
    with attacked(tmp_path / "data") as target:
        for name in NODE_LEVEL:
            outcome = ATTACKS[name](target.port, scale)()
            assert outcome.answered + outcome.refused == 1, name


def test_topics_without_end_are_created_and_deleted(scale: float, tmp_path: Path) -> None:
    with attacked(tmp_path / "data") as target:
        once = ATTACKS["10,000 topics created and deleted"](target.port, scale)
        assert [once().answered for _ in range(3)] == [2, 2, 2]


def test_requests_of_many_megabytes_are_answered_or_refused(scale: float, tmp_path: Path) -> None:
    with attacked(tmp_path / "data", most_bytes=_FULL_BYTES) as target:
        for name in GROUP_LEVEL:
            outcome = ATTACKS[name](target.port, scale)()
            assert outcome.answered + outcome.refused == 1, name


def test_no_count_from_the_network_is_believed(tmp_path: Path) -> None:
    """Every array of every version of every API, said to be 2^31 - 1 long."""
    assert len(LYING_COUNT) + 4 == 29
    with attacked(tmp_path / "data") as target:
        ATTACKS["counts that lie"](target.port, 1.0)()
        sent = 0
        for key in KEYS:
            for version in versions(key):
                for frame in lying(key, version):
                    send(target.port, frame)
                    sent += 1
        assert sent > 500


def lying(key: int, version: int) -> list[bytes]:
    """A request with one element in each array, once for each count that may be a lie."""
    body, flexible = one_of_each(key, version)
    head = header(key, version, flexible=flexible)
    if flexible:
        places = [at for at in range(len(body)) if body[at] == 2]
        return [head + body[:at] + b"\xff\xff\xff\xff\x0f" + body[at + 1 :] for at in places]
    places = [at for at in range(len(body) - 3) if body[at : at + 4] == b"\0\0\0\1"]
    return [head + body[:at] + b"\x7f\xff\xff\xff" + body[at + 4 :] for at in places]
