"""`taskq explain` on a host that fails in one campaign and works in others."""

from __future__ import annotations

import pytest

from taskq import Campaign, Client
from taskq.diagnosis.reasons import Reason
from tests.fixtures.queues import Hire
from tests.helpers.postgres import Postgres
from tests.integration.explaining.support import Make, explained

pytestmark = pytest.mark.both_transports(near=["test_view_of_the_campaign_alone_proposes_it_too"])

BAN = "taskq host ban --why 'exit-127: it broke' --until 1d --campaign /x bad"
HOSTS = ("bad", "n1", "n2", "n3")


def farm(make: Make, hire: Hire, *, works: int) -> Campaign:
    """Let one of four hosts fail in /x, and do so many tasks of /y."""
    campaign, other = make("/x", 200), make("/y", 200)
    for name in HOSTS:
        agent = hire("/", host=name)
        agent.campaign = campaign.campaign_id
        for task in agent.claim(20):
            if name == "bad":
                agent.fail(task, "exit-127")
            else:
                agent.done(task)
        agent.campaign = other.campaign_id
        for task in agent.claim(works):
            agent.done(task)
    return campaign


def failing_host(campaign: Campaign) -> Reason:
    """Return the reason that names the host."""
    (reason,) = [it for it in explained(campaign).reasons if it.code == "failing-host"]
    return reason


def test_host_that_fails_in_one_campaign_only_is_to_be_banned_for_that_one(
    make: Make, hire: Hire, queue: Client, postgres: Postgres
) -> None:
    """Such as where one program lacks a library; after the ban it is accused no more."""
    farm(make, hire, works=10)
    reason = failing_host(queue.campaign("/"))
    assert "only /x fails there, other campaigns work" in reason.text
    assert reason.commands[-1] == BAN
    (host,) = [it for it in queue.fleet.hosts() if it.name == "bad"]
    assert host.proposal == BAN
    (verdict,) = queue.fleet.failures()
    assert verdict.proposal == BAN
    postgres.execute("select taskq.ban('host', 'bad', 'old glibc', null, '/x')")
    (host,) = [it for it in queue.fleet.hosts() if it.name == "bad"]
    assert (str(host.ban), host.proposal) == ("bad is banned for /x until it is lifted", None)
    assert queue.fleet.failures()[0].proposal is None
    (reason,) = [it for it in explained(queue.campaign("/")).reasons if "old glibc" in it.text]
    assert reason.code == "banned-host"
    assert reason.commands == ["taskq host unban --campaign /x bad"]


def test_successes_from_before_the_host_broke_do_not_speak_for_it(
    make: Make, hire: Hire, queue: Client
) -> None:
    """What broke then may break the others too: they have not run there since."""
    campaign = make("/x", 200)
    other = make("/y", 200)
    agents = {name: hire("/", host=name) for name in HOSTS}
    for path in (other, campaign):
        for name, agent in agents.items():
            agent.campaign = path.campaign_id
            for task in agent.claim(20):
                if name == "bad" and path is campaign:
                    agent.fail(task, "exit-127")
                else:
                    agent.done(task)
    reason = failing_host(queue.campaign("/"))
    assert "other campaigns work" not in reason.text
    (ban,) = [it for it in reason.commands if " ban " in it]
    assert "--campaign" not in ban
    (verdict,) = queue.fleet.failures()
    assert verdict.proposal == ban


def test_view_of_the_campaign_alone_proposes_it_too(make: Make, hire: Hire) -> None:
    """Its own attempts do not show that others work there."""
    assert failing_host(farm(make, hire, works=10)).commands[-1] == BAN


def test_host_that_hardly_works_in_others_is_to_be_banned_for_all(
    make: Make, hire: Hire, queue: Client
) -> None:
    """A few successes say nothing."""
    farm(make, hire, works=2)
    (command,) = [it for it in failing_host(queue.campaign("/")).commands if " ban " in it]
    assert "--campaign" not in command


def test_hosts_that_are_half_of_all_are_not_proposed_to_be_banned(
    make: Make, hire: Hire, queue: Client
) -> None:
    """In no view: something differs between the halves, and a ban would take half of the farm."""
    campaign = make("/x", 400)
    for n in range(8):
        agent = hire("/", host=f"n{n}")
        agent.campaign = campaign.campaign_id
        for task in agent.claim(20):
            agent.done(task) if n % 2 else agent.fail(task, "exit-4")
    places = queue.fleet.hosts()
    assert sum(place.is_failing for place in places) == 4
    assert [place.proposal for place in places] == [None] * 8
    assert not [it for it in explained(campaign).reasons if " ban " in "".join(it.commands)]


def test_ban_for_a_campaign_is_named_at_the_root_though_nothing_fails_there(
    make: Make, hire: Hire, queue: Client, postgres: Postgres
) -> None:
    """Who has forgotten it sees since when it holds, why, and the command that lifts it."""
    make("/x", 20)
    agent = hire("/", host="n1")
    agent.campaign = make("/y", 20).campaign_id
    agent.done(agent.claim(1)[0])
    postgres.execute("select taskq.ban('host', 'n1', 'moving racks', null, '/x')")
    (reason,) = [it for it in explained(queue.campaign("/")).reasons if "n1" in it.text]
    (ban,) = queue.fleet.bans()
    assert reason.code == "banned-host"
    assert "is banned for /x until it is lifted (moving racks)" in reason.text
    assert "1 agent at work there leaves /x out" in reason.text
    assert (reason.since, reason.lost) == (ban.banned_at, 0)
    assert reason.commands == ["taskq host unban --campaign /x n1"]
    postgres.execute("select taskq.unban('host', 'n1', '/x')")
    assert not [it for it in explained(queue.campaign("/")).reasons if "n1" in it.text]
