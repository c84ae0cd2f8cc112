"""Cases drawn by a seed, and carried out, one farm each."""

from __future__ import annotations

import random
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from taskq.embedded import Server
from tests.drill.drawn import (  # they register causes
    of_agents,  # noqa: F401
    of_people,  # noqa: F401
    of_servers,  # noqa: F401
    of_tasks,  # noqa: F401
)
from tests.drill.drawn.case import CAUSES
from tests.drill.drawn.farm import Farm
from tests.drill.drawn.forms import FORMS, SINCE, Form
from tests.drill.drawn.verdicts import Finding, judge
from tests.drill.stage import SITES, staged

if TYPE_CHECKING:
    from _typeshed import SupportsLenAndGetItem

_T = TypeVar("_T")
#: A cause and the name of a form.
Pair: TypeAlias = tuple[str, str]
ALL: Final[Sequence[Pair]] = tuple((cause, form) for cause in CAUSES for form in FORMS)
#: Causes that keep the whole farm from work share it with no other.
_ALONE: Final = frozenset({"database"})


def drawn(seed: int, cases: int, together: int = 1) -> Iterator[list[Pair]]:
    """Yield the problems of each farm, `cases` in all: all combinations before one comes again."""
    chance = random.Random(seed)
    left = cases
    waits: list[Pair] = []
    while left:
        if not waits:
            waits = chance.sample(ALL, len(ALL))
        group = [waits.pop()]
        while len(group) < min(together, left) and group[0][0] not in _ALONE:
            fits = [it for it in waits if it[0] not in _ALONE | {name for name, _ in group}]
            if not fits:
                break
            group.append(fits[-1])
            waits.remove(fits[-1])
        left -= len(group)
        yield group


class Choice(random.Random):
    """Draws what has a name that matches a pattern, if something does."""

    def __init__(self, seed: str, showing: str) -> None:
        super().__init__(seed)
        self._showing = re.compile(showing)

    def choice(self, seq: SupportsLenAndGetItem[_T]) -> _T:
        """Return one of these."""
        every = [seq[number] for number in range(len(seq))]
        return super().choice([it for it in every if self._showing.search(_name(it))] or every)


def _name(it: object) -> str:
    name = getattr(it, "name", None) or getattr(it, "__name__", None)
    return str(name or it)


def carry_out(
    server: Server,
    seed: str,
    pairs: Sequence[Pair],
    patience: float = 1.0,
    *,
    showing: str = "",
) -> list[Finding]:
    """Plant problems in a new farm, and judge what explain says.

    patience: see `judge`. showing: a pattern of the symptom, the order or the way to be drawn.
    """
    chance = Choice(seed, showing)
    folder = Path(tempfile.mkdtemp(prefix="taskq-drill-"))
    try:
        with staged(server, folder, random.Random(seed), SITES) as stage:
            stage.gateway()
            farm = Farm(stage)
            findings = []
            for cause, name in pairs:
                form = Form(name, chance.randrange(30, 61))
                findings.append(Finding(cause, name, CAUSES[cause](farm, form, chance)))
            for finding in findings:
                finding.problem.before()
            farm.begin()
            farm.warm(it.problem.campaign for it in findings if it.form == SINCE)
            for finding in findings:
                finding.begun = time.monotonic()
                finding.problem.strike()
            judge(farm, findings, patience)
            return findings
    finally:
        shutil.rmtree(folder, ignore_errors=True)
