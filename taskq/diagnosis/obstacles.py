"""Obstacles: for each campaign the first one that prevents claims of its tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

from taskq.db.owners import Owner
from taskq.diagnosis.facts import AgentKind, CampaignFacts, Facts
from taskq.diagnosis.lost import token_renewal
from taskq.diagnosis.reasons import Reason, brief, failure, some, them, verb, waits
from taskq.model.requirements import missing
from taskq.model.seed import is_within
from taskq.model.words import command, counted, duration, instant
from taskq_agent.text import in_bytes

_MOST_SHOWN: Final = 3

#: An obstacle that campaigns may have in common: its kind, and its details.
Obstacle: TypeAlias = tuple[str, tuple[str, ...]]


def obstacles(facts: Facts) -> tuple[list[Reason], list[CampaignFacts]]:
    """Return why tasks cannot be claimed, and the campaigns where they can."""
    blocked: dict[Obstacle, list[CampaignFacts]] = {}
    served: list[CampaignFacts] = []
    for one in facts.campaigns:
        if not one.waiting and not (one.delayed and one.state != "open"):
            continue
        obstacle = _obstacle(facts, one)
        if obstacle is None:
            served.append(one)
        else:
            blocked.setdefault(obstacle, []).append(one)
    reasons = [
        reason
        for (kind, detail), campaigns in blocked.items()
        for reason in _TEXTS[kind](facts, detail, campaigns)
    ]
    return reasons, served


def suiting(facts: Facts, one: CampaignFacts) -> list[AgentKind]:
    """Return the agents at work that could claim in a campaign, given time and a slot."""
    return [
        kind
        for kind in facts.agents
        if kind.serves(one.path)
        and not (kind.silent or kind.draining)
        and not missing(one.requires, kind.offers)
    ]


def _obstacle(facts: Facts, one: CampaignFacts) -> Obstacle | None:
    # The topmost campaign that is not open closes this one.
    closed = next((it for it in facts.closed if is_within(one.path, it.path)), None)
    serving = [kind for kind in facts.agents if kind.serves(one.path)]
    heard = [kind for kind in serving if not kind.silent]
    at_work = [kind for kind in heard if not kind.draining]
    able = suiting(facts, one)
    is_held = any(it.owner == one.owner and _is_held(it) for it in facts.owners)
    refusing = sum(it.agents for it in facts.refusals if it.path == one.path)
    found: Sequence[tuple[object, Obstacle]] = (
        (closed, ("closed", (closed.path,) if closed else ())),
        (not one.has_handler, ("no-handler", ())),
        (
            one.max_running is not None and one.working >= one.max_running,
            ("max-running", (one.path,)),
        ),
        (is_held, ("quota", (one.owner or "",))),
        (not serving, ("no-agents", ())),
        (not heard, ("silent", ())),
        (not at_work, ("leaving", ())),
        (not able, ("tags", _nobody_offers(one.requires, at_work))),
        (
            set(one.full_sites).issuperset(site for kind in able for site in kind.sites),
            ("max-running-per-site", (one.path,)),
        ),
        (sum(kind.agents for kind in able) <= refusing, ("refused", (one.path,))),
    )
    return next((obstacle for holds, obstacle in found if holds), None)


def _is_held(owner: Owner) -> bool:
    """Return whether no tasks of an owner are handed out now."""
    return owner.is_full or (owner.max_running is not None and owner.working >= owner.max_running)


def _nobody_offers(requires: Sequence[str], agents: Sequence[AgentKind]) -> tuple[str, ...]:
    """Return the requirements that no agent meets, or all if no agent meets them together."""
    lacking = [set(missing(requires, kind.offers)) for kind in agents]
    by_none = set.intersection(*lacking) if lacking else set()
    return tuple(tag for tag in requires if tag in by_none) or tuple(requires)


def _where(facts: Facts, campaigns: Sequence[CampaignFacts]) -> str:
    """Return where the tasks wait; empty if it is the explained campaign."""
    if [one.path for one in campaigns] == [facts.status.path]:
        return ""
    if len(campaigns) == 1:
        return f" in {campaigns[0].path}"
    names = some([one.path for one in campaigns])
    return f" in {len(campaigns):,} campaigns ({names})"


def _tasks(campaigns: Sequence[CampaignFacts]) -> int:
    return sum(one.waiting for one in campaigns)


def _about(facts: Facts, campaigns: Sequence[CampaignFacts]) -> str:
    """Return the beginning of a reason: how many tasks wait, and where."""
    return f"{waits(_tasks(campaigns))}{_where(facts, campaigns)}"


def _common(facts: Facts, campaigns: Sequence[CampaignFacts]) -> str:
    """Return the path for a command."""
    return campaigns[0].path if len(campaigns) == 1 else facts.status.path


def _start(path: str, requires: Sequence[str]) -> str:
    """Return the command that starts an agent with the required tags."""
    own = (tag for tag in requires if not tag.startswith("protocol"))
    offers = [word for tag in own for word in ("--offer", tag.replace(">=", "="))]
    return command("agent", "run", "--campaign", path, *offers)


def _closed(
    facts: Facts, detail: tuple[str, ...], campaigns: Sequence[CampaignFacts]
) -> Iterator[Reason]:
    (path,) = detail
    one = next(one for one in facts.closed if one.path == path)
    tasks = sum(it.waiting + it.delayed for it in campaigns)
    own = facts.status.path
    above = " (a campaign above)" if path != own and is_within(own, path) else ""
    commands = [command("campaign", "resume", path)]
    if one.paused_why is not None:
        how = f"paused itself: {brief(one.paused_why)}. Resume it when that is repaired"
        commands.insert(0, command("failures", path))
    elif one.status == "cancelled":
        how = "was cancelled by an operator"
        commands.append(command("retry", path, "--status", "cancelled"))
    else:
        how = "was paused by an operator"
    yield Reason(
        one.status,
        f"{waits(tasks)}{_where(facts, campaigns)}: {path}{above} {how}.",
        tasks=tasks,
        commands=commands,
        figures={"closed": path, "by": "itself" if one.paused_why else "operator"},
    )


def _no_handler(
    facts: Facts, _: tuple[str, ...], campaigns: Sequence[CampaignFacts]
) -> Iterator[Reason]:
    path = _common(facts, campaigns)
    it = "it has" if len(campaigns) == 1 else "they have"
    yield Reason(
        "no-handler",
        f"{_about(facts, campaigns)}: {it} no handler, so no agent can run "
        f"{them(_tasks(campaigns))}.",
        tasks=_tasks(campaigns),
        commands=[f"{command('campaign', 'change', path)} -- PROGRAM ARGUMENT..."],
    )


def _max_running(
    facts: Facts, detail: tuple[str, ...], campaigns: Sequence[CampaignFacts]
) -> Iterator[Reason]:
    (one,) = campaigns
    yield Reason(
        "max-running",
        f"{_about(facts, campaigns)}: {one.working:,} {verb(one.working, 'works', 'work')}, and "
        f"max_running allows {one.max_running:,}.",
        tasks=one.waiting,
        commands=[command("campaign", "change", detail[0], "--max-running", "none")],
        figures={"working": one.working, "max_running": one.max_running},
    )


def _max_running_per_site(
    facts: Facts, detail: tuple[str, ...], campaigns: Sequence[CampaignFacts]
) -> Iterator[Reason]:
    (one,) = campaigns
    yield Reason(
        "max-running-per-site",
        f"{_about(facts, campaigns)}: max_running_per_site allows {one.max_running_per_site:,}, "
        "and each site whose agents could claim more has reached that "
        f"({some([site or 'without a name' for site in one.full_sites])}).",
        tasks=one.waiting,
        commands=[command("campaign", "change", detail[0], "--max-running-per-site", "none")],
        figures={"max_running_per_site": one.max_running_per_site, "sites": len(one.full_sites)},
    )


def _quota(
    facts: Facts, detail: tuple[str, ...], campaigns: Sequence[CampaignFacts]
) -> Iterator[Reason]:
    (owner,) = (one for one in facts.owners if one.owner == detail[0])
    if owner.is_full:
        code, option = "quota-bytes", "--bytes"
        why = f"{in_bytes(owner.bytes)} of {owner.owner} are stored, and the quota allows "
        why += f"{in_bytes(owner.max_bytes or 0)}: no tasks are handed out until less is stored"
        figures = {"bytes": owner.bytes, "max_bytes": owner.max_bytes}
    else:
        code, option = "quota-running", "--running"
        number = owner.working
        why = f"{counted(number, 'task')} of {owner.owner} {verb(number, 'works', 'work')} in all "
        why += f"campaigns, and the quota allows {owner.max_running:,}"
        figures = {"working": number, "max_running": owner.max_running}
    yield Reason(
        code,
        f"{_about(facts, campaigns)}: {why}.",
        tasks=_tasks(campaigns),
        commands=[
            command("owner", "quota", option, "none", names=[owner.owner]),
            command("owner", "list"),
        ],
        figures=figures | {"owner": owner.owner},
    )


def _no_agents(
    facts: Facts, _: tuple[str, ...], campaigns: Sequence[CampaignFacts]
) -> Iterator[Reason]:
    path = _common(facts, campaigns)
    what = path if len(campaigns) == 1 else "them"
    text = f"{_about(facts, campaigns)}: no agent serves {what}"
    elsewhere = facts.upkeep.agents
    if elsewhere:
        at_work = f"{counted(elsewhere, 'agent')} at work {verb(elsewhere, 'serves', 'serve')}"
        text += f"; the {at_work} other campaigns only"
    requires = list(dict.fromkeys(tag for one in campaigns for tag in one.requires))
    commands = [_start(path, requires)]
    if requires:
        text += f"; it needs {verb(len(requires), 'the tag', 'the tags')} {' '.join(requires)}"
    if facts.left:
        why = Counter(brief(one.reason) or "without a reason" for one in facts.left)
        reasons = (
            f"{reason} ({times:,})" if len(why) > 1 else reason
            for reason, times in why.most_common(_MOST_SHOWN)
        )
        text += f". {counted(len(facts.left), 'agent')} left within the last hour: "
        text += "; ".join(reasons)
        commands.append(command("agent", "list", path, "--left"))
    yield Reason(
        "no-agents",
        f"{text}.",
        tasks=_tasks(campaigns),
        commands=commands,
        figures={"agents_elsewhere": elsewhere, "agents_left": len(facts.left)},
    )
    yield from _tokens(facts, _tasks(campaigns))


def _tokens(facts: Facts, tasks: int) -> Iterator[Reason]:
    """Say which tokens of agents have ended; they block unless another one is valid."""
    # The latest of each name, which comes first.
    latest = {one.name: one for one in reversed(facts.tokens)}
    valid = any(one.state == "valid" for one in latest.values())
    ended = [one for one in latest.values() if one.state != "valid"]
    for one in ended[:_MOST_SHOWN]:
        at = f" at {instant(one.ended_at)}" if one.ended_at else ""
        yield Reason(
            "token",
            f"The token {one.name} for agents of {some(one.paths)} "
            f"{'is' if one.state == 'used up' else 'was' if one.state == 'revoked' else 'has'} "
            f"{one.state}{at}: agents that present it are refused.",
            tasks=tasks,
            blocks=not valid,
            commands=[token_renewal(one.name, one.paths[0], revoked=one.state == "revoked")],
            figures={"token": one.name, "state": one.state, "ended_at": one.ended_at},
        )


def _silent(
    facts: Facts, _: tuple[str, ...], campaigns: Sequence[CampaignFacts]
) -> Iterator[Reason]:
    path = _common(facts, campaigns)
    kinds = [kind for kind in facts.agents if kind.silent]
    agents = sum(kind.agents for kind in kinds)
    last = max(kind.last_until for kind in kinds)
    then = ""
    if facts.brake is None and last > facts.upkeep.now:
        then = f"; an agent that stays silent counts as lost by {instant(last)}"
    yield Reason(
        "silent",
        f"{_about(facts, campaigns)}: {verb(agents, 'the only agent', f'all {agents:,} agents')} "
        f"that could claim {them(_tasks(campaigns))} {verb(agents, 'is', 'are')} silent{then}.",
        tasks=_tasks(campaigns),
        commands=[command("agent", "list", path), command("agent", "run", "--campaign", path)],
        figures={"agents": agents, "until": last},
    )


def _leaving(
    facts: Facts, _: tuple[str, ...], campaigns: Sequence[CampaignFacts]
) -> Iterator[Reason]:
    path = _common(facts, campaigns)
    kinds = [kind for kind in facts.agents if kind.draining and not kind.silent]
    agents = sum(kind.agents for kind in kinds)
    banned = [kind for kind in kinds if kind.banned]
    text = f"{_about(facts, campaigns)}: {verb(agents, 'the only agent', f'all {agents:,} agents')}"
    text += f" there {verb(agents, 'was', 'were')} ordered to leave"
    commands = [command("agent", "run", "--campaign", path)]
    for ban in [kind.banned for kind in banned if kind.banned][:1]:
        number = sum(kind.agents for kind in banned)
        text += f", {number:,} by a ban (of the {ban[0]} {ban[1]}: {brief(ban[2])})"
        commands = [command(ban[0], "unban", names=[ban[1]]), *commands]
    yield Reason(
        "banned" if banned else "draining",
        f"{text}, and {verb(agents, 'claims', 'claim')} no more.",
        tasks=_tasks(campaigns),
        commands=commands,
        figures={"agents": agents, "banned": sum(kind.agents for kind in banned)},
    )


def _tags(
    facts: Facts, detail: tuple[str, ...], campaigns: Sequence[CampaignFacts]
) -> Iterator[Reason]:
    path = _common(facts, campaigns)
    kinds = [kind for kind in facts.agents if not (kind.silent or kind.draining)]
    kinds = [kind for kind in kinds if any(kind.serves(one.path) for one in campaigns)]
    offered: Counter[str] = Counter()
    for kind in kinds:
        offered[" ".join(kind.offers) or "nothing"] += kind.agents
    there = ", ".join(
        f"{tags} ({n:,})" if len(offered) > 1 else tags
        for tags, n in offered.most_common(_MOST_SHOWN)
    )
    too_old = any(tag.startswith("protocol") for tag in detail)
    hint = " Checkpoints and output files need agents of this release." if too_old else ""
    together = " together" if len(detail) > 1 else ""
    tags = " ".join(detail)
    agents = sum(offered.values())
    yield Reason(
        "tags",
        f"{_about(facts, campaigns)}: no agent at work offers {tags}{together}; "
        f"{counted(agents, 'agent')} {verb(agents, 'offers', 'offer')} {brief(there)}.{hint}",
        tasks=_tasks(campaigns),
        commands=[
            _start(path, detail),
            *(
                command("campaign", "change", one.path, "--require", "")
                for one in campaigns[:1]
                if len(campaigns) == 1 and not too_old
            ),
        ],
        figures={"missing": list(detail), "agents": agents},
    )


def _refused(
    facts: Facts, detail: tuple[str, ...], campaigns: Sequence[CampaignFacts]
) -> Iterator[Reason]:
    (path,) = detail
    (one,) = (it for it in facts.refusals if it.path == path)
    left_s = max((one.until - facts.upkeep.now).total_seconds(), 0.0)
    yield Reason(
        "refused",
        f"{_about(facts, campaigns)}: {verb(one.agents, 'the only agent', 'all agents')} that "
        f"could claim {them(_tasks(campaigns))} {verb(one.agents, 'skips', 'skip')} the campaign "
        f"for now, since it cannot run on {counted(one.hosts, 'host')} "
        f"({some(one.some_hosts, one.hosts)}): {failure(one.error_class, one.error)}. "
        f"The last one tries again within {duration(left_s)}; pausing and resuming the campaign "
        "makes all try at once.",
        tasks=_tasks(campaigns),
        commands=[
            command("failures", path),
            f"{command('campaign', 'pause', path)}; {command('campaign', 'resume', path)}",
        ],
        figures={"agents": one.agents, "hosts": one.hosts, "until": one.until},
    )


_TEXTS: Final[
    dict[str, Callable[[Facts, tuple[str, ...], Sequence[CampaignFacts]], Iterator[Reason]]]
] = {
    "closed": _closed,
    "no-handler": _no_handler,
    "max-running": _max_running,
    "quota": _quota,
    "no-agents": _no_agents,
    "silent": _silent,
    "leaving": _leaving,
    "tags": _tags,
    "max-running-per-site": _max_running_per_site,
    "refused": _refused,
}
