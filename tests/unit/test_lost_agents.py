"""Places whose agents are lost again and again: who is named, and who never is."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from taskq.diagnosis.lost_agents import LosingPlace, losing_places
from taskq.diagnosis.sample import AttemptGroup
from tests.helpers.attempt_groups import group

NOON = datetime(2026, 11, 29, 12, tzinfo=timezone.utc)
LEASE_S = 90.0
HOUR_S = 3_600.0

#: Of a host: when, in seconds since noon, its agents are lost.
Losses = Callable[[str], Sequence[float]]


def sessions(
    losses: Losses, *, hosts: int = 8, with_tasks: Sequence[str] = ("/c",), until_s: float = HOUR_S
) -> list[AttemptGroup]:
    """Return an hour of a farm whose sites have two hosts each; lost agents have successors."""
    groups, number = [], 0
    for place in range(hosts):
        host, begun = f"n{place}", 0.0
        for end in [*sorted(losses(host)), until_s]:
            number += 1
            session = replace(
                group(host, attempts=40, site=f"s{place // 2}"),
                session_id=number,
                slots=2,
                lease_s=LEASE_S,
                first_at=NOON + timedelta(seconds=begun),
                last_at=NOON + timedelta(seconds=end - LEASE_S if end < until_s else end),
            )
            for campaign in ("/c", "/d", "/e"):
                groups.append(replace(session, campaign=campaign))
                if end < until_s and campaign in with_tasks:
                    lost_at = NOON + timedelta(seconds=end)
                    groups.append(
                        replace(
                            session,
                            campaign=campaign,
                            outcome="lost",
                            error_class="agent-lost",
                            attempts=1,
                            last_at=lost_at,
                        )
                    )
            begun = end
    return groups


def named(found: Sequence[LosingPlace]) -> list[tuple[str, str]]:
    return [(it.kind, it.name) for it in found]


def every(seconds: float, *hosts: str, shift: float = 0.0) -> Losses:
    """Return losses at the same distance on some hosts."""
    times = [shift + seconds * number for number in range(1, int(HOUR_S / seconds))]
    return lambda host: times if host in hosts else ()


def test_site_that_kills_its_agents_is_named() -> None:
    """With both hosts, and how often that was: agents of both that go at once are one incident."""
    (found,) = losing_places(sessions(every(600, "n2", "n3")))
    assert named([found]) == [("site", "s1")]
    assert found.hosts == ["n2", "n3"]
    assert (found.incidents, found.elsewhere, found.agents, found.attempts) == (5, 0, 10, 10)
    assert found.since == NOON + timedelta(minutes=10)


def test_host_that_kills_its_agents_is_named_without_its_site() -> None:
    """The site's other host loses none."""
    assert named(losing_places(sessions(every(300, "n2")))) == [("host", "n2")]


def test_agents_that_die_with_tasks_of_one_campaign_name_it() -> None:
    """As where one program takes too much memory."""
    (found,) = losing_places(sessions(every(200, "n2", "n3"), with_tasks=["/d"]))
    assert found.only == "/d"
    (found,) = losing_places(sessions(every(200, "n2", "n3"), with_tasks=["/c", "/d"]))
    assert found.only == ""


@pytest.mark.parametrize(
    "losses",
    [
        lambda _: [900.0],  # all at once, as with the network
        lambda host: [600.0, 1_800.0, 2_400.0] if host in {"n2", "n3"} else (),  # too few
        lambda host: every(600, host, shift=37.0 * int(host[1:]))(host),  # the same everywhere
        lambda host: [900.0 + int(host[1:])] if host < "n6" else (),
        lambda _: (),
    ],
)
def test_losses_at_once_or_everywhere_accuse_no_place(losses: Losses) -> None:
    """Whatever the number of agents that are lost with it."""
    assert losing_places(sessions(losses)) == []


def test_chance_hardly_ever_names_a_place() -> None:
    """Of 300 farms whose agents are lost now and then, wherever they are."""
    wrong = 0
    for seed in range(300):
        draw = random.Random(seed)

        def now_and_then(_: str, draw: random.Random = draw) -> list[float]:
            return [200.0 * it + draw.random() * 60 for it in range(1, 17) if draw.random() < 0.1]

        wrong += bool(losing_places(sessions(now_and_then)))
    assert wrong <= 3


def test_host_is_named_next_to_thousands_that_lose_an_agent_each() -> None:
    """The probability of so many is known for any number of incidents."""

    def losses(host: str) -> Sequence[float]:
        return [200.0 * n for n in range(1, 16)] if host == "n7" else [int(host[1:]) % 3_500 + 1.0]

    assert named(losing_places(sessions(losses, hosts=3_000))) == [("host", "n7")]
