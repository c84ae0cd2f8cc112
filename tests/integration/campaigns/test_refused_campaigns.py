"""A campaign that cannot be run stops nobody: agents leave it, not the queue, and say why."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from taskq import Campaign, CampaignSpec, Client, Handler
from tests.helpers.campaigns import TRUE
from tests.helpers.command_line import CommandLine
from tests.helpers.waiting import wait_until

TASKS = 6
LATER_S = 100.0
#: So soon an agent tries again what it cannot run.
AGAIN: tuple[str, ...] = ("--campaign-backoff", "0.2")
BROKEN = {
    "module": (Handler("python", target="not_there:run"), "handler-not-found"),
    "prepare": (Handler("python", target="fickle:run", prepare="fickle:prepare"), "prepare-failed"),
    "program": (Handler("command", argv=("not-there-either",)), "command-not-found"),
}
#: Prepares once there is a file; the path is in the parameters.
FICKLE = """
from pathlib import Path


def prepare(params):
    if not Path(params["file"]).exists():
        raise RuntimeError("no receptor")


def run(payload, shared):
    return {}
"""


@pytest.fixture
def farm(dsn: str, tmp_path: Path) -> Farm:
    """Give a way to start agents on hosts of any name."""
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "fickle.py").write_text(FICKLE)
    return Farm(dsn, tmp_path)


class Farm:
    """Agents next to the database, as processes."""

    def __init__(self, dsn: str, folder: Path) -> None:
        self.taskq = CommandLine(dsn)
        self.file = folder / "receptor"
        self._path = folder / "path"

    @contextmanager
    def agents(self, *hosts: str, options: tuple[str, ...] = AGAIN) -> Iterator[list[Any]]:
        """Run an agent on each of these hosts meanwhile."""
        words = ("agent", "run", "--campaign", "/", "--path", self._path, *options)
        with ExitStack() as stack:
            yield [
                stack.enter_context(self.taskq.process(*words, "--host", host)) for host in hosts
            ]

    def campaign(self, queue: Client, path: str, handler: Handler | None) -> Campaign:
        """Return a new campaign with some tasks."""
        params = {"file": str(self.file)}
        made = queue.create_campaign(
            CampaignSpec(path, handler=handler, params=params, max_failure_share=None)
        )
        made.seed({"n": n} for n in range(TASKS))
        return made


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Return the exit code of an agent that leaves by itself, and what it has written."""
    out, err = process.communicate(timeout=LATER_S)
    return process.returncode, out, err


@pytest.mark.thorough
@pytest.mark.parametrize("kind", BROKEN)
def test_campaign_that_cannot_be_run_stops_no_other(queue: Client, farm: Farm, kind: str) -> None:
    """The agent stays, the others' tasks are done, and the attempts are recorded with class."""
    handler, error_class = BROKEN[kind]
    bad = farm.campaign(queue, "/bad", handler)
    good = farm.campaign(queue, "/good", TRUE)
    with farm.agents("n1") as (agent,):
        wait_until(lambda: good.status().done == TASKS, timeout_s=LATER_S)
        wait_until(bad.failure_classes, timeout_s=LATER_S)
        assert agent.poll() is None
    (found,) = bad.failure_causes()
    assert (found.error_class, found.some_hosts.keys()) == (error_class, {"n1"})
    assert found.example_error
    assert error_class in farm.taskq.out("failures", "/bad")
    status = bad.status()
    assert (status.unfinished, status.failed, status.failures) == (TASKS, 0, 0)


@pytest.mark.thorough
def test_campaign_that_no_host_can_run_pauses_itself_and_completes_when_mended(
    queue: Client, farm: Farm
) -> None:
    """Three hosts agree; after the repair and `resume` they try again at once, and lose nothing."""
    bad = farm.campaign(queue, "/bad", BROKEN["prepare"][0])
    good = farm.campaign(queue, "/good", TRUE)
    # So long that only a resumed campaign is tried again within the test.
    with farm.agents("n1", "n2", "n3", options=("--campaign-backoff", "1000")) as agents:
        wait_until(lambda: bad.status().state == "paused", timeout_s=LATER_S)
        why = bad.status().paused_why or ""
        assert "3 hosts" in why
        assert "prepare-failed" in why
        assert "no receptor" in why
        shown = farm.taskq.out("status", "/bad")
        assert "no receptor" in shown
        wait_until(lambda: good.status().done == TASKS, timeout_s=LATER_S)
        farm.file.touch()
        farm.taskq.out("campaign", "resume", "/bad")
        wait_until(lambda: bad.status().done == TASKS, timeout_s=LATER_S)
        assert [agent.poll() for agent in agents] == [None] * 3
    assert bad.status().failed == 0
    assert all(result.attempt <= 4 for result in bad.results())


@pytest.mark.thorough
def test_campaign_without_an_input_of_its_program_pauses_at_its_first_agent(
    queue: Client, farm: Farm
) -> None:
    """No host can change that. Nothing is charged; the reason names the remedy, as `seed` does."""
    bad = farm.campaign(queue, "/bad", Handler("command", argv=("cat", "{inputs.receptor}")))
    with farm.agents("n1", "n2"):
        wait_until(lambda: bad.status().state == "paused", timeout_s=LATER_S)
    status = bad.status()
    assert (status.unfinished, status.failures) == (TASKS, 0)
    assert "{inputs.receptor}" in (status.paused_why or "")
    assert "taskq input add" in (status.paused_why or "")
    done = farm.taskq("seed", "/bad", "--sweep", "x=1:2")
    assert "`taskq input add /bad FILE --name receptor` adds it" in done.stderr


@pytest.mark.thorough
def test_only_host_gives_up_after_some_repeats(queue: Client, farm: Farm) -> None:
    """Who has one machine learns it too: the campaign pauses, and the agent ends with a reason."""
    farm.campaign(queue, "/bad", BROKEN["module"][0])
    good = farm.campaign(queue, "/good", TRUE)
    with farm.agents("laptop", options=(*AGAIN, "--until-empty")) as (agent,):
        code, out, err = ended(agent)
    assert code == 3, err
    assert "/bad paused itself" in out
    assert "handler-not-found" in out
    assert good.status().done == TASKS
    bad = queue.campaign("/bad").status()
    assert (bad.state, bad.unfinished, bad.failed) == ("paused", TASKS, 0)
    assert "laptop" in (bad.paused_why or "")


@pytest.mark.thorough
def test_host_that_cannot_run_it_does_not_pause_what_others_do(queue: Client, farm: Farm) -> None:
    """One host lacks the program; the other does all the tasks, none of which has failed."""
    only = farm.file.parent / "bin"
    only.mkdir()
    (only / "only-here").write_text("#!/bin/sh\nsleep 0.3\n")
    (only / "only-here").chmod(0o755)
    mixed = farm.campaign(queue, "/mixed", Handler("command", argv=("only-here",)))
    mixed.seed({"n": n} for n in range(100, 110))
    words = ("agent", "run", "--campaign", "/", *AGAIN)
    environment = farm.taskq.environment
    able = environment | {"PATH": f"{only}:{environment['PATH']}"}
    with (
        farm.taskq.process(*words, "--host", "able", env=able),
        farm.taskq.process(*words, "--host", "unable") as unable,
    ):
        wait_until(lambda: mixed.status().unfinished == 0, timeout_s=LATER_S)
        assert unable.poll() is None
    status = mixed.status()
    assert (status.done, status.failed, status.state) == (TASKS + 10, 0, "open")


@pytest.mark.thorough
def test_agent_that_left_is_shown_with_its_reason(queue: Client, farm: Farm) -> None:
    """`agents` and `status` tell who left within the hour, and why."""
    empty = farm.campaign(queue, "/good", TRUE)
    with farm.agents("n1", options=("--until-empty",)) as (agent,):
        assert ended(agent)[0] == 0
    with farm.agents("n2", options=("--max-tasks", "1")) as (agent,):
        empty.submit({"n": 99})
        assert ended(agent)[0] == 0
    empty.submit({"n": 100})
    (first, second) = sorted(
        farm.taskq.json("agents", "list", "--left"), key=lambda record: record["host"]
    )
    assert (first["host"], first["exit_code"], first["reason"]) == (
        "n1",
        0,
        "nothing is left to do",
    )
    assert second["reason"] == "it has made 1 attempt"
    assert "2 left within the hour" in farm.taskq.out("status", "/good")
    assert "nothing is left to do (1)" in farm.taskq.out("agents")


@pytest.mark.thorough
@pytest.mark.parametrize("until_empty", [True, False])
def test_campaign_without_a_handler_is_named(queue: Client, farm: Farm, until_empty: bool) -> None:
    """`--until-empty` ends with a code when only its tasks are left; others report it once."""
    farm.campaign(queue, "/orphan", None)
    good = farm.campaign(queue, "/good", TRUE)
    said = "/orphan has no handler"
    if until_empty:
        with farm.agents("n1", options=("--until-empty",)) as (agent,):
            code, out, _ = ended(agent)
        assert code == 3
        assert said in json.dumps(out)
    else:
        with farm.agents("n1", options=()) as (agent,):
            lines: list[str] = []
            while not any(said in line for line in lines):
                lines.append(agent.stderr.readline())
                assert lines[-1], lines
            wait_until(lambda: good.status().done == TASKS, timeout_s=LATER_S)
            agent.terminate()
            rest = agent.stderr.read()
        assert said not in rest
    assert good.status().done == TASKS
    status = farm.taskq.out("status", "/orphan")
    assert "has no handler" in status
    assert "taskq campaign change /orphan" in status
    assert "agent run" not in status


def test_seeding_what_nobody_can_run_is_warned_of(queue: Client, farm: Farm) -> None:
    """The warning names the command that gives it a handler; it goes to standard error."""
    made = farm.taskq("campaign", "create", "/orphan")
    assert "taskq campaign change /orphan" in made.stderr
    seeded = farm.taskq("seed", "/orphan", "--sweep", "n=1:3", "-o", "json")
    assert seeded.exit_code == 0
    assert json.loads(seeded.stdout)["added"] == 3
    assert "taskq campaign change /orphan" in seeded.stderr
    assert queue.campaign("/orphan").status().waiting == 3
