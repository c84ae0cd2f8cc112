"""Obstacles: for each campaign the first one that prevents claims of its tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
        return Reason(
            code, text, self.tasks, blocks=True, commands=commands, figures=dict(figures or {})
        )

    def _where(self) -> str:
        """Return where the tasks wait; empty if it is the explained campaign."""
        paths = [one.path for one in self.campaigns]
        if paths == [self.facts.status.path]:
            return ""
        if len(paths) == 1:
            return f" in {paths[0]}"
        return f" in {len(paths):,} campaigns ({some(paths)})"


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
    reasons = []
    for (kind, detail), campaigns in blocked.items():
        alike = Blocked(facts, detail, campaigns)
        reasons.append(_REASONS[kind](alike))
        if kind == "no-agents":
            reasons += _tokens(facts, alike.tasks)
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


def _start(path: str, requires: Sequence[str]) -> str:
    """Return the command that starts an agent with the required tags."""
    own = (tag for tag in requires if not tag.startswith("protocol"))
    offers = [word for tag in own for word in ("--offer", tag.replace(">=", "="))]
    return command("agent", "run", "--campaign", path, *offers)


def _closed(blocked: Blocked) -> Reason:
    (path,) = blocked.detail
    one = next(one for one in blocked.facts.closed if one.path == path)
    own = blocked.facts.status.path
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
    figures = {"closed": path, "by": "itself" if one.paused_why else "operator"}
    return blocked.reason(one.status, f"{path}{above} {how}", commands, figures)


def _no_handler(blocked: Blocked) -> Reason:
    it = verb(len(blocked.campaigns), "it has", "they have")
    return blocked.reason(
        "no-handler",
        f"{it} no handler, so no agent can run {them(blocked.tasks)}",
        [f"{command('campaign', 'change', blocked.path)} -- PROGRAM ARGUMENT..."],
    )


def _max_running(blocked: Blocked) -> Reason:
    (one,) = blocked.campaigns
    return blocked.reason(
        "max-running",
        f"{one.working:,} {verb(one.working, 'works', 'work')}, and max_running allows "
        f"{one.max_running:,}",
        [command("campaign", "change", one.path, "--max-running", "none")],
        {"working": one.working, "max_running": one.max_running},
    )


def _max_running_per_site(blocked: Blocked) -> Reason:
    (one,) = blocked.campaigns
    return blocked.reason(
        "max-running-per-site",
        f"max_running_per_site allows {one.max_running_per_site:,}, and each site whose agents "
        "could claim more has reached that "
        f"({some([site or 'without a name' for site in one.full_sites])})",
        [command("campaign", "change", one.path, "--max-running-per-site", "none")],
        {"max_running_per_site": one.max_running_per_site, "sites": len(one.full_sites)},
    )


def _quota(blocked: Blocked) -> Reason:
    (owner,) = (one for one in blocked.facts.owners if one.owner == blocked.detail[0])
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
    change = command("owner", "quota", option, "none", names=[owner.owner])
    commands = [change, command("owner", "list")]
    return blocked.reason(code, why, commands, figures | {"owner": owner.owner})


def _no_agents(blocked: Blocked) -> Reason:
    facts, path = blocked.facts, blocked.path
    text = f"no agent serves {path if len(blocked.campaigns) == 1 else 'them'}"
    elsewhere = facts.upkeep.agents
    if elsewhere:
        at_work = f"{counted(elsewhere, 'agent')} at work {verb(elsewhere, 'serves', 'serve')}"
        text += f"; the {at_work} other campaigns only"
    requires = list(dict.fromkeys(tag for one in blocked.campaigns for tag in one.requires))
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
    figures = {"agents_elsewhere": elsewhere, "agents_left": len(facts.left)}
    return blocked.reason("no-agents", text, commands, figures)


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


def _silent(blocked: Blocked) -> Reason:
    facts, path = blocked.facts, blocked.path
    kinds = [kind for kind in facts.agents if kind.silent]
    agents = sum(kind.agents for kind in kinds)
    last = max(kind.last_until for kind in kinds)
    then = ""
    if facts.brake is None and last > facts.upkeep.now:
        then = f"; an agent that stays silent counts as lost by {instant(last)}"
    return blocked.reason(
        "silent",
        f"{verb(agents, 'the only agent', f'all {agents:,} agents')} that could claim "
        f"{them(blocked.tasks)} {verb(agents, 'is', 'are')} silent{then}",
        [command("agent", "list", path), command("agent", "run", "--campaign", path)],
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
        if at_work and any(kind.serves(one.path) for one in campaigns):
            offered[" ".join(kind.offers) or "nothing"] += kind.agents
    there = ", ".join(
        f"{tags} ({n:,})" if len(offered) > 1 else tags
        for tags, n in offered.most_common(_MOST_SHOWN)
    )
    too_old = any(tag.startswith("protocol") for tag in lacking)
    hint = ". Checkpoints and output files need agents of this release" if too_old else ""
    together = " together" if len(lacking) > 1 else ""
    agents = sum(offered.values())
    commands = [_start(blocked.path, lacking)]
    if len(campaigns) == 1 and not too_old:
        commands.append(command("campaign", "change", blocked.path, "--require", ""))
    return blocked.reason(
        "tags",
        f"no agent at work offers {' '.join(lacking)}{together}; "
        f"{counted(agents, 'agent')} {verb(agents, 'offers', 'offer')} {brief(there)}{hint}",
        commands,
        {"missing": list(lacking), "agents": agents},
    )


def _refused(blocked: Blocked) -> Reason:
    (path,) = blocked.detail
    facts = blocked.facts
    (one,) = (it for it in facts.refusals if it.path == path)
    left_s = max((one.until - facts.upkeep.now).total_seconds(), 0.0)
    pause, resume = command("campaign", "pause", path), command("campaign", "resume", path)
    return blocked.reason(
        "refused",
        f"{verb(one.agents, 'the only agent', 'all agents')} that could claim "
        f"{them(blocked.tasks)} {verb(one.agents, 'skips', 'skip')} the campaign for now, since it "
        f"cannot run on {counted(one.hosts, 'host')} ({some(one.some_hosts, one.hosts)}): "
        f"{failure(one.error_class, one.error)}. The last one tries again within "
        f"{duration(left_s)}; pausing and resuming the campaign makes all try at once",
        [command("failures", path), f"{pause}; {resume}"],
        {"agents": one.agents, "hosts": one.hosts, "until": one.until},
    )


_REASONS: Final[dict[str, Callable[[Blocked], Reason]]] = {
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
