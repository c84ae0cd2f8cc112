"""Whether a host or site that fails in one campaign works in others."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property

from taskq.db.access import Queries
from taskq.diagnosis.bans import PlaceKind
from taskq.diagnosis.ends import PastEnds
from taskq.diagnosis.judging import Judgement
from taskq.diagnosis.sample import AttemptGroup, Sample, by_place, read_sample
from taskq.model.errors import TaskqError


class OtherCampaigns:
    """The attempts in all campaigns that a reader may see, read when a place fails.

    sample: the attempts at and below `path`, which are enough for a reader who sees no others.
    """

    def __init__(self, database: Queries, path: str, sample: Sample) -> None:
        self._database = database
        self._path = path
        self._sample = sample
        self._judged: dict[PlaceKind, Judgement] = {}

    def fails_only_in(self, kind: PlaceKind, name: str) -> str:
        """Return the one campaign that fails at a place where others work; else nothing."""
        if kind not in self._judged:
            self._judged[kind] = Judgement(by_place(self._groups, kind))
        return self._judged[kind].fails_only_in(name)

    @cached_property
    def _groups(self) -> list[AttemptGroup]:
        if self._path != "/":
            with suppress(TaskqError):
                past = PastEnds(self._database, "/")
                return [*past.with_sums(read_sample(self._database, "/")).groups]
        return [*self._sample.groups]
