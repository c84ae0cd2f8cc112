"""Pages as text, from templates that escape every value."""

from __future__ import annotations

import importlib.resources
import json
import re
from functools import cache
from typing import Any, Final
from urllib.parse import urlencode

import jinja2

from taskq.diagnosis.tables.acts import ACTS
from taskq.diagnosis.tables.agents import AGENTS, LEFT_AGENTS, about_brake
from taskq.diagnosis.tables.campaigns import CAMPAIGNS, figures
from taskq.diagnosis.tables.gateways import GATEWAYS, NONE_KNOWN
from taskq.diagnosis.tables.places import about_sample
from taskq.diagnosis.tables.tasks import CAUSES, EVENTS
from taskq.diagnosis.troubles import SNOOZES
from taskq.model.columns import filled, without
from taskq.model.seed import RETRIABLE, UNFINISHED
from taskq.model.version import VERSION
from taskq.model.words import beginning, counted, duration, instant, percent, phases, rate

#: Characters of a payload, a result or an output that a page shows.
MOST_CHARS: Final = 20_000
#: Characters of a cell of a table.
MOST_CELL_CHARS: Final = 300
# See https://trojansource.codes.
_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]"
)
#: Content types of the files that pages load, by the ends of their names.
TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


def render(template: str, **values: Any) -> str:
    """Return a page."""
    return _templates().get_template(template).render(values)


@cache
def static(name: str) -> bytes | None:
    """Return a file that pages load; None if there is none."""
    known = {
        file.name: file
        for file in importlib.resources.files(__package__).joinpath("static").iterdir()
    }
    return known[name].read_bytes() if name in known else None


def address(page: str, **query: object) -> str:
    """Return the address of a page; leave out parameters that are None or empty."""
    kept = {name: value for name, value in query.items() if value not in {None, ""}}
    return page + ("?" + urlencode(kept) if kept else "")


def number(value: float | None) -> str:
    """Return a count with its thousands marked."""
    return "" if value is None else f"{value:,}"


def figure(value: float) -> str:
    """Return a measured number with four digits."""
    return f"{value:,.4g}" if abs(value) < 1e6 else f"{value:.4g}"  # noqa: PLR2004  # then with an exponent


def excerpt(text: str) -> str:
    """Return the beginning of a long text."""
    if len(text) <= MOST_CHARS:
        return text
    return f"{text[:MOST_CHARS]}\n[{len(text) - MOST_CHARS:,} more characters]"


def brief(text: str) -> str:
    """Return the beginning of a text as a cell of a table shows it."""
    return beginning(text, MOST_CELL_CHARS)


def pretty(value: object) -> str:
    """Return a value as JSON with a line for each member."""
    return excerpt(json.dumps(value, indent=2, ensure_ascii=False))


def visible(value: object) -> object:
    """Escape characters of a text that are invisible or reverse what follows."""
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return _UNSEEN.sub(lambda found: ascii(found[0])[1:-1], value)
    return value


@cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("taskq.gateway.web"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        finalize=visible,
    )
    environment.filters |= {
        "brief": brief,
        "duration": duration,
        "phases": phases,
        "excerpt": excerpt,
        "figure": figure,
        "instant": instant,
        "number": number,
        "percent": percent,
        "pretty": pretty,
        "rate": rate,
    }
    environment.globals |= {
        "address": address,
        "chosen_with": lambda chosen, name, value: {**chosen, name: value},
        "counted": counted,
        "release": VERSION,
        "figures": figures,
        "filled": filled,
        "without": without,
        "about_brake": about_brake,
        "about_sample": about_sample,
        "no_gateways": NONE_KNOWN,
        "RETRIABLE": RETRIABLE,
        "SNOOZES": tuple(SNOOZES),
        "UNFINISHED": UNFINISHED,
        "ACTS": ACTS,
        "AGENTS": AGENTS,
        "CAMPAIGNS": {column.title: column for column in CAMPAIGNS},
        "CAUSES": CAUSES,
        "EVENTS": EVENTS,
        "GATEWAYS": GATEWAYS,
        "LEFT_AGENTS": LEFT_AGENTS,
    }
    return environment
