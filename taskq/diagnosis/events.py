"""Events: the words by which notification rules name reasons.

The judgement is that of `explain_campaign`; here stands only which reasons are worth a message, by
which word a rule names them, and how long they must hold before. The message has the reason's code
and text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from taskq.diagnosis.reasons import Reason

DISK: Final = "disk"
REMOVAL: Final = "removal"
TEST: Final = "test"
#: Where a reason belongs that no other word names.
TROUBLE: Final = "trouble"

#: Codes of reasons that block tasks in the usual course of things; those of news, even if nothing
#: waits for it.
_USUAL: Final = frozenset({"nothing-seeded", "leased-ahead", "delayed"})


@dataclass(frozen=True, slots=True)
class EventKind:
    """A word of rules. codes: of the reasons that it names; after_s: how long they must hold."""

    name: str
    after_s: float
    codes: frozenset[str]
    means: str


def _event(name: str, after_s: float, codes: str, means: str) -> EventKind:
    return EventKind(name, after_s, frozenset(codes.split()), means)


EVENTS: Final = (
    _event("finished", 60, "finished", "all tasks have ended"),
    _event(
        "paused",
        0,
        "paused cancelled",
        "the campaign, one above it, or one below it with tasks is not open",
    ),
    _event(
        "no-agents",
        300,
        "no-agents silent draining banned tags refused",
        "tasks wait that no agent can claim: none serves them, or all are silent, leave, lack a "
        "tag, or skip the campaign",
    ),
    _event(
        "failing", 0, "failing", "more than half of the latest first attempts in a campaign failed"
    ),
    _event(
        "slow", 600, "slow", "tasks wait, and less than a third as many end as in the hours before"
    ),
    _event(TROUBLE, 300, "", "anything else that keeps tasks from running, or is broken"),
    _event(
        DISK,
        0,
        f"{DISK} server-disk",
        "a disk that the queue needs is nearly full, or will be within a day",
    ),
    _event(REMOVAL, 0, REMOVAL, "a campaign that ended long ago is removed within a day"),
)
BY_NAME: Final = {event.name: event for event in EVENTS}
_BY_CODE: Final = {code: event for event in EVENTS for code in event.codes} | {
    TEST: _event(TEST, 0, TEST, "somebody has asked for it")
}
#: Codes of news in which nothing is wrong.
NEWS: Final = BY_NAME["finished"].codes | BY_NAME[REMOVAL].codes
_REPORTED: Final = NEWS | BY_NAME["paused"].codes


def event_named(code: str) -> EventKind:
    """Return the event that names a code."""
    return _BY_CODE.get(code, BY_NAME[TROUBLE])


def event_of(reason: Reason) -> EventKind | None:
    """Return the event that reports a reason; None if nobody needs a message.

    A reason is reported if tasks do not run because of it, or something is broken; and in any case
    if all tasks have ended, a campaign is not open, or one is removed soon.
    """
    if reason.code in _USUAL or not (reason.blocks or reason.lost or reason.code in _REPORTED):
        return None
    return event_named(reason.code)


def subject(path: str, reason: Reason) -> str:
    """Return what a reason is about: the names among its figures, or the explained campaign."""
    named = [it if isinstance(it, list) else [it] for it in reason.figures.values()]
    names = [name for it in named for name in it if isinstance(name, str)]
    return " ".join(names) or path
