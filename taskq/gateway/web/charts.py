"""Charts as SVG text, drawn on the server: lines over time, and a histogram.

Colours and lines are classes of the style sheet. Each chart says in words what it shows; the page
also has the figures in a table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from markupsafe import Markup, escape

WIDTH: Final = 720
HEIGHT: Final = 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 28, 12, 28
_PLOT_W: Final = WIDTH - _LEFT - _RIGHT
_PLOT_H: Final = HEIGHT - _TOP - _BOTTOM
_DIVISIONS: Final = 4
_STEPS_MIN: Final = (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720)
_DAY_MIN: Final = 1_440
_MOST_TIMES: Final = 7


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a chart: values that hold from one instant to another. kind: a class of style."""

    name: str
    kind: str
    segments: Sequence[tuple[datetime, datetime, float]]


def timeline(name: str, words: str, lines: Sequence[Line], show: Callable[[float], str]) -> Markup:
    """Return a chart of lines over time; empty without segments.

    name: what it shows. words: the same for those who cannot see it. show: returns a value's label.
    """
    segments = [segment for line in lines for segment in line.segments]
    if not segments:
        return Markup()
    begin, end = min(segment[0] for segment in segments), max(segment[1] for segment in segments)
    top = _round_up(max(segment[2] for segment in segments))
    whole_s = max((end - begin).total_seconds(), 1.0)

    def x(at: datetime) -> float:
        return _LEFT + _PLOT_W * (at - begin).total_seconds() / whole_s

    marks = [Markup("").join(_grid(top, show))]
    for at in _times(begin, end):
        text = at.strftime("%H:%M" if end - begin <= timedelta(days=2) else "%d %b")
        marks.append(
            Markup('<text class="label" x="{:.1f}" y="{}" text-anchor="middle">{}</text>').format(
                x(at), HEIGHT - 8, text
            )
        )
    for line in lines:
        steps = [
            f"{'M' if index == 0 else 'L'}{x(segment[0]):.1f} {_y(segment[2], top):.1f}"
            f"L{x(segment[1]):.1f} {_y(segment[2], top):.1f}"
            for index, segment in enumerate(line.segments)
        ]
        marks.append(
            Markup('<path class="line {}" d="{}"><title>{}</title></path>').format(
                line.kind, "".join(steps), line.name
            )
        )
    return _picture(name, words, marks)


def histogram(
    name: str,
    words: str,
    bins: Sequence[int],
    ends: tuple[float, float],
    show: Callable[[float], str],
) -> Markup:
    """Return a histogram of counts in equal parts of the range between two ends."""
    low, high = ends
    top = _round_up(max(bins))
    width = _PLOT_W / len(bins)
    marks = [Markup("").join(_grid(top, lambda value: f"{value:,.0f}"))]
    for index, count in enumerate(bins):
        begin = low + (high - low) * index / len(bins)
        end = low + (high - low) * (index + 1) / len(bins)
        title = f"{show(begin)} to {show(end)}: {count:,}"
        y = _y(count, top)
        marks.append(
            Markup(
                '<rect class="bar" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}">'
                "<title>{}</title></rect>"
            ).format(_LEFT + width * index + 0.5, y, max(width - 1, 1), _TOP + _PLOT_H - y, title)
        )
    for value, x, anchor in (
        (low, _LEFT, "start"),
        ((low + high) / 2, _LEFT + _PLOT_W / 2, "middle"),
        (high, WIDTH - _RIGHT, "end"),
    ):
        marks.append(
            Markup('<text class="label" x="{:.1f}" y="{}" text-anchor="{}">{}</text>').format(
                x, HEIGHT - 8, anchor, show(value)
            )
        )
    return _picture(name, words, marks)


def _picture(name: str, words: str, marks: Sequence[Markup]) -> Markup:
    return Markup(
        '<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>'
    ).format(WIDTH, HEIGHT, f"{name}. {words}", Markup("").join(marks))


def _grid(top: float, show: Callable[[float], str]) -> Iterator[Markup]:
    divisions = min(_DIVISIONS, int(top)) if top == int(top) and top < _DIVISIONS else _DIVISIONS
    for step in range(divisions + 1):
        value = top * step / divisions
        y = _y(value, top)
        yield Markup('<line class="grid" x1="{}" y1="{:.1f}" x2="{}" y2="{:.1f}"/>').format(
            _LEFT, y, WIDTH - _RIGHT, y
        )
        yield Markup('<text class="label" x="{}" y="{:.1f}" text-anchor="end">{}</text>').format(
            _LEFT - 8, y + 4, escape(show(value))
        )


def _y(value: float, top: float) -> float:
    return _TOP + _PLOT_H * (1 - value / top)


def _round_up(value: float) -> float:
    """Return the next number that is 1, 2, 4 or 8 times a power of ten; 1 if it is not positive."""
    if value <= 0:
        return 1.0
    power: float = 10.0 ** math.floor(math.log10(value))
    return next(factor * power for factor in (1, 2, 4, 8, 10, 20) if factor * power >= value)


def _times(begin: datetime, end: datetime) -> Iterator[datetime]:
    """Yield round instants in a span of time, about `_MOST_TIMES` at most."""
    minutes = max((end - begin).total_seconds() / 60, 1)
    fitting = [step for step in _STEPS_MIN if minutes / step <= _MOST_TIMES]
    step = fitting[0] if fitting else _DAY_MIN * math.ceil(minutes / _DAY_MIN / _MOST_TIMES)
    at = begin.replace(hour=0, minute=0, second=0, microsecond=0)
    at += timedelta(minutes=step * math.ceil((begin - at).total_seconds() / 60 / step))
    while at <= end:
        yield at
        at += timedelta(minutes=step)
