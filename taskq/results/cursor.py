"""Cursors: which results of a campaign were given, to be kept beside them."""

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
#: Five million results in a random order have 10 MB.
MAX_BYTES: Final = 256 << 20


class Cursor:
    """Which results of a campaign, and of those below it, were given.

    A new one: none. `text` is for whoever keeps it in a database, in one transaction with the
    results; `write` keeps it in a file. It is some bytes for each group of neighbours among tasks
    that ended in the order of seeding, as most do, and 2 bytes a result in a random order.
    """

    def __init__(self) -> None:
        self._of: tuple[str, datetime] | None = None
        self._given: defaultdict[int, IdSet] = defaultdict(IdSet)

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
        """Return what `write` has written, a new cursor if the file is empty or not there."""
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
        """Return what `text` has returned."""
        try:
            return cls._of_json(json.loads(text))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise UsageError("this is no cursor") from None

    @classmethod
    def _of_json(cls, value: Any) -> Cursor:
        if value["taskq_cursor"] != _VERSION:
            raise UsageError("this cursor is of another release of taskq")
        cursor = cls()
        for campaign, steps in value["given"].items():
            if not all(type(one) is int for one in steps):
                raise TypeError(steps)
            cursor._given[int(campaign)] = IdSet.of_steps(steps)
        if value["campaign"]:
            cursor._of = str(value["campaign"]), datetime.fromisoformat(value["created_at"])
        return cursor

    @property
    def text(self) -> str:
        """The cursor as one line of JSON.

        Of each campaign, by its id, the numbers say by turns how many ids of tasks were left out,
        and how many were given.
        """
        path, created_at = "", ""
        if self._of:
            path, created_at = self._of[0], self._of[1].isoformat()
        given = {str(key): list(one.steps()) for key, one in sorted(self._given.items())}
        value: dict[str, Any] = {"taskq_cursor": _VERSION, "campaign": path}
        value |= {"created_at": created_at, "given": given}
        return json.dumps(value, separators=(",", ":"))

    def write(self, path: str | Path) -> None:
        """Write it to a file, which is replaced as a whole."""
        with opened(path) as stream:
            stream.write(f"{self.text}\n".encode())

    def begin(self, path: str, created_at: datetime) -> None:
        """Begin to give results of a campaign; raise `Conflict` if this is a cursor of another."""
        its = path, created_at.astimezone(timezone.utc)  # servers say it in any time zone
        self._of = self._of or its
        if self._of[0] != path:
            raise Conflict(f"this cursor is of {self._of[0]}, not of {path}; name another")
        if self._of != its:
            raise Conflict(
                f"this cursor is of another campaign {path}, created at {self._of[1]}; this one "
                f"was created at {its[1]}: begin with a new cursor"
            )

    def given(self, campaign_id: int) -> IdSet:
        """Return the tasks of a campaign whose results were given, to which others are added."""
        return self._given[campaign_id]
