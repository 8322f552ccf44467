"""Groups that cost more than they should: members without end, fat ones, many of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from attack.attacks import ATTACKS
from attack.target import attacked
from attack.wire import Connection, become_member

_NAMES = ("60,000 joins and leaves", "ListGroups, 100,000 groups 20 times")
_FAT = (
    "DescribeGroups, a fat member 600 times",
    "OffsetFetch, a partition 400,000 times",
    "OffsetFetch, a group 100,000 times",
)
_FAT_BYTES = 192 << 20
_KEPT_BYTES = 64 << 20
# 32 MiB, and an error for each part that is beyond.
_ANSWER_BYTES = 33 << 20


@pytest.mark.parametrize("name", _NAMES)
def test_groups_that_come_and_go_cost_nothing_in_the_end(
    name: str, scale: float, tmp_path: Path
) -> None:
    with attacked(tmp_path / "data") as target:
        once = ATTACKS[name](target.port, scale / 4)
        once()
        before = target.resident_bytes()
        once()
        assert target.resident_bytes() < before + _KEPT_BYTES


@pytest.mark.parametrize("name", _FAT)
def test_a_small_request_for_a_huge_answer_is_bounded(
    name: str, scale: float, tmp_path: Path
) -> None:
    with attacked(tmp_path / "data", most_bytes=_FAT_BYTES) as target:
        outcome = ATTACKS[name](target.port, scale)()
        assert outcome.answered + outcome.refused == 1
        assert outcome.answer_bytes <= _ANSWER_BYTES


def test_members_that_never_come_back_do_not_keep_others_out(scale: float, tmp_path: Path) -> None:
    with attacked(tmp_path / "data") as target:
        outcome = ATTACKS["200,000 ids that are never used"](target.port, scale)()
        assert outcome.answered == int(200_000 * scale)
        with Connection(target.port) as client:
            assert become_member(client, "pending").generation > 0


def test_fat_members_that_all_join_again_form_a_generation_each_time(
    scale: float, tmp_path: Path
) -> None:
    with attacked(tmp_path / "data", most_bytes=_FAT_BYTES) as target:
        once = ATTACKS["1,500 fat members join again"](target.port, scale)
        assert {once().answered for _ in range(4)} == {max(2, int(1_500 * scale))}
