"""The flame graph: exact stacks out of callgrind's format, and a picture of them."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

# benches is not part of the package; it is run from the root.
sys.path.append(str(Path(__file__).parents[2]))

from benches import flames

ROOT = Path(__file__).parents[2]
# `round` takes 30 itself, calls `handle` (which takes 60, and 1 in itself again) and `free` (9).
PROFILE = """\
fl=(1) somewhere.rs
fn=(7) malloc'main
5 400
fn=(1) <bench::Beats as bench::Work>::round'kcoord_bench_measured'main
10 10
+1 20
cfn=(2) core::Shard::handle'<bench::Beats as bench::Work>::round'kcoord_bench_measured'main
calls=2 +5
* 61
cfn=(3) free'<bench::Beats as bench::Work>::round'kcoord_bench_measured'main
calls=2 +5
* 9
fn=(2)
12 60
fn=(4) core::Shard::handle'2'core::Shard::handle'<bench::Beats as bench::Work>::round'kcoord_bench_measured'main
12 1
fn=(3)
-3 9
"""  # noqa: E501


def test_stacks_begin_at_what_is_measured() -> None:
    beats = "<bench::Beats as bench::Work>::round"
    assert list(flames.stacks(PROFILE)) == [
        ((beats,), 10),
        ((beats,), 20),
        ((beats, "core::Shard::handle"), 60),
        ((beats, "core::Shard::handle", "core::Shard::handle"), 1),
        ((beats, "free"), 9),
    ]


def test_shares_count_a_recursion_once() -> None:
    assert flames.shares(flames.flame(PROFILE)) == [
        ("Beats::round", 0.3, 1.0),
        ("Shard::handle", 0.61, 0.61),
        ("free", 0.09, 0.09),
    ]


def test_a_picture_is_as_wide_as_its_instructions() -> None:
    root = ElementTree.fromstring(flames.draw(flames.flame(PROFILE), 10, "beats < 11"))
    svg = "{http://www.w3.org/2000/svg}"
    widths = {group[0].text: float(group[1].attrib["width"]) for group in root.iter(f"{svg}g")}
    drawn = flames.WIDTH - 2 * flames.MARGIN
    assert widths["core::Shard::handle: 6 instructions an operation, 61.0%"] == pytest.approx(
        0.61 * drawn, abs=0.1
    )
    assert widths["all: 10 instructions an operation, 100.0%"] == drawn


def test_what_is_narrow_is_left_out() -> None:
    assert "60 instructions" not in flames.draw(flames.flame(PROFILE + "fn=(3)\n1 99999\n"), 1, "")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("kcoord_core::group::classic::<impl kcoord_core::group::Machine>::beat", "Machine::beat"),
        ("core::ptr::drop_in_place<kcoord_core::response::Response>", "drop_in_place<Response>"),
        ("kcoord_core::shard::Shard::handle_batch", "Shard::handle_batch"),
        ("malloc", "malloc"),
    ],
)
def test_functions_are_told_as_one_says_them(name: str, said: str) -> None:
    assert flames.short(name) == said


@pytest.mark.parametrize("axis", ["heartbeat", "commit-5", "storm"])
def test_pictures_of_the_docs(axis: str) -> None:
    picture = (ROOT / "docs" / f"flame-{axis}.svg").read_text()
    ElementTree.fromstring(picture)
    assert len(picture) < 100_000
    assert "/" not in picture.replace("http://www.w3.org/2000/svg", "").replace("</", "").replace(
        "/>", ""
    )
