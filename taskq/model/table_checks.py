"""Checks of tables of files: keys, texts, and parameters (any JSON object of bounded size)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

from taskq.model.errors import InvalidCampaign, InvalidTask
from taskq.model.seed import check_text

MAX_PARAMS_BYTES: Final = 262_144
MAX_PARAMS_DEPTH: Final = 64

_INT64: Final = range(-(2**63), 2**63)


def check_string(where: str, value: object) -> str:
    """Return a text; raise `InvalidCampaign` unless it is one that PostgreSQL can hold."""
    if not isinstance(value, str):
        raise InvalidCampaign(f"{where} must be text, not {value!r:.80}")
    try:
        check_text(where, value)
    except InvalidTask as error:
        raise InvalidCampaign(str(error)) from None
    return value


def check_params(params: object) -> None:
    """Raise `InvalidCampaign`, naming the place, unless this is a JSON object of bounded size."""
    if not isinstance(params, Mapping):
        raise InvalidCampaign(f"params must be a table, not {params!r:.80}")
    _check_json("params", params, MAX_PARAMS_DEPTH)
    size = len(json.dumps(params, ensure_ascii=False).encode())
    if size > MAX_PARAMS_BYTES:
        raise InvalidCampaign(
            f"params of {size} bytes; {MAX_PARAMS_BYTES} at most: "
            "keep large inputs in files and give their names"
        )


def _check_json(where: str, value: object, depth: int) -> None:
    if depth == 0:
        raise InvalidCampaign(f"{where:.80} is nested more than {MAX_PARAMS_DEPTH} deep")
    if isinstance(value, Mapping):
        for key, inner in value.items():
            check_string(f"a key of {where}", key)
            _check_json(f"{where}.{key}", inner, depth - 1)
    elif isinstance(value, (list, tuple)):
        for position, inner in enumerate(value):
            _check_json(f"{where}[{position}]", inner, depth - 1)
    elif isinstance(value, str):
        check_string(where, value)
    elif isinstance(value, (int, float)):
        _check_number(where, value)
    elif value is not None:
        raise InvalidCampaign(
            f"{where} is a {type(value).__name__}, which JSON does not have; put it in quotes"
        )


def _check_number(where: str, value: float) -> None:
    if isinstance(value, int):
        if value not in _INT64:
            raise InvalidCampaign(f"{where} is a whole number of more than 64 bits")
    elif not math.isfinite(value):
        raise InvalidCampaign(f"{where} is {value}, which JSON does not have")


def known_only(
    where: str, value: object, known: Iterable[str], elsewhere: Iterable[str] = ()
) -> dict[str, Any]:
    """Return a table as a dict; raise `InvalidCampaign` at an unknown key.

    elsewhere: the keys of other tables, such as `limits.time_limit_s`, and those outside tables.
    """
    known = list(known)
    if not isinstance(value, Mapping):
        raise InvalidCampaign(f"{where or 'a campaign'} must be a table, not {value!r:.80}")
    for key in value:
        if key not in known:
            hint = _meant(str(key), known, elsewhere) or f"known are: {', '.join(known)}"
            raise InvalidCampaign(f"{where}{'.' if where else ''}{key} is unknown; {hint}")
    return dict(value)


def with_named(value: object, known: Sequence[str], elsewhere: Iterable[str]) -> object:
    """Return the table of resources with what it names beyond the known keys as one of them.

    Keys that look like misspelt ones stay where they are, and are refused as unknown.
    """
    if not isinstance(value, Mapping):
        return value
    others = {place.rpartition(".")[2] for place in elsewhere}
    named = {
        key: amount
        for key, amount in value.items()
        if key not in others.union(known) and not get_close_matches(str(key), known)
    }
    rest = {key: amount for key, amount in value.items() if key not in named}
    return rest | {"named_resources": named} if named else rest


def _meant(key: str, known: Sequence[str], elsewhere: Iterable[str]) -> str | None:
    """Return which key was probably meant: of another table, this one, or nearly another's."""
    places = {place.rpartition(".")[2]: place for place in elsewhere}
    if key in places:
        table = places[key].rpartition(".")[0]
        where = f"in the table [{table}]" if table else "at the top, before the first table"
        return f"{places[key]} stands {where}"
    if close := get_close_matches(key, known, n=1):
        return f"did you mean {close[0]!r}?"
    if close := get_close_matches(key, places, n=1):
        return f"did you mean {places[close[0]]!r}?"
    return None
