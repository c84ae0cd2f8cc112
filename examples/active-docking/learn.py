"""Learn from the results of a docking campaign while it runs, and have the best docked first.

    python examples/active-docking/learn.py /demo/active --dock 20%

A random forest on Morgan fingerprints predicts the scores of what is not docked yet from those that
are there, again and again, and the predictions become the priorities of the tasks that wait. When
the wanted share is docked, the rest is cancelled. It may be stopped and begun again at any time:
all that it knows is in the campaign. See Graff et al. 2021 (MolPAL), Gentile et al. 2020 (Deep
Docking).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator

# scikit-learn ships no type information
from sklearn.ensemble import RandomForestRegressor  # type: ignore[import-untyped]

import taskq

#: Share of the library that is docked at random, to begin with.
FIRST: Final = 0.03
#: Share of the library after which the model learns anew.
STEP: Final = 0.01
_POLL_S: Final = 0.2


class Learner:
    """Predicts scores. smiles: of the library, by key."""

    def __init__(self, smiles: Mapping[str, str], *, trees: int = 100, seed: int = 1) -> None:
        self._keys = list(smiles)
        generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
        molecules = map(Chem.MolFromSmiles, smiles.values())
        counts = [generator.GetCountFingerprintAsNumPy(one) for one in molecules]
        self._fingerprints: NDArray[np.uint32] = np.array(counts)
        self._forest = {"n_estimators": trees, "max_features": 0.3, "random_state": seed}

    def predictions(self, scores: Mapping[str, float]) -> dict[str, float]:
        """Return the expected scores of what has none, from those that are known."""
        known = [place for place, key in enumerate(self._keys) if key in scores]
        other = [place for place, key in enumerate(self._keys) if key not in scores]
        if not known or not other:
            return {}
        forest = RandomForestRegressor(**self._forest)
        forest.fit(self._fingerprints[known], [scores[self._keys[place]] for place in known])
        expected = forest.predict(self._fingerprints[other])
        return {
            self._keys[place]: float(value) for place, value in zip(other, expected, strict=True)
        }


def steer(
    campaign: taskq.Campaign,
    learner: Learner,
    enough: int,
    on_round: Callable[[int], None] = lambda _: None,
    *,
    in_step: bool = False,
) -> None:
    """Reorder what waits as results come, until there are enough; then cancel the rest.

    on_round: called with the number of results from which the model has learnt. in_step: pause the
    campaign while the model learns, for tasks that take less time than that.
    """
    if in_step:
        campaign.resume()
    total, learnt = campaign.status().total, 0
    while (done := campaign.status()).done < enough and done.unfinished:
        if done.done >= max(FIRST * total, learnt + STEP * total):
            if in_step:
                campaign.pause()
            scores = {one.key: one.result["score"] for one in campaign.results() if one.result}
            campaign.prioritise(learner.predictions(scores), best="lowest")
            learnt = len(scores)
            if in_step:
                campaign.resume()
            on_round(learnt)
        else:
            time.sleep(_POLL_S)
    campaign.cancel()


def found(order: Sequence[str], scores: Mapping[str, float], best: float = 0.01) -> list[float]:
    """Return which share of the best has been found after each docking, in this order.

    best: which share of the library that is. Ties at its end count as the order of keys has it.
    """
    wanted = set(sorted(scores, key=lambda key: (scores[key], key))[: round(best * len(scores))])
    hits, shares = 0, []
    for key in order:
        hits += key in wanted
        shares.append(hits / len(wanted))
    return shares


def main() -> None:
    """Steer a campaign whose payloads have `smiles`."""
    parser = argparse.ArgumentParser(description="Have the best of a campaign docked first.")
    parser.add_argument("campaign")
    parser.add_argument("--dock", default="20%", metavar="P%", help="which share (default 20%%)")
    parser.add_argument("--in-step", action="store_true", help="pause it while the model learns")
    options = parser.parse_args()
    with taskq.connect() as queue:
        campaign = queue.campaign(options.campaign)
        smiles = {task.key: str(task.payload["smiles"]) for task in campaign.tasks()}
        learner = Learner(smiles)
        enough = round(float(options.dock.rstrip("%")) / 100 * len(smiles))
        say = partial(print, "results of which the model has learnt:", flush=True)
        steer(campaign, learner, enough, say, in_step=options.in_step)


if __name__ == "__main__":
    main()
