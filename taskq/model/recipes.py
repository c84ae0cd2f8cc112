"""Recipes: by which handler, parameters and inputs the results of a campaign are computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

_MISSING: Final = object()


@dataclass(frozen=True, slots=True)
class RecipeChange:
    """A change of a campaign's handler, parameters or inputs.

    change: its number. recipe: that of the content since; equal content has its old number.
    changed_by: a login, or a token. what: the members that differ from before, such as
    `params.exhaustiveness`.
    """

    change: int
    recipe: int
    changed_at: datetime
    changed_by: str
    what: list[str]


@dataclass(frozen=True, slots=True)
class Recipe:
    """The content of a recipe. inputs: digest and size by name."""

    recipe: int
    handler: Mapping[str, Any] | None
    params: Mapping[str, Any]
    inputs: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Difference:
    """A member in which two recipes differ. first, second: its values; None: it is not there."""

    what: str
    first: Any
    second: Any


def differences(first: Recipe, second: Recipe) -> list[Difference]:
    """Return the members of handler, inputs and parameters in which two recipes differ."""
    return [
        Difference(f"{part}.{name}", old, new)
        for part in ("handler", "inputs", "params")
        for name, old, new in _differing(getattr(first, part), getattr(second, part))
    ]


def _differing(
    first: Mapping[str, Any] | None, second: Mapping[str, Any] | None
) -> Iterator[tuple[str, Any, Any]]:
    first, second = first or {}, second or {}
    for name in sorted({*first, *second}):
        if first.get(name, _MISSING) != second.get(name, _MISSING):
            yield name, first.get(name), second.get(name)
