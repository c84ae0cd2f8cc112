"""Campaigns whose tasks cannot be claimed for one obstacle, and the reason that says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from taskq.diagnosis.facts import CampaignFacts, Facts
from taskq.diagnosis.reasons import Reason, some, waits
from taskq.model.seed import above_all


@dataclass(frozen=True, slots=True)
class Blocked:
    """Campaigns whose tasks cannot be claimed for one obstacle. detail: of the obstacle."""

    facts: Facts
    detail: tuple[str, ...]
    campaigns: Sequence[CampaignFacts]

    @property
    def tasks(self) -> int:
        """How many tasks wait for that; delayed ones also wait until their campaign is open."""
        return sum(it.waiting + it.delayed * (it.state != "open") for it in self.campaigns)

    @property
    def path(self) -> str:
        """The path for a command: of the only campaign, or of the explained one."""
        return self.campaigns[0].path if len(self.campaigns) == 1 else self.facts.status.path

    def reason(
        self,
        code: str,
        why: str,
        commands: Sequence[str],
        figures: Mapping[str, object] | None = None,
    ) -> Reason:
        """Return the reason, whose text begins with how many tasks wait, and where."""
        text = f"{waits(self.tasks)}{self._where()}: {why}."
        named = dict(figures or {})
        where = above_all([campaign.path for campaign in self.campaigns])
        if where != self.facts.status.path and "closed" not in named:
            named["campaign"] = where
        return Reason(code, text, self.tasks, blocks=True, commands=commands, figures=named)

    def _where(self) -> str:
        """Return where the tasks wait; empty if it is the explained campaign."""
        paths = [campaign.path for campaign in self.campaigns]
        if paths == [self.facts.status.path]:
            return ""
        if len(paths) == 1:
            return f" in {paths[0]}"
        known, unfinished = len(self.facts.campaigns), self.facts.campaigns[0].campaigns
        which = f"; of {unfinished:,}, the {known:,} in which most wait were looked at"
        return f" in {len(paths):,} campaigns ({some(paths)}{which if known < unfinished else ''})"
