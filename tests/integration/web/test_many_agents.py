"""Thousands of agents: every view says the same number, and long pages come in parts."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable

import pytest

from taskq import Client
from taskq.diagnosis.campaign_tree import Tree
from taskq.diagnosis.shared_readings import Readings
from taskq.diagnosis.ticker import Ticker
from taskq.gateway.web.access import EVERYTHING
from taskq.gateway.web.asked import PAGE_ROWS, Asked
from taskq.gateway.web.pages import Pages
from taskq_cli.display.render import as_text
from taskq_cli.top.panel import Subject
from taskq_cli.top.panels import Panels
from tests.helpers.campaigns import servable
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres
from tests.integration.web.conftest import Page

HOSTS = 2_500

_AGENTS = """
    insert into taskq.session (
           key, campaign_id, opened_at, heartbeat_at, lease_s, slots, pid, agent, host, site,
           release, said)
    select gen_random_uuid(), c.campaign_id, now(), now(), 3600, 2, 1, 'a' || n, format('n%%s', n),
           'aare', '',
           case when n = %(bad)s
                then '{"trouble": {"failures": 9, "error_class": "Boom", "try_in_s": 0}}'::jsonb end
      from taskq.campaign c, generate_series(1, %(hosts)s) n
     where c.path = '/c'
"""


@pytest.fixture
def farm(queue: Client, postgres: Postgres) -> Client:
    """Give a queue with 2,500 agents of two slots each on as many hosts, one of which is slowed."""
    servable(queue, "/c", 40)
    postgres.execute(_AGENTS, {"hosts": HOSTS, "bad": 1_777})
    return queue


def read(
    queue: Client, page: Callable[[Pages], Callable[[Asked], Awaitable[str]]], number: int
) -> Page:
    """Return a part of a page about the campaign."""

    async def read() -> str:
        pages = Pages(queue, Ticker(queue.queries), Readings())
        query = {"path": "/c", "part": f"{number}"}
        return await page(pages)(Asked(EVERYTHING, query, signed_in=False))

    return Page(asyncio.run(read()))


def test_every_view_counts_all_agents(farm: Client, dsn: str) -> None:
    """Far more than any of them lists."""
    taskq = CommandLine(dsn)
    assert taskq.json("status", "/c")["agents"] == HOSTS
    text = taskq.out("status", "/c")
    assert re.search(r"agents +2,500 on 2,500 hosts, 5,000 slots; silent .*, as usual", text)
    watched = taskq("watch", "/c", "--timeout", 0, "--output", "jsonl").stdout
    assert json.loads(watched.splitlines()[0])["agents"] == HOSTS
    panel = Panels(farm, Tree).about("agents", Subject("/c")).read()
    assert "2,500 agents at work" in " ".join(map(as_text, panel.pictures))
    shown = read(farm, lambda pages: pages.agents, 1).text
    assert "2,500 agents on 2,500 hosts with 5,000 slots" in shown
    counts = farm.agent_counts("/c")
    assert (counts.agents, counts.hosts, counts.slots, counts.late) == (HOSTS, HOSTS, 5_000, 0)


@pytest.mark.thorough
def test_long_pages_come_in_parts(farm: Client) -> None:
    """A hundred rows each, each host once, the troubled one first; what is beyond is the last."""
    first = read(farm, lambda pages: pages.hosts, 1)
    assert first.text.index("n1777") < first.text.index("n1 ")
    assert "2,500 hosts, those first at which most is wrong" in first.text
    assert "Page 1 of 25" in first.text
    found = [
        name
        for number in range(1, 26)
        for name in re.findall(r"<th scope=\"row\">(n\d+)", read_hosts(farm, number))
    ]
    assert len(found) == len(set(found)) == HOSTS
    assert len(re.findall(r"<th scope=\"row\">", first.source)) == PAGE_ROWS
    assert "Page 25 of 25" in read(farm, lambda pages: pages.agents, 999).text


def read_hosts(queue: Client, number: int) -> str:
    return read(queue, lambda pages: pages.hosts, number).source
