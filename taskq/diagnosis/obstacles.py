"""Obstacles: for each campaign the first one that prevents claims of its tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from taskq.diagnosis import clauses
from taskq.diagnosis.blocked import Blocked
from taskq.diagnosis.changes import dated
from taskq.diagnosis.facts import MAX_NAMED, AgentKind, CampaignFacts, ClosedCampaign, Facts
from taskq.diagnosis.lost import token_renewal
from taskq.diagnosis.reasons import Reason, brief, failure, some, them, verb
from taskq.model.requirements import fewer_needs, missing, offering_option
from taskq.model.seed import is_within
from taskq.model.words import command, counted, duration, instant
from taskq_agent.units import in_bytes

_MOST_SHOWN: Final = 3

#: Settings of campaigns that make an obstacle.
_SETTINGS: Final[dict[str, tuple[str, ...]]] = {
    "no-handler": ("handler",),
    "max-running": ("max_running",),
    "max-running-per-site": ("max_running_per_site",),
    "named-limit": ("named_limits",),
    "tags": (
        "requires",
        "cores",
        "memory",
        "gpus",
        "gpu_memory",
        "named_resources",
        "require",
        "require_files",
        "checkpoint_bytes",
        "output_bytes",
    ),
}
#: An obstacle that campaigns may have in common: its kind, and its details.
Obstacle: TypeAlias = tuple[str, tuple[str, ...]]


def obstacles(facts: Facts) -> tuple[list[Reason], list[CampaignFacts]]:
    """Return why tasks cannot be claimed, and the campaigns where they can."""
    blocked: dict[Obstacle, list[CampaignFacts]] = {}
    served: list[CampaignFacts] = []
    for campaign in facts.campaigns:
        if not campaign.waiting and campaign.state == "open":
            continue
        obstacle = _obstacle(facts, campaign)
        if obstacle is None:
            served.append(campaign)
        else:
            blocked.setdefault(obstacle, []).append(campaign)
    reasons = []
    for (kind, detail), campaigns in blocked.items():
        alike = Blocked(facts, detail, campaigns)
        paths = {it.path for it in campaigns}
        reasons.append(dated(_REASONS[kind](alike), facts.changes, paths, _SETTINGS.get(kind, ())))
        if kind == "no-agents":
            reasons += _tokens(facts, alike.tasks)
    reasons += closed(facts, (detail[0] for kind, detail in blocked if kind == "closed"))
    return reasons, served


def closed(facts: Facts, reported: Iterable[str]) -> Iterator[Reason]:
    """Name further campaigns that are not open, though no task waits for that.

    reported: those for which tasks wait. Not those whose tasks have all ended.
    """
    known = set(reported)
    idle = [
        campaign
        for campaign in facts.closed
        if not campaign.has_ended and campaign.path not in known
    ]
    top = [campaign for campaign in idle if _closing(facts, campaign.path) is campaign]
    for campaign in top[:MAX_NAMED]:
        yield _closed(Blocked(facts, (campaign.path,), []))


def _closing(facts: Facts, path: str) -> ClosedCampaign | None:
    """Return the topmost campaign that is not open, which closes all below it."""
    return next((it for it in facts.closed if is_within(path, it.path)), None)


def suiting(facts: Facts, campaign: CampaignFacts) -> list[AgentKind]:
    """Return the agents at work that could claim in a campaign, given time and a slot."""
    return [
        kind
        for kind in facts.agents
        if kind.serves(campaign.path)
        and not (kind.silent or kind.draining)
        and not missing(campaign.requires, kind.offers)
    ]


def _obstacle(facts: Facts, campaign: CampaignFacts) -> Obstacle | None:
    closing = _closing(facts, campaign.path)
    serving = [kind for kind in facts.agents if kind.serves(campaign.path)]
    heard = [kind for kind in serving if not kind.silent]
    at_work = [kind for kind in heard if not kind.draining]
    able = suiting(facts, campaign)
    is_held = any(it.owner == campaign.owner and it.is_held for it in facts.owners)
    full = next(
        (it.name for it in facts.limits if it.is_full and it.name in campaign.named_limits), ""
    )
    refusing = sum(it.agents for it in facts.refusals if it.path == campaign.path)
    found: Sequence[tuple[object, Obstacle]] = (
        (closing, ("closed", (closing.path,) if closing else ())),
        (not campaign.has_handler, ("no-handler", ())),
        (
            campaign.max_running is not None and campaign.working >= campaign.max_running,
            ("max-running", (campaign.path,)),
        ),
        (is_held, ("quota", (campaign.owner or "",))),
        (full, ("named-limit", (full,))),
        (not serving, ("no-agents", ())),
        (not heard, ("silent", ())),
        (not at_work, ("leaving", ())),
        (not able, ("tags", _nobody_offers(campaign.requires, at_work))),
        (
            set(campaign.full_sites).issuperset(site for kind in able for site in kind.sites),
            ("max-running-per-site", (campaign.path,)),
        ),
        (sum(kind.agents for kind in able) <= refusing, ("refused", (campaign.path,))),
    )
    return next((obstacle for holds, obstacle in found if holds), None)


def _nobody_offers(requires: Sequence[str], agents: Sequence[AgentKind]) -> tuple[str, ...]:
    """Return the requirements that no agent meets, or all if no agent meets them together."""
    lacking = [set(missing(requires, kind.offers)) for kind in agents]
    by_none = set.intersection(*lacking) if lacking else set()
    return tuple(tag for tag in requires if tag in by_none) or tuple(requires)


def _start(path: str, requires: Sequence[str]) -> str:
    """Return the command that starts an agent with the required tags."""
    own = (tag for tag in requires if not tag.startswith("protocol"))
    offers = [word for tag in own for word in offering_option(tag)]
    return command("agent", "run", "--campaign", path, *offers)


def _closed(blocked: Blocked) -> Reason:
    (path,) = blocked.detail
    campaign = next(campaign for campaign in blocked.facts.closed if campaign.path == path)
    own = blocked.facts.status.path
    why = clauses.closed(path, campaign.status, campaign.paused_why, own)
    commands = [command("campaign", "resume", path)]
    if campaign.paused_why is not None:
        changes = [it for it in blocked.facts.changes if it.campaign == path and it.commands]
        why = "; ".join([why, *(it.text for it in changes)]) + ". Resume it when that is repaired"
        shown = [line for it in changes for line in it.commands]
        commands = [command("failures", path), *shown, *commands]
    elif campaign.status == "cancelled":
        commands.append(command("retry", path, "--status", "cancelled"))
    inside = [it.path for it in blocked.facts.closed if it.path != path and is_within(own, it.path)]
    commands += [command("campaign", "resume", it) for it in inside if is_within(it, path)]
    figures = {"closed": path, "by_itself": campaign.paused_why is not None}
    reason = Reason(campaign.status, f"{why}.", commands=commands, figures=figures)
    if blocked.tasks:
        reason = blocked.reason(campaign.status, why, commands, figures)
    by_people = campaign.paused_why is None
    return dated(reason, blocked.facts.changes, [path] if by_people else [], ["status"])


def _no_handler(blocked: Blocked) -> Reason:
    it = verb(len(blocked.campaigns), "it has", "they have")
    return blocked.reason(
        "no-handler",
        f"{it} {clauses.no_handler(them(blocked.tasks))}",
        [f"{command('campaign', 'change', blocked.path)} -- PROGRAM ARGUMENT..."],
    )


def _max_running(blocked: Blocked) -> Reason:
    (campaign,) = blocked.campaigns
    return blocked.reason(
        "max-running",
        f"{campaign.working:,} {verb(campaign.working, 'works', 'work')}, and max_running allows "
        f"{campaign.max_running:,}",
        [command("campaign", "change", campaign.path, "--max-running", "none")],
        {"working": campaign.working, "max_running": campaign.max_running},
    )


def _max_running_per_site(blocked: Blocked) -> Reason:
    (campaign,) = blocked.campaigns
    return blocked.reason(
        "max-running-per-site",
        f"max_running_per_site allows {campaign.max_running_per_site:,}, and each site whose "
        "agents could claim more has reached that "
        f"({some([site or 'without a name' for site in campaign.full_sites])})",
        [command("campaign", "change", campaign.path, "--max-running-per-site", "none")],
        {"max_running_per_site": campaign.max_running_per_site, "sites": len(campaign.full_sites)},
    )


def _quota(blocked: Blocked) -> Reason:
    (owner,) = (owner for owner in blocked.facts.owners if owner.owner == blocked.detail[0])
    if owner.is_full:
        code, option = "quota-bytes", "--bytes"
        stored = f"{in_bytes(owner.bytes)} of {owner.owner} are stored"
        why = f"{stored}{_more(owner.bytes, owner.max_bytes)}, and the quota allows "
        why += f"{in_bytes(owner.max_bytes or 0)}: no tasks are handed out until less is stored"
        figures = {"bytes": owner.bytes, "max_bytes": owner.max_bytes}
    else:
        code, option = "quota-running", "--running"
        number = owner.working
        works = f"{counted(number, 'task')} of {owner.owner} {verb(number, 'works', 'work')}"
        where = _more(number, owner.max_running) or " in all campaigns"
        why = f"{works}{where}, and the quota allows {owner.max_running:,}"
        figures = {"working": number, "max_running": owner.max_running}
    change = command("owner", "quota", option, "none", names=[owner.owner])
    commands = [change, command("owner", "list")]
    return blocked.reason(code, why, commands, figures | {"owner": owner.owner})


def _named_limit(blocked: Blocked) -> Reason:
    (limit,) = (limit for limit in blocked.facts.limits if limit.name == blocked.detail[0])
    runs = f"{counted(limit.used, 'start')} {verb(limit.used, 'counts', 'count')}"
    why = f"{runs}{_more(limit.used, limit.most)} towards the limit {limit.name}, which allows "
    why += f"{limit.most:,}"
    if limit.holders:
        held = [f"{held.path} ({counted(held.tasks, 'task')})" for held in limit.holders]
        why += f"; it is held by {', '.join(held)}"
    why += (
        ". Raise it by `taskq limit set` only if what it stands for, such as licences, allows more"
    )
    return blocked.reason(
        "named-limit",
        why,
        [command("limit", "list")],
        {"limit": limit.name, "used": limit.used, "most": limit.most},
    )


def _more(seen: int, quota: int | None) -> str:
    """Return a remark if more than what is seen uses up a quota."""
    return " here, others elsewhere" if seen < (quota or 0) else ""


def _no_agents(blocked: Blocked) -> Reason:
    facts, path = blocked.facts, blocked.path
    text = clauses.unserved(path if len(blocked.campaigns) == 1 else "them")
    elsewhere = facts.upkeep.agents
    if elsewhere:
        at_work = f"{counted(elsewhere, 'agent')} at work {verb(elsewhere, 'serves', 'serve')}"
        text += f"; the {at_work} other campaigns only"
    requires = list(
        dict.fromkeys(tag for campaign in blocked.campaigns for tag in campaign.requires)
    )
    commands = [_start(path, requires)]
    if requires:
        text += f"; it needs {verb(len(requires), 'the tag', 'the tags')} {' '.join(requires)}"
    if facts.left:
        why = Counter(brief(session.reason) or "without a reason" for session in facts.left)
        reasons = (
            f"{reason} ({times:,})" if len(why) > 1 else reason
            for reason, times in why.most_common(_MOST_SHOWN)
        )
        text += f". {counted(len(facts.left), 'agent')} left within the last hour: "
        text += "; ".join(reasons)
        commands.append(command("agent", "list", path, "--left"))
    figures = {"agents_elsewhere": elsewhere, "agents_left": len(facts.left)}
    return blocked.reason("no-agents", text, commands, figures)


def _tokens(facts: Facts, tasks: int) -> Iterator[Reason]:
    """Say which tokens of agents have ended; they block unless another one is valid."""
    # The latest of each name, which comes first.
    latest = {token.name: token for token in reversed(facts.tokens)}
    valid = any(token.state == "valid" for token in latest.values())
    ended = [token for token in latest.values() if token.state != "valid"]
    for token in ended[:_MOST_SHOWN]:
        at = f" at {instant(token.ended_at)}" if token.ended_at else ""
        yield Reason(
            "token",
            f"The token {token.name} for agents of {some(token.paths)} "
            f"{'is' if token.state == 'used up' else 'was' if token.state == 'revoked' else 'has'} "
            f"{token.state}{at}: agents that present it are refused.",
            tasks=tasks,
            blocks=not valid,
            commands=[token_renewal(token.name, token.paths[0], revoked=token.state == "revoked")],
            figures={"token": token.name, "state": token.state, "ended_at": token.ended_at},
            since=token.ended_at,
        )


def _silent(blocked: Blocked) -> Reason:
    facts, path = blocked.facts, blocked.path
    kinds = [kind for kind in facts.agents if kind.silent]
    agents = sum(kind.agents for kind in kinds)
    last = max(kind.last_until for kind in kinds)
    then = ""
    if facts.brake is None and last > facts.upkeep.now:
        then = f"; an agent that stays silent counts as lost by {instant(last)}"
    commands = [command("agent", "list", path), command("agent", "run", "--campaign", path)]
    if facts.blockers:
        then = (
            "; the database is blocked, as another reason says, so this may be no fault of theirs"
        )
        commands = commands[:1]
    return blocked.reason(
        "silent",
        f"{verb(agents, 'the only agent', f'all {agents:,} agents')} that could claim "
        f"{them(blocked.tasks)} {verb(agents, 'is', 'are')} silent{then}",
        commands,
        {"agents": agents, "until": last},
    )


def _leaving(blocked: Blocked) -> Reason:
    kinds = [kind for kind in blocked.facts.agents if kind.draining and not kind.silent]
    agents = sum(kind.agents for kind in kinds)
    banned = [kind for kind in kinds if kind.banned]
    number = sum(kind.agents for kind in banned)
    text = f"{verb(agents, 'the only agent', f'all {agents:,} agents')} there "
    text += f"{verb(agents, 'was', 'were')} ordered to leave"
    commands = [command("agent", "run", "--campaign", blocked.path)]
    for ban in [kind.banned for kind in banned if kind.banned][:1]:
        text += f", {number:,} by a ban (of the {ban[0]} {ban[1]}: {brief(ban[2])})"
        commands = [command(ban[0], "unban", names=[ban[1]]), *commands]
    return blocked.reason(
        "banned" if banned else "draining",
        f"{text}, and {verb(agents, 'claims', 'claim')} no more",
        commands,
        {"agents": agents, "banned": number},
    )


def _tags(blocked: Blocked) -> Reason:
    campaigns, lacking = blocked.campaigns, blocked.detail
    offered: Counter[str] = Counter()
    for kind in blocked.facts.agents:
        at_work = not (kind.silent or kind.draining)
        if at_work and any(kind.serves(campaign.path) for campaign in campaigns):
            offered[" ".join(kind.offers) or "nothing"] += kind.agents
    there = ", ".join(
        f"{tags} ({n:,})" if len(offered) > 1 else tags
        for tags, n in offered.most_common(_MOST_SHOWN)
    )
    too_old = any(tag.startswith("protocol") for tag in lacking)
    what = "Checkpoints, output files and checks of results"
    hint = f". {what} need agents of this release" if too_old else ""
    agents = sum(offered.values())
    commands = [_start(blocked.path, lacking)]
    if len(campaigns) == 1 and not too_old:
        serving = [kind for kind in blocked.facts.agents if kind.serves(blocked.path)]
        less = fewer_needs(campaigns[0].tags, lacking, [kind.offers for kind in serving])
        if less:
            commands.append(command("campaign", "change", blocked.path, *less))
        if not set(lacking) & set(campaigns[0].tags):  # what a node has, no option can add
            commands.reverse()
    return blocked.reason(
        "tags",
        f"{clauses.not_offered(lacking)}; "
        f"{counted(agents, 'agent')} {verb(agents, 'offers', 'offer')} {brief(there)}{hint}",
        commands,
        {"missing": list(lacking), "agents": agents},
    )


def _refused(blocked: Blocked) -> Reason:
    (path,) = blocked.detail
    facts = blocked.facts
    (refusal,) = (it for it in facts.refusals if it.path == path)
    left_s = max((refusal.until - facts.upkeep.now).total_seconds(), 0.0)
    pause, resume = command("campaign", "pause", path), command("campaign", "resume", path)
    return blocked.reason(
        "refused",
        f"{verb(refusal.agents, 'the only agent', 'all agents')} that could claim "
        f"{them(blocked.tasks)} {verb(refusal.agents, 'skips', 'skip')} the campaign for now, "
        f"since it cannot run on {counted(refusal.hosts, 'host')} "
        f"({some(refusal.some_hosts, refusal.hosts)}): "
        f"{failure(refusal.error_class, refusal.error)}. The last one tries again within "
        f"{duration(left_s)}; pausing and resuming the campaign makes all try at once",
        [command("failures", path), f"{pause}; {resume}"],
        {"agents": refusal.agents, "hosts": refusal.hosts, "until": refusal.until},
    )


_REASONS: Final[dict[str, Callable[[Blocked], Reason]]] = {
    "closed": _closed,
    "no-handler": _no_handler,
    "max-running": _max_running,
    "quota": _quota,
    "named-limit": _named_limit,
    "no-agents": _no_agents,
    "silent": _silent,
    "leaving": _leaving,
    "tags": _tags,
    "max-running-per-site": _max_running_per_site,
    "refused": _refused,
}
