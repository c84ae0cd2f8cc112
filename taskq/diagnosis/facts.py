"""Facts that explain what a campaign waits for, read in one snapshot, without waiting tasks.

`sql/queries/explain_*.sql` return them. Over a gateway each fact is read at a moment of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from taskq.db.access import Queries
from taskq.db.checks.every import Checked, server_faults
from taskq.db.connections import Database
from taskq.db.named_limits import NamedLimit, read_limits
from taskq.db.owners import Owner
from taskq.db.rows import Row
from taskq.db.standby import StandbyReads
from taskq.diagnosis.blockers import LOCK_WAIT_S, Blocker, read_blockers
from taskq.diagnosis.campaign_tree import read_tree
from taskq.diagnosis.changes import (
    CampaignChange,
    TasksMoved,
    read_changes,
    read_moves,
)
from taskq.diagnosis.fleet import Findings, Fleet
from taskq.diagnosis.forecast import Forecast
from taskq.diagnosis.maintenance import MaintenanceWindow, read_windows
from taskq.diagnosis.nodes import HeldResource, SmallerBatches, needs_counted, read_held
from taskq.diagnosis.odd_readings import OddReader, read_odd_results
from taskq.diagnosis.other_campaigns import OtherCampaign, read_others
from taskq.diagnosis.overdue import OverdueAttempt
from taskq.diagnosis.places import LostHost
from taskq.diagnosis.sample import ended_attempts
from taskq.diagnosis.servers import GatewayLoad
from taskq.model.removed import RetentionDate
from taskq.model.seed import is_within
from taskq.model.views import AgentView, Brake, LeftAgent, Status

MAX_CAMPAIGNS: Final = 1_000
MAX_KINDS: Final = 200
MAX_NAMED: Final = 20
MAX_LEFT: Final = 1_000
MAX_LOST: Final = 200
MAX_OVERDUE: Final = 100
#: Failed tasks of each campaign whose last class is read.
MAX_FAILED: Final = 500
#: Most frequent classes of failures that are judged: with thousands of hosts each takes 0.1 s.
MAX_CLASSES: Final = 8


@dataclass(frozen=True, slots=True)
class CampaignFacts:
    """A campaign that has unfinished tasks of its own. ahead: those leased ahead, among working.

    running_quota: how many tasks of its owner may run; 0 if the owner's bytes are used up.
    full_sites: sites that are at max_running_per_site, or were at the last claim. campaigns: number
    of such campaigns, of which the first `MAX_CAMPAIGNS` are known. tags: those of `requires` that
    are no resources of a node.
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
    named_limits: list[str]
    full_sites: list[str]
    ahead: int
    campaigns: int
    tags: list[str] = field(default_factory=list, kw_only=True)


@dataclass(frozen=True, slots=True)
class ClosedCampaign:
    """A campaign that is not open. paused_why: why it paused itself; None if an operator did.

    has_ended: whether all its tasks have ended, with those below it; if it is above, no.
    """

    path: str
    status: str
    paused_why: str | None
    has_ended: bool


@dataclass(frozen=True, slots=True)
class AgentKind:
    """Open sessions with the same scope, offers and state. some_hosts: five at most.

    warnings: words of `WARNINGS`. banned: the ban that drains them, if any: "host" or "site", its
    name, and why. last_until: when the last of them expires if they stay silent. cause: of their
    warnings, as one of them says. suspected: slowed since more fails there than elsewhere, not only
    by themselves, for the time that a comparison takes.
    """

    scope: str
    offers: list[str]
    draining: bool
    slowed: bool
    silent: bool
    warnings: list[str]
    agents: int
    slots: int
    hosts: int
    some_hosts: list[str]
    sites: list[str]
    banned: list[str] | None
    last_until: datetime
    cause: str
    suspected: bool = field(default=False, kw_only=True)

    def serves(self, path: str) -> bool:
        """Return whether these agents serve a campaign."""
        return is_within(path, self.scope)


@dataclass(frozen=True, slots=True)
class Refusing:
    """Agents at work that leave a campaign out for now. until: when the last one tries again."""

    path: str
    agents: int
    slots: int
    hosts: int
    some_hosts: list[str]
    error_class: str | None
    error: str | None
    until: datetime


@dataclass(frozen=True, slots=True)
class SiteToken:
    """A token of a site; see `explain_tokens` in SQL for the fields."""

    name: str
    paths: list[str]
    state: str
    ended_at: datetime | None
    created_at: datetime
    never: bool
    ends_at: datetime | None


@dataclass(frozen=True, slots=True)
class FailedTasks:
    """Failed tasks of a campaign, by the class of their last attempts. key: of the first."""

    campaign: str
    error_class: str
    tasks: int
    key: str


@dataclass(frozen=True, slots=True)
class FirstAttempts:
    """How the latest first attempts in a campaign ended; see `first_attempts` in SQL."""

    campaign: str
    failures: int
    done: int


@dataclass(frozen=True, slots=True)
class Past:
    """How many tasks had ended a quarter of an hour ago; see `explain_pace.sql` for the fields."""

    ended_then: int
    ended_before: int
    minutes_before: int


@dataclass(frozen=True, slots=True)
class Upkeep:
    """The queue as a whole. agents: open sessions, of all campaigns that the caller may see.

    keeper_until: the end of the latest keeper's term; None if there never was one. by_owner:
    whether owners share first. stalled: the seconds for which the queue stood still within the
    hour, and until when. set_back: committed work found to be gone within a day.
    """

    now: datetime
    keeper_until: datetime | None
    has_front: bool
    pool_s: float
    refilled: bool
    agents: int
    by_owner: bool
    stalled: Mapping[str, Any] | None = None
    set_back: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """All facts that explain a campaign.

    owners: of its campaigns, if some have a quota of tasks or bytes. limits: those that campaigns
    name. campaigns: those with unfinished tasks, most waiting first. others: campaigns elsewhere
    that run on the same agents. silent: silent agents that hold tasks, longest silent first. left:
    agents that left within the hour, if there are no others. lost: hosts that have gone or are
    refused. due_at: when the first delayed task is due; None if unknown. forecast: of the campaign
    and all below it. findings: from the latest attempts; None if nothing has ended, or nobody asked
    for them. failed: the classes in which failed tasks ended, most tasks first. overdue: the
    longest first, at most `MAX_OVERDUE`. first_attempts: of campaigns where some failed within
    minutes. past: None if unknown. blockers: for what others wait in PostgreSQL. server:
    faults of the server, for the whole queue only. windows: of maintenance, also lately ended.
    changes: of campaigns, within a day, latest first. moves: by which commands people cancelled
    tasks, or retried done ones.
    """

    status: Status
    campaigns: Sequence[CampaignFacts]
    closed: Sequence[ClosedCampaign]
    owners: Sequence[Owner]
    limits: Sequence[NamedLimit]
    agents: Sequence[AgentKind]
    refusals: Sequence[Refusing]
    smaller_batches: Sequence[SmallerBatches]
    held: Sequence[HeldResource]
    others: Sequence[OtherCampaign]
    tokens: Sequence[SiteToken]
    gateways: Sequence[GatewayLoad]
    silent: Sequence[AgentView]
    left: Sequence[LeftAgent]
    lost: Sequence[LostHost]
    brake: Brake | None
    upkeep: Upkeep
    due_at: datetime | None
    forecast: Forecast
    findings: Findings | None
    failed: Sequence[FailedTasks]
    overdue: Sequence[OverdueAttempt]
    first_attempts: Sequence[FirstAttempts]
    past: Past | None
    retention: RetentionDate | None
    removals: Sequence[RetentionDate]
    blockers: Sequence[Blocker]
    server: Sequence[Checked]
    windows: Sequence[MaintenanceWindow]
    changes: Sequence[CampaignChange]
    moves: Sequence[TasksMoved]

    @property
    def slots(self) -> int:
        """The most attempts that run at a time; slowed agents make one each."""
        return sum(kind.agents if kind.slowed else kind.slots for kind in self.agents)


def read_facts(
    database: Queries,
    path: str,
    *,
    looks: bool = True,
    whole: bool = True,
    read_odd: OddReader = read_odd_results,
) -> Facts:
    """Read the facts about a campaign and all below it; raise `NotFound` if there is none.

    looks: whether to read the latest attempts too. whole: for callers that may see the whole queue:
    whether to include campaigns elsewhere on the same agents, tokens, and totals of all. Raise
    `Unavailable` after `LOCK_WAIT_S` if somebody keeps a table from all readers.
    """
    if isinstance(database, (Database, StandbyReads)):
        return database.in_snapshot(
            lambda snapshot: _read(snapshot, path, looks, whole, read_odd),
            lock_wait_s=LOCK_WAIT_S,
        )
    return _read(database, path, looks, whole, read_odd)


def _read(snapshot: Queries, path: str, looks: bool, whole: bool, read_odd: OddReader) -> Facts:
    def rows(name: str, limit: int = MAX_NAMED, bound: str = "limit") -> list[Row]:
        return snapshot.rows(name, path=path, **{bound: limit})

    nodes = read_tree(snapshot, path).nodes
    own = [it.own for it in nodes.values()]
    node, status = nodes[path], nodes[path].status
    ended = {name for name, it in nodes.items() if it.status.total and not it.status.unfinished}
    kinds = [AgentKind(**row) for row in rows("explain_agents", MAX_KINDS)]
    brake = snapshot.row("brake")
    past = snapshot.row("explain_pace", path=path) if status.waiting else None
    retention = None if status.unfinished else snapshot.row("retention", path=path)
    (upkeep,) = snapshot.rows("explain_upkeep")
    campaigns = _campaigns(snapshot, path, own)
    refusals = [Refusing(**row) for row in rows("explain_refusals", MAX_CAMPAIGNS)]
    looks = looks and bool(ended_attempts(status) or refusals)
    within = ["/"] if whole else [path]
    has_quota = any(campaign.running_quota is not None for campaign in campaigns)
    return Facts(
        status=status,
        campaigns=campaigns,
        owners=[Owner(**row) for row in snapshot.rows("owners", path=path, within=within)]
        if has_quota
        else [],
        limits=read_limits(snapshot, within) if any(it.named_limits for it in campaigns) else [],
        closed=[
            ClosedCampaign(**row, has_ended=row["path"] in ended)
            for row in rows("explain_closed", MAX_CAMPAIGNS)
        ],
        agents=kinds,
        refusals=refusals,
        smaller_batches=[SmallerBatches(**row) for row in rows("explain_batches", MAX_CAMPAIGNS)],
        held=_held(snapshot, path, own, campaigns),
        others=read_others(snapshot, path, [(kind.scope, kind.slots) for kind in kinds])
        if whole
        else [],
        tokens=[SiteToken(**row) for row in rows("explain_tokens")] if whole else [],
        gateways=[GatewayLoad(**row) for row in snapshot.rows("gateways")] if whole else [],
        silent=_silent(snapshot, path) if any(kind.silent for kind in kinds) else [],
        left=[] if kinds else [LeftAgent(**row) for row in rows("left_agents", MAX_LEFT)],
        lost=[LostHost(**row) for row in rows("explain_lost", MAX_LOST)]
        if status.waiting or status.delayed
        else [],
        brake=None if brake is None else Brake(**brake).seen(whole=whole),
        upkeep=Upkeep(**upkeep | ({} if whole else {"agents": 0})),
        due_at=snapshot.value("explain_due", path=path) if status.delayed else None,
        forecast=node.forecast,
        findings=Fleet(snapshot, read_odd).findings(
            path, limit=MAX_CLASSES, ended=ended_attempts(status)
        )
        if looks
        else None,
        failed=_failed(snapshot, path, own) if looks and status.failed else [],
        overdue=[OverdueAttempt(**row) for row in rows("overdue", MAX_OVERDUE, "most")]
        if looks and status.done and status.working
        else [],
        first_attempts=[FirstAttempts(**it) for it in rows("first_attempts", MAX_CAMPAIGNS, "most")]
        if status.failures
        else [],
        past=None if past is None else Past(**past),
        retention=None if retention is None else RetentionDate(**retention),
        removals=[RetentionDate(**row) for row in rows("explain_removals")],
        blockers=read_blockers(snapshot) if whole else [],
        server=server_faults(snapshot) if whole and path == "/" else [],
        windows=read_windows(snapshot, path),
        changes=read_changes(snapshot, path),
        moves=read_moves(snapshot, path, {at: it.status for at, it in nodes.items()}),
    )


def _campaigns(snapshot: Queries, path: str, own: Sequence[Status]) -> list[CampaignFacts]:
    """Return the campaigns with unfinished tasks, those first in which most wait."""
    unfinished = [status for status in own if status.unfinished]
    shown = sorted(unfinished, key=lambda status: (-status.waiting, status.path))[:MAX_CAMPAIGNS]
    asked = [status.campaign_id for status in shown]
    rows = snapshot.rows("explain_campaigns", path=path, chosen=asked)
    settings = {row.pop("campaign_id"): row for row in map(dict, rows)}
    counts = ("path", "state", "waiting", "delayed", "working")
    return [
        CampaignFacts(
            **{name: getattr(status, name) for name in counts},
            **settings[status.campaign_id],
            campaigns=len(unfinished),
        )
        for status in shown
        if status.campaign_id in settings
    ]


def _held(
    snapshot: Queries, path: str, own: Sequence[Status], campaigns: Sequence[CampaignFacts]
) -> list[HeldResource]:
    """Return what nodes have too little of for the campaigns in which most wait."""
    ids = {status.path: status.campaign_id for status in own}
    needing = [it for it in campaigns if it.waiting and needs_counted(it.requires)]
    return read_held(snapshot, path, [ids[it.path] for it in needing[:MAX_NAMED]])


def _failed(snapshot: Queries, path: str, own: Sequence[Status]) -> list[FailedTasks]:
    """Return the classes of error of the campaigns in which most tasks have failed."""
    failed = [status for status in own if status.failed]
    failed.sort(key=lambda status: (-status.failed, status.path))
    asked = [status.campaign_id for status in failed[:MAX_NAMED]]
    rows = snapshot.rows("explain_failed", path=path, chosen=asked, limit=MAX_FAILED)
    return [FailedTasks(**row) for row in rows]


def _silent(snapshot: Queries, path: str) -> list[AgentView]:
    agents = [AgentView(**row) for row in snapshot.rows("agents", path=path, limit=MAX_NAMED)]
    return [agent for agent in agents if agent.silent_s > agent.lease_s / 2 and agent.working]
