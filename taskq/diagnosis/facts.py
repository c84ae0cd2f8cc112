"""Facts that explain what a campaign waits for, as `sql/queries/explain_*.sql` return them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from taskq.db.owners import Owner
from taskq.diagnosis.fleet import Findings
from taskq.model.seed import is_within
from taskq.model.views import AgentView, Brake, LeftAgent, Status

MAX_CAMPAIGNS: Final = 1_000
MAX_KINDS: Final = 200
MAX_NAMED: Final = 20


@dataclass(frozen=True, slots=True)
class CampaignFacts:
    """A campaign that has unfinished tasks of its own. ahead: those leased ahead, among working.

    running_quota: how many tasks of its owner may run; 0 if the owner's bytes are used up.
    full_sites: sites that are at max_running_per_site, or were at the last claim. campaigns: number
    of such campaigns, of which the first `MAX_CAMPAIGNS` are known.
    """

    path: str
    state: str
    waiting: int
    delayed: int
    working: int
    has_handler: bool
    requires: list[str]
    time_limit_s: float | None
    max_running: int | None
    owner: str | None
    running_quota: int | None
    weight: float
    backoff_max_s: float
    max_running_per_site: int | None
    full_sites: list[str]
    ahead: int
    campaigns: int


@dataclass(frozen=True, slots=True)
class ClosedCampaign:
    """A campaign that is not open. paused_why: why it paused itself; None if an operator did."""

    path: str
    status: str
    paused_why: str | None


@dataclass(frozen=True, slots=True)
class AgentKind:
    """Open sessions with the same scope, offers and state. some_hosts: five at most.

    banned: the ban of one of them, if any: "host" or "site", its name, and why. last_until: when
    the last of them expires if they stay silent.
    """

    scope: str
    offers: list[str]
    draining: bool
    slowed: bool
    silent: bool
    agents: int
    slots: int
    hosts: int
    some_hosts: list[str]
    sites: list[str]
    banned: list[str] | None
    last_until: datetime

    def serves(self, path: str) -> bool:
        """Return whether these agents serve a campaign."""
        return is_within(path, self.scope)


@dataclass(frozen=True, slots=True)
class Refusing:
    """Agents at work that leave a campaign out for now. until: when the last one tries again."""

    path: str
    agents: int
    hosts: int
    some_hosts: list[str]
    error_class: str | None
    error: str | None
    until: datetime


@dataclass(frozen=True, slots=True)
class OtherCampaign:
    """A campaign on the same agents. campaigns, all_working, all_weights: sums of all such."""

    path: str
    working: int
    waiting: int
    weight: float
    campaigns: int
    all_working: int
    all_weights: float


@dataclass(frozen=True, slots=True)
class SiteToken:
    """A token of a site. state: valid, expired, revoked or used up."""

    name: str
    paths: list[str]
    state: str
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class Upkeep:
    """The queue as a whole. agents: all open sessions, also of other campaigns.

    keeper_until: the end of the latest keeper's term; None if there never was one. by_owner:
    whether owners share first.
    """

    now: datetime
    keeper_until: datetime | None
    has_front: bool
    pool_s: float
    refilled: bool
    agents: int
    by_owner: bool


@dataclass(frozen=True, slots=True)
class Facts:
    """All facts that explain a campaign.

    owners: of its campaigns, if some have a quota of tasks or bytes. campaigns: those with
    unfinished tasks, most waiting first. others: campaigns elsewhere that run on the same agents.
    silent: silent agents that hold tasks, longest silent first. left: agents that left within the
    hour. due_at: when the first delayed task is due; None if unknown. findings: from the latest
    attempts; None if nothing has ended, or nobody asked for them.
    """

    status: Status
    campaigns: Sequence[CampaignFacts]
    closed: Sequence[ClosedCampaign]
    owners: Sequence[Owner]
    agents: Sequence[AgentKind]
    refusals: Sequence[Refusing]
    others: Sequence[OtherCampaign]
    tokens: Sequence[SiteToken]
    silent: Sequence[AgentView]
    left: Sequence[LeftAgent]
    brake: Brake | None
    upkeep: Upkeep
    due_at: datetime | None
    findings: Findings | None

    @property
    def slots(self) -> int:
        """The most attempts that run at a time; slowed agents make one each."""
        return sum(kind.agents if kind.slowed else kind.slots for kind in self.agents)
