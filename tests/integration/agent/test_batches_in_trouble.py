"""Batches on a real queue whose program crashes or node dies: who is charged, and what is lost."""

from __future__ import annotations

import json
import signal
import sys
from collections import Counter
from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path

import pytest

from taskq import Campaign, CampaignSpec, Client, Handler, RetryPolicy, Seed
from taskq.db.audit import audit
from tests.helpers.agent_processes import agent_process
from tests.helpers.command_line import CommandLine
from tests.helpers.paths import PAYLOADS
from tests.helpers.waiting import wait_until

PROGRAM = str(PAYLOADS / "batcher.py")
ONCE = RetryPolicy(max_attempts=1)


def seeded(queue: Client, folder: Path, tasks: int, batch: int, **odd: str) -> Campaign:
    """Return a campaign of tasks t1, t2 ...; odd: what some of them do; one failure is the last."""
    argv = (sys.executable, PROGRAM, "file", "{tasks}")
    handler = Handler("command", argv=argv, batch=batch)
    campaign = queue.create_campaign(CampaignSpec("/c", handler=handler, retry=ONCE))
    log = str(folder / "starts")
    campaign.seed(
        Seed({"n": n, "log": log, "do": odd.get(f"t{n}", "well")}, f"t{n}")
        for n in range(1, tasks + 1)
    )
    return campaign


def starts(folder: Path) -> list[list[int]]:
    """Return the tasks of each start so far."""
    file = folder / "starts"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def check(queue: Client, campaign: Campaign, tasks: int, guilty: Collection[str]) -> None:
    """All is accounted for: only the guilty have failed, and no healthy task was ever charged."""
    status = campaign.status()
    assert (status.done, status.failed) == (tasks - len(guilty), len(guilty))
    ends = Counter[str]()
    for n in range(1, tasks + 1):
        attempts = campaign.attempts(f"t{n}")
        outcomes = [attempt.outcome for attempt in attempts]
        if f"t{n}" in guilty:
            assert (outcomes[-1], attempts[-1].error_class) == ("failed", "signal-SIGSEGV")
            assert outcomes.count("failed") == 1
        else:
            assert (outcomes[-1], outcomes.count("failed")) == ("done", 0)
        ends.update(outcomes)
    results = [result.key for result in campaign.results()]
    assert len(results) == len({*results}) == ends["done"] == tasks - len(guilty)
    assert [*audit(queue.database, "/c")] == []


@pytest.mark.thorough
@pytest.mark.parametrize("number", [2, 10])
def test_several_that_crash_are_named_and_cost_nobody_an_attempt(
    queue: Client, taskq: CommandLine, tmp_path: Path, number: int
) -> None:
    """Also ten, which are more than one search may take starts for."""
    guilty = {f"t{7 * count + 3}": "die" for count in range(number)}
    campaign = seeded(queue, tmp_path, 80, 80, **guilty)
    taskq.out("agent", "run", "--campaign", "/c", "--slots", "1", "--until-empty")
    check(queue, campaign, 80, guilty)


@pytest.mark.thorough
def test_node_that_dies_while_it_divides_loses_nothing_and_charges_nobody(
    queue: Client, dsn: str, tmp_path: Path
) -> None:
    campaign = seeded(queue, tmp_path, 40, 40, t17="die-later")
    options = ["--lease", 4, "--quiet", "--slots", 1]
    with ExitStack() as stack:
        first = stack.enter_context(agent_process(dsn, "a", tmp_path / "log", *options))
        wait_until(lambda: [17] in starts(tmp_path), timeout_s=60)
        before = len(starts(tmp_path))
        answered = campaign.status().done
        assert answered >= 16
        first.send_signal(signal.SIGKILL)
        first.wait()
        stack.enter_context(agent_process(dsn, "b", tmp_path / "log-b", *options))
        wait_until(lambda: campaign.status().unfinished == 0, timeout_s=240)
    check(queue, campaign, 40, ["t17"])
    again = Counter(number for start in starts(tmp_path)[before:] for number in start)
    assert not {*again} & {*range(1, 17)}, "what was reported is never repeated"


@pytest.mark.parametrize("kind", ["command", "process"])
def test_files_of_equal_names_belong_to_their_tasks(
    queue: Client, taskq: CommandLine, tmp_path: Path, kind: str
) -> None:
    """As the poses of ligands that have one name in different folders."""
    words = ["file", "{tasks}"] if kind == "command" else ["lines", "1"]
    handler = Handler(kind, argv=(sys.executable, PROGRAM, *words), batch=10)
    spec = CampaignSpec("/c", handler=handler, output_bytes=20_000)
    campaign = queue.create_campaign(spec)
    log = str(tmp_path / "starts")
    campaign.seed(
        Seed({"n": n, "log": log, "file": "x.pdbqt"}, f"{folder}/x.pdbqt")
        for n, folder in enumerate("abc", 1)
    )
    taskq.out("agent", "run", "--campaign", "/c", "--slots", "1", "--until-empty")
    campaign.fetch(tmp_path / "poses", [*campaign.results()])
    found = sorted((tmp_path / "poses").rglob("x.pdbqt"))
    assert [file.read_text() for file in found if file.is_file()] == ["1", "2", "3"]
