"""Agents that shall leave: chosen by site, name and host, and who is there if none matches."""

from __future__ import annotations

import uuid

from taskq import Campaign, Client
from taskq.db.tokens import hashed, session_token
from tests.fixtures.queues import Hire
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres


def enrolled(taskq: CommandLine, postgres: Postgres, token: str, site: str = "") -> None:
    """Let an agent come by a gateway, with the token of a site."""
    secret = taskq.out("token", "create", token, "--kind", "site", "--campaign", "/c").strip()
    key = str(uuid.uuid4())
    postgres.execute(
        "select taskq.enrol(%s, %s, null, '/c', %s, p_site => %s, p_host => 'n1')",
        [hashed(secret), hashed(session_token(secret, key)), key, site],
    )


def test_site_of_an_agent_that_names_none_is_its_token(
    taskq: CommandLine, campaign: Campaign, postgres: Postgres
) -> None:
    """Who gave a token to Cracow finds its agents there; one that says where it is, is there."""
    enrolled(taskq, postgres, "cracow")
    enrolled(taskq, postgres, "poland", "warsaw")
    assert sorted(agent["site"] for agent in taskq.json("agents")) == ["cracow", "warsaw"]
    assert taskq.json("agents", "drain", "--site", "cracow") == {"agents": 1, "dry_run": False}
    assert taskq.json("agents", "drain", "--site", "poland") == {"agents": 0, "dry_run": False}
    assert campaign.path


def test_drain_takes_several_names_and_hosts(
    taskq: CommandLine, campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """Each option may be repeated; an agent must match all kinds of option that are given."""
    for n in range(4):
        agent = hire("/c", host=f"node{n}")
        postgres.execute(
            "update taskq.session set agent = %s where session_id = %s",
            [f"a{n}", agent.session],
        )
    assert campaign.path
    names = ["--name", "a0", "--name", "a1", "--name", "a2"]
    hosts = ["--host", "node1", "--host", "node2", "--host", "node3"]
    assert taskq.json("agents", "drain", *names, *hosts) == {"agents": 2, "dry_run": False}
    assert {record["agent"] for record in taskq.json("agents") if record["draining"]} == {
        "a1",
        "a2",
    }
    assert taskq.json("agents", "drain", *names) == {"agents": 1, "dry_run": False}
    assert taskq.json("agents", "drain", *hosts) == {"agents": 1, "dry_run": False}


def test_library_takes_one_name_or_several(queue: Client, hire: Hire) -> None:
    """As the command does; without a name all are meant."""
    queue.create_campaign("/c")
    agents = [hire("/c", host=f"n{n}") for n in range(4)]
    assert queue.drain_agents(host="n0") == 1
    assert queue.drain_agents("/c", host=["n0", "n1", "n2"], name="double") == 2
    assert queue.drain_agents(site=[]) == 0
    assert queue.drain_agents() == 1
    assert len(agents) == 4


def test_order_that_reaches_nobody_says_who_is_there(
    taskq: CommandLine, queue: Client, hire: Hire
) -> None:
    """It is no error, but most likely not what was meant."""
    queue.create_campaign("/c/below")
    queue.create_campaign("/d")

    def said(*words: str) -> str:
        result = taskq("agents", "drain", *words)
        assert (result.exit_code, result.stdout) == (0, "0 agents ordered to leave.\n")
        return result.stderr

    assert said("--campaign", "/c") == (
        "No agent that serves /c is at work; see `taskq agent list`.\n"
    )
    hire("/c", host="node7")
    assert said("--campaign", "/c/below") == (
        "No agent serves only /c/below or campaigns below it; 1 agent of campaigns above may.\n"
    )
    assert said("--site", "cracow") == ("No agent of / has this site; its agents have: here (1).\n")
    assert said("--host", "node8") == ("No agent of / has this host; its agents have: node7 (1).\n")
    hire("/d", host="node9")
    assert said("--host", "node9", "--campaign", "/c").startswith("No agent of /c has this host")
    taskq.out("agents", "drain", "--site", "here")
    assert said("--site", "here") == "2 agents already have the order.\n"
