"""Cases drawn by a seed, and carried out, one farm each."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from taskq.embedded import Server
from tests.drill.drawn import (  # they register causes
    of_agents,  # noqa: F401
    of_people,  # noqa: F401
    of_servers,  # noqa: F401
    of_tasks,  # noqa: F401
)
from tests.drill.drawn.case import CAUSES
from tests.drill.drawn.farm import Farm
from tests.drill.drawn.forms import FORMS, Form
from tests.drill.drawn.verdicts import Finding, judge
from tests.drill.stage import SITES, staged

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


def carry_out(
    server: Server, seed: str, pairs: Sequence[Pair], patience: float = 1.0
) -> list[Finding]:
    """Plant problems in a new farm, and judge what explain says. patience: see `judge`."""
    chance = random.Random(seed)
    folder = Path(tempfile.mkdtemp(prefix="taskq-drill-"))
    try:
        with staged(server, folder, chance, SITES) as stage:
            stage.gateway()
            farm = Farm(stage)
            findings = []
            for cause, name in pairs:
                form = Form(name, chance.randrange(30, 61))
                findings.append(Finding(cause, name, CAUSES[cause](farm, form, chance)))
            for finding in findings:
                finding.problem.before()
            farm.begin()
            farm.warm()
            for finding in findings:
                finding.begun = time.monotonic()
                finding.problem.strike()
            judge(farm, findings, patience)
            return findings
    finally:
        shutil.rmtree(folder, ignore_errors=True)
