"""What a campaign has to allow so that fewer attempts fail: a higher limit, or more attempts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

from taskq.diagnosis.evidence import RunTimeSums, share
from taskq.diagnosis.sample import AttemptGroup
from taskq.model.settings import size_text
from taskq_agent.protocol import OUT_OF_MEMORY, OUTPUT_TOO_LARGE, TIME_LIMIT
from taskq_agent.transport import MAX_BLOB_BYTES
from taskq_agent.units import MAX_BYTES

_YEAR_S: Final = 31_536_000.0
#: Successes from whose times a limit is estimated, and by what it becomes larger at least, at most.
_LEAST_ENDED: Final = 20
_LEAST_RAISED: Final = 1.25
_MOST_RAISED: Final = 10.0
#: Of so many tasks one may fail for good by chance.
FEW: Final = 1_000
_MOST_ATTEMPTS: Final = 20
#: A larger share of tasks that fail again may be all of them.
SURE: Final = 0.9


@dataclass(frozen=True, slots=True)
class TaskFates:
    """How tasks with failures of a class went on; see `failing_tasks` in SQL for the fields."""

    campaign: str
    error_class: str
    attempts: int
    tasks: int
    again: int
    then_done: int
    memory: Sequence[int] | None = None
    time_limit_s: float | None = None
    max_attempts: int | None = None
    output_bytes: int | None = None
    memory_learns: bool = False
    last_tries: int = 0
    last_done: int = 0


def enough_s(groups: Iterable[AttemptGroup], fates: TaskFates) -> float | None:
    """Return the time within which nearly all attempts would end, by those that do; else None.

    What a limit cut is longer than the limit, nobody knows by how much. So the logarithms of the
    times are taken for a normal distribution that the limit has truncated: its parameters follow
    from the share that was cut and the mean of the others.
    """
    limit_s = fates.time_limit_s
    if fates.error_class != TIME_LIMIT or not limit_s:
        return None
    ended = [group.times for group in groups if group.outcome == "done" and not group.outdated]
    times = sum(ended, RunTimeSums())
    whole = times.number + fates.attempts
    if times.number < _LEAST_ENDED or 2 * times.number < whole:
        return None
    normal = NormalDist()
    place = normal.inv_cdf(times.number / whole)
    spread = max(0.0, math.log(limit_s) - times.mean) / (
        place + normal.pdf(place) * whole / times.number
    )
    log_s = math.log(limit_s) + spread * (normal.inv_cdf(1 - 1 / FEW) - place)
    return min(max(math.exp(log_s), _LEAST_RAISED * limit_s), _MOST_RAISED * limit_s)


def raised_by(fates: TaskFates, limit_s: float | None) -> Sequence[str]:
    """Return the option that raises the limit that attempts exceeded; empty if there is none.

    limit_s: the time that is enough; None if unknown, which doubles the limit.
    """
    if fates.error_class == OUT_OF_MEMORY and fates.memory:
        sizes = [*fates.memory[:-1], min(2 * fates.memory[-1], MAX_BYTES)]
        return "--memory", ",".join(map(size_text, sizes))
    if fates.error_class == OUTPUT_TOO_LARGE and fates.output_bytes:
        return "--output-bytes", size_text(min(2 * fates.output_bytes, MAX_BLOB_BYTES))
    if fates.error_class == TIME_LIMIT and fates.time_limit_s is not None:
        found_s = 2 * fates.time_limit_s if limit_s is None else math.ceil(limit_s)
        return "--time-limit", f"{min(found_s, _YEAR_S):.10g}s"
    return ()


def enough_attempts(fates: TaskFates, bad: float) -> int | None:
    """Return the attempts after which few tasks have failed by chance; else None.

    Also none if they are allowed, or if the last attempts that were made do not show that one more
    helps: tasks that come so far may be others than those that fail once.
    """
    last = share(fates.last_tries - fates.last_done, fates.last_tries)
    bad = max(bad, last.share)
    if not 0 < bad < 1 or last.high >= SURE:
        return None
    enough = min(math.ceil(math.log(1 / FEW) / math.log(bad)), _MOST_ATTEMPTS)
    return enough if enough > (fates.max_attempts or enough) else None
