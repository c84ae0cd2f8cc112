"""Cursors: they record which results of a campaign were given."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final

from taskq.files.destination import opened
from taskq.model.errors import Conflict, UsageError
from taskq.results.id_set import IdSet

_VERSION: Final = 1
#: The cursor of five million results in a random order takes 10 MB.
MAX_BYTES: Final = 256 << 20


class Cursor:
    """The set of results given of a campaign, and of those below it; empty at first.

    `text` is for a database that keeps the cursor in one transaction with the results; `write`
    keeps it in a file. Its size is some bytes for each group of neighbours among tasks that ended
    in the order of seeding, as most do, and 2 bytes for each result in a random order.
    """

    def __init__(self) -> None:
        self._of: tuple[str, datetime] | None = None
        self._given: defaultdict[int, IdSet] = defaultdict(IdSet)
        self._withdrawn: defaultdict[int, set[tuple[int, int]]] = defaultdict(set)

    def __len__(self) -> int:
        """Return how many results were given."""
        return sum(map(len, self._given.values()))

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        path = self._of[0] if self._of else "no campaign"
        return f"<Cursor of {path}: {len(self):,} results>"

    @classmethod
    def read(cls, path: str | Path) -> Cursor:
        """Return the cursor that `write` has written; a new one if the file is empty or absent."""
        try:
            with Path(path).open("rb") as file:
                data = file.read(MAX_BYTES)
        except FileNotFoundError:
            return cls()
        except OSError as error:
            raise UsageError(f"{str(path)!r} cannot be read: {error.strerror}") from None
        if not data:
            return cls()
        try:
            return cls.of_text(data.decode(errors="replace"))
        except UsageError as error:
            raise UsageError(f"{str(path)!r}: {error}; name another file") from None

    @classmethod
    def of_text(cls, text: str) -> Cursor:
        """Return the cursor of a `text`."""
        try:
            return cls._of_json(json.loads(text))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise UsageError("this is not a cursor") from None

    @classmethod
    def _of_json(cls, value: Any) -> Cursor:
        if value["taskq_cursor"] != _VERSION:
            raise UsageError("this cursor is of another release of taskq")
        cursor = cls()
        for campaign, steps in value["given"].items():
            if not all(type(step) is int for step in steps):
                raise TypeError(steps)
            cursor._given[int(campaign)] = IdSet.of_steps(steps)
        for campaign, pairs in value.get("withdrawn", {}).items():
            cursor._withdrawn[int(campaign)] = {
                (int(task), int(attempt)) for task, attempt in pairs
            }
        if value["campaign"]:
            cursor._of = str(value["campaign"]), datetime.fromisoformat(value["created_at"])
        return cursor

    @property
    def text(self) -> str:
        """The cursor as one line of JSON.

        For each campaign, by its id, the numbers give alternately how many ids of tasks were left
        out, and how many were given. Withdrawn results that it knows are pairs of task and attempt.
        """
        path, created_at = "", ""
        if self._of:
            path, created_at = self._of[0], self._of[1].isoformat()
        given = {str(key): list(ids.steps()) for key, ids in sorted(self._given.items())}
        value: dict[str, Any] = {"taskq_cursor": _VERSION, "campaign": path}
        value |= {"created_at": created_at, "given": given}
        if withdrawn := {str(key): sorted(some) for key, some in sorted(self._withdrawn.items())}:
            value["withdrawn"] = withdrawn
        return json.dumps(value, separators=(",", ":"))

    def write(self, path: str | Path) -> None:
        """Write it to a file, which it replaces as a whole."""
        with opened(path) as stream:
            stream.write(f"{self.text}\n".encode())

    def begin(self, path: str, created_at: datetime) -> None:
        """Begin to give results of a campaign.

        Raises:
            Conflict: The cursor is of another campaign.
        """
        its = path, created_at.astimezone(timezone.utc)  # servers return any time zone
        self._of = self._of or its
        if self._of[0] != path:
            raise Conflict(f"this cursor is of {self._of[0]}, not of {path}; name another")
        if self._of != its:
            raise Conflict(
                f"this cursor is of another campaign {path}, created at {self._of[1]}; this one "
                f"was created at {its[1]}: begin with a new cursor"
            )

    def given(self, campaign_id: int) -> IdSet:
        """Return the set of tasks whose results were given; callers add further ones to it."""
        return self._given[campaign_id]

    def withdrawn(self, campaign_id: int) -> set[tuple[int, int]]:
        """Return the withdrawn results that it knows: tasks and attempts; callers add others."""
        return self._withdrawn[campaign_id]
