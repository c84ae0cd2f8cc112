"""Chart of the findings as SVG: how far each goal was exceeded or missed, and curves."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from benchmarks import curves
from benchmarks.findings import Finding
from benchmarks.report import number

WIDTH: Final = 960
ROW: Final = 26
TOP: Final = 64
LABELS: Final = 440
"""Right end of the labels, and leftmost position of the goal's line."""
RIGHT: Final = 190
SPAN: Final = 10.0
"""The axis reaches from a SPAN-th of the goal to SPAN times the goal; beyond, bars are cut."""
GOOD: Final = "#2a7f62"
BAD: Final = "#c0392b"

_HEAD: Final = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"
     font-family="system-ui, sans-serif" font-size="12">
<rect width="{width}" height="{height}" fill="white"/>
<text x="16" y="24" font-size="16" font-weight="600">taskq: figures and goals</text>"""


def svg(findings: Sequence[Finding]) -> str:
    """Return a chart with a bar for each finding that has a goal, on a logarithmic scale.

    Bars start at the goal: to the right it is exceeded, whichever way the goal goes. The curves of
    findings that have some are below.
    """
    judged = [
        finding for finding in findings if finding.figure is not None and finding.goal is not None
    ]
    height = TOP + ROW * len(judged) + 24
    parts = [
        _HEAD.format(width=WIDTH, height=height + curves.height(findings)),
        *_axis(height),
        *(part for row, finding in enumerate(judged) for part in _bar(finding, TOP + ROW * row)),
        *curves.drawn(findings, height),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _axis(height: int) -> Iterator[str]:
    for times in (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0):
        x, goal = _x(times), times == 1
        label = "goal" if goal else f"{times:g} x"
        yield (
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 8}" y2="{height - 16}" '
            f'stroke="{"#333" if goal else "#ddd"}"/>'
        )
        yield f'<text x="{x:.1f}" y="{TOP - 14}" text-anchor="middle" fill="#555">{label}</text>'


def _bar(found: Finding, y: int) -> Iterator[str]:
    goal, figure = found.goal, found.figure
    assert goal is not None and figure is not None  # noqa: S101, PT018  # chosen by the caller
    x, start = _x(_better(figure, goal.bound, least=goal.at == "least")), _x(1.0)
    colour = GOOD if found.reached else BAD
    said = f"{number(figure)}{f' {found.unit}' if found.ratio is None and found.unit else ''}"
    middle = y + ROW / 2 + 4
    label = escape(_short(found.what))
    yield f'<text x="{LABELS - 12}" y="{middle}" text-anchor="end">{label}</text>'
    yield (
        f'<rect x="{min(x, start):.1f}" y="{y + 5}" width="{max(abs(x - start), 2):.1f}" '
        f'height="{ROW - 10}" rx="2" fill="{colour}"/>'
    )
    yield (
        f'<text x="{WIDTH - RIGHT + 12}" y="{middle}" fill="{colour}">'
        f"{escape(f'{said} ({goal})')}</text>"
    )


def _better(figure: float, bound: float, *, least: bool) -> float:
    """Return how many times better than the goal a figure is, within the axis."""
    if figure == bound:
        return 1.0
    over, under = (figure, bound) if least else (bound, figure)
    if over <= 0 or under <= 0:
        return SPAN if under <= 0 else 1 / SPAN
    return min(max(over / under, 1 / SPAN), SPAN)


def _x(times: float) -> float:
    """Return where on the axis so many times the goal lies."""
    share = (math.log(times) / math.log(SPAN) + 1) / 2
    return LABELS + share * (WIDTH - RIGHT - LABELS)


def _short(text: str, most: int = 68) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
