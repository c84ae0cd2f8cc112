"""Seeds bugs into copies of the project, and runs the tests on each: `python -m tests.mutants`.

A bug is killed when a test fails. One that makes the tests break off otherwise, or never end, says
nothing about them and is reported apart. Exit status 1 if any survives, 2 if any says nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Final

from tests.mutants.mutant import Mutant
from tests.mutants.table import MUTANTS
from tests.mutants.trial import Outcome, copied, tracked, tried

_FIRST_S: Final = 600.0
_SUITE_S: Final = 7_200.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a mutant. state: killed, survived or trouble; after: the test, or why."""

    name: str
    state: str
    after: str
    seconds: float


def judged(mutant: Mutant, files: Sequence[str], *, quick: bool) -> Verdict:
    """Run tests on a copy with the bug: those named for it, then, unless quick, all."""
    began = time.monotonic()
    with copied(files, mutant) as root:
        outcome = tried(root, mutant.first, _FIRST_S)
        if outcome == Outcome() and not quick:
            outcome = tried(root, ["tests"], _SUITE_S)
    seconds = time.monotonic() - began
    if outcome.killer is not None:
        return Verdict(mutant.name, "killed", outcome.killer, seconds)
    if outcome.trouble is not None:
        return Verdict(mutant.name, "trouble", outcome.trouble, seconds)
    return Verdict(mutant.name, "survived", "the whole suite" if not quick else "", seconds)


def control(mutants: Sequence[Mutant], files: Sequence[str]) -> Outcome:
    """Run the tests that are named for mutants on a copy without any bug; none may fail."""
    with copied(files) as root:
        return tried(root, sorted({test for mutant in mutants for test in mutant.first}), _SUITE_S)


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Judge the mutants that are named, or all."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    names = {mutant.name: mutant for mutant in MUTANTS}
    parser.add_argument("names", nargs="*", metavar="NAME", help="all, if none is named")
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the verdicts there too")
    parser.add_argument("--quick", action="store_true", help="only the tests named for each")
    given = parser.parse_args()
    unknown = [name for name in given.names if name not in names]
    if unknown:
        parser.error(f"no mutant {', '.join(unknown)}")
    chosen = [names[name] for name in given.names] or list(MUTANTS)

    files = tracked()
    if not given.quick:
        sound = control(chosen, files)
        if sound != Outcome():
            say(f"without any bug: {sound.killer or sound.trouble}")
            return 2
    verdicts = []
    with ThreadPoolExecutor(given.jobs) as pool:
        for verdict in pool.map(partial(judged, files=files, quick=given.quick), chosen):
            verdicts.append(verdict)
            say(f"{verdict.name:<42} {verdict.state:<8} {verdict.seconds:6.1f} s  {verdict.after}")
    count = Counter(verdict.state for verdict in verdicts)
    total = ", ".join(f"{count[state]} {state}" for state in ("killed", "survived", "trouble"))
    say(f"{len(verdicts)} mutants: {total}")
    if given.json is not None:
        given.json.write_text(
            json.dumps([asdict(verdict) for verdict in verdicts], indent=2) + "\n"
        )
    return 1 if count["survived"] else 2 if count["trouble"] else 0


if __name__ == "__main__":
    sys.exit(main())
