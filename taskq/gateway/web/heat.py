"""What the page of a heat map shows: the map, the choices, and each value in few characters."""

from __future__ import annotations

from typing import Any, Final

from taskq.db.access import Queries
from taskq.diagnosis.bans import PlaceKind
from taskq.diagnosis.heat import MOST_PLACES, SPANS, Cell, HeatMap, Measure, read_heat
from taskq.diagnosis.shared_readings import Readings
from taskq.gateway.web.asked import MOST_PAGES, Asked, Turn
from taskq.gateway.web.rendering import figure
from taskq.model.words import counted, duration

#: Seconds for which a map is kept, by its span: of a thousand hosts it reads half a million sums.
_KEPT_S: Final = {"4h": 60.0, "1d": 300.0, "7d": 600.0}
_MEASURES: Final[dict[Measure, str]] = {
    "failures": "failures",
    "runs": "run time",
    "results": "results",
}
_KINDS: Final[dict[str, PlaceKind]] = {"hosts": "host", "sites": "site"}
_UNITS: Final = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "m"))


async def heat_values(asked: Asked, queries: Queries, readings: Readings) -> dict[str, Any]:
    """Return what the template needs of the map that a viewer asks for."""
    query, path = asked.query, asked.path
    of = query.get("of", "hosts")
    of = of if of in _KINDS else "hosts"
    measure: Measure = next((it for it in _MEASURES if it == query.get("show")), "failures")
    span = query.get("span", "4h")
    span = span if span in SPANS else "4h"
    first = (min(asked.part, MOST_PAGES) - 1) * MOST_PLACES

    def read() -> HeatMap:
        return read_heat(queries, path, _KINDS[of], measure, span=span, first=first)

    heat = await readings.get(("heat", path, of, measure, span, first), _KEPT_S[span], read)

    def text(cell: Cell) -> str:
        """Return a value in few characters."""
        if cell.value is None:
            return "\u00b7"
        if measure == "failures":
            return f"{100 * cell.value:.0f}"
        return _short_duration(cell.value) if measure == "runs" else _short_number(cell.value)

    def words(cell: Cell) -> str:
        """Return what a cell says, in words."""
        if cell.value is None:
            return "nothing ended"
        if measure == "failures":
            return f"{100 * cell.value:.1f} % of {counted(cell.attempts, 'attempt')} failed"
        if measure == "runs":
            return f"{duration(cell.value)}, of {counted(cell.attempts, 'attempt')}"
        return f"{figure(cell.value)}, of {counted(cell.attempts, 'result')}"

    return {
        "heat": heat,
        "text": text,
        "words": words,
        "chosen": {"of": of, "show": measure, "span": span},
        "choices": {
            "of": {name: name for name in _KINDS},
            "show": _MEASURES,
            "span": {name: said for name, (said, _, _) in SPANS.items()},
        },
        "clock": "%H:%M" if span != "7d" else "%a %Hh",
        "turn": Turn.of(asked, heat.places, MOST_PLACES),
    }


def _short_duration(seconds: float) -> str:
    unit_s, unit = next((it for it in _UNITS if seconds >= it[0]), (1.0, "s"))
    number = seconds / unit_s
    return f"{number:.2g}{unit}" if number < 10 else f"{number:.0f}{unit}"  # noqa: PLR2004  # two digits


def _short_number(value: float) -> str:
    """Return a number with three digits; a large or a small one with an exponent."""
    text = f"{value:.3g}"
    return text.replace("e+0", "e").replace("e-0", "e-").replace("e+", "e")
