"""Curves of findings as SVG: a figure in successive times, from zero."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from benchmarks.findings import Finding
from benchmarks.report import number

HEIGHT: Final = 90
"""Of each curve, with its title."""
PLOT: Final = 56
LEFT: Final = 16
WIDTH: Final = 760
COLOUR: Final = "#2a5d9f"


def height(findings: Sequence[Finding]) -> int:
    """Return the height that the curves of some findings take."""
    return HEIGHT * sum(bool(finding.curve) for finding in findings)


def drawn(findings: Sequence[Finding], top: int) -> Iterator[str]:
    """Yield the curves below each other, from `top` on."""
    for place, finding in enumerate(finding for finding in findings if finding.curve):
        yield from _curve(finding, top + HEIGHT * place)


def _curve(finding: Finding, top: int) -> Iterator[str]:
    figures = finding.curve
    most = max(*figures, 0.0) or 1.0
    step = WIDTH / max(len(figures) - 1, 1)
    bottom = top + 20 + PLOT
    points = " ".join(
        f"{LEFT + step * place:.1f},{bottom - PLOT * figure / most:.1f}"
        for place, figure in enumerate(figures)
    )
    unit = f" {finding.unit}" if finding.unit else ""
    between = f"{number(min(figures))} to {number(most)}{unit}"
    yield f'<text x="{LEFT}" y="{top + 12}">{escape(f"{finding.what}: {between}")}</text>'
    yield f'<line x1="{LEFT}" x2="{LEFT + WIDTH}" y1="{bottom}" y2="{bottom}" stroke="#ddd"/>'
    yield f'<polyline points="{points}" fill="none" stroke="{COLOUR}" stroke-width="2"/>'
