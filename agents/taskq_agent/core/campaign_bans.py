"""Campaigns that an agent leaves out since its host or site is banned for them."""

from __future__ import annotations

from typing import Dict, List, Tuple

from taskq_agent.campaign_news import CampaignBan
from taskq_agent.protocol import MAX_WITHOUT, CampaignTerms


class CampaignBans:
    """The bans, as the queue last named them, and the campaigns that they have been found to cover.

    The queue names paths, and a claim names campaigns by number. So the agent learns the numbers
    from the tasks that come all the same, which it hands back at once, not begun.
    """

    def __init__(self) -> None:
        self._bans: Tuple[CampaignBan, ...] = ()
        self._covered: Dict[int, CampaignTerms] = {}

    def set(self, bans: Tuple[CampaignBan, ...]) -> List[CampaignBan]:
        """Replace the bans; return those that are new."""
        new = [ban for ban in bans if ban not in self._bans]
        self._bans = bans
        self._covered = {
            number: terms for number, terms in self._covered.items() if self._covers(terms)
        }
        return new

    def cover(self, terms: CampaignTerms) -> bool:
        """Return whether a campaign is to be left out; learn its number if it is."""
        if not self._bans or not self._covers(terms):
            return False
        self._covered.pop(terms.campaign, None)
        self._covered[terms.campaign] = terms
        while len(self._covered) > MAX_WITHOUT:
            del self._covered[next(iter(self._covered))]
        return True

    def without(self) -> Tuple[Tuple[int, int], ...]:
        """Return the (campaign, revision) pairs that a claim leaves out: those seen last."""
        return tuple((terms.campaign, terms.revision) for terms in self._covered.values())

    def _covers(self, terms: CampaignTerms) -> bool:
        return any(
            terms.path == ban.path or terms.path.startswith(ban.path.rstrip("/") + "/")
            for ban in self._bans
        )
