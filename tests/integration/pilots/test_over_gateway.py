"""Pilots over a gateway: what a manager's token is for, and what takes a login."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from taskq import Client, NotOverGateway
from taskq.db.gateway_queries import GatewayQueries
from taskq.model.errors import Conflict, Forbidden, NotFound
from taskq.pilots.loop import PilotLoop
from tests.fixtures.gateways import StartGateway, start_gateway  # noqa: F401  # a fixture
from tests.helpers.campaigns import servable
from tests.helpers.command_line import CommandLine

pytestmark = pytest.mark.thorough

AtGateway = Callable[..., Client]


@pytest.fixture
def at_gateway(
    queue: Client,
    start_gateway: StartGateway,  # noqa: F811  # the fixture
) -> Iterator[AtGateway]:
    """Give a function: the queue as a manager of these campaigns reaches it."""
    url = start_gateway().url
    opened: list[Client] = []

    def reach(*paths: str, kind: Any = "manager") -> Client:
        token, _ = queue.tokens.create(kind, f"ada{len(opened)}", paths)
        opened.append(Client(GatewayQueries(url, token, patience_s=0)))
        return opened[-1]

    servable(queue)
    for path in ("/cc", "/c/below"):
        queue.create_campaign(path)
    table = {"folder": "/jobs", "gateways": ["https://gw"], "token_file": "/t"}
    queue.pilots.create("hpc", "slurm", "/c", table)
    yield reach
    for client in opened:
        client.close()


def test_pilots_of_others_are_not_seen_and_not_steered(
    queue: Client, at_gateway: AtGateway
) -> None:
    """It does not reveal whether they exist; a path that only begins alike is another."""
    (mine,) = queue.pilots.list()
    loop = {"pilot": mine.pilot_id, "holder": str(uuid.uuid4())}
    hold = {**loop, "term_s": 60.0, "host": "h"}
    note = {**loop, "jobs": "[]", "failures": 3, "trouble": "x", "retry_s": 1.0, "pause_why": "y"}
    for stranger in (at_gateway("/cc"), at_gateway("/c/below")):
        ask = stranger.queries
        assert stranger.pilots.list() == ()
        assert ask.rows("pilot_jobs", pilot=mine.pilot_id, ended=10) == []
        assert ask.value("hold_pilot", **hold) is False
        with pytest.raises(NotFound):
            stranger.pilots.set_status("hpc", "removed")
        with pytest.raises(Forbidden):
            ask.rows("pilot_demand", path="/c", offers=[], lifetime_s=60.0)
        with pytest.raises(Forbidden):
            ask.rows("agent_slots", path="/c", offers=[], requires=[])
    assert queue.queries.value("hold_pilot", **hold) is True
    with pytest.raises(Conflict):
        ask.value("note_pilot", **note)
    with pytest.raises(Conflict):
        ask.rows("begin_pilot_jobs", **loop, place=None, most=10, wanted=1)
    assert queue.pilots.pilot("hpc").status == "active"
    queue.pilots.create("elsewhere", "slurm", "/cc", {"folder": "/jobs"})
    assert [pilot.name for pilot in at_gateway("/c").pilots.list()] == ["hpc"]
    for owner in (at_gateway("/c"), at_gateway("/"), at_gateway("/c", kind="submitter")):
        assert owner.pilots.pilot("hpc").settings == mine.settings
        assert owner.pilots.set_status("hpc", "paused") == 0


def test_settings_of_pilots_can_be_stored_by_logins_only(at_gateway: AtGateway) -> None:
    """Otherwise anyone with a token could run programs as the user of any loop."""
    manager = at_gateway("/", kind="pickler")
    for replace in (False, True):
        with pytest.raises(NotOverGateway, match="create_pilot"):
            manager.pilots.create("hpc", "local", "/c", {"folder": "/jobs"}, replace=replace)


def test_jobs_that_need_the_database_are_not_submitted_from_afar(
    queue: Client, at_gateway: AtGateway
) -> None:
    """The loop does not know its address."""
    queue.pilots.create("hpc", "local", "/c", {"folder": "/jobs"}, replace=True)
    (done,) = PilotLoop(at_gateway("/c").queries, {}, direct=False).round()
    assert (done.acted, done.submitted) == (False, 0)
    assert "add gateways" in (done.trouble or "")


def test_local_jobs_of_a_loop_behind_a_gateway_do_the_work(
    queue: Client,
    start_gateway: StartGateway,  # noqa: F811  # the fixture
    tmp_path: Path,
) -> None:
    """By the commands that somebody types who has an address and two tokens."""
    url = start_gateway(keeper=True, expected=[""]).url
    campaign = servable(queue)
    campaign.seed({"n": n} for n in range(1))
    for kind in ("manager", "site"):
        token, _ = queue.tokens.create(kind, kind, ["/c"])
        (tmp_path / kind).touch(mode=0o600)
        (tmp_path / kind).write_text(token)
    table = {
        "folder": str(tmp_path / "jobs"),
        "gateways": [url],
        "token_file": str(tmp_path / "site"),
        "idle_timeout": 1,
    }
    queue.pilots.create("here", "local", "/c", table)
    address = {"TASKQ_URL": url, "TASKQ_TOKEN_FILE": str(tmp_path / "manager")}
    outside = CommandLine("", address=address)
    outside.environment.pop("TASKQ_DSN", None)
    (done,) = outside.json("pilots", "run", "--once")
    assert (done["acted"], done["submitted"], done["trouble"]) == (True, 1, None)
    campaign.wait(timeout_s=60)
    assert "1 task waiting" not in outside.out("pilots", "explain", "here")
    assert outside.json("pilots", "log", "here")[0]["number"] == 1
