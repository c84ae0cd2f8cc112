"""The handler of the Ising campaign: energy of the square lattice by Metropolis sampling.

Units: the coupling J and Boltzmann's constant are 1.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from taskq_agent import Continue, FailForGood, checkpoint_path, progress

MAX_SIDE: Final = 1_000
MAX_SWEEPS: Final = 1_000_000
MAX_SEED: Final = 2**63 - 1
#: Sweeps after which it says how far it is, and keeps its state if the campaign keeps checkpoints.
KEPT_EVERY: Final = 100
STATE: Final = "state.json"


def run(payload: Mapping[str, Any], shared: Mapping[str, Any]) -> dict[str, float]:
    """Return the mean energy per spin at `temperature`; the same for the same `seed`.

    The campaign's parameters are the `side` of the lattice, and the number of `sweeps` over it
    after another fifth of that number to reach equilibrium. Where checkpoints are kept, an attempt
    makes at most `sweeps_per_attempt` of them and leaves the rest to the next one.
    """
    temperature = payload.get("temperature")
    if not isinstance(temperature, (int, float)) or not temperature > 0:
        raise FailForGood(f"`temperature` must be a number above zero, not {temperature!r}")
    seed = _whole("seed", payload, 0, MAX_SEED)
    side = _whole("side", shared, 2, MAX_SIDE)
    sweeps = _whole("sweeps", shared, 1, MAX_SWEEPS)
    most = _whole("sweeps_per_attempt", {"sweeps_per_attempt": MAX_SWEEPS, **shared}, 1, MAX_SWEEPS)
    lattice = Lattice(side, temperature, random.Random(seed))
    folder = checkpoint_path()
    swept, total = (0, 0) if folder is None else _restored(folder, lattice)
    first, wanted = swept, sweeps // 5 + sweeps
    while swept < wanted:
        if folder is not None and swept - first >= most:
            _keep(folder, lattice, swept, total)
            raise Continue(f"{swept} sweeps are done")
        lattice.sweep()
        swept += 1
        total += lattice.energy if swept > sweeps // 5 else 0
        if swept % KEPT_EVERY == 0:
            progress(swept / wanted, f"sweep {swept} of {wanted}")
            if folder is not None:
                _keep(folder, lattice, swept, total)
    return {"energy": total / (sweeps * side * side)}


def _restored(folder: Path, lattice: Lattice) -> tuple[int, int]:
    """Bring a lattice into the state that was kept; return sweeps and total energy, 0 if none."""
    try:
        state = json.loads((folder / STATE).read_text())
    except FileNotFoundError:
        return 0, 0
    lattice.restore(state["lattice"])
    return state["swept"], state["total"]


def _keep(folder: Path, lattice: Lattice, swept: int, total: int) -> None:
    """Write the state: under another name first, so that none is ever half of one."""
    state = {"lattice": lattice.state(), "swept": swept, "total": total}
    unfinished = folder / f".{STATE}"
    unfinished.write_text(json.dumps(state))
    unfinished.replace(folder / STATE)


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
        self._source = source
        self._random = source.random
        # Flipping a spin costs 2 n, where n is its own sign times the sum of its neighbours,
        # -4 to 4; what costs nothing is always accepted.
        self._accept = [math.exp(-2 * n / temperature) for n in range(5)]

    def state(self) -> dict[str, Any]:
        """Return all that changes, as JSON: spins, energy, and the source of random numbers."""
        return {"spins": self._spins, "energy": self.energy, "source": self._source.getstate()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
        version, numbers, gauss = state["source"]
        self._source.setstate((version, tuple(numbers), gauss))
        self._spins[:] = state["spins"]
        self.energy = state["energy"]

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
