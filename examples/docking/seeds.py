"""Print the docking campaign's tasks as JSON Lines, one per target, ligand and random seed.

python examples/docking/seeds.py > seeds.jsonl
taskq seed /demo/docking seeds.jsonl --key-field name
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from pairs import published_pairs

# One short search often ends in a poor pose; the best of four seldom does.
RANDOM_SEEDS: Final = (101, 102, 103, 104)


def payloads() -> Iterator[dict[str, Any]]:
    """Yield a payload per task, target by target; its `name` is unique and fit for a key."""
    for pair in sorted(published_pairs(), key=lambda pair: (pair.target, pair.number)):
        for seed in RANDOM_SEEDS:
            yield {
                "name": f"{pair.target}-ligand{pair.number}-seed{seed}",
                "target": pair.target,
                "smiles": pair.smiles,
                "seed": seed,
            }


if __name__ == "__main__":
    for payload in payloads():
        print(json.dumps(payload))
