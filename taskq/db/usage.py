"""What campaigns used: `Client.usage`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TypeAlias, get_args

from taskq.db.access import Queries
from taskq.model.errors import UsageError
from taskq.model.seed import check_path

Per: TypeAlias = Literal["owner", "campaign", "site", "day", "month", "end"]
PER: Final[tuple[Per, ...]] = get_args(Per)
#: The lines of an answer, as many as a gateway gives.
ALL_LINES: Final = 20_000


@dataclass(frozen=True, slots=True)
class Used:
    """What attempts used that ended; what they are not kept apart by is None.

    owner: empty if the campaign had none when they ended. site: empty if unknown. starts: of the
    day or the month, in UTC. end: done, failed, lost, cancelled, released, or hedged: given up for
    a second attempt. run_s: seconds in which slots ran them. core_s: times the cores that their
    agents offer a slot; the others are its parts, by how attempts ended. gpu_s: run_s times the
    GPUs that a task needs, or their share.
    """

    owner: str | None
    campaign: str | None
    site: str | None
    starts: datetime | None
    end: str | None
    attempts: int
    run_s: float
    core_s: float
    done_core_s: float
    failed_core_s: float
    lost_core_s: float
    cancelled_core_s: float
    released_core_s: float
    gpu_s: float


@dataclass(frozen=True, slots=True)
class Usage:
    """Lines, and until when ended attempts are in them: usually some seconds ago."""

    until: datetime
    lines: list[Used]


def usage(
    database: Queries, path: str, per: Sequence[Per], since: datetime | None, limit: int
) -> Usage:
    """Return what ended attempts at and below a path used; see `Client.usage`."""
    unknown = [name for name in per if name not in PER]
    if unknown:
        raise UsageError(f"usage is kept per {', '.join(PER)}, not per {unknown[0]!r:.80}")
    if {"day", "month"} <= {*per}:
        raise UsageError("usage is shown per day or per month, not both")
    if not 1 <= limit <= ALL_LINES:
        raise UsageError(f"the limit must be from 1 to {ALL_LINES:,} lines")
    # Read first, so that the lines have at least that.
    until = database.value("usage_until")
    rows = database.rows("usage", path=check_path(path), per=list(per), since=since, most=limit)
    return Usage(until, [Used(**row) for row in rows])
