"""Whether a host or site that fails in one campaign works in others."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from functools import cached_property
from typing import Final

from taskq.db.access import Queries
from taskq.diagnosis.bans import PlaceKind
from taskq.diagnosis.ends import PastEnds
from taskq.diagnosis.judging import LEAST_WELL, Judgement
from taskq.diagnosis.sample import BAD, MOST, AttemptGroup, Sample, by_place, read_sample
from taskq.model.errors import TaskqError

#: Places of which is read when their attempts succeeded.
_MOST_READ: Final = 10


class OtherCampaigns:
    """The attempts in all campaigns that a reader may see, read when a place fails.

    sample: the attempts at and below `path`, which are enough for a reader who sees no others.
    """

    def __init__(self, database: Queries, path: str, sample: Sample) -> None:
        self._database = database
        self._path = path
        self._sample = sample
        self._judged: dict[PlaceKind, Judgement] = {}
        self._read: dict[tuple[PlaceKind, str], dict[str, list[datetime]]] = {}

    def fails_only_in(self, kind: PlaceKind, name: str, since: datetime | None = None) -> str:
        """Return the one campaign that fails at a place where others work; else nothing.

        These must have worked since it fails, as what broke since then may break them too. since:
        None: since the first failure in the sample.
        """
        if kind not in self._judged:
            self._judged[kind] = Judgement(by_place(self._groups, kind))
        only = self._judged[kind].fails_only_in(name)
        since = since or (self._first_bad(kind, name, only) if only else None)
        if not only or since is None:
            return only
        begun = self._successes(kind, name)
        if begun is None:
            return only
        works = sum(at >= since for path, times in begun.items() if path != only for at in times)
        return only if works >= LEAST_WELL else ""

    def _first_bad(self, kind: PlaceKind, name: str, campaign: str) -> datetime | None:
        its = [it for it in by_place(self._groups, kind)[name] if it.campaign == campaign]
        return min((it.first_at for it in its if it.outcome in BAD and it.first_at), default=None)

    def _successes(self, kind: PlaceKind, name: str) -> dict[str, list[datetime]] | None:
        """Return when attempts that succeeded began there, by campaign; None if nobody may know."""
        if (kind, name) not in self._read:
            if len(self._read) >= _MOST_READ:
                return None
            rows = None
            for path in dict.fromkeys(("/", self._path)):
                with suppress(TaskqError):
                    rows = self._database.rows(
                        "place_runs", path=path, kind=kind, name=name, most=MOST
                    )
                    break
            if rows is None:
                return None
            self._read[kind, name] = {row["campaign"]: row["began_at"] for row in rows}
        return self._read[kind, name]

    @cached_property
    def _groups(self) -> list[AttemptGroup]:
        if self._path != "/":
            with suppress(TaskqError):
                past = PastEnds(self._database, "/")
                return [*past.with_sums(read_sample(self._database, "/")).groups]
        return [*self._sample.groups]
