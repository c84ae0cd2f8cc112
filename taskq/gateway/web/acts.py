"""What viewers may do in pages: each act with its command, what it concerns, and how it is done.

An act is looked at before it is confirmed, and again before it is done. It runs as the command
does, by the verbs of `Campaign` and `Troubles`, under the viewer's token. What would take long is
refused with the command to type: a page cannot show the progress of an hour, nor go on after its
server has ended, and to pause a campaign of any size takes one statement.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from taskq.campaign.campaign import Campaign
from taskq.db.access import Queries
from taskq.db.stones import unknown_campaign
from taskq.diagnosis.troubles import SNOOZES, KnownTrouble, Troubles, read_troubles
from taskq.gateway.web.act import Act
from taskq.gateway.web.bans import PLACE_FIELDS, ban, unban
from taskq.gateway.web.rendering import address
from taskq.model.errors import NotFound, UsageError
from taskq.model.seed import PRIORITY_RANGE, RETRIABLE, check_path
from taskq.model.views import Status
from taskq.model.words import counted, duration

#: Tasks that an act may concern, and campaigns below that it goes through.
MOST_TASKS: Final = 10_000
MOST_CAMPAIGNS: Final = 200
#: The fields of a form that say what is to be done.
_OF_TASKS: Final = ("do", "path", "key", "status", "class", "priority", "trouble", "for")
FIELDS: Final = (*_OF_TASKS, *PLACE_FIELDS)
_WAITING: Final = "state in (waiting, delayed)"
#: What each act takes apart from the campaign; else it would concern more than its form says.
_TAKES: Final[Mapping[str, tuple[str, ...]]] = {
    "cancel": ("key",),
    "retry": ("key", "status", "class"),
    "prioritise": ("priority",),
    "acknowledge": ("trouble",),
    "snooze": ("trouble", "for"),
    "reopen": ("trouble",),
    "ban": PLACE_FIELDS,
    "unban": PLACE_FIELDS,
}


def look(queries: Queries, fields: Mapping[str, str], *, whole: bool) -> Act:
    """Return the act that a viewer asks for; raise what its verb does, `UsageError` for nonsense.

    queries: under the viewer's token. whole: whether that is for the whole queue. It changes
    nothing.
    """
    verb = fields.get("do", "")
    path = check_path(fields.get("path") or "/")
    if odd := fields.keys() - {"do", "path", *_TAKES.get(verb, ())}:
        raise UsageError(f"{verb!r:.40} takes no {', '.join(sorted(odd))}")
    if verb in {"acknowledge", "snooze", "reopen"}:
        return _of_trouble(queries, verb, path, fields, whole=whole)
    if verb in {"ban", "unban"}:
        return (ban if verb == "ban" else unban)(queries, path, fields)
    if verb not in _VERBS:
        raise UsageError(f"there is no such act: {verb!r:.80}")
    row = queries.row("campaign", path=path)
    if row is None:
        raise unknown_campaign(queries, path)
    return _VERBS[verb](Campaign(queries, row["campaign_id"], path), fields)


def _pause(campaign: Campaign, _: Mapping[str, str]) -> Act:
    def run() -> str:
        return f"{campaign.path} is paused" if campaign.pause() else "It was not open before"

    return Act(
        f"Pause {campaign.path}?",
        campaign.path,
        ("taskq", "campaign", "pause", campaign.path),
        campaign.status().unfinished,
        f"{campaign.campaign_id}",
        run,
        back=address("/campaign", path=campaign.path),
        notes=["No more of its tasks are handed out, here and below. Those that run, run on."],
        button="Pause",
    )


def _resume(campaign: Campaign, _: Mapping[str, str]) -> Act:
    def run() -> str:
        return f"{campaign.path} is open" if campaign.resume() else "It was open before"

    return Act(
        f"Resume {campaign.path}?",
        campaign.path,
        ("taskq", "campaign", "resume", campaign.path),
        campaign.status().unfinished,
        f"{campaign.campaign_id}",
        run,
        back=address("/campaign", path=campaign.path),
        notes=["Its tasks are handed out again, unless a campaign above is not open."],
        button="Resume",
    )


def _cancel(campaign: Campaign, fields: Mapping[str, str]) -> Act:
    path, key = campaign.path, fields.get("key", "")
    if key:
        return Act(
            f"Cancel the task {key}?",
            campaign.path,
            ("taskq", "cancel", path, "--key", key, "--yes"),
            campaign.cancel([key], dry_run=True),
            f"{campaign.campaign_id}",
            lambda: f"{counted(campaign.cancel([key]), 'task')} cancelled",
            back=address("/task", path=path, key=key),
            button="Cancel the task",
        )
    tree = campaign.tree()
    tasks = sum(node.unfinished for node in tree)
    return Act(
        f"Cancel {path} and all below it?",
        campaign.path,
        ("taskq", "campaign", "cancel", path, "--yes"),
        tasks,
        f"{campaign.campaign_id}",
        lambda: f"{path} is cancelled, and {counted(campaign.cancel(), 'task')} of it",
        back=address("/campaign", path=path),
        notes=[
            "Agents stop tasks that run. It accepts no tasks until it is resumed.",
            f"`taskq retry {shlex.quote(path)} --status cancelled` restores cancelled ones.",
        ],
        refused=_too_many(tasks, len(tree), "Pause it meanwhile: that takes a moment."),
        button="Cancel the campaign",
    )


def _retry(campaign: Campaign, fields: Mapping[str, str]) -> Act:
    path, key = campaign.path, fields.get("key", "")
    error_class, status = fields.get("class") or None, fields.get("status") or "failed"
    if status not in RETRIABLE:
        raise UsageError(f"tasks in the status {status!r:.80} cannot be retried")
    if key and error_class:
        raise UsageError("tasks are chosen by a key or by a class, not by both")
    words = ("taskq", "retry", path, "--status", status)
    notes = ["Their failures count from zero again, and any host may get them."]
    if status == "done":
        notes.append("The results are withdrawn; the attempts keep them.")
    if key:
        return Act(
            f"Retry the task {key}?",
            campaign.path,
            (*words, "--key", key, "--yes"),
            campaign.retry(status=status, keys=[key], dry_run=True),
            f"{campaign.campaign_id}",
            lambda: (
                f"{counted(campaign.retry(status=status, keys=[key]), 'task')} will be tried again"
            ),
            back=address("/task", path=path, key=key),
            notes=notes,
            button="Retry the task",
        )
    tree = campaign.tree()
    tasks = sum(_of_status(node, status) for node in _open(tree))
    refused = _too_many(tasks, sum(_of_status(node, status) > 0 for node in tree), "")
    if error_class is not None and not refused:
        tasks = campaign.retry(status=status, error_class=error_class, dry_run=True)
    chosen = () if error_class is None else ("--error-class", error_class)
    of_class = "" if error_class is None else f" whose last attempt ended with {error_class}"
    return Act(
        f"Retry {status} tasks of {path} and all below it{of_class}?",
        campaign.path,
        (*words, *chosen, "--yes"),
        tasks,
        f"{campaign.campaign_id}",
        lambda: (
            f"{counted(campaign.retry(status=status, error_class=error_class), 'task')} "
            "will be tried again"
        ),
        back=address("/campaign", path=path),
        notes=notes,
        refused=refused,
        button="Retry",
    )


def _prioritise(campaign: Campaign, fields: Mapping[str, str]) -> Act:
    path, text = campaign.path, fields.get("priority", "")
    low, high = PRIORITY_RANGE
    if not text.removeprefix("-").isascii() or not text.removeprefix("-").isdigit():
        raise UsageError(f"a priority is a whole number, not {text!r:.80}")
    if len(text) > len(f"{low}") or not low <= int(text) <= high:
        raise UsageError(f"a priority is a number from {low} to {high}")
    priority, tree = int(text), campaign.tree()
    tasks = sum(node.waiting + node.delayed for node in tree)
    return Act(
        f"Give the waiting tasks of {path} and all below it the priority {priority}?",
        campaign.path,
        ("taskq", "prioritise", path, "--where", _WAITING, "--priority", f"{priority}"),
        tasks,
        f"{campaign.campaign_id}",
        lambda: (
            f"{counted(campaign.set_priority(priority, where=_WAITING), 'task')} "
            f"got the priority {priority}"
        ),
        back=address("/campaign", path=path),
        notes=["Agents get tasks with a higher priority first; seeding gives 0."],
        refused=_too_many(tasks, len(tree), ""),
        button="Change the priority",
    )


def _of_trouble(
    queries: Queries, verb: str, path: str, fields: Mapping[str, str], *, whole: bool
) -> Act:
    number = fields.get("trouble", "")
    found = read_troubles(queries, path, whole=whole).troubles
    trouble = next((it for it in found if f"{it.trouble_id}" == number), None)
    if trouble is None or trouble.trouble_id is None:
        raise NotFound(f"no trouble {number!r:.40} holds at {path}; it may be over")
    trouble_id, troubles = trouble.trouble_id, Troubles(queries)
    words, run = _said_of_trouble(verb, troubles, trouble, fields)
    title = {
        "acknowledge": f"Acknowledge trouble {trouble_id}?",
        "snooze": f"Snooze trouble {trouble_id}?",
        "reopen": f"Open trouble {trouble_id} again?",
    }[verb]
    return Act(
        title,
        path,
        ("taskq", "troubles", *words),
        trouble.tasks,
        f"{trouble_id} {trouble.state}",
        run,
        back=address("/", path=path),
        notes=[trouble.full_text],
        button=verb.capitalize(),
    )


def _said_of_trouble(
    verb: str, troubles: Troubles, trouble: KnownTrouble, fields: Mapping[str, str]
) -> tuple[tuple[str, ...], Callable[[], str]]:
    """Return the words of the command, and what does it."""
    trouble_id = trouble.trouble_id or 0
    term = fields.get("for", "")

    def acknowledge() -> str:
        troubles.acknowledge(trouble_id)
        return f"Trouble {trouble_id} is acknowledged"

    def snooze() -> str:
        troubles.snooze(trouble_id, SNOOZES[term])
        return f"Trouble {trouble_id} is snoozed for {duration(SNOOZES[term])}"

    def reopen() -> str:
        troubles.undo(trouble_id)
        return f"Trouble {trouble_id} is open again"

    if verb == "snooze":
        if term not in SNOOZES:
            raise UsageError(f"a page snoozes for {', '.join(SNOOZES)}, not for {term!r:.40}")
        return ("snooze", f"{trouble_id}", term), snooze
    if verb == "acknowledge":
        return ("acknowledge", f"{trouble_id}"), acknowledge
    return ("acknowledge", f"{trouble_id}", "--undo"), reopen


def _open(tree: Sequence[Status]) -> list[Status]:
    """Return the campaign, and those below it that are not cancelled: what a retry goes through."""
    own, *others = tree
    return [own, *(node for node in others if node.state != "cancelled")]


def _of_status(node: Status, status: str) -> int:
    number: int = getattr(node, status)
    return number


def _too_many(tasks: int, campaigns: int, hint: str) -> str:
    """Return why a page refuses to change so many tasks; empty if it does not."""
    if tasks <= MOST_TASKS and campaigns <= MOST_CAMPAIGNS:
        return ""
    what = (
        counted(tasks, "task") if tasks > MOST_TASKS else f"{counted(campaigns, 'campaign')} below"
    )
    most = MOST_TASKS if tasks > MOST_TASKS else MOST_CAMPAIGNS
    return f"That concerns {what}. Pages change {most:,} at most; the command does it. {hint}"


_VERBS: Final[Mapping[str, Callable[[Campaign, Mapping[str, str]], Act]]] = {
    "pause": _pause,
    "resume": _resume,
    "cancel": _cancel,
    "retry": _retry,
    "prioritise": _prioritise,
}
