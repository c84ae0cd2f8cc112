"""Acts of viewers on hosts and sites: a ban, and its end, for campaigns that their token is for."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from taskq.db.access import Queries
from taskq.diagnosis.bans import PlaceKind, for_campaign
from taskq.diagnosis.fleet import MAX_HOSTS, Fleet
from taskq.gateway.web.act import Act
from taskq.gateway.web.rendering import address
from taskq.model.errors import NotFound, UsageError
from taskq.model.words import counted

#: The fields of a form that say which place is meant, and why.
PLACE_FIELDS: Final = ("kind", "name", "why")
#: How long a ban of a page lasts, as the command writes it.
_UNTIL: Final = ("1d", timedelta(days=1))


def ban(queries: Queries, path: str, fields: Mapping[str, str]) -> Act:
    """Return the act that bans a place for a day: for a campaign, or with `/` for all."""
    kind, name = _place(fields)
    why = fields.get("why") or "banned by a page"
    only = "" if path == "/" else f" for {path} and all below it"

    def run() -> str:
        ordered = Fleet(queries).ban(kind, name, why=why, until=_UNTIL[1], campaign=path)
        return f"{name} is banned{only} for a day; {counted(ordered, 'agent')} got the order"

    return Act(
        f"Ban the {kind} {name}{only} for a day?",
        path,
        ("taskq", kind, "ban", "--why", why, "--until", _UNTIL[0], *for_campaign(path), name),
        _agents(queries, path, kind, name),
        f"{kind}",
        run,
        back=_back(kind, path),
        notes=[
            "Agents there finish what they have, and claim no more of it.",
            f"Agents that start there are refused, with the reason: {why}",
        ],
        thing="agent",
        button="Ban",
    )


def unban(queries: Queries, path: str, fields: Mapping[str, str]) -> Act:
    """Return the act that lifts the ban of a place, for a campaign or with `/` that for all."""
    kind, name = _place(fields)
    agents = _agents(queries, path, kind, name)
    bans = Fleet(queries).bans()
    held = [it for it in bans if (it.kind, it.name, it.path) == (kind, name, path)]
    if not held:
        raise NotFound(f"no ban of the {kind} {name!r:.80} for {path} holds")

    def run() -> str:
        lifted = Fleet(queries).unban(kind, name, campaign=path)
        return f"The ban of {name} is lifted" if lifted else "It was lifted before"

    return Act(
        f"Lift the ban of the {kind} {name}?",
        path,
        ("taskq", kind, "unban", "--campaign", path, name),
        agents,
        f"{held[0].banned_at.isoformat()}",
        run,
        back=_back(kind, path),
        notes=[held[0].about],
        thing="agent",
        button="Lift the ban",
    )


def _place(fields: Mapping[str, str]) -> tuple[PlaceKind, str]:
    kind, name = fields.get("kind"), fields.get("name", "")
    if name and kind == "host":
        return "host", name
    if name and kind == "site":
        return "site", name
    raise UsageError("a ban names a host or a site")


def _agents(queries: Queries, path: str, kind: PlaceKind, name: str) -> int:
    """Return how many agents that serve a campaign are at a place."""
    rows = queries.rows("places", path=path, limit=MAX_HOSTS)
    return sum(row["agents"] for row in rows if row[kind] == name)


def _back(kind: PlaceKind, path: str) -> str:
    return address("/hosts" if kind == "host" else "/sites", path=path)
