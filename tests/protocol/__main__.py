"""Explore the protocol, then the variants, and print what was seen."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator

from tests.protocol import configurations as leases
from tests.protocol.explore import Explorable, explore
from tests.protocol.hosts import configurations as hosts
from tests.protocol.hosts.queue import HostQueue
from tests.protocol.hosts.variants import HOST_VARIANTS
from tests.protocol.hosts.world import HostWorld
from tests.protocol.queue import Queue
from tests.protocol.variants import VARIANTS
from tests.protocol.world import World


def main() -> int:
    """Return 1 if the protocol breaks a rule, or a variant is not caught by its rule."""
    parser = argparse.ArgumentParser(prog="python -m tests.protocol", description=__doc__)
    parser.add_argument("--large", action="store_true", help="with more of everything: minutes")
    parser.add_argument("--traces", action="store_true", help="show how each variant goes wrong")
    options = parser.parse_args()
    wrong = 0
    print(f"{'explored':34} {'states':>10} {'transitions':>12} {'depth':>6} {'s':>7}")
    for name, world in explored(large=options.large):
        since = time.monotonic()
        found = explore(world)
        row = f"{name:34} {found.states:10,} {found.transitions:12,} {found.depth:6}"
        print(f"{row} {time.monotonic() - since:7.1f}", flush=True)
        if found.rule:
            wrong += 1
            print(found.story())
    print(f"\n{'variant':34} {'states':>10} {'steps':>12} caught by")
    mistaken: list[tuple[str, Explorable, str]] = [
        *(
            (variant.queue.__name__, World(variant.queue(variant.bounds)), variant.rule)
            for variant in VARIANTS
        ),
        *(
            (
                f"hosts: {variant.queue.__name__}",
                HostWorld(variant.queue(variant.bounds)),
                variant.rule,
            )
            for variant in HOST_VARIANTS
        ),
    ]
    for name, world, rule in mistaken:
        found = explore(world)
        caught = found.rule or "NOTHING"
        print(f"{name:34} {found.states:10,} {len(found.trace):12} {caught}", flush=True)
        wrong += found.rule != rule
        if options.traces:
            print(found.story())
    return 1 if wrong else 0


def explored(*, large: bool) -> Iterator[tuple[str, Explorable]]:
    """Yield what is explored, of leases and then of hosts."""
    for name, bounds in (leases.LARGE if large else leases.BRIEF).items():
        yield name, World(Queue(bounds))
    for name, host_bounds in (hosts.LARGE if large else hosts.BRIEF).items():
        yield f"hosts: {name}", HostWorld(HostQueue(host_bounds))


if __name__ == "__main__":
    sys.exit(main())
