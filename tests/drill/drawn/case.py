"""A planted problem: what a good answer about it names, and how it is undone."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from tests.drill.drawn.farm import Farm
from tests.drill.drawn.forms import Form


@dataclass
class Problem:
    """What a cause plants.

    what: in words, for people. places: names of which a good answer has one; guilty: further ones
    that it may accuse. words: a pattern of its class. shows: what grows or stands still, see
    `symptoms`. campaign: whose tasks must end again; None: those of all. before: planted before the
    first agent starts; strike: begins it. mend: what a person does outside of taskq, once they know
    the place and the class.
    """

    what: str
    places: tuple[str, ...]
    words: str
    shows: str
    guilty: set[str] = field(default_factory=set)
    campaign: str | None = None
    before: Callable[[], object] = lambda: None
    strike: Callable[[], object] = lambda: None
    mend: Callable[[], object] = lambda: None


Cause: TypeAlias = "Callable[[Farm, Form, random.Random], Problem]"

#: Causes by their names; each module of causes adds its own.
CAUSES: Final[dict[str, Cause]] = {}


def cause(name: str) -> Callable[[Cause], Cause]:
    """Register a cause."""

    def register(plant: Cause) -> Cause:
        assert name not in CAUSES
        CAUSES[name] = plant
        return plant

    return register
