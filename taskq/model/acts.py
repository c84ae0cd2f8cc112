"""Acts: who did what, and at which campaign, as the database has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

#: What statements note, by the `@act` of their headers.
VERBS: Final = (
    "pause",
    "resume",
    "cancel",
    "retry",
    "prioritise",
    "change",
    "ban",
    "unban",
    "archive",
    "restore",
    "remove",
    "give",
    "recover",
    "drain",
    "maintain",
    "acknowledge",
    "limit",
    "quota",
    "token",
    "notify",
    "pilot",
)


@dataclass(frozen=True, slots=True)
class RecordedAct:
    """Something that people, or their programs, did at a campaign, or to what it depends on.

    Attributes:
        path: Of the campaign, which may be removed since; / for what all share: limits and quotas.
        verb: One of `VERBS`.
        who: A login, the name of a token, or retention; None if the caller's token is not for the
            campaign, as are the next ones then, but for the times.
        what: In short: names of settings and inputs, the filter, the host and why, the owner, the
            name of a limit, a token, a rule or a pilot with what became of it; never a secret.
        began_at: When the first of its calls began; ended_at: when the last ended. The same done
            again within a minute is one act.
        calls: How many statements it took.
        tasks: How many it moved; of a removal, an archive or a restore, how many there were.
    """

    path: str
    verb: str
    who: str | None
    what: Sequence[str] | None
    began_at: datetime
    ended_at: datetime
    calls: int | None
    tasks: int | None
