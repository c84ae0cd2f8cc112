"""Reasons why hosts and sites do not serve that did, or that should."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final

from taskq.diagnosis.facts import Facts, SiteToken
from taskq.diagnosis.places import LostHost
from taskq.diagnosis.reasons import Reason, brief, some, them, verb
from taskq.diagnosis.tables.agents import WARNINGS, WITH_CAUSE
from taskq.model.words import command, counted, instant

_MOST_REASONS: Final = 8
#: How agents begin to say why they left if somebody has ordered it; see `taskq_agent.core`.
_ORDERED: Final = "it got the order to drain"
_MOST_SITES: Final = 5
_MOST_HOSTS: Final = 4
#: Causes that keep agents out which come.
_AT_THE_DOOR: Final = frozenset({"ban", "unfit", "refused"})
#: Ended sessions without work may be removed after that: an older token may have been used.
_REMEMBERED: Final = timedelta(days=30)


def lost(facts: Facts) -> Iterator[Reason]:
    """Say which hosts served today or were refused, and do not serve now: a reason for each cause.

    Without any agent another reason says who left, and which tokens have ended.
    """
    causes: dict[tuple[str, ...], list[LostHost]] = defaultdict(list)
    for lost_host in facts.lost:
        why = lost_host.why or "" if lost_host.cause in {"unfit", "refused", "left"} else ""
        cause = (lost_host.cause, *lost_host.subject, why)
        causes[cause].append(lost_host)
    if not facts.agents:
        causes = {key: some for key, some in causes.items() if key[0] in _AT_THE_DOOR}
    most = sorted(causes.values(), key=lambda hosts: -sum(host.slots for host in hosts))
    for hosts in most[:_MOST_REASONS]:
        yield _gone(facts, hosts)


def _gone(facts: Facts, hosts: Sequence[LostHost]) -> Reason:
    """Return the reason for hosts that are gone for one cause."""
    first, path, slots = hosts[0], facts.status.path, sum(host.slots for host in hosts)
    what, since = _names(hosts), instant(min(host.at for host in hosts))
    several = len(hosts) > 1
    commands = [
        command("host", "list", path),
        command("agent", "list", path, "--left"),
    ]
    if first.cause == "ban":
        kind, name = first.subject
        text = (
            f"{kind} {name} is banned ({brief(first.why)}), which keeps {what} away since {since}"
        )
        commands = [command(kind, "unban", names=[name])]
    elif first.cause == "token":
        (name,) = first.subject
        text = f"the token {name} {first.why}: agents that present it are refused, at {what} since "
        text += since
        paths = next((it.paths for it in facts.tokens if it.name == name), [path])
        commands = [token_renewal(name, paths[0], revoked=first.why == "was revoked")]
    elif first.cause == "unfit":
        text = f"agents at {what} do not get in since {since}; they say: {brief(first.why)}. Mend "
        text += "that there, and start them again"
        commands = [command("host", "list", path)]
    elif first.cause == "refused":
        text = f"agents at {what} are refused since {since}: {brief(first.why)}"
        commands = [command("token", "list")]
    elif first.cause == "lost":
        text = f"no heartbeat came from {what} since {since}, so {'their' if several else 'its'} "
        text += f"lease{'s were' if several else ' was'} lost: look whether agent, host and "
        text += "network are well there"
    else:
        text = f"the agents of {what} left at {since}: {brief(first.why) or 'without a reason'}"
    ordered = first.cause == "left" and (first.why or "").startswith(_ORDERED)
    if ordered:
        text += ". Somebody has ordered that: start agents there when it has passed"
    if slots:
        of_all = counted(facts.lost[0].all_slots + facts.slots, "slot")
        text = f"{slots:,} of {of_all} of today {verb(slots, 'is', 'are')} gone: {text}"
    return Reason(
        "drained" if ordered else "capacity-lost",
        f"{text[0].upper()}{text[1:]}.",
        lost=0 if ordered else max(slots, 1),
        commands=commands,
        figures={
            "slots": slots,
            "hosts": len(hosts),
            "cause": " ".join([first.cause, *first.subject]),
            # Names tell troubles apart: another site or ten times as many slots make a new one.
            "sites": " ".join(sorted({host.site for host in hosts})[:_MOST_SITES]),
            "size": f"{10 ** (len(str(slots)) - 1)}+",
        },
        since=min(host.at for host in hosts),
        cost=float(slots) or None,
    )


def _names(hosts: Sequence[LostHost]) -> str:
    """Return the hosts, such as `site aare (hosts n1, n2)`, some sites with some hosts each."""
    sites: dict[str, list[str]] = defaultdict(list)
    for host in hosts:
        sites[host.site].append(host.host)
    parts = []
    for site, names in [*sites.items()][:_MOST_SITES]:
        shown = f"{verb(len(names), 'host', 'hosts')} {some(sorted(names), most=_MOST_HOSTS)}"
        parts.append(f"{shown} of site {site}" if site else shown)
    more = sum(len(names) for names in [*sites.values()][_MOST_SITES:])
    return ", ".join(parts) + (f" and {counted(more, 'host')} elsewhere" if more else "")


def token_renewal(name: str, path: str, *, revoked: bool) -> str:
    """Return the line that makes a site's token of the same name; unless revoked, the old ends."""
    words = ("token", "create", name, "--kind", "site", "--campaign", path)
    create = command(*words, "--to", f"{name}.new.token")
    return create if revoked else f"{command('token', 'revoke', name)} && {create}"


def warned(facts: Facts) -> Iterator[Reason]:
    """Say what agents at work warn of, and what to do."""
    for word, (text, remedy) in WARNINGS.items():
        kinds = [kind for kind in facts.agents if word in kind.warnings and not kind.silent]
        number = sum(kind.agents for kind in kinds)
        if not number:
            continue
        hosts = sorted({host for kind in kinds for host in kind.some_hosts})
        more = sum(kind.hosts for kind in kinds) if len(kinds) == 1 else None
        cause = next(filter(None, (kind.cause for kind in kinds)), "")
        said = f" ({brief(cause)})" if cause and word in WITH_CAUSE else ""
        yield Reason(
            f"warning-{word}",
            f"{counted(number, 'agent')} on {verb(len(hosts), 'host', 'hosts')} "
            f"{some(hosts, more, most=_MOST_HOSTS)} {verb(number, 'warns', 'warn')}: {text}{said}. "
            f"To mend it, {remedy}.",
            lost=number,
            commands=[command("host", "show", names=[hosts[0]])] if hosts else [],
            figures={"agents": number},
        )


def ending(facts: Facts) -> Iterator[Reason]:
    """Name the tokens with which agents have come, and which end soon."""
    found = sorted(
        ((token.ends_at, token) for token in facts.tokens if token.ends_at is not None),
        key=lambda it: (it[0], it[1].name),
    )
    if not found:
        return
    number, (ends_at, first) = len(found), found[0]
    names = some([token.name for _, token in found], most=_MOST_SITES)
    yield Reason(
        "token-ends",
        f"{verb(number, 'The token', 'The tokens')} {names} {verb(number, 'ends', 'end')} soon, "
        f"{'the first ' if number > 1 else ''}at {instant(ends_at)}: agents that come with "
        f"{them(number)} after that are refused. Make a successor, and let the sites start their "
        "agents with it.",
        commands=[
            token_renewal(f"{first.name}-next", first.paths[0], revoked=True),
            command("token", "list"),
        ],
        figures={"tokens": number, "first": first.name},
    )


def never_came(facts: Facts) -> Iterator[Reason]:
    """Say with which valid tokens no agent has ever come."""
    refused = {lost_host.subject[0] for lost_host in facts.lost if lost_host.cause == "token"}
    found: list[SiteToken] = [
        token
        for token in facts.tokens
        if token.never
        and token.state == "valid"
        and token.name not in refused
        and token.created_at > facts.upkeep.now - _REMEMBERED
    ]
    if not found:
        return
    names = some([token.name for token in found], most=_MOST_SITES)
    number, since = len(found), instant(min(token.created_at for token in found))
    yield Reason(
        "never-came",
        f"{verb(number, 'The token', 'The tokens')} {names} {verb(number, 'was', 'were')} never "
        f"used since {since}, though tasks wait for slots: "
        f"no agent has come with {them(number)}. Start agents at "
        f"{verb(number, 'its site', 'their sites')}.",
        lost=number,
        commands=[command("token", "list")],
        figures={"tokens": number, "first": found[0].name},
        since=min(token.created_at for token in found),
    )
