"""How many tasks begin together, where a campaign has batches, and whether to wait for more."""

from __future__ import annotations

from typing import Dict, Iterable, NamedTuple, Optional, Tuple

from taskq_agent.core.held_tasks import HeldTasks, QueuedTask
from taskq_agent.handlers.base import is_batched
from taskq_agent.held_claims import MAX_HELD_CLAIMS
from taskq_agent.protocol import MAX_SMALLER_BATCHES, Answer, CampaignTerms, Request, SmallerBatch
from taskq_agent.wire import fitted

#: Most tasks that an agent holds in batches, waiting ones included.
MOST_HELD = 20_000
#: Seconds that a task waits for others at most.
_GATHER_S = 2.0
#: Batches in a row that have not failed, after which batches may be larger again.
_GOOD = 10
_KEPT_CAMPAIGNS = 1_000


class _Smaller(NamedTuple):
    """The size of batches after one that was too large. good: how many have gone well since.

    revision: of the campaign; of another one the size is unknown. error_class: as which starts
    failed before.
    """

    revision: int
    size: int
    good: int
    error_class: str


class Gathering:
    """Sizes of batches: halved when a batch was too large, doubled after good ones."""

    def __init__(self) -> None:
        self._smaller: Dict[int, _Smaller] = {}
        self._size = 1
        self._is_scarce = False

    def claimed(self, answer: Answer, claim: Request) -> None:
        """Learn from the answer to a claim; fewer tasks than it wanted: there are no more."""
        self._is_scarce = len(answer.tasks) < claim.want
        if answer.tasks:
            self._size = max(map(self.size, answer.campaigns), default=1)

    def size(self, campaign: CampaignTerms) -> int:
        """Return how many tasks of a campaign begin together at most."""
        if not is_batched(campaign):
            return 1
        most: int = campaign.handler["batch"]
        smaller = self._smaller.get(campaign.campaign)
        if smaller is None or smaller.revision != campaign.revision:
            return most
        return min(most, smaller.size)

    def smaller(self) -> Tuple[SmallerBatch, ...]:
        """Return the batches that are smaller than their handlers allow, for heartbeats."""
        latest = [*self._smaller.items()][-MAX_SMALLER_BATCHES:]
        return tuple(
            fitted(SmallerBatch(campaign, smaller.size, smaller.error_class))
            for campaign, smaller in latest
        )

    def learn(self, campaign: CampaignTerms, *, too_large_as: str) -> Optional[int]:
        """Learn how a batch went; return the new size, if it is another one."""
        size = self.size(campaign)
        before = self._smaller.pop(campaign.campaign, None)
        after, good, why = size, 0, too_large_as
        if too_large_as:
            after = max(1, size // 2)
        elif before is not None and before.revision == campaign.revision:
            good, why = before.good + 1, before.error_class
            if good >= _GOOD:
                after, good = 2 * size, 0
        if after < campaign.handler["batch"]:
            self._smaller[campaign.campaign] = _Smaller(campaign.revision, after, good, why)
        if len(self._smaller) > _KEPT_CAMPAIGNS:
            del self._smaller[next(iter(self._smaller))]
        return after if after != size else None

    def room(self, held_tasks: HeldTasks) -> Optional[int]:
        """Return how many tasks to claim for idle slots; None if none begin together."""
        if self._size == 1:
            return None
        if len(held_tasks.claims) >= MAX_HELD_CLAIMS:
            return 0
        room = len(held_tasks.idle) * self._size - len(held_tasks.queue)
        return min(room, MOST_HELD - held_tasks.tasks())

    def waits(self, held_tasks: HeldTasks, first: QueuedTask, now: float) -> bool:
        """Return whether this task, the next one, should wait for others that begin with it."""
        if self._is_scarce or not is_batched(first.campaign) or now - first.since >= _GATHER_S:
            return False
        if held_tasks.tasks() >= MOST_HELD or len(held_tasks.claims) >= MAX_HELD_CLAIMS:
            return False
        return _count(first, held_tasks.queue.values()) < self.size(first.campaign)

    def share(self, campaign: CampaignTerms, count: int, idle: int) -> int:
        """Return how many of so many tasks one slot gets. idle: how many others have nothing.

        The last ones are shared, so that they do not all wait for one slot.
        """
        size = self.size(campaign)
        return min(size, -(-count // (idle + 1))) if self._is_scarce else size


def _count(first: QueuedTask, queue: Iterable[QueuedTask]) -> int:
    return sum(queued.suits(first) for queued in queue)
