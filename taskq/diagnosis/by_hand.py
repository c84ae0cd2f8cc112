"""What people cancelled, or retried though it was done, perhaps by mistake: nothing fails there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final

from taskq.diagnosis.facts import Facts
from taskq.diagnosis.reasons import Reason
from taskq.model.acts import RecordedAct
from taskq.model.seed import is_within
from taskq.model.words import command, counted, instant

_LATELY: Final = timedelta(days=1)


def cancelled(facts: Facts) -> Iterator[Reason]:
    """Name the last campaign below that was cancelled today: perhaps it was a mistake.

    Those in which something waits are named elsewhere.
    """
    known = {it.path for it in facts.closed if not it.has_ended} | {facts.status.path}
    its = [
        it
        for it in facts.changes
        if it.state == "cancelled"
        and it.what == ["status"]
        and it.campaign not in known
        and is_within(it.campaign, facts.status.path)
    ]
    if its:
        path = its[0].campaign
        of = _last_of(len(its), "campaign")
        yield Reason(
            "cancelled",
            f"{path} was cancelled at {instant(its[0].changed_at)} by {its[0].changed_by}{of}.",
            commands=[
                command("campaign", "resume", path),
                command("retry", path, "--status", "cancelled"),
            ],
            figures={"closed": path, "by_itself": False},
            since=its[0].changed_at,
        )


def moved(facts: Facts) -> Iterator[Reason]:
    """Name the last tasks that were cancelled, and the last done ones that were retried."""
    for it in facts.moves:
        lately = [act for act in it.acts if act.ended_at > facts.upkeep.now - _LATELY]
        if lately and lately[0].verb == "cancel" and it.now.cancelled:
            yield _cancelled(lately, it.now.cancelled)
        elif lately and lately[0].verb == "retry" and it.now.unfinished:
            yield _retried(lately)


def _cancelled(acts: Sequence[RecordedAct], cancelled: int) -> Reason:
    path, tasks = acts[0].path, acts[0].tasks or 0
    commands = [command("tasks", path, "--where", "status = cancelled")]
    if cancelled <= tasks:  # others were cancelled on purpose, perhaps
        commands.append(command("retry", path, "--status", "cancelled"))
    text = f"{_tasks(acts[0])} cancelled{_who(acts)}."
    return Reason("tasks-cancelled", text, commands=commands, since=acts[0].began_at)


def _retried(acts: Sequence[RecordedAct]) -> Reason:
    return Reason(
        "done-retried",
        f"{_tasks(acts[0])} retried though done{_who(acts)}. Until these tasks end again their "
        "results are in `taskq logs` only.",
        commands=[command("tasks", acts[0].path, "--where", "status = waiting and attempts > 0")],
        since=acts[0].began_at,
    )


def _tasks(act: RecordedAct) -> str:
    tasks = act.tasks or 0
    return f"{counted(tasks, 'task')} of {act.path} {'was' if tasks == 1 else 'were'}"


def _who(acts: Sequence[RecordedAct]) -> str:
    """Return when the last was done, by whom and by which command."""
    what = f" ({', '.join(acts[0].what)})" if acts[0].what else ""
    of = _last_of(len(acts), "command")
    return f" at {instant(acts[0].ended_at)} by {acts[0].who}{what}{of}"


def _last_of(number: int, noun: str) -> str:
    return f", the last of {counted(number, noun)} within a day" if number > 1 else ""
