"""Fields that no task has: names in filters, and placeholders of programs, that are misspelt.

A missing field is not equal to anything, so a misspelt name can match every task. Whether a task
has a field is looked up in some tasks from all parts of a campaign: 500 payloads and 500 attempts
at most, so that the look costs the same for any number of tasks.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final

from taskq.campaign.filter_compiler import Filter
from taskq.campaign.filter_terms import Field
from taskq.db.access import Queries
from taskq.model.words import counted
from taskq_agent.handlers.definition import COMMAND, payload_fields

#: Parts of a campaign that are looked at, and payloads and attempts that are read of each.
STRETCHES: Final = 25
EACH: Final = 20
_SHOWN: Final = 6


@dataclass(slots=True)
class Unknown:
    """A field that none of the tasks looked at has. path: of the campaign above all of them.

    looked: how many payloads or results were looked at. whole: whether these are all. names: what
    they have in its place, with counts.
    """

    path: str
    name: Field
    looked: int = 0
    whole: bool = True
    names: Counter[str] = field(default_factory=Counter)

    @property
    def dotted(self) -> str:
        """The field as filters name it."""
        return ".".join(name if _is_plain(name) else json.dumps(name) for name in self.name)

    def __str__(self) -> str:
        what = "task" if self.name[0] == "payload" else "result"
        few = f"none of {counted(self.looked, what)} of {self.path} that were looked at"
        who = f"no {what} of {self.path}" if self.whole else few
        return f"{who} has the field {self.dotted}{self._instead()}"

    def _instead(self) -> str:
        above, names = self.name[:-1], [name for name, _ in self.names.most_common()]
        close = get_close_matches(self.name[-1], names, n=1)
        if close:
            return f", but there is {Unknown(self.path, (*above, close[0])).dotted}"
        shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
        return f"; there are {shown}" if names else ""


def unknown_fields(
    database: Queries, path: str, campaigns: Iterable[int], fields: Collection[Field]
) -> list[Unknown]:
    """Return those of the fields that no task of some campaigns has that was looked at.

    None if the campaigns have no tasks. path: the campaign above all of them.
    """
    left = {name: Unknown(path, name) for name in fields}
    has_tasks = False
    for campaign in campaigns:
        if not left:
            break
        named = [*left]
        rows = database.rows(
            "known_fields",
            campaign=campaign,
            fields=json.dumps(named),
            stretches=STRETCHES,
            each=EACH,
        )
        for name, row in zip(named, rows, strict=True):
            has_tasks |= row["tasks"] > 0
            if row["known"]:
                del left[name]
                continue
            left[name].looked += row["looked"]
            left[name].whole &= row["whole"]
            left[name].names.update(row["names"])
    return [*left.values()] if has_tasks else []


def warn_of_placeholders(database: Queries, path: str) -> None:
    """Warn of fields that the arguments of a campaign's program name and no payload has."""
    row = database.row("campaign", path=path)
    handler = None if row is None else row["settings"]["handler"]
    if row is None or handler is None or handler.get("kind") != COMMAND:
        return
    names: Collection[str] = ()
    with suppress(ValueError, TypeError):  # a damaged campaign has other advice
        names = payload_fields(handler)
    fields = [("payload", name) for name in sorted(names)]
    for unknown in unknown_fields(database, path, [row["campaign_id"]], fields):
        text = f"{unknown}; the program's arguments name it, so each task without it will fail"
        warnings.warn(text, stacklevel=2)


def misspelt(database: Queries, path: str, campaigns: Iterable[int], chosen: Filter) -> Misspelt:
    """Look up the fields of a filter."""
    return Misspelt(chosen, unknown_fields(database, path, campaigns, chosen.fields))


@dataclass(frozen=True, slots=True)
class Misspelt:
    """The fields of a filter that no task has, as far as was looked."""

    chosen: Filter
    unknown: Sequence[Unknown]

    def __bool__(self) -> bool:
        return bool(self.unknown)

    def __str__(self) -> str:
        return "; ".join(map(str, self.unknown))

    def refusal(self) -> str | None:
        """Return why a change by this filter is refused; None if it is not.

        A field that perhaps a rare task has is no reason, if no task matches for lack of it.
        """
        certain = [str(unknown) for unknown in self.unknown if unknown.whole]
        if certain:
            return "; ".join(certain)
        rare = [unknown for unknown in self.unknown if self.chosen.finds_lack_of(unknown.name)]
        if not rare:
            return None
        had = " and ".join(f"{unknown.dotted} != null" for unknown in rare)
        texts = "; ".join(map(str, rare))
        return f"{texts}; tasks without it would match: if some have it, write `{had} and (...)`"


def _is_plain(name: str) -> bool:
    return name.replace("_", "a").replace("-", "a").isalnum() and not name[0].isdecimal()
