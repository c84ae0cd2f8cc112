"""Campaigns that the keeper removes within a day, since they ended long ago."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from taskq.diagnosis.events import REMOVAL
from taskq.diagnosis.facts import Facts
from taskq.diagnosis.reasons import Reason
from taskq.model.removed import RetentionDate
from taskq.model.words import command

_SOON: Final = timedelta(days=1)
_DAY_S: Final = 86_400


def soon_removed(facts: Facts) -> list[RetentionDate]:
    """Return what is removed within a day, at or below the campaign or with one above it."""
    own = facts.retention
    if own is None or own.due_at > facts.upkeep.now + _SOON:
        return [*facts.removals]
    return [own, *(it for it in facts.removals if it.path != own.path)]


def removals(facts: Facts) -> Iterator[Reason]:
    """Say what is removed soon, and how it stays."""
    for it in soon_removed(facts):
        if it.is_archived:
            commands = [command("campaign", "resume", it.path)]
        else:
            longer = f"{math.ceil(2 * it.keep_s / _DAY_S)}d"
            commands = [
                command("campaign", "archive", it.path, "--to", "FOLDER"),
                command("campaign", "change", it.path, "--keep", longer),
            ]
        yield Reason(
            REMOVAL,
            f"{it.path} is removed {it.words(it.path)}.",
            commands=commands,
            figures={"campaign": it.path, "due_at": it.due_at, "keep_s": it.keep_s},
        )
