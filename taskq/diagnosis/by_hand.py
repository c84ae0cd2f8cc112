"""What people cancelled, or retried though it was done, perhaps by mistake: nothing fails there."""

from __future__ import annotations

from collections.abc import Iterator
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
        of = f", the last of {counted(len(its), 'campaign')} within a day" if len(its) > 1 else ""
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
    known = [it for it in facts.moves if it.ended_at > facts.upkeep.now - _LATELY]
    cancels = [it for it in known if it.verb == "cancel"]
    if cancels:
        path = cancels[0].path
        look = command("tasks", path, "--where", "status = cancelled")
        retry = command("retry", path, "--status", "cancelled")
        yield Reason(
            "tasks-cancelled",
            f"{_text(cancels[0])} cancelled{_who(cancels[0], len(cancels))}.",
            commands=[look, retry],
            since=cancels[0].began_at,
        )
    retries = [it for it in known if it.verb == "retry" and (it.what or [""])[0] == "done"]
    if retries:
        path = retries[0].path
        yield Reason(
            "done-retried",
            f"{_text(retries[0])} retried though done{_who(retries[0], len(retries))}. "
            "Until these tasks end again their results are in `taskq logs` only.",
            commands=[command("tasks", path, "--where", "status = waiting and attempts > 0")],
            since=retries[0].began_at,
        )


def _text(act: RecordedAct) -> str:
    tasks = act.tasks or 0
    return f"{counted(tasks, 'task')} of {act.path} {'was' if tasks == 1 else 'were'}"


def _who(act: RecordedAct, number: int) -> str:
    """Return when it was done, by whom and by which command."""
    of = f", the last of {counted(number, 'command')} within a day" if number > 1 else ""
    return f" at {instant(act.ended_at)} by {act.who} ({', '.join(act.what or ())}){of}"
