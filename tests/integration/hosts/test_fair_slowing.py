"""No host is slowed for what fails everywhere, however unevenly that begins; a bad one still is."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable

import pytest

from taskq import Client
from taskq_agent.campaign_news import CampaignOutcomes
from taskq_agent.throttle import COMPARED_ATTEMPTS
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import servable
from tests.helpers.postgres import Postgres
from tests.helpers.scripted_agent import ScriptedAgent
from tests.helpers.variants import rest_thorough
from tests.integration.hosts.test_bad_hosts import judge, tell

HOSTS = 6
ROUNDS = 12
Fails = Callable[[str], bool]


class Hosts:
    """Hosts at work in a campaign: agents that remember their latest attempts, as real ones do."""

    def __init__(self, queue: Client, hire: Hire, postgres: Postgres, seed: int) -> None:
        self.random = random.Random(seed)
        self.campaign = servable(queue, f"/farm{seed}", tasks=3_000)
        self._postgres = postgres
        names = [*(f"n{number}" for number in range(HOSTS - 1)), "bad"]
        self.agents: dict[str, ScriptedAgent] = {}
        for name in names:
            self.agents[name] = hire("/", host=name, slots=50)
            self.agents[name].campaign = self.campaign.campaign_id
        self._ended = {name: deque[bool](maxlen=COMPARED_ATTEMPTS) for name in names}

    def work(self, name: str, attempts: int, fails: Fails, error_class: str = "exit-1") -> None:
        """Let a host make attempts."""
        for task in self.agents[name].claim(attempts):
            failed = fails(name)
            self._ended[name].append(failed)
            if failed:
                self.agents[name].fail(task, error_class, retry=False)
            else:
                self.agents[name].done(task)

    def beat(self, name: str) -> list[str]:
        """Let a host say how its attempts ended; return who is suspicious then."""
        failed = sum(self._ended[name])
        agent = self.agents[name]
        done = len(self._ended[name]) - failed
        tell(self._postgres, agent, CampaignOutcomes(agent.campaign, done, failed))
        return judge(self._postgres)

    def shuffled(self) -> list[str]:
        """Return the hosts in an order by chance."""
        return self.random.sample([*self.agents], len(self.agents))

    def warm(self) -> None:
        """Let all hosts work well for a while, and say so."""
        for name in self.agents:
            self.work(name, COMPARED_ATTEMPTS, lambda _: False)
            assert self.beat(name) == []


@pytest.fixture(params=rest_thorough(range(4)))
def hosts(request: pytest.FixtureRequest, queue: Client, hire: Hire, postgres: Postgres) -> Hosts:
    """Give hosts that have done well."""
    found = Hosts(queue, hire, postgres, request.param)
    found.warm()
    return found


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_program_that_breaks_everywhere_makes_no_host_suspicious(
    hosts: Hosts, share: float
) -> None:
    """Heartbeats come one by one: the first that says so stands against what was well before."""
    suspicious = []
    for _ in range(ROUNDS):
        for name in hosts.shuffled():
            hosts.work(name, hosts.random.randint(0, 8), lambda _: hosts.random.random() < share)
        for name in hosts.shuffled()[:2]:
            suspicious += hosts.beat(name)
    assert suspicious == []


@pytest.mark.thorough
@pytest.mark.parametrize("error_class", ["exit-1", "exit-127"])
def test_bad_host_is_found_though_a_program_fails_everywhere(
    hosts: Hosts, error_class: str
) -> None:
    """All attempts fail there, of three elsewhere one; no other host is suspicious."""
    suspicious = []
    for _ in range(ROUNDS):
        for name in hosts.shuffled():
            worse = name == "bad"
            fails = hosts.random.randint(0, 8)
            hosts.work(
                name,
                fails,
                lambda _: worse or hosts.random.random() < 1 / 3,  # noqa: B023
                error_class if worse else "exit-1",
            )
            suspicious += hosts.beat(name)
    assert suspicious == ["bad"]


def test_host_is_not_compared_with_what_others_did_long_ago(hosts: Hosts) -> None:
    """Where nobody else has tried since it broke, nothing is known; one attempt elsewhere tells."""
    hosts.work("n0", 20, lambda _: True)
    assert hosts.beat("n0") == []
    hosts.work("n1", 20, lambda _: True)
    assert hosts.beat("n0") == []
    assert hosts.beat("n1") == []


def test_attempts_that_outlast_the_failures_of_a_host_speak_against_it(hosts: Hosts) -> None:
    """Where tasks take minutes, no other has ended when a bad host has failed at twenty."""
    for name in [*hosts.agents][:-1]:
        assert len(hosts.agents[name].claim(3)) == 3
    hosts.work("bad", 20, lambda _: True)
    assert hosts.beat("bad") == ["bad"]


def test_suspicion_ends_once_others_fail_alike(hosts: Hosts) -> None:
    """Though nothing becomes better there: a program broke, which came to it first."""
    hosts.work("bad", 20, lambda _: True)
    for name in [*hosts.agents][:-1]:
        hosts.work(name, 4, lambda _: False)
    assert hosts.beat("bad") == ["bad"]
    for name in [*hosts.agents][:-1]:
        hosts.work(name, 30, lambda _: True)
        hosts.beat(name)
    agent = hosts.agents["bad"]
    assert tell(hosts._postgres, agent) is None  # noqa: SLF001
