"""Learn from the results of a docking campaign while it runs, and have the best docked first.

    python examples/active-docking/learn.py /demo/active --dock 20%

A Gaussian process predicts the scores of what is not docked yet from those that are there, again
and again, and the predictions become the priorities of the tasks that wait. When the wanted share
is docked, the rest is cancelled. It may be stopped and begun again at any time: all that it knows
is in the campaign. See Griffiths et al. 2023 (GAUCHE) for the model; Graff et al. 2021 (MolPAL) and
Gentile et al. 2020 (Deep Docking) for screens that learn.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem, DataStructs
from rdkit.Chem import Crippen, rdFingerprintGenerator, rdMolDescriptors

import taskq

#: Share of the library that is docked to begin with: ligands unlike each other.
FIRST: Final = 0.03
#: Share of the library after which the model learns anew.
STEP: Final = 0.005
#: Variance of a score's noise, in that of the scores.
_NOISE: Final = 1.0
_DESCRIPTORS: Final = (
    rdMolDescriptors.CalcNumHeavyAtoms,
    rdMolDescriptors.CalcNumRotatableBonds,
    rdMolDescriptors.CalcTPSA,
    rdMolDescriptors.CalcNumHBD,
    rdMolDescriptors.CalcNumHBA,
    rdMolDescriptors.CalcNumRings,
    rdMolDescriptors.CalcNumAromaticRings,
    rdMolDescriptors.CalcFractionCSP3,
    Crippen.MolLogP,
)
_POLL_S: Final = 0.2


class Learner:
    """Predicts scores by a Gaussian process. smiles: of the library, by key.

    Its kernel is the mean of Tanimoto's, on counts of Morgan fingerprints, and a Gaussian one, on
    descriptors. It is kept for all pairs of a known and any ligand, for tens of thousands at most.
    """

    def __init__(self, smiles: Mapping[str, str]) -> None:
        self.keys = list(smiles)
        molecules = [Chem.MolFromSmiles(text) for text in smiles.values()]
        generator = rdFingerprintGenerator.GetMorganGenerator(radius=2)
        self._fingerprints = [
            generator.GetSparseCountFingerprint(molecule) for molecule in molecules
        ]
        described = np.array(
            [[float(of(molecule)) for of in _DESCRIPTORS] for molecule in molecules]
        )
        spread = described.std(axis=0)
        self._described = (described - described.mean(axis=0)) / np.where(spread > 0, spread, 1)
        self._rows: dict[int, NDArray[np.float64]] = {}

    def diverse(self, count: int, first: int = 0) -> dict[str, float]:
        """Return as many ligands, each unlike those before it (MaxMin), numbered in this order.

        first: place in the library of the one to begin with.
        """
        chosen, likeness = [first], self._row(first).copy()
        while len(chosen) < min(count, len(self.keys)):
            likeness[chosen] = np.inf
            chosen.append(int(likeness.argmin()))
            likeness = np.maximum(likeness, self._row(chosen[-1]))
        return {self.keys[place]: float(number) for number, place in enumerate(chosen)}

    def predictions(self, scores: Mapping[str, float]) -> dict[str, float]:
        """Return the expected scores of what has none, from those that are known.

        Scores above their median count as the median: how bad bad ones are is not to be learnt.
        """
        known = [place for place, key in enumerate(self.keys) if key in scores]
        other = [place for place, key in enumerate(self.keys) if key not in scores]
        if not known or not other:
            return {}
        values = np.array([scores[self.keys[place]] for place in known])
        values = np.minimum(values, np.median(values))
        kernel = np.array([self._row(place) for place in known])
        covariance = kernel[:, known] + _NOISE * np.eye(len(known))
        both = np.column_stack([values, np.ones(len(known))])
        of_values, of_ones = np.linalg.solve(covariance, both).T
        mean = of_values.sum() / of_ones.sum()  # by generalised least squares
        expected = mean + (of_values - mean * of_ones) @ kernel[:, other]
        return {
            self.keys[place]: float(value) for place, value in zip(other, expected, strict=True)
        }

    def _row(self, place: int) -> NDArray[np.float64]:
        if place not in self._rows:
            fingerprint = self._fingerprints[place]
            alike = DataStructs.BulkTanimotoSimilarity(fingerprint, self._fingerprints)
            apart = ((self._described - self._described[place]) ** 2).mean(axis=1)
            self._rows[place] = (np.array(alike) + np.exp(-apart / 2)) / 2
        return self._rows[place]


def steer(
    campaign: taskq.Campaign,
    learner: Learner,
    enough: int,
    on_round: Callable[[int], None] = lambda _: None,
    *,
    in_step: bool = False,
) -> None:
    """Have diverse ligands docked, then the best expected, until there are enough; cancel the rest.

    on_round: called with the number of results from which the model has learnt. in_step: pause the
    campaign while the model learns, for tasks that take less time than that.
    """
    total, learnt = campaign.status().total, 0
    campaign.prioritise(learner.diverse(round(FIRST * total)), best="lowest")
    if in_step:
        campaign.resume()
    while (done := campaign.status()).done < enough and done.unfinished:
        if done.done >= max(FIRST * total, learnt + STEP * total):
            if in_step:
                campaign.pause()
            scores = {
                found.key: found.result["score"] for found in campaign.results() if found.result
            }
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
