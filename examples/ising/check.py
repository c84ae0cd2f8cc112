"""Average the energies of the Ising campaign over seeds and compare them with Onsager's.

    taskq export /demo/ising --to results.jsonl
    python examples/ising/check.py results.jsonl

Ends with 0 when they agree, 1 when they do not, 2 when the results are incomplete or not those
of this campaign.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

CRITICAL_TEMPERATURE: Final = 2 / math.log(1 + math.sqrt(2))
# Nearer to it than this, a small lattice differs from the infinite one.
JUDGED_FROM: Final = 0.2
TOLERANCE: Final = 0.02


class BadResults(ValueError):
    """The results cannot be judged: incomplete, or not of this campaign."""


def onsager_energy(temperature: float) -> float:
    """Return the exact energy per spin of the infinite lattice, for J = k = 1.

    L. Onsager, Phys. Rev. 65 (1944) 117: u = -coth(2/T) (1 + 2/pi x K(k)) with
    x = 2 tanh(2/T)^2 - 1 and k^2 + x^2 = 1. Gauss's arithmetic-geometric mean gives the complete
    elliptic integral, K(k) = pi / (2 agm(1, |x|)).
    """
    doubled = 2 / temperature
    x = 2 * math.tanh(doubled) ** 2 - 1
    singular = x / _agm(1.0, abs(x)) if x else 0.0
    return -(1 + singular) / math.tanh(doubled)


def _agm(a: float, b: float) -> float:
    while not math.isclose(a, b, rel_tol=1e-12):
        a, b = (a + b) / 2, math.sqrt(a * b)
    return a


def mean_energies(records: Iterable[Mapping[str, Any]]) -> dict[float, float]:
    """Return the mean over seeds per temperature, in rising order.

    Raises BadResults when there are none, or not of the same seeds at every temperature.
    """
    found: dict[float, dict[int, float]] = defaultdict(dict)
    for number, record in enumerate(records, start=1):
        temperature, seed, energy = _values(number, record)
        found[temperature][seed] = energy
    seeds = {seed for energies in found.values() for seed in energies}
    for temperature, energies in sorted(found.items()):
        if missing := sorted(seeds - energies.keys()):
            raise BadResults(f"temperature {temperature} has no result for the seeds {missing}")
    if not found:
        raise BadResults("no results")
    return {
        temperature: statistics.fmean(found[temperature].values()) for temperature in sorted(found)
    }


def _values(number: int, record: Mapping[str, Any]) -> tuple[float, int, float]:
    try:
        payload, energy = record["payload"], float(record["result"]["energy"])
        temperature, seed = float(payload["temperature"]), int(payload["seed"])
    except (KeyError, TypeError, ValueError) as error:
        raise BadResults(f"result {number} is not that of an Ising task: {error!r}") from error
    if not temperature > 0 or not math.isfinite(energy):
        raise BadResults(f"result {number} has the energy {energy} at temperature {temperature}")
    return temperature, seed, energy


def is_judged(temperature: float) -> bool:
    """Tell whether a temperature is far enough from the critical one."""
    return abs(temperature - CRITICAL_TEMPERATURE) >= JUDGED_FROM


def agrees(energies: Mapping[float, float]) -> bool:
    """Tell whether all energies far from the critical temperature are within the tolerance."""
    return all(
        abs(energy - onsager_energy(temperature)) <= TOLERANCE
        for temperature, energy in energies.items()
        if is_judged(temperature)
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Judge the results in a file or on standard input; return the exit code."""
    parser = argparse.ArgumentParser(description="Compare results with Onsager's exact energy.")
    parser.add_argument(
        "results",
        nargs="?",
        type=Path,
        help="JSON Lines with `payload` and `result`; standard input without it",
    )
    path = parser.parse_args(argv).results
    try:
        lines = (path.read_text("utf-8") if path else sys.stdin.read()).splitlines()
        energies = mean_energies(json.loads(line) for line in lines if line.strip())
        if not any(map(is_judged, energies)):
            raise BadResults("all temperatures are too near to the critical one to be judged")
    except (OSError, ValueError) as error:  # BadResults, or no readable JSON Lines
        print(f"check: {error}", file=sys.stderr)
        return 2
    print(f"{'temperature':>11} {'energy':>9} {'exact':>9} {'differs':>9}")
    for temperature, energy in energies.items():
        exact = onsager_energy(temperature)
        remark = "" if is_judged(temperature) else "  not judged"
        print(f"{temperature:11.3f} {energy:9.4f} {exact:9.4f} {energy - exact:+9.4f}{remark}")
    verdict = agrees(energies)
    print(
        f"\nat most {TOLERANCE} off where |T - {CRITICAL_TEMPERATURE:.3f}| >= {JUDGED_FROM}: "
        + ("agrees with Onsager's exact energy" if verdict else "DOES NOT AGREE")
    )
    return 0 if verdict else 1


if __name__ == "__main__":
    sys.exit(main())
