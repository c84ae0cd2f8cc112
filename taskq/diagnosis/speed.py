"""Reasons why tasks that can be claimed are not done faster: slots, shares, lacking agents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from taskq.diagnosis import costs
from taskq.diagnosis.facts import (
    MAX_CAMPAIGNS,
    AgentKind,
    CampaignFacts,
    Facts,
    Refusing,
)
from taskq.diagnosis.faults import failing_places
from taskq.diagnosis.idle import by_site
from taskq.diagnosis.lost import never_came
from taskq.diagnosis.obstacles import suiting
from taskq.diagnosis.reasons import Reason, brief, failure, some, them, verb, waits
from taskq.model.requirements import missing
from taskq.model.words import command, counted, duration, percent

#: A campaign with a smaller part of the largest weight may starve.
_SMALL_SHARE: Final = 0.1
_MOST_STARVED: Final = 3
_MOST_CAUSES: Final = 3


def speed(facts: Facts, served: Sequence[CampaignFacts]) -> Iterator[Reason]:
    """Yield why not all tasks run in campaigns where agents can claim."""
    if not served:
        return
    able = [
        kind
        for kind in facts.agents
        if any(kind in suiting(facts, campaign) for campaign in served)
    ]
    first = _slots(facts, served, able)
    yield first
    if first.code != "free-slots":
        yield from never_came(facts)
        yield from _starved(served)
    yield from _not_able(facts, served, able)
    yield from _idle(facts, served)
    yield from _refusing(facts, served)
    yield from _slowed(facts, able)


def _slots(facts: Facts, served: Sequence[CampaignFacts], able: Sequence[AgentKind]) -> Reason:
    """Say which tasks hold the slots of the agents that could claim."""
    path = facts.status.path
    waiting = sum(campaign.waiting for campaign in served)
    # Most slots of slowed agents stay free, as another reason says.
    able = [kind for kind in able if not kind.slowed] or able
    agents, slots = sum(kind.agents for kind in able), sum(kind.slots for kind in able)
    if len(served) == 1:  # those that refuse one of several may claim in the others
        refusing = [refusal for refusal in facts.refusals if refusal.path == served[0].path]
        agents -= sum(refusal.agents for refusal in refusing)
        slots -= sum(refusal.slots for refusal in refusing)
    running = sum(campaign.working - campaign.ahead for campaign in facts.campaigns)
    # Each row has the sums of its scope.
    scopes = {(other.campaigns, other.all_working, other.all_weights) for other in facts.others}
    elsewhere = sum(working for _, working, _ in scopes)
    figures = {"agents": agents, "slots": slots, "running": running, "elsewhere": elsewhere}
    more = command("agent", "run", "--campaign", path)
    of_all = f"the {counted(slots, 'slot')} of {counted(agents, 'agent')} that can claim "
    of_all += them(waiting)
    if slots > running + elsewhere:
        return _free_slots(facts, served, waiting, figures)
    if not elsewhere:
        busy = f"{running:,} with {path}"
        if running > slots:
            busy = f"and {counted(running, 'task')} of {path} are held: agents fetch some ahead"
        return Reason(
            "busy",
            f"{waits(waiting)} for a slot: {of_all} {verb(slots, 'is', 'are all')} busy, "
            f"{busy}. {_faster(facts)}",
            tasks=waiting,
            commands=[more],
            figures=figures,
        )
    weight = sum(campaign.weight for campaign in served)
    share = weight / (weight + sum(weights for _, _, weights in scopes))
    most = max(facts.others, key=lambda other: other.working)
    number = sum(campaigns for campaigns, _, _ in scopes)
    by_weight = f"by weight {share:.0%} are for {path} (weight {weight:g})"
    if facts.upkeep.by_owner:
        by_weight = "owners share first, by their weights (`taskq owner`), then their campaigns"
    run = "run" if running + elsewhere <= slots else "are held, as agents fetch some ahead,"
    return Reason(
        "share",
        f"{waits(waiting)} for a slot: {of_all} are shared with {counted(number, 'campaign')} "
        f"elsewhere. {running:,} {run} here and {elsewhere:,} there, most in {most.path} "
        f"({most.working:,}, weight {most.weight:g}); {by_weight}.",
        tasks=waiting,
        blocks=not running,
        commands=[
            command("campaign", "change", served[0].path, "--weight", f"{served[0].weight * 2:g}"),
            more,
        ],
        figures=figures | {"share": share, "weight": weight},
    )


def _starved(served: Sequence[CampaignFacts]) -> Iterator[Reason]:
    """Say which campaigns get next to nothing, since others have a much larger weight."""
    weights = [campaign.weight for campaign in served]
    whole, most = sum(weights), max(weights)
    running = sum(campaign.working for campaign in served)
    starved = [
        campaign
        for campaign in served
        if campaign.weight < _SMALL_SHARE * most and campaign.working <= _SMALL_SHARE * running
    ]
    for campaign in sorted(starved, key=lambda it: it.weight)[:_MOST_STARVED]:
        yield Reason(
            "little-weight",
            f"{waits(campaign.waiting)} in {campaign.path}, of which "
            f"{campaign.working or 'nothing'} {verb(campaign.working or 1, 'runs', 'run')}: by "
            f"its weight, {campaign.weight:g}, {percent(campaign.weight / whole)} of the "
            f"slots are for it. Others weigh up to {most:g}.",
            tasks=campaign.waiting,
            commands=[command("campaign", "change", campaign.path, "--weight", f"{most:g}")],
            figures={"weight": campaign.weight, "most": most, "campaign": campaign.path},
        )


def _faster(facts: Facts) -> str:
    """Return what makes it faster: the slots that are gone, or more slots."""
    gone = facts.lost[0].all_slots if facts.lost else 0
    if not gone:
        return "More agents or slots make it faster."
    return f"{counted(gone, 'slot')} of today {verb(gone, 'is', 'are')} gone, as other reasons say."


def _free_slots(
    facts: Facts, served: Sequence[CampaignFacts], waiting: int, figures: dict[str, int]
) -> Reason:
    """Say why slots may be free while tasks wait."""
    free = figures["slots"] - figures["running"] - figures["elsewhere"]
    path = facts.status.path
    why = []
    limits = [campaign.time_limit_s for campaign in served if campaign.time_limit_s is not None]
    if limits:
        why.append(
            f"agents whose batch job ends within the time limit ({duration(min(limits))})"
            " claim none"
        )
    if facts.status.failures:
        why.append(
            "a task that has failed on a host waits for another host, up to 2 minutes, or up to a "
            "day if only one attempt is left"
        )
    why += [
        f"the quota of {owner.owner} allows {owner.max_running:,} running tasks, and "
        f"{owner.working:,} {verb(owner.working, 'runs', 'run')}"
        for owner in facts.owners
        if owner.max_running is not None
    ][:1]
    if not why:
        why.append("their agents may be starting, or may be leaving")
    return Reason(
        "free-slots",
        f"{waits(waiting)}, though {counted(free, 'slot')} of "
        f"{counted(figures['agents'], 'agent')} {verb(free, 'seems', 'seem')} free: "
        f"agents ask within seconds. If this lasts: {'; '.join(why)}.",
        tasks=waiting,
        commands=[command("agent", "list", path), command("failures", path)],
        figures=figures | {"free": free},
    )


def _not_able(
    facts: Facts, served: Sequence[CampaignFacts], able: Sequence[AgentKind]
) -> Iterator[Reason]:
    """Say which agents that serve these campaigns cannot claim, though others can."""
    path = facts.status.path
    serving = [
        kind for kind in facts.agents if any(kind.serves(campaign.path) for campaign in served)
    ]
    all_agents = sum(kind.agents for kind in serving)
    rest = [kind for kind in serving if kind not in able]
    leaving = [kind for kind in rest if kind.draining]
    silent = [kind for kind in rest if kind.silent and not kind.draining]
    others = [kind for kind in rest if not (kind.draining or kind.silent)]
    bans = dict.fromkeys(tuple(kind.banned) for kind in leaving if kind.banned)
    groups = [("banned", [kind for kind in leaving if kind.banned == [*ban]], ban) for ban in bans]
    groups.append(("draining", [kind for kind in leaving if not kind.banned], ()))
    groups.append(("silent", silent, ()))
    for code, kinds, ban in groups:
        if kinds:
            number = sum(kind.agents for kind in kinds)
            hosts = some(dict.fromkeys(host for kind in kinds for host in kind.some_hosts))
            text = "silent, and may be lost" if code == "silent" else "ordered to leave"
            hint = f": the {ban[0]} {ban[1]} is banned: {brief(ban[2])}" if ban else ""
            yield Reason(
                code,
                f"{number:,} of {counted(all_agents, 'agent')} ({hosts}) "
                f"{verb(number, 'is', 'are')} {text}{hint}.",
                commands=[
                    *([command(ban[0], "unban", names=[ban[1]])] if ban else []),
                    command("agent", "list", path),
                ],
                figures={"agents": number, "of": all_agents},
            )
    if others:
        number = sum(kind.agents for kind in others)
        lacking = dict.fromkeys(
            tag
            for kind in others
            for campaign in served
            for tag in missing(campaign.requires, kind.offers)
        )
        yield Reason(
            "tags",
            f"{number:,} of {counted(all_agents, 'agent')} {verb(number, 'lacks', 'lack')} a tag "
            f"that is required: {some(lacking)}.",
            commands=[command("agent", "list", path)],
            figures={"agents": number, "of": all_agents, "missing": list(lacking)},
        )


def _idle(facts: Facts, served: Sequence[CampaignFacts]) -> Iterator[Reason]:
    """Name agents that serve only campaigns in which all has ended, while tasks wait elsewhere."""
    if len(facts.campaigns) == MAX_CAMPAIGNS:  # there may be more that they serve
        return
    kinds = [
        kind
        for kind in facts.agents
        if not (kind.draining or kind.silent)
        and not any(kind.serves(campaign.path) for campaign in facts.campaigns)
    ]
    number, slots = sum(kind.agents for kind in kinds), sum(kind.slots for kind in kinds)
    if not number:
        return
    hosts = some(dict.fromkeys(host for kind in kinds for host in kind.some_hosts))
    scopes = some(dict.fromkeys(kind.scope for kind in kinds))
    yield Reason(
        "idle-agents",
        f"{counted(number, 'agent')} with {counted(slots, 'slot')} ({hosts}) "
        f"{verb(number, 'serves', 'serve')} only {scopes}, where all tasks have ended. Start "
        f"{verb(number, 'it', 'them')} for a campaign that has tasks.",
        lost=slots,
        commands=[
            command("agent", "list", facts.status.path),
            command("agent", "run", "--campaign", served[0].path),
        ],
        figures={"agents": number, "slots": slots},
        cost=costs.of_agents(kinds),
    )


def idle_slots(facts: Facts, served: Sequence[CampaignFacts]) -> Iterator[Reason]:
    """Name the hosts whose slots are idle between tasks, though each of their agents could claim.

    A limit of running tasks, or time that a batch job lacks, may leave slots idle too.
    """
    free = [
        it
        for it in served
        if (it.max_running, it.max_running_per_site, it.running_quota, it.time_limit_s)
        == (None, None, None, None)
        and not it.named_limits
    ]
    if facts.findings is None or not free:
        return
    able = {id(kind) for campaign in free for kind in suiting(facts, campaign)}
    others = [it for it in facts.agents if id(it) not in able or it.slowed or it.warnings]
    elsewhere = {site for kind in others for site in kind.sites}
    named = failing_places(facts).union(*(it.some_hosts for it in facts.refusals))
    named |= {it.name for it in facts.findings.hosts if not it.agents}
    hosts = [
        it
        for it in facts.findings.idle
        if it.site not in elsewhere and not named & {it.host, it.site}
    ]
    for its in [*by_site(hosts)][:_MOST_CAUSES]:
        site, slots = its[0].site, sum(it.slots for it in its)
        use = sum(it.use * it.slots for it in its) / slots
        usual = sum(it.usual * it.slots for it in its) / slots
        lost = sum(it.lost_slots for it in its)
        names = some([it.host for it in its])
        where = f"{verb(len(its), 'host', 'hosts')} {names}{f' of site {site}' if site else ''}"
        yield Reason(
            "idle-slots",
            f"{counted(slots, 'slot')} on {where} {verb(slots, 'runs', 'run')} tasks in "
            f"{percent(use)} of the time, elsewhere slots do in {percent(usual)}: the rest is "
            "idle, though tasks wait. What lies between two tasks takes long there. Look at the "
            "network to the gateway, at what the agents fetch, and at the disk from which programs "
            "start.",
            lost=max(round(lost), 1),
            commands=[command("host", "list", facts.status.path)],
            figures={"site": site, "hosts": len(its), "use": use, "usual": usual},
            cost=lost,
        )


def _refusing(facts: Facts, served: Sequence[CampaignFacts]) -> Iterator[Reason]:
    """Say which agents leave out campaigns that others can run: a reason for each cause."""
    paths = {campaign.path for campaign in served}
    causes: dict[tuple[object, ...], list[Refusing]] = {}
    for refusal in facts.refusals:
        if refusal.path in paths:
            cause = (*refusal.some_hosts, refusal.hosts, refusal.error_class, refusal.error)
            causes.setdefault(cause, []).append(refusal)
    for alike in [*causes.values()][:_MOST_CAUSES]:
        refusal = max(alike, key=lambda it: it.agents)
        hosts = some(refusal.some_hosts, refusal.hosts)
        where, they = some([it.path for it in alike]), verb(len(alike), "it", "they")
        yield Reason(
            "refused",
            f"{counted(refusal.agents, 'agent')} on {counted(refusal.hosts, 'host')} ({hosts}) "
            f"{verb(refusal.agents, 'skips', 'skip')} {where} for now, since {they} "
            f"cannot run there: {failure(refusal.error_class, refusal.error)}.",
            commands=[
                command("failures", refusal.path if len(alike) == 1 else facts.status.path),
                *(command("host", "show", names=[host]) for host in refusal.some_hosts[:1]),
            ],
            figures={"agents": refusal.agents, "hosts": refusal.hosts, "until": refusal.until},
        )


def _slowed(facts: Facts, able: Sequence[AgentKind]) -> Iterator[Reason]:
    """Say how many agents make one attempt at a time, and name the hosts if these are to blame."""
    named = failing_places(facts)
    path = facts.status.path
    for suspected in (True, False):
        kinds = [
            it
            for it in able
            if it.slowed and it.suspected is suspected and not named.issuperset(it.some_hosts)
        ]
        if not kinds:
            continue
        number, slots = sum(kind.agents for kind in kinds), sum(kind.slots for kind in kinds)
        text = f"{counted(number, 'agent')} with {counted(slots, 'slot')}"
        text += f"{{}} {verb(number, 'makes', 'make')} one attempt at a time"
        if suspected:
            names = some(dict.fromkeys(host for kind in kinds for host in kind.some_hosts))
            text = text.format(f" ({names})") + " of what fails there more than elsewhere."
        else:
            text = text.format("") + ", as their last attempts failed in a row. This accuses no "
            text += "host: unless more fails there than elsewhere, they go on within a minute."
        yield Reason(
            "slowed" if suspected else "held-back",
            text,
            commands=[command("host", "list", path), command("failures", path)],
            figures={"agents": number, "slots": slots},
        )


def smaller_batches(facts: Facts) -> Iterator[Reason]:
    """Say which agents give fewer tasks to a start than the handler allows, and why."""
    for few in facts.smaller_batches[:_MOST_CAUSES]:
        number = few.agents
        yield Reason(
            "smaller-batches",
            f"{counted(number, 'agent')} ({some(few.some_hosts, few.hosts)}) "
            f"{verb(number, 'gives', 'give')} {'' if number == 1 else 'as few as '}"
            f"{counted(few.least, 'task')} of {few.path} to one start, where the handler allows "
            f"{few.batch:,}: larger starts failed ({brief(few.error_class) or 'no class'}), "
            "though no task failed alone. Often memory does not suffice for many. After ten good "
            "starts an agent gives twice as many.",
            commands=[command("failures", few.path), command("campaign", "show", few.path)],
            figures={
                "campaign": few.path,
                "agents": number,
                "least": few.least,
                "batch": few.batch,
                "error_class": few.error_class,
            },
        )


def held_elsewhere(facts: Facts) -> Iterator[Reason]:
    """Say where a node's devices or named resources do not suffice for one more start, and why."""
    for short in facts.held[:_MOST_CAUSES]:
        number, what = short.agents, "devices" if short.resource == "gpus" else short.resource
        most = sorted(short.holders.items(), key=lambda item: (-item[1], item[0]))
        holders = [
            f"{path or 'campaigns that you may not see'} ({counted(slots, 'slot')})"
            for path, slots in most
        ]
        yield Reason(
            "resource-held",
            f"{counted(number, 'agent')} ({some(short.some_hosts, short.hosts)}) "
            f"{verb(number, 'has', 'have')} too little of {what} free for one more start of "
            f"{short.path}: {some(holders)} {verb(len(holders), 'holds', 'hold')} it there.",
            commands=[command("agent", "list", facts.status.path)],
            figures={
                "campaign": short.path,
                "resource": short.resource,
                "agents": number,
                "holders": dict(most),
            },
        )
