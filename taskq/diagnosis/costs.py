"""Costs of reasons, in core-hours an hour: cores that stand idle, or work for nothing.

A slot counts as one core where nothing says more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from taskq.diagnosis.facts import AgentKind
from taskq.diagnosis.places import Place
from taskq.diagnosis.reasons import known_sum

_CORES: Final = "cores="


def of_agents(kinds: Iterable[AgentKind]) -> float:
    """Return the cost of agents that do nothing."""
    return float(sum(kind.slots * _cores(kind.offers) for kind in kinds))


def of_places(places: Iterable[Place]) -> float | None:
    """Return the cost of hosts or sites that fail or are slow; None if none is at work.

    A failing place works in vain for its share of bad attempts, a slow one for what others would
    not need.
    """
    return known_sum(_of_place(place) for place in places)


def _of_place(place: Place) -> float | None:
    slots = place.slots - place.silent
    if slots <= 0:
        return None
    if place.is_failing and place.attempts:
        return slots * place.bad / place.attempts
    if place.slow is not None and place.is_slow:
        return slots * (1 - 1 / place.slow.times)
    return None


def _cores(offers: Sequence[str]) -> int:
    found = (offer.removeprefix(_CORES) for offer in offers if offer.startswith(_CORES))
    return next((int(digits) for digits in found if digits.isdecimal()), 1)
