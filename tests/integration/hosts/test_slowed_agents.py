"""A node where everything fails next to a good one: it takes little, is shown, and comes back."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest

from taskq import Campaign, CampaignSpec, Client, Handler, RetryPolicy
from taskq.diagnosis.reasons import Reason
from taskq.dispatch.heartbeats import encoded
from taskq.upkeep.keeper import Keeper
from taskq_agent.protocol import Heartbeat, Trouble
from taskq_agent.throttle import FAILURES
from taskq_agent.wire import check, fitted
from tests.fixtures.queues import Hire
from tests.helpers.agent_processes import agent_process
from tests.helpers.command_line import CommandLine
from tests.helpers.meanwhile import meanwhile
from tests.helpers.postgres import Postgres, value
from tests.helpers.waiting import wait_until

pytestmark = pytest.mark.thorough

TASKS = 150
LEASE_S = 4
SHORTEST_PAUSE_S = 3.75


def node(name: str, dsn: str, folder: Path) -> AbstractContextManager[object]:
    """Start an agent that finds its handler's program in a folder of its own."""
    path = f"{folder}:{os.environ['PATH']}"
    words = ("--lease", LEASE_S, "--host", name, "--quiet")
    return agent_process(dsn, name, folder / "log", *words, PATH=path)


def install(folder: Path, program: str) -> None:
    """Put a node's program in its place, at once as a whole."""
    folder.mkdir(exist_ok=True)
    new = folder / "new"
    new.write_text(f"#!/bin/sh\n{program}\n")
    new.chmod(0o755)
    new.rename(folder / "calculate")


def attempts(postgres: Postgres) -> Counter[tuple[str, str]]:
    """Return how many attempts of which agent ended how."""
    rows = postgres.execute(
        "select s.agent, a.outcome::text, count(*) as n from taskq.attempt a"
        " join taskq.session s using (session_id) group by 1, 2"
    )
    return Counter({(row["agent"], row["outcome"]): row["n"] for row in rows})


def trouble(queue: Client, name: str) -> dict[str, Any] | None:
    """Return what is shown of an agent."""
    (found,) = (agent.trouble for agent in queue.agents() if agent.agent == name)
    return found


def test_broken_node_takes_little_is_shown_and_comes_back(
    queue: Client, dsn: str, postgres: Postgres, tmp_path: Path
) -> None:
    """Of many tasks it spoils few attempts; when its program is mended, it works like any other."""
    retry = RetryPolicy(max_attempts=100, max_losses=5, backoff_s=0, backoff_max_s=0)
    handler = Handler("command", argv=("calculate",))
    campaign = queue.create_campaign(CampaignSpec("/c", handler=handler, retry=retry))
    campaign.seed({"n": n} for n in range(TASKS))
    good, bad = tmp_path / "good", tmp_path / "bad"
    install(good, "sleep 0.1")
    install(bad, "exit 3")
    begun = time.monotonic()
    with ExitStack() as stack:
        stack.enter_context(meanwhile(Keeper(queue.database).run))
        stack.enter_context(node("good", dsn, good))
        wait_until(lambda: attempts(postgres)["good", "done"] >= 8, timeout_s=60)
        stack.enter_context(node("bad", dsn, bad))
        wait_until(
            lambda: (
                attempts(postgres)["bad", "failed"] >= FAILURES
                and trouble(queue, "bad") is not None
            ),
            timeout_s=60,
        )
        shown = trouble(queue, "bad")
        assert shown is not None
        assert shown["error_class"] == "exit-3"
        assert "slowed: " in CommandLine(dsn).out("agents", "list")
        wait_until(lambda: campaign.status().done == TASKS, timeout_s=90)
        # One more after each pause, which is not longer for tasks that have failed before.
        most = FAILURES + 2 + (time.monotonic() - begun) / SHORTEST_PAUSE_S
        assert FAILURES <= attempts(postgres)["bad", "failed"] <= most
        assert attempts(postgres)["bad", "done"] == 0

        install(bad, "sleep 0.1")
        campaign.seed({"later": n} for n in range(2_000))
        wait_until(lambda: attempts(postgres)["bad", "done"] >= 10, timeout_s=120)
        wait_until(lambda: trouble(queue, "bad") is None, timeout_s=60)


def test_trouble_of_an_agent_is_that_of_its_last_heartbeat(
    campaign: Campaign, queue: Client, hire: Hire, postgres: Postgres
) -> None:
    """A heartbeat without trouble ends it; those of other sessions change nothing."""
    agents = [hire(), hire()]
    (number, other) = (agent.session for agent in agents)

    def beat(*beats: Heartbeat) -> list[dict[str, Any] | None]:
        text = f"[{','.join(map(encoded, beats))}]"
        postgres.execute("select * from taskq.beat(%s)", [text])
        shown = {agent.session_id: agent.trouble for agent in queue.agents()}
        return [shown[number], shown[other]]

    reported = {"failures": 9, "error_class": "no-scratch", "try_in_s": 12.5}
    slowed = Heartbeat(number, trouble=Trouble(9, "no-scratch", 12.5))
    assert beat(slowed, Heartbeat(other)) == [reported, None]
    assert beat(Heartbeat(other)) == [reported, None]
    assert beat(Heartbeat(number), Heartbeat(other)) == [None, None]
    assert campaign.status().total == 0
    assert value(postgres, "select count(*) from taskq.session where said is not null") == 0


def test_strange_class_of_error_is_cleaned_and_cut_by_the_agent_that_sends_it(
    campaign: Campaign, queue: Client, hire: Hire, postgres: Postgres
) -> None:
    """A class that is too long would otherwise be refused, with its heartbeat."""
    strange = Trouble(9, "\x00\x1b[31mred" + "x" * 5_000, 1.0)
    session = hire().session
    with pytest.raises(ValueError, match="error_class"):
        check(Heartbeat(session, trouble=strange))
    beat = Heartbeat(session, trouble=fitted(strange))
    postgres.execute("select * from taskq.beat(%s)", [f"[{encoded(beat)}]"])
    (agent,) = queue.agents(campaign.path)
    assert agent.trouble is not None
    assert agent.trouble["error_class"] == ("red" + "x" * 5_000)[:200]


def test_trouble_is_kept_as_it_is_declared_and_printed_without_control_characters(
    queue: Client, campaign: Campaign, hire: Hire, postgres: Postgres, dsn: str
) -> None:
    """A client in another language may have sent it."""
    shown = {"failures": 8, "error_class": "\x1b[2J" * 40, "try_in_s": 2.5}
    trouble = shown | {"odd": "x", "warnings": ["clock", "\x1b[2J"]}
    said = [{"session": hire().session, "trouble": trouble}]
    postgres.execute("select * from taskq.beat(%s)", [json.dumps(said)])
    (agent,) = queue.agents(campaign.path)
    assert agent.trouble == shown
    assert agent.warnings == ["clock", "\x1b[2J"]
    taskq = CommandLine(dsn)
    assert "\x1b" not in taskq.out("agents", "list") + taskq.out("host", "show", "node1")


def test_agent_with_warnings_is_shown_and_works_as_others(
    queue: Client, campaign: Campaign, hire: Hire, postgres: Postgres, dsn: str
) -> None:
    """Lists of agents, hosts and reasons show warnings and remedies until a heartbeat has none."""
    campaign.seed({"n": n} for n in range(5))
    agent = hire(host="n17")

    def beat(*warnings: str) -> None:
        trouble = Trouble(warnings=warnings) if warnings else None
        text = encoded(Heartbeat(agent.session, trouble=trouble))
        postgres.execute("select * from taskq.beat(%s)", [f"[{text}]"])

    def reasons() -> dict[str, Reason]:
        found = campaign.explain().reasons
        return {reason.code: reason for reason in found if reason.code.startswith("warning")}

    beat("spool", "clock")
    (view,) = queue.agents(campaign.path)
    assert (view.trouble, view.suspect, sorted(view.warnings)) == (None, None, ["clock", "spool"])
    (host,) = queue.fleet.hosts(campaign.path)
    assert (host.slowed, host.warnings) == (0, ["clock", "spool"])
    assert reasons().keys() == {"warning-clock", "warning-spool"}
    assert reasons()["warning-spool"].text.startswith(
        "1 agent on host n17 warns: the spool cannot be written, so reports are in memory only"
    )
    assert reasons()["warning-spool"].commands == ["taskq host show n17"]
    taskq = CommandLine(dsn)
    assert "warns: the clock is off by more than a minute; set it" in " ".join(
        taskq.out("agent", "list", campaign.path).split()
    )
    assert "warns: clock" in taskq.out("host", "show", "n17")
    beat("disk")
    assert reasons().keys() == {"warning-disk"}
    beat()
    assert reasons() == {}
    assert queue.agents(campaign.path)[0].warnings == []


@pytest.mark.parametrize(
    "trouble",
    [
        "a word",
        7,
        {"failures": "many", "error_class": "x", "try_in_s": 1},
        {"failures": 1, "error_class": "x", "try_in_s": "soon"},
        {"failures": 1, "warnings": "clock"},
        {"failures": 1, "error_class": "x" * 40_000},
    ],
)
def test_trouble_of_another_form_is_refused(
    trouble: object, hire: Hire, postgres: Postgres
) -> None:
    """Nothing else is kept of a session: who lists the agents relies on it."""
    said = [{"session": hire("/").session, "trouble": trouble}]
    with pytest.raises(psycopg.Error) as refused:
        postgres.execute("select * from taskq.beat(%s)", [json.dumps(said)])
    assert refused.value.sqlstate == "TQ400"
