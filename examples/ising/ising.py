"""The handler of the Ising campaign: energy of the square lattice by Metropolis sampling.

Units: the coupling J and Boltzmann's constant are 1.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from typing import Any, Final

from taskq_agent import FailForGood

MAX_SIDE: Final = 1_000
MAX_SWEEPS: Final = 1_000_000
MAX_SEED: Final = 2**63 - 1


def run(payload: Mapping[str, Any], shared: Mapping[str, Any]) -> dict[str, float]:
    """Return the mean energy per spin at `temperature`; the same for the same `seed`.

    The campaign's parameters are the `side` of the lattice, and the number of `sweeps` over it
    after another fifth of that number to reach equilibrium.
    """
    temperature = payload.get("temperature")
    if not isinstance(temperature, (int, float)) or not temperature > 0:
        raise FailForGood(f"`temperature` must be a number above zero, not {temperature!r}")
    seed = _whole("seed", payload, 0, MAX_SEED)
    side = _whole("side", shared, 2, MAX_SIDE)
    sweeps = _whole("sweeps", shared, 1, MAX_SWEEPS)
    lattice = Lattice(side, temperature, random.Random(seed))
    for _ in range(sweeps // 5):
        lattice.sweep()
    total = 0
    for _ in range(sweeps):
        lattice.sweep()
        total += lattice.energy
    return {"energy": total / (sweeps * side * side)}


def _whole(name: str, values: Mapping[str, Any], low: int, high: int) -> int:
    value = values.get(name)
    if not isinstance(value, int) or not low <= value <= high:
        raise FailForGood(f"`{name}` must be a whole number from {low} to {high}, not {value!r}")
    return value


class Lattice:
    """Spins +1 and -1 on a torus, all up at first: below T = 2.269 a random start can stay striped.

    Sites are numbered along a helix, so that site i has the neighbours i - 1, i + 1, i - side
    and i + side (Newman and Barkema, Monte Carlo Methods in Statistical Physics, chapter 13).
    """

    def __init__(self, side: int, temperature: float, source: random.Random) -> None:
        self.energy = -2 * side * side
        self._side = side
        self._spins = [1] * (side * side)
        self._random = source.random
        # Flipping a spin costs 2 n, where n is its own sign times the sum of its neighbours,
        # -4 to 4; what costs nothing is always accepted.
        self._accept = [math.exp(-2 * n / temperature) for n in range(5)]

    def sweep(self) -> None:
        """Offer every spin one flip (Metropolis et al. 1953)."""
        spins, side, accept, uniform = self._spins, self._side, self._accept, self._random
        count = len(spins)
        change = 0
        for site, spin in enumerate(spins):
            n = spin * (
                spins[site - 1]
                + spins[site - side]
                + spins[(site + 1) % count]
                + spins[(site + side) % count]
            )
            if n <= 0 or uniform() < accept[n]:
                spins[site] = -spin
                change += 2 * n
        self.energy += change
