"""The curve of what was found, as SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

WIDTH: Final = 560
HEIGHT: Final = 360
LEFT, RIGHT, TOP, BOTTOM = 64, 20, 48, 52
SHARE: Final = 0.3  # of the library, at the right end
POINTS: Final = 80
_HEAD: Final = f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}"
     font-family="system-ui, sans-serif" font-size="12">
<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>"""


def svg(curve: Sequence[float], size: int) -> str:
    """Return a chart of the shares of the best that were found, after each docking.

    size: of the library.
    """
    title = f"Found of the best 1 % of {size:,} ligands"
    parts = [
        _HEAD,
        f'<text x="{LEFT}" y="24" font-size="14" font-weight="600">{title}</text>',
        *_axes(),
        _line([(0, 0), (SHARE, SHARE)], "#888", dash=True),
        f'<text x="{_x(0.23):.0f}" y="{_y(0.16):.0f}" fill="#666">by chance</text>',
        _line(_points(curve, size), "#2a7f62"),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _points(curve: Sequence[float], size: int) -> list[tuple[float, float]]:
    step = max(1, len(curve) // POINTS)
    places = [*range(0, len(curve), step), len(curve) - 1]
    return [((place + 1) / size, curve[place]) for place in places if place < SHARE * size]


def _axes() -> Iterator[str]:
    for tenth in range(11):
        y = _y(tenth / 10)
        yield f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e5e5e5"/>'
        if tenth % 2 == 0:
            place = f'x="{LEFT - 8}" y="{y + 4:.1f}"'
            yield f'<text {place} text-anchor="end" fill="#555">{tenth * 10} %</text>'
    for share in (0.0, 0.1, 0.2, 0.3):
        x = _x(share)
        strong = "#999" if share == 0.2 else "#e5e5e5"  # noqa: PLR2004  # a fifth
        ends = f'y1="{TOP}" y2="{HEIGHT - BOTTOM}"'
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" {ends} stroke="{strong}"/>'
        place = f'x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}"'
        yield f'<text {place} text-anchor="middle" fill="#555">{share:.0%}</text>'
    place = f'x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 12}"'
    yield f'<text {place} text-anchor="middle" fill="#333">share of the library docked</text>'


def _line(points: Sequence[tuple[float, float]], colour: str, *, dash: bool = False) -> str:
    path = " ".join(f"{_x(x):.1f},{_y(y):.1f}" for x, y in points)
    dashes = ' stroke-dasharray="5 4"' if dash else ""
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"{dashes}/>'


def _x(share: float) -> float:
    return LEFT + share / SHARE * (WIDTH - LEFT - RIGHT)


def _y(part: float) -> float:
    return HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM)
