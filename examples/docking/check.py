"""Gather docking results to the best score per pair and compare it with the published one.

    taskq export /demo/docking --to results.jsonl
    python examples/docking/check.py results.jsonl

Prints the best hits first. Ends with 0 when the scores agree with the published ones, 1 when
they do not, 2 when the results are incomplete or not those of this campaign. Agreement shows
sane docking of small ligands; it does not reproduce the publication, whose searches were longer.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pairs import Pair, published_pairs

PairKey = tuple[str, str]
"""A target's name and a ligand's SMILES."""

MAX_MEAN_ERROR: Final = 0.6
CLOSE: Final = 1.0
MIN_CLOSE: Final = 11
MIN_CORRELATION: Final = 0.7


class BadResults(ValueError):
    """The results cannot be judged: incomplete, or not of this campaign."""


@dataclass(frozen=True)
class Agreement:
    """How well scores agree with the published ones; energies in kcal/mol."""

    pairs: int
    mean_error: float  # mean of the absolute differences
    close: int  # pairs that differ by CLOSE at most
    correlation: float  # Pearson's r; NaN when all scores are the same

    @property
    def holds(self) -> bool:
        """Tell whether all three criteria are met; shuffled scores meet them in 0.3 % at most."""
        return (
            self.mean_error <= MAX_MEAN_ERROR
            and self.close >= MIN_CLOSE
            and self.correlation >= MIN_CORRELATION
        )


def best_scores(records: Iterable[Mapping[str, Any]]) -> dict[PairKey, float]:
    """Return the lowest score of each pair; BadResults for a record that has none."""
    best: dict[PairKey, float] = {}
    for number, record in enumerate(records, start=1):
        try:
            payload = record["payload"]
            key, score = (payload["target"], payload["smiles"]), float(record["result"]["score"])
        except (KeyError, TypeError, ValueError) as error:
            raise BadResults(f"result {number} is not that of a docking: {error!r}") from error
        if not math.isfinite(score):
            raise BadResults(f"result {number} has the score {score}")
        best[key] = min(score, best.get(key, math.inf))
    return best


def agreement(best: Mapping[PairKey, float], published: Mapping[PairKey, float]) -> Agreement:
    """Compare scores with the published ones; BadResults names the pairs that have none."""
    missing = [
        f"{target} with {smiles}" for target, smiles in published if (target, smiles) not in best
    ]
    if missing:
        raise BadResults(
            f"no score for {len(missing)} of {len(published)} pairs: {'; '.join(missing)}. "
            "Wait until the campaign is done, or see its failures"
        )
    ours, theirs = [best[key] for key in published], list(published.values())
    errors = [abs(best[key] - score) for key, score in published.items()]
    return Agreement(
        pairs=len(errors),
        mean_error=statistics.fmean(errors),
        close=sum(error <= CLOSE for error in errors),
        correlation=statistics.correlation(ours, theirs) if len(set(ours)) > 1 else math.nan,
    )


def table(best: Mapping[PairKey, float], pairs: Iterable[Pair]) -> list[str]:
    """Return lines of aligned text, the best hit first."""
    lines = [f"{'target':<9} {'score':>7} {'published':>9} {'differs':>8}  ligand"]
    for pair in sorted(pairs, key=lambda pair: best[pair.target, pair.smiles]):
        score = best[pair.target, pair.smiles]
        differs = score - pair.published
        lines.append(
            f"{pair.target:<9} {score:7.2f} {pair.published:9.1f} {differs:+8.2f}  {pair.smiles}"
        )
    return lines


def main(argv: Sequence[str] | None = None) -> int:
    """Judge the results in a file or on standard input; return the exit code."""
    parser = argparse.ArgumentParser(
        description="Compare results with the published docking scores."
    )
    parser.add_argument(
        "results",
        nargs="?",
        type=Path,
        help="JSON Lines with `payload` and `result`; standard input without it",
    )
    path = parser.parse_args(argv).results
    pairs = published_pairs()
    try:
        lines = (path.read_text("utf-8") if path else sys.stdin.read()).splitlines()
        best = best_scores(json.loads(line) for line in lines if line.strip())
        verdict = agreement(best, {(pair.target, pair.smiles): pair.published for pair in pairs})
    except (OSError, ValueError) as error:  # BadResults, or no readable JSON Lines
        print(f"check: {error}", file=sys.stderr)
        return 2
    print(*table(best, pairs), sep="\n")
    print(
        f"\nmean absolute error {verdict.mean_error:.2f} kcal/mol (at most {MAX_MEAN_ERROR}), "
        f"{verdict.close} of {verdict.pairs} within {CLOSE} (at least {MIN_CLOSE}), "
        f"r {verdict.correlation:.2f} (at least {MIN_CORRELATION}): "
        + ("agrees with the published scores" if verdict.holds else "DOES NOT AGREE")
    )
    return 0 if verdict.holds else 1


if __name__ == "__main__":
    sys.exit(main())
