"""When the batch job of an agent ends, as its environment says.

Newer releases of Slurm give the instant (`SLURM_JOB_END_TIME`; not yet 22.05), Torque the wall time
(`PBS_WALLTIME`), HTCondor the longest time in the job's description (the file that `_CONDOR_JOB_AD`
names). For batch systems that give nothing, such as OpenPBS, LSF and Kubernetes, a job script sets
`TASKQ_END_TIME`.
"""

from __future__ import annotations

import logging
import math
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Dict, Iterator, Mapping, Optional, Tuple

from taskq_agent.settings import AgentSettings

log = logging.getLogger(__name__)

END_VARIABLE = "TASKQ_END_TIME"

_INSTANTS = (END_VARIABLE, "SLURM_JOB_END_TIME")
_WALL_TIMES = ("PBS_WALLTIME",)
_HTCONDOR_AD = "_CONDOR_JOB_AD"
_HTCONDOR_LIMITS = (
    ("JobCurrentStartDate", "AllowedJobDuration"),
    ("JobCurrentStartExecutingDate", "AllowedExecuteDuration"),
)
_AD_LINE = re.compile(r"^(\w+)\s*=\s*(\d+)\s*$", re.MULTILINE)
_MAX_AD_BYTES = 1_048_576
# Slurm writes the end of time for a job without a limit, others zero.
_LONGEST_S = 10 * 365 * 86_400.0
_SHORTEST_LIFE_S = 0.001


def within_batch_job(
    agent: AgentSettings,
    environment: Mapping[str, str],
    *,
    begun: float,
    now: Optional[float] = None,
) -> AgentSettings:
    """Return the settings, with `max_seconds` as the time that it and the batch job leave.

    begun: when this process began; `max_seconds` and wall times without a beginning count from it.
    now: by default the present. Both are seconds since 1970.
    """
    now = time.time() if now is None else now
    ends = dict(_ends(environment, begun, now))
    own = math.inf if agent.max_seconds is None else begun + agent.max_seconds
    name = min(ends, key=ends.__getitem__, default=None)
    if name is not None and ends[name] < own:
        own = ends[name]
        log.info("the batch job ends in %.0f s, says %s", max(own - now, 0), name)
    if own == math.inf:
        return agent
    return replace(agent, max_seconds=max(own - now, _SHORTEST_LIFE_S))


def _ends(environment: Mapping[str, str], begun: float, now: float) -> Iterator[Tuple[str, float]]:
    """Yield each variable that gives the end of the job, with that instant."""
    for name in _INSTANTS:
        end = _seconds(environment.get(name))
        if end is not None and end - now < _LONGEST_S:
            yield name, end
        elif end is None and environment.get(name):
            log.warning("%s is not a time: %.100r", name, environment[name])
    for name in _WALL_TIMES:
        wall_s = _seconds(environment.get(name))
        if wall_s is not None and wall_s < _LONGEST_S:
            yield name, begun + wall_s
    if environment.get(_HTCONDOR_AD):
        ad = _job_ad(Path(environment[_HTCONDOR_AD]))
        for since, limit in _HTCONDOR_LIMITS:
            if limit in ad:
                yield f"{limit} of {_HTCONDOR_AD}", ad.get(since, begun) + ad[limit]


def _seconds(text: Optional[str]) -> Optional[float]:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value > 0 else None


def _job_ad(file: Path) -> Dict[str, float]:
    """Return the numbers in a job's description; empty if it cannot be read."""
    try:
        with file.open("rb") as stream:
            text = stream.read(_MAX_AD_BYTES).decode("utf-8", "replace")
    except OSError as error:
        log.warning("%s %s cannot be read: %s", _HTCONDOR_AD, file, error.strerror)
        return {}
    return {name: float(digits[:15]) for name, digits in _AD_LINE.findall(text)}
