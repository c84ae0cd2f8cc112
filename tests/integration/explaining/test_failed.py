"""`taskq explain` on failed tasks: the class in which they ended, the fault and what mends it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from taskq import Campaign, Client, RetryPolicy
from tests.fixtures.queues import Hire
from tests.helpers.postgres import Postgres, keep
from tests.integration.explaining.support import Make, explained, only

pytestmark = pytest.mark.both_transports(
    near=["test_failed_tasks_are_judged_by_the_class_in_which_they_ended"]
)

AT_ONCE = RetryPolicy(max_attempts=2, backoff_s=0, backoff_max_s=0)


def test_failed_tasks_are_judged_by_the_class_in_which_they_ended(
    make: Make, hire: Hire, postgres: Postgres
) -> None:
    """An earlier class of theirs, however frequent elsewhere, is not why they failed."""
    campaign = make(tasks=40, retry=AT_ONCE, memory=(1 << 30,))
    good, bad = (hire("/c", host=host, offers=("mem=4",)) for host in ("n1", "n2"))
    for task in bad.claim(20):
        bad.fail(task, "command-not-found")
    keep(postgres)
    tasks = good.claim(40)
    again = [task for task in tasks if task.attempt > 1][:2]
    for task in tasks:
        if task in again:
            good.fail(task, "out-of-memory")
        else:
            good.done(task)
    reason = only(campaign)
    assert "2 failed (out-of-memory: 2), " in reason.text
    assert "command-not-found" not in reason.text
    assert "took more memory than it allows, now 1G" in reason.text
    assert "taskq campaign change /c --memory 2G" in reason.commands
    assert reason.commands[-1] == "taskq retry --error-class out-of-memory /c"


def ended(campaign: Campaign, hire: Hire, error_class: str) -> list[str]:
    """Let a task fail for good with a class; return the text and the commands of the reason."""
    agent = hire("/c")
    agent.fail(agent.claim()[0], error_class)
    reason = only(campaign)
    assert (reason.code, reason.blocks) == ("finished", False)
    return [reason.text, *reason.commands]


@pytest.mark.parametrize("all_have_ended", [True, False])
def test_single_task_that_fails_is_named_with_its_history(
    make: Make, hire: Hire, all_have_ended: bool
) -> None:
    """One is not enough to say whose fault it is: a ligand that crashes the program, say."""
    campaign = make(tasks=4, retry=RetryPolicy(max_attempts=1))
    agent = hire("/c")
    guilty, *others = agent.claim(4 if all_have_ended else 3)
    for task in others:
        agent.done(task)
    agent.fail(guilty, "signal-SIGSEGV")
    codes = {reason.code: reason for reason in explained(campaign).reasons}
    reason = codes["finished" if all_have_ended else "failed"]
    assert "(signal-SIGSEGV: 1)" in reason.text
    assert f" {guilty.key}." in reason.text
    assert f"taskq history /c {guilty.key}" in reason.commands
    assert any(line.startswith("taskq retry ") for line in reason.commands)


@pytest.mark.parametrize("error_class", ["FailForGood", "exit-65"])
def test_task_that_the_program_gave_up_is_its_own_fault(
    error_class: str, make: Make, hire: Hire
) -> None:
    """That takes no second host."""
    campaign = make(tasks=1, retry=RetryPolicy(max_attempts=1))
    text, *commands = ended(campaign, hire, error_class)
    assert f"1 failed ({error_class}: 1)" in text
    assert f"{error_class} (it broke): the tasks' fault: the program gave the tasks up" in text
    assert commands[-1] == f"taskq retry --error-class {error_class} /c"


def test_limits_are_a_verdict_at_once_with_the_change_that_helps(make: Make, hire: Hire) -> None:
    """A retry alone would repeat the failure. Sizes before the last one stay."""
    campaign = make(tasks=1, retry=RetryPolicy(max_attempts=1), time_limit_s=90.0)
    text, *commands = ended(campaign, hire, "time-limit")
    assert "the campaign's fault: 1 attempt took longer than its time limit, now 1 min 30 s" in text
    assert commands[1:] == [
        "taskq campaign change /c --time-limit 180s",
        "taskq retry --error-class time-limit /c",
    ]


def test_output_limit_is_a_verdict_with_the_change_that_helps(make: Make, hire: Hire) -> None:
    """Its class says all; the last words of the program would mislead."""
    campaign = make(tasks=1, retry=RetryPolicy(max_attempts=1), output_bytes=20_000)
    text, *commands = ended(campaign, hire, "output-too-large")
    assert "output-too-large: the campaign's fault: 1 attempt left more output than it" in text
    assert commands[1] == "taskq campaign change /c --output-bytes 40000"


def test_task_that_was_given_up_as_poison_is_named(make: Make, hire: Hire) -> None:
    """Its campaign is named too, while other tasks wait."""
    campaign = make(tasks=5, retry=RetryPolicy(max_attempts=1))
    agent = hire("/c")
    task = agent.claim()[0]
    agent.fail(task, "poison")
    (reason,) = (reason for reason in explained(campaign).reasons if reason.code == "poison")
    assert reason.text.startswith(f"1 task of /c (such as {task.key}) was given up: each time")
    assert reason.commands == [
        f"taskq history /c {task.key}",
        "taskq retry --error-class poison /c",
    ]


@pytest.mark.thorough
@pytest.mark.parametrize("repair", ["change", "input", "resume", "unban"])
def test_failures_before_a_repair_accuse_nobody(
    repair: str, make: Make, hire: Hire, queue: Client, postgres: Postgres, tmp_path: Path
) -> None:
    """Repairs: a change of the campaign or an input, a resume, an unban. Later ones count."""
    campaign = make(tasks=120, retry=AT_ONCE)
    good = hire("/c", host="n1")

    def fail() -> set[str]:
        bad = hire("/c", host="n2")
        for task in good.claim(20):
            good.done(task)
        for task in bad.claim(12):
            bad.fail(task, "no-licence")
        bad.leave()
        return {reason.code for reason in explained(campaign).reasons}

    assert "failing-host" in fail()
    if repair == "change":
        campaign.change(replace(campaign.spec(), params={"x": 1}))
    elif repair == "input":
        (tmp_path / "receptor").write_text("ATOM")
        campaign.add_input(tmp_path / "receptor")
    elif repair == "unban":
        postgres.execute("select taskq.ban('host', 'n2', 'x'), taskq.unban('host', 'n2')")
    else:
        campaign.pause()
        campaign.resume()
    assert "failing-host" not in {reason.code for reason in explained(campaign).reasons}
    assert queue.fleet.failures("/c") == []
    assert "failing-host" in fail()


def test_last_attempts_show_whether_one_more_would_help(
    make: Make, hire: Hire, queue: Client, postgres: Postgres
) -> None:
    """Tasks that came to the last attempt which is allowed, and those of them that it did."""
    make(tasks=9, retry=AT_ONCE)
    agent, other = hire("/c", host="n1"), hire("/c", host="n2")
    first = agent.claim(9)
    for task in first[:5]:
        agent.fail(task, "exit-1")
    for task in first[5:]:
        agent.done(task)
    keep(postgres)
    second = other.claim(5)
    for task in second[:3]:
        other.done(task)
    (fates,) = queue.queries.rows("failing_tasks", path="/c", most=100)
    assert (fates["tasks"], fates["last_tries"], fates["last_done"]) == (5, 3, 3)
    other.fail(second[3], "exit-1")
    (fates,) = queue.queries.rows("failing_tasks", path="/c", most=100)
    assert (fates["tasks"], fates["last_tries"], fates["last_done"]) == (5, 4, 3)


def test_place_at_fault_stands_before_the_tasks_that_failed_there(make: Make, hire: Hire) -> None:
    """The first reason tells the cause, also when each failure is for good."""
    campaign = make(tasks=400, retry=AT_ONCE)
    for host in ("bad", "n1", "n2", "n3"):
        agent = hire("/c", host=host)
        for task in agent.claim(20):
            if host == "bad":
                agent.fail(task, "exit-127", retry=False)
            else:
                agent.done(task)
    codes = [it.code for it in explained(campaign).reasons]
    assert codes.index("failing-host") < codes.index("failed")
