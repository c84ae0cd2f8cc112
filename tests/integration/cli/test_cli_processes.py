"""The command as a process: agents, their self-test, keepers, signals, watching."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from taskq import Campaign, CampaignSpec, Client, Handler, RetryPolicy
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import servable
from tests.helpers.command_line import TIMEOUT_S, CommandLine
from tests.helpers.database_relay import DatabaseRelay
from tests.helpers.postgres import Postgres
from tests.helpers.waiting import wait_until


def campaign_of(queue: Client, *argv: str) -> Campaign:
    """Create the campaign /c, whose tasks are commands."""
    return queue.create_campaign(
        CampaignSpec("/c", handler=Handler("command", argv=argv), retry=RetryPolicy(max_attempts=1))
    )


def interrupted(process: subprocess.Popen[str], timeout_s: float = TIMEOUT_S) -> tuple[int, str]:
    """Send Ctrl-C; return the exit code and standard error."""
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=timeout_s)
    return process.returncode, error


@pytest.mark.thorough
def test_campaign_runs_from_the_command_line(taskq: CommandLine, queue: Client) -> None:
    """Create, seed, run an agent, look at the results: the newcomer's first minutes."""
    python = "import json; n = {n}; n == 3 and exit(65); print(json.dumps(dict(square=n * n)))"
    taskq.out("campaign", "create", "/c", "--", sys.executable, "-c", python)
    taskq.out("seed", "/c", "--sweep", "n=1:6")
    words = ["agent", "run", "--campaign", "/c", "--slots", 2, "--until-empty", "-o", "json"]
    with taskq.process(*words, "--name", "first") as agent:
        out, log = agent.communicate(timeout=TIMEOUT_S)
    assert agent.returncode == 0, log
    assert (json.loads(out)["done"], json.loads(out)["failed"]) == (5, 1)
    (best,) = taskq.json("results", "/c", "--best", 1, "--by", "result.square", "--highest")
    assert (best["result"], best["agent"]) == ({"square": 36}, "first")
    assert queue.campaign("/c").status().failed == 1
    watched = taskq("watch", "/c")
    assert (watched.exit_code, watched.stdout.count("100.0 %")) == (1, 1)


@pytest.mark.thorough
def test_agent_executes_python_of_a_folder(
    taskq: CommandLine, queue: Client, tmp_path: Path
) -> None:
    """`--path` finds the callables of a campaign; without it, the campaign cannot be run here."""
    (tmp_path / "work_of_mine.py").write_text(
        "def double(payload, shared): return {'n': payload['n'] * 2}"
    )
    queue.create_campaign(
        CampaignSpec("/c", handler=Handler("python", target="work_of_mine:double"))
    ).seed([{"n": 21}])
    run = ["agent", "run", "--campaign", "/c", "--until-empty", "--quiet", "-o", "json"]
    with taskq.process(*run, "--campaign-backoff", 0.2) as agent:
        out, _ = agent.communicate(timeout=TIMEOUT_S)
    assert (agent.returncode, json.loads(out)["failed"]) == (3, 0)
    assert "work_of_mine" in json.loads(out)["reason"]
    taskq.out("campaign", "resume", "/c")
    with taskq.process(*run, "--path", tmp_path) as agent:
        agent.communicate(timeout=TIMEOUT_S)
    assert agent.returncode == 0
    assert next(queue.campaign("/c").results()).result == {"n": 42}


@pytest.mark.thorough
def test_agent_gets_what_it_has_the_tags_for(taskq: CommandLine, queue: Client) -> None:
    """A tag offered on the command line opens the campaigns that require it, and no others."""
    for tag in ("mem>=16", "mem>=128"):
        path = f"/c/{tag[5:]}"
        taskq.out("campaign", "create", path, "--require", tag, "--", "true")
        queue.campaign(path).seed([{"n": 1}])
    run = ["agent", "run", "--campaign", "/c", "--max-tasks", 1]
    with taskq.process(*run, "--offer", "mem=64") as agent:
        _, log = agent.communicate(timeout=TIMEOUT_S)
    assert agent.returncode == 0, log
    assert queue.campaign("/c/16").status().done == 1
    assert queue.campaign("/c/128").status().waiting == 1


@pytest.mark.thorough
def test_ctrl_c_while_the_program_is_loaded_is_one_line(taskq: CommandLine, tmp_path: Path) -> None:
    """Whichever of its modules it hits; a shell sees it as ended by the signal."""
    # Python itself imports this module, before the program puts its own modules first.
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'click':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupting())\n"
    )
    environment = taskq.environment | {"PYTHONPATH": str(tmp_path)}
    with taskq.process("ls", env=environment) as process:
        out, error = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, out, error) == (-signal.SIGINT, "", "Interrupted.\n")


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_agent_that_a_signal_ends_loses_nothing(
    taskq: CommandLine, queue: Client, number: signal.Signals
) -> None:
    """It hands back what it has, ends its session, and its exit code is that of good order."""
    campaign = campaign_of(queue, "sleep", "600")
    campaign.seed({"n": n} for n in range(4))
    run = ["agent", "run", "--campaign", "/c", "--slots", 2, "--grace", 0, "-o", "json"]
    with taskq.process(*run) as agent:
        wait_until(lambda: campaign.status().working >= 2, timeout_s=TIMEOUT_S)
        agent.send_signal(number)
        out, log = agent.communicate(timeout=TIMEOUT_S)
    assert agent.returncode == 0, log
    assert json.loads(out)["reason"] == "it got a signal to stop"
    status = campaign.status()
    assert (status.waiting, status.working, status.failures) == (4, 0, 0)
    assert queue.agents() == []


@pytest.mark.thorough
def test_agent_keeps_the_queue(taskq: CommandLine, queue: Client) -> None:
    """Without any other keeper, what is delayed is tried again."""
    campaign = queue.create_campaign(
        CampaignSpec(
            "/c",
            handler=Handler("command", argv=("false",)),
            retry=RetryPolicy(max_attempts=2, backoff_s=0.01),
        )
    )
    campaign.seed([{"n": 1}])
    with taskq.process("agent", "run", "--campaign", "/c", "--until-empty") as agent:
        agent.communicate(timeout=TIMEOUT_S)
    assert agent.returncode == 0
    assert (campaign.status().failed, campaign.status().failures) == (1, 2)


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_keeper_command_runs_until_a_signal_ends_it(
    taskq: CommandLine, campaign: Campaign, postgres: Postgres, number: signal.Signals
) -> None:
    """`taskq keeper` folds the counters, and a signal ends it in good order."""
    campaign.seed([{"n": 1}])
    postgres.execute("update taskq.delta set since = now() - interval '1 min'")  # it has rested
    with taskq.process("keeper") as keeper:
        wait_until(
            lambda: not postgres.execute("select from taskq.delta").fetchall(),
            timeout_s=TIMEOUT_S,
        )
        keeper.send_signal(number)
        _, log = keeper.communicate(timeout=TIMEOUT_S)
    assert (keeper.returncode, log) == (0, "")


@pytest.mark.thorough
def test_ctrl_c_while_seeding_leaves_whole_chunks(taskq: CommandLine, campaign: Campaign) -> None:
    """It ends with one line and 130, and the same command goes on from there."""
    with taskq.process("seed", "/c", "--sweep", "n=1:100000000") as seeding:
        wait_until(lambda: campaign.status().total, timeout_s=TIMEOUT_S)
        code, error = interrupted(seeding)
    assert code == 130
    *_, last = error.splitlines()  # before it, how far seeding is, now and then
    known = re.fullmatch(
        r"Interrupted; (?:tasks added before: at least ([\d,]+); .* from there|"
        r"no task is known to be added; the same command continues)\.",
        last,
    )
    assert known, error
    total = campaign.status().total
    assert total
    assert total % 5_000 == 0
    assert int((known[1] or "0").replace(",", "")) <= total
    assert taskq.json("seed", "/c", "--sweep", f"n=1:{total + 7}")["added"] == 7


@pytest.mark.thorough
def test_ctrl_c_ends_seeding_into_a_database_that_does_not_answer(
    campaign: Campaign, dsn: str, tmp_path: Path
) -> None:
    """Neither what is on its way, nor who asks to cancel it."""
    with DatabaseRelay(dsn, tmp_path) as relay:
        with CommandLine(relay.dsn).process("seed", "/c", "--sweep", "n=1:100000000") as seeding:
            # The command has heard of the first chunk when the third is stored.
            total = 0
            for _ in range(3):
                wait_until(lambda before=total: campaign.status().total > before)
                total = campaign.status().total
            relay.accepts = False
            relay.is_moment = lambda: True
            wait_until(lambda: relay.holds)
            code, error = interrupted(seeding, 4 * TIMEOUT_S)
        relay.answer()
    assert code == 130
    *_, last = error.splitlines()
    assert re.fullmatch(
        r"Interrupted; tasks added before: at least [\d,]+; .* continues from there\.", last
    )


@pytest.mark.thorough
def test_ctrl_c_ends_watching_only(taskq: CommandLine, campaign: Campaign) -> None:
    """Watching ends with one line and 130; the campaign goes on."""
    campaign.seed([{"n": 1}])
    with taskq.process("watch", "/c", "--interval", "0.1") as watching:
        assert watching.stdout is not None
        watching.stdout.readline()
        code, error = interrupted(watching)
    assert (code, error) == (130, "Interrupted.\n")
    assert campaign.status().waiting == 1


@pytest.mark.thorough
def test_watching_ends_when_nothing_is_unfinished(taskq: CommandLine, campaign: Campaign) -> None:
    """In a pipe there is a record for each look, and the last one is complete."""
    campaign.seed([{"n": 1}, {"n": 2}])
    with taskq.process("watch", "/", "--interval", "0.1", "--output", "jsonl") as watching:
        assert watching.stdout is not None
        first = json.loads(watching.stdout.readline())
        campaign.cancel([next(campaign.tasks()).key])
        campaign.cancel()
        rest, error = watching.communicate(timeout=TIMEOUT_S)
    last = json.loads(rest.splitlines()[-1])
    assert (watching.returncode, error) == (0, "")
    assert (first["waiting"], first["rate_per_s"], first["eta_s"]) == (2, None, None)
    assert (last["waiting"], last["cancelled"], last["eta_s"]) == (0, 2, 0)


@pytest.mark.thorough
def test_long_tasks_have_a_rate_from_the_first_look(
    taskq: CommandLine, queue: Client, postgres: Postgres, hire: Hire
) -> None:
    """What runs, by what the latest took, also of campaigns below; nothing while nothing runs."""
    campaign = servable(queue, "/w/a")
    campaign.seed({"n": n} for n in range(10))
    agent = hire("/w/a")
    for task in agent.claim(4):
        agent.done(task)

    def look() -> dict[str, Any]:
        with taskq.process("watch", "/w", "--interval", "0.1", "-o", "jsonl") as watching:
            assert watching.stdout is not None
            found: dict[str, Any] = json.loads(watching.stdout.readline())
        return found

    postgres.execute("update taskq.attempt set claimed_at = ended_at - interval '2 h'")
    assert look()["eta_s"] is None
    agent.claim(3)
    found = look()
    assert found["forecast"]["over_s"] is None
    assert found["rate_per_s"] == pytest.approx(3 / 7_200)
    assert found["eta_s"] == pytest.approx(6 * 7_200 / 3, rel=0.3)
    with taskq.process("watch", "/w", "--interval", "0.1") as watching:
        assert watching.stdout is not None
        assert "~1.5/h, ETA ~" in watching.stdout.readline()


@pytest.mark.thorough
def test_watching_redraws_a_terminal(taskq: CommandLine, campaign: Campaign) -> None:
    """The display is drawn over, and its last state stays."""
    campaign.seed({"n": n} for n in range(4))
    with taskq.terminal("watch", "/c", "--interval", "0.1", columns=60) as terminal:
        terminal.wait_for("0.0 % of 4 tasks")
        terminal.wait_for("4 wait: no handler")
        terminal.resize(45)
        campaign.cancel()
        assert terminal.end() == 0
    assert "\x1b[1A\x1b[2K" in terminal.seen  # a line up, and erased
    assert "100.0 % of 4 tasks" in terminal.seen.rpartition("\x1b[2K")[2]


@pytest.mark.thorough
def test_colours_are_for_terminals_that_want_them(taskq: CommandLine, campaign: Campaign) -> None:
    """A terminal gets colours, unless NO_COLOR is set or it is a dumb one."""
    campaign.seed([{"n": 1}])
    colours = re.compile(r"\x1b\[3\dm")
    for name, value, wanted in (("X", "", True), ("NO_COLOR", "1", False), ("TERM", "dumb", False)):
        with taskq.terminal("status", "/c", environment={name: value}) as terminal:
            assert terminal.end() == 0
        assert bool(colours.search(terminal.seen)) == wanted, name
    assert "\x1b" not in taskq.out("status", "/c")


@pytest.fixture
def ready(queue: Client) -> Campaign:
    """Give a campaign with a task."""
    campaign = servable(queue)
    campaign.submit({"n": 1})
    return campaign


@pytest.mark.thorough
def test_agent_runs_the_test_of_its_site_first(taskq: CommandLine, ready: Campaign) -> None:
    """Like one behind a gateway: 69 and the reason, or the tasks are done; no secret is shown."""
    run = ["agent", "run", "--campaign", "/c", "--until-empty", "--quiet", "-o", "json"]
    test = "sh -c 'test -n \"$TASKQ_DSN\" && echo a secret; echo no GPU; exit 3'"
    with taskq.process(*run, "--self-test", test) as agent:
        out, log = agent.communicate(timeout=TIMEOUT_S)
    assert agent.returncode == 69, log
    assert json.loads(out)["reason"] == "this node is unfit: sh exited with 3: no GPU"
    assert ready.status().waiting == 1
    with taskq.process(*run, "--self-test", "true") as agent:
        out, log = agent.communicate(timeout=TIMEOUT_S)
    assert (agent.returncode, json.loads(out)["done"]) == (0, 1), log
    code, error = taskq.refused(*run, "--self-test", "sh 'open")
    assert (code, "No closing quotation" in error) == (2, True), error


def test_status_and_watch_read_the_counts_once(
    taskq: CommandLine, queue: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the tree, which both need for the ETA, also for the rest."""
    queue.create_campaign("/a/b").seed([{"n": 1}])
    for other in ("status", "tree"):
        monkeypatch.setattr(Campaign, other, None)
    assert taskq.json("status", "/a")["waiting"] == 1
    watched = taskq("watch", "/a", "--timeout", "0", "-o", "jsonl")
    assert (watched.exit_code, json.loads(watched.stdout)["waiting"]) == (124, 1)
