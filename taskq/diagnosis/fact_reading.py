"""Reading of the facts about a campaign in one snapshot, without reading waiting tasks.

Over a gateway each fact is as of its own moment.
"""

from __future__ import annotations

from typing import Final

from taskq.db.access import Queries
from taskq.db.address import Row
from taskq.db.connections import Database
from taskq.db.owners import Owner
from taskq.db.standby import StandbyReads
from taskq.diagnosis.facts import (
    MAX_CAMPAIGNS,
    MAX_KINDS,
    MAX_NAMED,
    AgentKind,
    CampaignFacts,
    ClosedCampaign,
    Facts,
    OtherCampaign,
    Refusing,
    SiteToken,
    Upkeep,
)
from taskq.diagnosis.fleet import Fleet
from taskq.model.seed import is_within
from taskq.model.views import AgentView, Brake, LeftAgent, Status

MAX_SCOPES: Final = 3
"""Scopes of agents whose other campaigns are read: each costs as much as `counts`."""
MAX_LEFT: Final = 1_000
MAX_CLASSES: Final = 8
"""Most frequent classes of failures that are judged: with thousands of hosts each takes 0.1 s."""


def read_facts(database: Queries, path: str, *, looks: bool = True, whole: bool = True) -> Facts:
    """Read the facts about a campaign and all below it; raise `NotFound` if there is none.

    looks: whether to read the latest attempts too. whole: whether to include campaigns elsewhere
    on the same agents, and tokens, for callers that may see the whole queue.
    """
    if isinstance(database, (Database, StandbyReads)):
        return database.in_snapshot(lambda snapshot: _read(snapshot, path, looks, whole))
    return _read(database, path, looks, whole)


def _read(snapshot: Queries, path: str, looks: bool, whole: bool) -> Facts:
    def rows(name: str, limit: int = MAX_NAMED) -> list[Row]:
        return snapshot.rows(name, path=path, limit=limit)

    status = Status(**snapshot.rows("counts", path=path, depth=0)[0])
    kinds = [AgentKind(**row) for row in rows("explain_agents", MAX_KINDS)]
    brake = snapshot.row("brake")
    (upkeep,) = snapshot.rows("explain_upkeep")
    campaigns = [CampaignFacts(**row) for row in rows("explain_campaigns", MAX_CAMPAIGNS)]
    refusals = [Refusing(**row) for row in rows("explain_refusals", MAX_CAMPAIGNS)]
    looks = looks and bool(status.done or status.failures or status.losses or refusals)
    has_quota = any(one.running_quota is not None for one in campaigns)
    return Facts(
        status=status,
        campaigns=campaigns,
        owners=[Owner(**row) for row in snapshot.rows("owners", path=path)] if has_quota else [],
        closed=[ClosedCampaign(**row) for row in rows("explain_closed", MAX_CAMPAIGNS)],
        agents=kinds,
        refusals=refusals,
        others=_others(snapshot, path, kinds) if whole else [],
        tokens=[SiteToken(**row) for row in rows("explain_tokens")] if whole else [],
        silent=_silent(snapshot, path) if any(kind.silent for kind in kinds) else [],
        left=[] if kinds else [LeftAgent(**row) for row in rows("left_agents", MAX_LEFT)],
        brake=None if brake is None else Brake(**brake),
        upkeep=Upkeep(**upkeep),
        due_at=snapshot.value("explain_due", path=path) if status.delayed else None,
        findings=Fleet(snapshot).findings(path, limit=MAX_CLASSES) if looks else None,
    )


def _others(snapshot: Queries, path: str, kinds: list[AgentKind]) -> list[OtherCampaign]:
    """Return the other campaigns of agents that serve a campaign above the path."""
    slots: dict[str, int] = {}
    for kind in kinds:
        if kind.scope != path and is_within(path, kind.scope):
            slots[kind.scope] = slots.get(kind.scope, 0) + kind.slots
    # A scope includes the scopes below it: count their campaigns once.
    chosen: list[str] = []
    for scope in sorted(slots):
        if not any(is_within(scope, other) for other in chosen):
            chosen.append(scope)
    return [
        OtherCampaign(**row)
        for scope in chosen[:MAX_SCOPES]
        for row in snapshot.rows("explain_others", scope=scope, path=path, limit=MAX_NAMED)
    ]


def _silent(snapshot: Queries, path: str) -> list[AgentView]:
    agents = [AgentView(**row) for row in snapshot.rows("agents", path=path, limit=MAX_NAMED)]
    return [one for one in agents if one.silent_s > one.lease_s / 2 and one.working]
