"""How an agent on whose host tasks fail keeps itself from devouring a campaign.

A host with a full disk or a broken library is a black hole: it fails tasks faster than all others
do them, and so gets most of them. After some fast failures in a row the agent makes one attempt at
a time, and waits longer after each that fails fast again. A host that takes its time to fail tasks
is found by the queue, which compares hosts (see `tally`), and then does the same, however long its
attempts take.

What is left of a campaign at its end are tasks that fail wherever they are tried, and a healthy
host fails them in a row as well. So only first attempts make the pause longer, and are compared.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from typing import Callable, Deque, Optional, Tuple

from taskq_agent.protocol import DONE, FAILED, CampaignOutcomes, Report, Trouble

#: Fast failures in a row after which the agent is slowed.
FAILURES = 8
#: A failure after less than so many seconds is a fast one.
FAST_S = 10.0
#: First attempts that are told of; so many good ones let a bad time be forgotten.
COMPARED_ATTEMPTS = 32
_FIRST_PAUSE_S = 5.0
_LAST_PAUSE_S = 600.0
_JITTER = 0.25


class Throttle:
    """Counts failures, over all slots of an agent.

    What counts is a failure that may pass: when the handler says that no attempt can help, it has
    looked at the task and found it bad, which says nothing about the host; nor does an attempt that
    was handed back. A success ends a row of fast failures, and so does a failure that took its
    time. What the queue says of the host, it takes back itself.

    try_at: no attempt before; -inf: the agent is not slowed. suspect: what the queue says of the
    host; empty: nothing.
    """

    def __init__(self, uniform: Callable[[], float]) -> None:
        self.try_at = -math.inf
        self.suspect = ""
        self._uniform = uniform
        self._failures = 0
        self._error_class: Optional[str] = None
        self._pause_s = _FIRST_PAUSE_S
        # Of the last first attempts: campaign, and whether it failed.
        self._first_attempts: Deque[Tuple[int, bool]] = deque(maxlen=COMPARED_ATTEMPTS)

    @property
    def active(self) -> bool:
        """Whether one attempt at a time is made."""
        return self._failures >= FAILURES or bool(self.suspect)

    def trouble(self, now: float) -> Optional[Trouble]:
        """Return what to tell others of it; None if the agent is not slowed."""
        if not self.active:
            return None
        try_in_s = round(max(0.0, self.try_at - now), 3)
        return Trouble(self._failures, self._error_class or "", try_in_s)

    def outcomes(self) -> Tuple[CampaignOutcomes, ...]:
        """Return how the last first attempts ended, by campaign."""
        counts = Counter(self._first_attempts)
        campaigns = sorted({campaign for campaign, _ in counts})
        return tuple(
            CampaignOutcomes(campaign, counts[campaign, False], counts[campaign, True])
            for campaign in campaigns
        )

    def set_suspect(self, why: str) -> None:
        """Hear what the queue says of the host."""
        if self.suspect and not why:
            self._reset()
        self.suspect = why

    def ended(self, report: Report, attempt: int, begun: float, now: float) -> bool:
        """Learn how an attempt ended, that ran from `begun`; tell whether the agent is slowed anew.

        attempt: its number among those of its task. Of attempts that were running when the last
        pause began, none makes it longer.
        """
        transient = report.outcome == FAILED and report.retry
        if attempt == 1 and (transient or report.outcome == DONE):
            self._first_attempts.append((report.campaign, transient))
        fast = now - begun < FAST_S or bool(self.suspect)
        if report.outcome == DONE or (report.outcome == FAILED and not fast):
            self._reset()
            return False
        if not transient:
            return False
        self._failures += 1
        self._error_class = report.error_class
        if not self.active or begun < self.try_at:
            return False
        first = self._failures == FAILURES and not self.suspect
        self.try_at = now + self._pause_s * (1 - _JITTER + 2 * _JITTER * self._uniform())
        if attempt == 1:
            self._pause_s = min(_LAST_PAUSE_S, 2 * self._pause_s)
        return first

    def _reset(self) -> None:
        self.try_at = -math.inf
        self._failures = 0
        self._pause_s = _FIRST_PAUSE_S
