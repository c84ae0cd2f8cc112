"""Explore the protocol, then the variants, and print what was seen."""

from __future__ import annotations

import argparse
import sys
import time

from tests.protocol.configurations import BRIEF, LARGE
from tests.protocol.explore import explore
from tests.protocol.queue import Queue
from tests.protocol.variants import VARIANTS


def main() -> int:
    """Return 1 if the protocol breaks a rule, or a variant is not caught by its rule."""
    parser = argparse.ArgumentParser(prog="python -m tests.protocol", description=__doc__)
    parser.add_argument("--large", action="store_true", help="with more of everything: minutes")
    parser.add_argument("--traces", action="store_true", help="show how each variant goes wrong")
    options = parser.parse_args()
    wrong = 0
    print(f"{'explored':24} {'states':>10} {'transitions':>12} {'depth':>6} {'s':>7}")
    for name, bounds in (LARGE if options.large else BRIEF).items():
        since = time.monotonic()
        found = explore(Queue(bounds))
        row = f"{name:24} {found.states:10,} {found.transitions:12,} {found.depth:6}"
        print(f"{row} {time.monotonic() - since:7.1f}", flush=True)
        if found.rule:
            wrong += 1
            print(found.story())
    print(f"\n{'variant':24} {'states':>10} {'steps':>12} caught by")
    for queue, bounds, rule in VARIANTS:
        found = explore(queue(bounds))
        caught = found.rule or "NOTHING"
        print(f"{queue.__name__:24} {found.states:10,} {len(found.trace):12} {caught}", flush=True)
        wrong += found.rule != rule
        if options.traces:
            print(found.story())
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
