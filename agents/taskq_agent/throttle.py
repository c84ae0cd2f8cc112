"""Throttle of an agent whose tasks fail on its host.

A host with a full disk or a broken library is a black hole: it fails tasks faster than all other
hosts complete them, and so gets most of them. After some fast failures in a row the agent makes one
attempt at a time, and waits longer after each further fast failure.

The queue compares hosts, so it knows whether the host is to blame (see `Throttle.outcomes`). If it
knows of the row and suspects nothing, since all hosts fail alike or there is no other host, the
campaign is to blame: the agent goes on, and failures of this campaign do not throttle it any more.
If the queue suspects the host, the agent is throttled however long its attempts take. Where its own
attempts show that some campaigns work here, it is throttled in the others only.

Failures that payload code reports itself, by raising an exception or answering with an error, do
not count: a program was found, started and could look at its task.

Near its end a campaign has only tasks left that fail wherever they run, and a healthy host fails
them in a row as well. So only first attempts make the pause longer and are compared.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from typing import Callable, Collection, Deque, Dict, FrozenSet, Optional, Set, Tuple

from taskq_agent.backoff import JITTER, CampaignBackoff
from taskq_agent.campaign_news import CampaignOutcomes
from taskq_agent.protocol import DONE, FAILED, Report, Trouble

#: Fast failures in a row after which the agent is throttled.
FAILURES = 8
#: A failure after fewer seconds than this is a fast one.
FAST_S = 10.0
#: Seconds within which the queue compares hosts again, once it knows of a row.
COMPARED_S = 10.0
#: The newest first attempts, which are compared; older ones are forgotten.
COMPARED_ATTEMPTS = 32
#: The part of a campaign's attempts that may fail while it works here; and the successes of such
#: campaigns that show it.
FEW_BAD = 0.1
LEAST_WELL = 5
_FIRST_PAUSE_S = 5.0
_LAST_PAUSE_S = 600.0


class Throttle:
    """Counts failures over all slots of an agent.

    Only transient failures count. If the handler reports that no attempt can help, it has examined
    the task and found it bad, which says nothing about the host. An attempt that was handed back
    does not count either. A success ends a row of fast failures, and so do a slow failure and
    answers of the queue. A suspicion by the queue lasts until the queue withdraws it.

    try_at: no attempt before; -inf if not throttled. suspect: why the queue suspects the host;
    empty if it does not. only: the campaigns of which one attempt is made at a time, since others
    work here; empty: all or none.
    """

    def __init__(self, uniform: Callable[[], float]) -> None:
        self.try_at = -math.inf
        self.suspect = ""
        self.only: FrozenSet[int] = frozenset()
        self._pauses = CampaignBackoff(_FIRST_PAUSE_S, uniform)
        self._revisions: Dict[int, int] = {}
        self._uniform = uniform
        self._failures = 0
        self._error_class: Optional[str] = None
        # Campaigns whose failures are in the row, and campaigns that seem to fail on all hosts.
        self._campaigns: Set[int] = set()
        self._blamed: Set[int] = set()
        self._known_at = math.inf  # when the queue first knew of the row
        self._pause_s = _FIRST_PAUSE_S
        # The campaign of each of the last first attempts, and whether the attempt failed.
        self._first_attempts: Deque[Tuple[int, bool]] = deque()

    @property
    def active(self) -> bool:
        """Whether one attempt is made at a time."""
        return self._failures >= FAILURES or bool(self.suspect and not self.only)

    def slows(self, campaign: int) -> bool:
        """Return whether one attempt is made at a time of a campaign, or over all."""
        return self.active or campaign in self.only

    def holds_back(
        self, campaign: int, revision: int, held_campaigns: Collection[int], now: float
    ) -> bool:
        """Return whether no further task of a campaign may begin now, as only some fail here."""
        if campaign not in self.only:
            return False
        self._revisions[campaign] = revision
        return campaign in held_campaigns or self._pauses.excludes(campaign, revision, (), now)

    def without(self, held_campaigns: Collection[int], now: float) -> Tuple[Tuple[int, int], ...]:
        """Return the (campaign, revision) pairs that it holds back and a claim must leave out."""
        return tuple(
            pair
            for pair in sorted(self._revisions.items())
            if self.holds_back(*pair, held_campaigns, now)
        )

    def next_at(self, now: float) -> float:
        """Return when the next campaign that it holds back may be tried; infinity if none is."""
        return self._pauses.next_at(now)

    def trouble(self, now: float) -> Optional[Trouble]:
        """Return the state for heartbeats; None if the agent is not throttled."""
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

    def set_suspect(self, why: str, now: float, *, reported: bool = False) -> bool:
        """Note why the queue suspects the host, empty if not; return whether a row is over.

        reported: whether the answered heartbeat reported the row.
        """
        if self.suspect and not why:
            self._reset()
        self.suspect = why
        self._tell_apart()
        if why:
            self._blamed.clear()
        if why or not (reported and self.active):
            return False
        self._known_at = min(self._known_at, now)
        if now < self._known_at + COMPARED_S:
            return False
        self._blamed |= self._campaigns
        self._reset()
        return True

    def ended(
        self, report: Report, attempt: int, begun: float, now: float, revision: int = 1
    ) -> bool:
        """Count the end of an attempt begun at `begun`; return whether the throttle engages now.

        attempt: its number within its task. revision: of its campaign. Attempts that were running
        when the last pause began do not make it longer.
        """
        transient = report.outcome == FAILED and report.retry
        if attempt == 1 and (transient or report.outcome == DONE):
            self._remember(report.campaign, failed=transient)
        if report.campaign in self.only:
            self._revisions[report.campaign] = revision
            if report.outcome == DONE:
                self._pauses.ran(report.campaign)
            if transient or report.outcome == DONE:
                self._pauses.refused(report.campaign, revision, begun, now)
            self._tell_apart()
            return False
        self._tell_apart()
        fast = now - begun < FAST_S or bool(self.suspect and not self.only)
        if report.outcome == DONE or (report.outcome == FAILED and not fast):
            self._reset()
            return False
        if not transient or (report.campaign in self._blamed and not self.suspect):
            return False
        self._failures += 1
        self._campaigns.add(report.campaign)
        self._error_class = report.error_class
        if not self.active or begun < self.try_at:
            return False
        first = self._failures == FAILURES and not self.suspect
        self.try_at = now + self._pause_s * (1 - JITTER + 2 * JITTER * self._uniform())
        if attempt == 1:
            self._pause_s = min(_LAST_PAUSE_S, 2 * self._pause_s)
        return first

    def _remember(self, campaign: int, *, failed: bool) -> None:
        """Remember how a first attempt ended; others make none forgotten of what is throttled."""
        known = self._first_attempts
        known.append((campaign, failed))
        if not self.only:
            while len(known) > COMPARED_ATTEMPTS:
                known.popleft()
            return
        alike = [
            place
            for place, (other, _) in enumerate(known)
            if (other in self.only) == (campaign in self.only)
        ]
        if len(alike) > COMPARED_ATTEMPTS:
            del known[alike[0]]

    def _tell_apart(self) -> None:
        """Note which campaigns fail here, if the host is suspected and others clearly work."""
        was, self.only = self.only, self._failing_apart() if self.suspect else frozenset()
        for campaign in was - self.only:
            self._pauses.ran(campaign)
            self._revisions.pop(campaign, None)
        if self.only and self._campaigns <= self.only:
            self._reset()

    def _failing_apart(self) -> FrozenSet[int]:
        known = self.outcomes()
        failing = [it for it in known if it.failed > FEW_BAD * (it.done + it.failed)]
        well = sum(it.done for it in known if it not in failing)
        return frozenset(it.campaign for it in failing if well >= LEAST_WELL)

    def _reset(self) -> None:
        self.try_at = -math.inf
        self._known_at = math.inf
        self._failures = 0
        self._campaigns.clear()
        self._pause_s = _FIRST_PAUSE_S
