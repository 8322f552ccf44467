"""Pictures as SVG texts, written by hand: lines on logarithmic scales, and timelines of owners."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

__all__ = ["log_log", "timeline"]

# Told apart also by those who do not see all colours (Okabe and Ito).
COLOURS = ("#0072B2", "#56B4E9", "#D55E00", "#E69F00", "#009E73", "#CC79A7")
_INK, _QUIET, _LINE = "#222", "#666", "#ddd"
_NOBODY = "#c00"
_FONT = 'font-family="system-ui, sans-serif"'

Spans = Mapping[str, Sequence[tuple[float, float, str]]]


def log_log(
    title: str, x_label: str, y_label: str, series: Mapping[str, Sequence[tuple[float, float]]]
) -> str:
    """Lines through points (x, y) above 0, each named by its series."""
    width, height, left, top, right, bottom = 760, 360, 70, 44, 250, 50
    points = [one for line in series.values() for one in line]
    y_low, y_high = _decades([y for _, y in points])
    x_low, x_high = min(x for x, _ in points), max(x for x, _ in points)
    if x_low == x_high:
        x_low, x_high = x_low / 2, x_high * 2

    def place(x: float, y: float) -> tuple[float, float]:
        across = math.log(x / x_low) / math.log(x_high / x_low)
        up = math.log(y / y_low) / math.log(y_high / y_low)
        return left + across * (width - left - right), height - bottom - up * (
            height - top - bottom
        )

    parts = [_text(left, 24, title, 15, bold=True)]
    tick = y_low
    while tick <= y_high * 1.001:
        _, y = place(x_low, tick)
        parts.append(_rule(left, y, width - right, y))
        parts.append(_text(left - 8, y + 4, _short(tick), 12, _QUIET, "end"))
        tick *= 10
    for x_value in sorted({x for x, _ in points}):
        x, _ = place(x_value, y_low)
        parts.append(_text(x, height - bottom + 18, _short(x_value), 12, _QUIET, "middle"))
    middle = (left + width - right) / 2
    parts.append(_text(middle, height - 10, x_label, 12, _QUIET, "middle"))
    parts.append(_text(left, 40, y_label, 12, _QUIET))
    labels: list[tuple[float, str, str]] = []
    for colour, (name, line) in zip(COLOURS, series.items(), strict=False):
        placed = [place(x, y) for x, y in sorted(line)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>'
        )
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>' for x, y in placed]
        labels.append((placed[-1][1], name, colour))
    # Names beside the ends of their lines, moved apart.
    at = top + 6.0
    for y, name, colour in sorted(labels):
        at = max(at, y)
        parts.append(_text(width - right + 12, at + 4, name, 12, colour))
        at += 17
    return _svg(width, height, parts)


def timeline(
    title: str,
    spans: Spans,
    seconds: float,
    marks: Sequence[tuple[float, str]] = (),
) -> str:
    """For each partition a bar of who owned it when; red where nobody did. Of two owners at a
    time both are seen."""
    row, left, top, width, right = 18, 60, 78, 860, 20
    height = top + row * len(spans) + 34
    owners = sorted({who for of in spans.values() for _, _, who in of})
    colours = dict(zip(owners, (COLOURS[0], COLOURS[3], COLOURS[4], COLOURS[5]), strict=False))

    def place(at: float) -> float:
        return left + at / seconds * (width - left - right)

    parts = [_text(10, 24, title, 15, bold=True)]
    x = float(left)
    for who, colour in [*colours.items(), ("nobody", _NOBODY)]:
        parts.append(_box(x, 38, 14, 12, colour))
        parts.append(_text(x + 20, 49, who, 12))
        x += 40 + 8 * len(who)
    for number, (name, owned) in enumerate(spans.items()):
        y = top + row * number
        parts.append(_text(left - 8, y + 12, name, 11, _QUIET, "end"))
        parts.append(_box(left, y + 2, width - left - right, row - 5, _NOBODY))
        taken = 0.0
        for begin, end, who in owned:
            begin_x, end_x = place(begin), place(end)
            parts.append(_box(begin_x, y + 2, end_x - begin_x, row - 5, colours[who]))
            if taken > begin:
                both = min(taken, end)
                half = (row - 5) / 2
                first = next(w for b, e, w in owned if b <= begin < e and w != who)
                parts.append(_box(begin_x, y + 2, place(both) - begin_x, half, colours[first]))
            taken = max(taken, end)
    bottom = top + row * len(spans)
    step = 1 if seconds <= 12 else 2 if seconds <= 26 else 5
    for second in range(0, int(seconds) + 1, step):
        parts.append(_text(place(second), bottom + 16, f"{second} s", 11, _QUIET, "middle"))
    for at, label in marks:
        parts.append(_rule(place(at), top - 10, place(at), bottom, _INK))
        parts.append(_text(place(at) + 3, top - 4, label, 11))
    return _svg(width, height, parts)


def _decades(values: Sequence[float]) -> tuple[float, float]:
    low = 10.0 ** math.floor(math.log10(min(values)))
    high = 10.0 ** math.ceil(math.log10(max(values)))
    return low, high if high > low else 10 * low


def _short(value: float) -> str:
    if value >= 1_000:
        return f"{value:,.0f}"
    return f"{value:g}"


def _text(
    x: float, y: float, text: str, size: int, colour: str = _INK, anchor: str = "start",
    bold: bool = False,
) -> str:  # fmt: skip
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" text-anchor="{anchor}" '
        f"{_FONT}{weight}>{escape(text)}</text>"
    )


def _rule(x1: float, y1: float, x2: float, y2: float, colour: str = _LINE) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
        f'stroke="{colour}" stroke-width="1"/>'
    )


def _box(x: float, y: float, width: float, height: float, colour: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.5):.1f}" height="{height:.1f}" '
        f'fill="{colour}"/>'
    )


def _svg(width: float, height: float, parts: Sequence[str]) -> str:
    inner = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" role="img">\n'
        f'<rect width="100%" height="100%" fill="#fff"/>\n{inner}\n</svg>\n'
    )
