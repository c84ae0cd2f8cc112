"""Rules that explain a single task, with the facts about its campaign."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from taskq.diagnosis.facts import Facts
from taskq.diagnosis.faults import fault_clauses, repairs
from taskq.diagnosis.reasons import Explanation, Reason, brief, failure, some
from taskq.diagnosis.rules import explain_campaign
from taskq.model.retry_policy import RetryPolicy
from taskq.model.run_times import ran_s
from taskq.model.seed import NOT_BEGUN
from taskq.model.shares import share_text
from taskq.model.views import Attempt, TaskView
from taskq.model.words import command, counted, duration, given_up, instant
from taskq_agent.protocol import OUT_OF_TIME, TOO_LONG

HEDGED: Final = "hedged"
ELSEWHERE_S: Final = 120
"""Seconds for which a failed task waits for another host; before its last attempt, a day."""


def explain_task(
    task: TaskView, attempts: Sequence[Attempt], retries: RetryPolicy, facts: Facts
) -> Explanation:
    """Explain a task; reasons of its campaign that prevent its claim follow."""
    campaigns = [campaign for campaign in facts.campaigns if campaign.path == facts.status.path]
    about = explain_campaign(replace(facts, campaigns=campaigns))
    own = list(_own(task, attempts, retries, facts))
    shared = list(about.reasons) if task.status in NOT_BEGUN else []
    if task.status == "waiting":
        shared = [reason for reason in shared if reason.code != "delayed"]
    elif task.status == "delayed":
        shared = [
            reason for reason in shared if reason.code in {"paused", "cancelled", "no-keeper"}
        ]
    return replace(
        about, key=task.key, headline=_headline(task, attempts, facts), reasons=[*own, *shared]
    )


def _headline(task: TaskView, attempts: Sequence[Attempt], facts: Facts) -> str:
    if task.status == "working" and task.host is None:
        return f"leased ahead in Redis, attempt {task.attempt}"
    if task.status == "working" and task.claimed_at is not None:
        run_s = max((facts.upkeep.now - task.claimed_at).total_seconds(), 0.0)
        return f"running on {task.host} for {duration(run_s)}, attempt {task.attempt}"
    if task.status in NOT_BEGUN:
        tried = f" after {counted(len(attempts), 'attempt')}" if attempts else ""
        return f"{task.status}{tried}"
    last = f" at {instant(attempts[-1].ended_at)} on {attempts[-1].host}" if attempts else ""
    return f"{task.status}{last}"


def _own(
    task: TaskView, attempts: Sequence[Attempt], retries: RetryPolicy, facts: Facts
) -> Iterator[Reason]:
    path, key, allowed = facts.status.path, task.key, retries.max_out_of_time
    logs, retry = command("logs", path, names=[key]), command("retry", path, f"--key={key}")
    last = attempts[-1] if attempts else None
    if task.status == "done":
        yield Reason(
            "finished", "The task is done; nothing is left to run.", blocks=True, commands=[logs]
        )
    elif task.status == "cancelled":
        text = "The task was cancelled: it runs only if it is restored."
        yield Reason("cancelled", text, 1, blocks=True, commands=[f"{retry} --status cancelled"])
    elif task.status == "failed" and last is not None and last.error_class == TOO_LONG:
        text = (
            f"The task was given up as too long for its agents: {brief(last.error or '')}. Give "
            "them more time, or let it keep a checkpoint; then retry it."
        )
        longer = command("campaign", "change", path, "--max-out-of-time", f"{2 * allowed}")
        yield Reason("too-long", text, 1, blocks=True, commands=[logs, longer, retry])
    elif task.status == "failed" and last is not None:
        yield _given_up(task, last, retry, facts)
    elif task.status == "failed":
        yield Reason("failed", "The task has failed.", 1, blocks=True, commands=[retry])
    elif task.status == "delayed" and task.due_at is not None:
        text = _until(task.due_at, facts)
        if last is not None:
            text += f", since its last attempt failed on {last.host}: "
            text += failure(last.error_class, last.error)
        now = [logs, f"{retry} --status delayed"]
        yield Reason(
            "delayed", f"{text}.", 1, blocks=True, commands=now, figures={"due_at": task.due_at}
        )
    elif task.status == "working":
        yield from _working(task, facts)
        yield from _hedged(task, attempts, facts)
    elif task.status == "waiting":
        yield from _hedged(task, attempts, facts)
        yield from _elsewhere(task, attempts, retries.max_attempts, facts)
        yield from _cut_short(task, attempts, retries.max_out_of_time, facts)


def _given_up(task: TaskView, last: Attempt, retry: str, facts: Facts) -> Reason:
    """Say why a task failed for good, and whether another attempt would fail."""
    path = facts.status.path
    text = (
        f"The task was {given_up(task.failures, task.losses) or 'given up'}; the last: "
        f"{failure(last.error_class, last.error)}."
    )
    commands = [command("logs", path, names=[task.key]), retry]
    found = () if facts.findings is None else facts.findings.failures
    for verdict in found:
        if verdict.remedy and (verdict.campaign, verdict.error_class) == (path, last.error_class):
            clause = fault_clauses(facts, [replace(verdict, message="")])  # the text has it
            text += f" {clause}: it fails again until that is repaired."
            commands = [commands[0], *repairs([verdict])]
    return Reason("failed", text, 1, blocks=True, commands=commands)


def _until(due_at: datetime, facts: Facts) -> str:
    left_s = (due_at - facts.upkeep.now).total_seconds()
    if left_s <= 0:
        return "It was delayed and is due now"
    return f"It is delayed until {instant(due_at)}, in {duration(left_s)}"


def _working(task: TaskView, facts: Facts) -> Iterator[Reason]:
    """Say whether the agent of a running attempt is heard."""
    path = facts.status.path
    if task.host is None:
        yield Reason(
            "leased-ahead",
            "It is leased ahead in Redis: gateways that were started with --redis hand it out. If "
            f"no agent takes it, it waits again within {duration(facts.upkeep.pool_s)}.",
            1,
            blocks=True,
            commands=[command("front", "status"), command("front", "flush")],
        )
        return
    for agent in [agent for agent in facts.silent if agent.host == task.host][:1]:
        until = agent.expires_at
        held = (
            f"the task is handed out again at {instant(until)}"
            if facts.brake is None
            else "the brake on expiry holds the task"
        )
        yield Reason(
            "held-by-silent",
            f"An agent on {task.host} has been silent for {duration(agent.silent_s)}; if it "
            f"has this task, {held}, unless a heartbeat comes first.",
            1,
            blocks=True,
            commands=[command("agent", "list", path), command("recover", "--dry-run")],
            figures={"silent_s": agent.silent_s, "until": until},
        )
        return
    share = share_text(task.share)
    yield Reason(
        "running",
        f"Attempt {task.attempt} runs on {task.host} since {instant(task.claimed_at)}"
        f"{share and f', with {share}'}.",
        1,
        commands=[
            command("logs", "-f", names=[path, task.key]),
            command("agent", "list", path),
            command("cancel", path, f"--key={task.key}"),
        ],
    )


def _elsewhere(
    task: TaskView, attempts: Sequence[Attempt], max_attempts: int, facts: Facts
) -> Iterator[Reason]:
    """Say which hosts a task avoids for now since it failed, or may avoid since it was lost."""
    lost = [attempt for attempt in attempts if attempt.outcome == "lost"][-task.losses :]
    if task.losses > 1 and lost:
        hosts = list(dict.fromkeys(attempt.host for attempt in lost[::-1]))
        yield Reason(
            "lost-again",
            f"Its agents were lost on {some(hosts)}. If it stood out among the tasks that were "
            "lost with it, it is tried on another host first, for up to "
            f"{duration(ELSEWHERE_S)} as long as one serves the campaign.",
            1,
            commands=[command("logs", facts.status.path, names=[task.key])],
            figures={"hosts": hosts},
        )
    failed = [attempt for attempt in attempts if attempt.outcome == "failed"]
    hosts = list(dict.fromkeys(attempt.host for attempt in failed[::-1]))
    if not failed or not task.failures:
        return
    is_last = task.failures + 1 >= max_attempts
    waits_s = 86_400 if is_last else ELSEWHERE_S
    # It waits since it came due, which was after the end of its last attempt.
    if facts.upkeep.now > failed[-1].ended_at + timedelta(seconds=waits_s + 3_600):
        return
    yield Reason(
        "elsewhere",
        f"It failed on {some(hosts)} and is tried on another host first, for up to "
        f"{duration(waits_s)} as long as one serves the campaign"
        f"{', since it is its last attempt' if is_last else ''}.",
        1,
        commands=[
            command("logs", facts.status.path, names=[task.key]),
            command("host", facts.status.path),
        ],
        figures={"hosts": hosts, "max_attempts": max_attempts},
    )


def _hedged(task: TaskView, attempts: Sequence[Attempt], facts: Facts) -> Iterator[Reason]:
    """Say why a task has a second attempt while its first goes on."""
    for attempt in attempts:
        if attempt.outcome == HEDGED:
            yield Reason(
                "hedged",
                f"Attempt {attempt.attempt} is slow on {attempt.host}: "
                f"{brief(attempt.error or '-')}. It goes on, and another host may make a second "
                "attempt; the first success counts.",
                1,
                commands=[command("logs", facts.status.path, names=[task.key])],
                figures={"attempt": attempt.attempt, "host": attempt.host},
            )


def _cut_short(
    task: TaskView, attempts: Sequence[Attempt], allowed: int, facts: Facts
) -> Iterator[Reason]:
    """Say how often agents without time left handed a waiting task back."""
    since = max(
        (attempt.attempt for attempt in attempts if attempt.error_class == TOO_LONG), default=0
    )
    cut = [
        attempt
        for attempt in attempts
        if attempt.error_class == OUT_OF_TIME and attempt.attempt > since
    ]
    if not cut:
        return
    longest_s = max(ran_s(attempt.phases, attempt.claimed_at, attempt.ended_at) for attempt in cut)
    yield Reason(
        "out-of-time",
        f"It was handed back {counted(len(cut), 'time')} because its agents had no time left, the "
        f"longest attempt after {duration(max(longest_s, 0.0))}; after {allowed:,} times it "
        "fails as too-long.",
        1,
        commands=[command("logs", facts.status.path, names=[task.key])],
        figures={"out_of_time": len(cut), "max_out_of_time": allowed, "longest_s": longest_s},
    )
