"""Campaigns with tasks at which the server fails: agents go on with the others."""

from __future__ import annotations

import asyncio
import random
import time

import pytest
from psycopg import sql

from taskq import Client, Seed
from taskq.db.connections import Database
from taskq.dispatch.batching import Batcher
from tests.helpers.batched_agents import SERVING, BatchedAgents, play
from tests.helpers.campaigns import servable
from tests.helpers.postgres import Postgres, value


def lose(postgres: Postgres, toast: str) -> None:
    """Lose what a table keeps apart, as a disk may."""
    postgres.execute("set allow_system_table_mods = on")
    kind = "update pg_class set relkind = %s where oid = %s::regclass"
    postgres.execute(kind, ["r", toast])
    postgres.execute(sql.SQL("delete from {}").format(sql.Identifier(*toast.split("."))))
    postgres.execute(kind, ["t", toast])


def test_campaign_whose_tasks_make_the_server_fail_keeps_no_other_waiting(
    queue: Client, database: Database, postgres: Postgres, caplog: pytest.LogCaptureFixture
) -> None:
    """As one with a damaged payload: it is left out for a while, and one line says so."""
    campaign = servable(queue)
    campaign.seed([Seed({"n": n}, priority=1) for n in range(2)])
    damaged = servable(queue, "/c/damaged")
    noise = "".join(random.Random(n).choice("abcdefghij") for n in range(30_000))
    damaged.seed([Seed({"n": 7, "text": noise}, priority=9)])
    found = "select reltoastrelid::regclass from pg_class where oid = 'taskq.spec'::regclass"
    toast = value(postgres, found)
    lose(postgres, toast)
    members = BatchedAgents(database, 3)

    async def scene(batcher: Batcher) -> None:
        got: list[int] = []
        until = time.monotonic() + 60.0
        # Who finds a span locked takes the campaign for empty, for a second.
        while (len(got) < 2 or not caplog.records) and time.monotonic() < until:
            claims = (batcher.exchange(members.claim(number), SERVING) for number in range(3))
            answers = await asyncio.gather(*claims)
            got += [task.payload["n"] for one in answers for task in one.tasks]
        assert sorted(got) == [0, 1]

    play(database, scene)
    assert damaged.status().waiting == 1
    lines = [one.getMessage() for one in caplog.records if "is left out" in one.getMessage()]
    assert len(lines) == 1
    assert "for toast value" in lines[0]
