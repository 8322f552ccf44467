"""The bench of attacks, with a member that gets no answer."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from attack.heartbeats import Beats

sys.path.append(str(Path(__file__).parents[2]))

abuse = pytest.importorskip("benches.abuse")

FINE = Beats([0.001], [])
LOST = Beats([], ["TimeoutError()"])
SILENT = Beats([], [])


class Victim:
    def __init__(self, *seen: Beats) -> None:
        self._seen = iter(seen)

    def beats(self) -> Beats:
        return next(self._seen)


class Attacker:
    def attack(self, seconds: float):
        return type("Passes", (), {"passes": 1})()


@pytest.mark.parametrize(
    ("seen", "ended"),
    [
        ((FINE, FINE, FINE), ""),
        ((LOST, SILENT, SILENT), "the member heard TimeoutError()"),
        ((FINE, SILENT, FINE), "no heartbeat was answered"),
        ((FINE, FINE, SILENT), "no heartbeat was answered"),
    ],
)
def test_a_member_that_hears_nothing_is_no_figure_of_zero(seen, ended):
    side = abuse.Side()
    abuse._round(Victim(*seen), Attacker(), side, 0.0)
    assert side.ended == ended
    assert side.under == ([] if ended else [1.0])
    abuse.show([abuse.Row("garbage", abuse.Side([1.0], [1.0], [1.0]), side)])
