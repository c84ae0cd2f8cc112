"""The next stage of a farm's campaign, which processes feed that are killed as all others are."""

from __future__ import annotations

from collections.abc import Iterator

from taskq import Best, Client
from taskq.results.feeder import Feeder
from taskq.results.selection import select

#: Nobody serves it: what is fed waits, or is cancelled.
NEXT = "/refined"
PERCENT = 5
BY = "payload.takes_s"


def words(source: str) -> list[str]:
    """Return the command line of a feeder."""
    best = ["--best", f"{PERCENT}%", "--by", BY, "--lowest"]
    return ["seed", NEXT, "--from", source, *best, "--live"]


def differences(client: Client, source: str) -> Iterator[str]:
    """Feed to the end, now that all others are dead; yield where that is not the offline end."""
    wanted = Best(BY, percent=PERCENT)
    first, second = client.campaign(source), client.campaign(NEXT)
    fed = Feeder(client.queries, first, second, wanted).run()
    chosen = {result.key: result.payload for result in select(client.queries, first, wanted)}
    stored = {task.key: task for task in second.tasks()}
    if not fed.chosen == len(chosen) > 0:
        yield f"funnel: {fed.chosen} chosen of {fed.ranked}, and offline {len(chosen)}"
    for key in sorted(chosen.keys() | stored.keys()):
        status = stored[key].status if key in stored else None
        expected = "waiting" if key in chosen else "cancelled"
        if status != expected:
            yield f"funnel: {key} is {status} instead of {expected}"
        elif key in chosen and stored[key].payload != chosen[key]:
            yield f"funnel: {key} has another payload"
