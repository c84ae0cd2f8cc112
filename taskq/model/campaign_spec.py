"""Campaign specification: handler, retries, resources and limits of its tasks. Plain values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final

from taskq.model.errors import InvalidCampaign
from taskq.model.handler import Handler
from taskq.model.params import check_params, check_string, known_only
from taskq.model.resources import (
    MAX_CORES,
    MAX_GPUS,
    RESOURCES,
    check_count,
    memory_sizes,
    resources_to_json,
)
from taskq.model.seed import check_path
from taskq.model.tags import check_requires

MAX_ATTEMPTS: Final = 1_000
MAX_DESCRIPTION_CHARS: Final = 10_000
MAX_SECONDS: Final = 31_536_000  # a year
MAX_WEIGHT: Final = 1_000
MAX_RUNNING: Final = 1_000_000
MAX_RUNNING_PER_SITE: Final = 20_000
ARCHIVE_BYTES: Final = (16_384, 67_108_864)
OUTPUT_TOTAL_BYTES: Final = (16_384, 2**50)
MAX_NEVER_RETRY: Final = 100
MAX_CLASS_CHARS: Final = 200
ON_DISCONNECT: Final = ("continue", "stop")
LATE_RESULTS: Final = ("reject", "salvage")

_KEYS: Final = (
    "path",
    "description",
    "weight",
    "requires",
    "handler",
    "retry",
    "limits",
    "resources",
    "on_disconnect",
    "late_results",
    "hedge",
    "front",
    "params",
)
_LIMITS: Final = (
    *("time_limit_s", "max_running", "max_running_per_site", "max_failure_share"),
    *("checkpoint_bytes", "checkpoint_every_s", "output_bytes", "output_total_bytes"),
)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Rules for retrying a task after an unsuccessful attempt, and for failing it.

    max_attempts   failures after which the task is failed, 1 to 1000
    max_losses     attempts with a lost agent after which the task is failed, 1 to 1000
    backoff_s      the delay after the first failure, in seconds; it doubles each time
    backoff_max_s  the longest delay, in seconds; a year at most
    never_retry    classes of error after which the task is failed at once; 100 at most
    max_lost_nodes different nodes on which its agents were lost after which the task is failed, as
                   poison, 1 to 1000
    max_out_of_time  attempts handed back because the agent had no time left, after
                   which the task is failed, as too-long, 1 to 1000
    """

    max_attempts: int = 3
    max_losses: int = 5
    backoff_s: float = 10.0
    backoff_max_s: float = 3600.0
    never_retry: tuple[str, ...] = ()
    max_lost_nodes: int = 3
    max_out_of_time: int = 5

    def __post_init__(self) -> None:
        for name in ("max_attempts", "max_losses", "max_lost_nodes", "max_out_of_time"):
            value = getattr(self, name)
            if type(value) is not int or not 1 <= value <= MAX_ATTEMPTS:
                raise InvalidCampaign(
                    f"retry.{name} must be a whole number from 1 to {MAX_ATTEMPTS}, not {value!r}"
                )
        for name in ("backoff_s", "backoff_max_s"):
            _check_seconds(f"retry.{name}", getattr(self, name))
        if self.backoff_s > self.backoff_max_s:
            raise InvalidCampaign(
                f"retry.backoff_s ({self.backoff_s:g}) is longer than "
                f"retry.backoff_max_s ({self.backoff_max_s:g})"
            )
        object.__setattr__(self, "never_retry", _checked_classes(self.never_retry))

    def to_json(self) -> dict[str, Any]:
        """Return the policy as a JSON object."""
        return {**asdict(self), "never_retry": list(self.never_retry)}

    @classmethod
    def from_json(cls, value: object) -> RetryPolicy:
        """Return the policy of a JSON object; raise `InvalidCampaign` if it is not one."""
        return cls(**known_only("retry", value, [part.name for part in fields(cls)]))


@dataclass(frozen=True, slots=True)
class CampaignSpec:
    """Settings of a campaign, checked on construction.

    handler       None for a campaign that only holds others, or whose agents need no handler
    params        shared by all tasks: any JSON object of 256 KiB at most
    time_limit_s  per attempt, in seconds; None means no limit
    max_running   tasks working at a time, 1 to 1,000,000; None means any number
    max_running_per_site  tasks working at a time at one site, 1 to 20,000
    weight        share of the running tasks of agents that serve other campaigns too, in
                  relation to theirs; above 0, at most 1000
    requires      tags that an agent must offer; see `tags`
    on_disconnect what an agent that cannot reach the queue does with running tasks once others may
                  have claimed them: "continue" (the result counts if no other has), or "stop"
    late_results  how to treat a success of an attempt that was given up as lost: "reject" it, or
                  "salvage" it, so that it counts unless another result was accepted
    hedge         share of the tasks that may have a second attempt on another host at the end of
                  the campaign, if the first takes far longer than others do; above 0, at most 1;
                  None means no second attempts. It needs late_results="salvage", and no limit of
                  running tasks
    max_failure_share  share of failures among recent attempts above which the campaign pauses
                  itself, above 0 and below 1; None means never
    checkpoint_bytes  largest checkpoint of a task, as an archive, 16 KiB to 64 MiB; None keeps no
                  checkpoints
    checkpoint_every_s  seconds between uploads of a checkpoint while its attempt runs, 1 or more
    cores, gpus   how many of its agent's slot a task needs; None means that it does not matter
    memory        size that an attempt may occupy, in bytes or as "4G"; further sizes apply each
                  time the task has run out of memory; empty means any size
    output_bytes  most output files of a task, as an archive, 16 KiB to 64 MiB; None keeps none
    output_total_bytes  most output files of the campaign, 16 KiB to 1 PiB
    front         whether its tasks may be leased ahead into the front (lists in Redis), if any
    """

    path: str
    description: str = ""
    handler: Handler | None = None
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    time_limit_s: float | None = None
    max_running: int | None = None
    max_running_per_site: int | None = None
    weight: float = 1.0
    requires: tuple[str, ...] = ()
    on_disconnect: str = "continue"
    front: bool = True
    late_results: str = "reject"
    hedge: float | None = None
    max_failure_share: float | None = 0.9
    checkpoint_bytes: int | None = None
    checkpoint_every_s: float = 600.0
    cores: int | None = None
    memory: tuple[int, ...] = ()
    gpus: int | None = None
    output_bytes: int | None = None
    output_total_bytes: int = 10_737_418_240
    params: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_string("path", self.path)
        check_path(self.path)
        check_string("description", self.description)
        if len(self.description) > MAX_DESCRIPTION_CHARS:
            raise InvalidCampaign(
                f"description of {len(self.description)} characters; "
                f"{MAX_DESCRIPTION_CHARS} at most"
            )
        if self.time_limit_s is not None:
            _check_seconds("limits.time_limit_s", self.time_limit_s)
            if self.time_limit_s == 0:
                raise InvalidCampaign(
                    "limits.time_limit_s is zero, so no attempt could end in time; "
                    "leave it out for no limit"
                )
        _check_running("max_running", self.max_running, MAX_RUNNING)
        _check_running("max_running_per_site", self.max_running_per_site, MAX_RUNNING_PER_SITE)
        _check_weight(self.weight)
        object.__setattr__(self, "requires", check_requires(self.requires))
        _check_choice("on_disconnect", self.on_disconnect, ON_DISCONNECT)
        _check_choice("late_results", self.late_results, LATE_RESULTS)
        self._check_hedge()
        _check_share(self.max_failure_share)
        _check_bytes("checkpoint_bytes", self.checkpoint_bytes, ARCHIVE_BYTES)
        _check_bytes("output_bytes", self.output_bytes, ARCHIVE_BYTES)
        _check_bytes("output_total_bytes", self.output_total_bytes or 0, OUTPUT_TOTAL_BYTES)
        _check_interval(self.checkpoint_every_s)
        check_count("cores", self.cores, MAX_CORES)
        check_count("gpus", self.gpus, MAX_GPUS)
        object.__setattr__(self, "memory", memory_sizes(self.memory))
        if len(self.memory) > self.retry.max_attempts:
            raise InvalidCampaign(
                f"resources.memory has {len(self.memory)} sizes, but retry.max_attempts is "
                f"{self.retry.max_attempts}: the last could never be tried"
            )
        if type(self.front) is not bool:
            raise InvalidCampaign(f"front must be true or false, not {self.front!r:.80}")
        check_params(self.params)

    def _check_hedge(self) -> None:
        if self.hedge is None:
            return
        if type(self.hedge) not in (int, float) or not 0 < self.hedge <= 1:
            raise InvalidCampaign(
                "hedge must be a share of the tasks above 0, at most 1, as 0.05; "
                f"not {self.hedge!r:.80}"
            )
        if self.late_results != "salvage":
            raise InvalidCampaign(
                'hedge needs late_results = "salvage": whichever attempt succeeds first counts'
            )
        for name in ("max_running", "max_running_per_site"):
            if getattr(self, name) is not None:
                raise InvalidCampaign(
                    f"hedge and limits.{name} exclude each other: of one task two attempts may run"
                )

    def to_json(self) -> dict[str, Any]:
        """Return the campaign as a JSON object, in the shape of a campaign file."""
        return {
            "path": self.path,
            "description": self.description,
            "handler": None if self.handler is None else self.handler.to_json(),
            "retry": self.retry.to_json(),
            "weight": self.weight,
            "requires": list(self.requires),
            "limits": {name: getattr(self, name) for name in _LIMITS},
            "resources": resources_to_json(self.cores, self.memory, self.gpus),
            "on_disconnect": self.on_disconnect,
            "late_results": self.late_results,
            "hedge": self.hedge,
            "front": self.front,
            "params": dict(self.params),
        }

    def differences(self, other: CampaignSpec) -> list[str]:
        """Return the names of the fields that differ in another spec."""
        names = [one.name for one in fields(self)]
        return [name for name in names if getattr(self, name) != getattr(other, name)]

    @classmethod
    def from_json(cls, value: object) -> CampaignSpec:
        """Return the campaign of a JSON object; raise `InvalidCampaign`, which names the fault."""
        table = known_only("", value, _KEYS)
        if "path" not in table:
            raise InvalidCampaign("path is missing; a campaign needs one, as /wisdom/malaria")
        handler = table.get("handler")
        return cls(
            **known_only("limits", table.pop("limits", {}), _LIMITS),
            **known_only("resources", table.pop("resources", {}), RESOURCES),
            **{
                **table,
                "handler": None if handler is None else Handler.from_json(handler),
                "retry": RetryPolicy.from_json(table.get("retry", {})),
            },
        )


def _check_seconds(where: str, value: object) -> None:
    number = value if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
    if not 0 <= number <= MAX_SECONDS:
        raise InvalidCampaign(
            f"{where} must be a number of seconds from 0 to {MAX_SECONDS}, not {value!r:.80}"
        )


def _check_running(name: str, value: object, most: int) -> None:
    if value is not None and (type(value) is not int or not 1 <= value <= most):
        raise InvalidCampaign(
            f"limits.{name} must be a whole number from 1 to {most}, not {value!r:.80}"
        )


def _check_choice(where: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InvalidCampaign(f"{where} must be one of {', '.join(known)}, not {value!r:.80}")


def _checked_classes(value: object) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)) or len(value) > MAX_NEVER_RETRY:
        raise InvalidCampaign(
            f"retry.never_retry must be a list of {MAX_NEVER_RETRY} classes of error at most, "
            f'as ["bad-ligand"], not {value!r:.80}'
        )
    for position, name in enumerate(value):
        check_string(f"retry.never_retry[{position}]", name)
        if not 1 <= len(name) <= MAX_CLASS_CHARS:
            raise InvalidCampaign(
                f"retry.never_retry[{position}] must have 1 to {MAX_CLASS_CHARS} characters"
            )
    return tuple(dict.fromkeys(value))


def _check_share(value: object) -> None:
    number = value if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
    if value is not None and not 0 < number < 1:
        raise InvalidCampaign(
            f"limits.max_failure_share must be a number above 0 and below 1, not {value!r:.80}"
        )


def _check_bytes(name: str, most: object, within: tuple[int, int]) -> None:
    low, high = within
    if most is not None and (type(most) is not int or not low <= most <= high):
        raise InvalidCampaign(
            f"limits.{name} must be a whole number from {low} to {high}, not {most!r:.80}"
        )


def _check_interval(every_s: object) -> None:
    _check_seconds("limits.checkpoint_every_s", every_s)
    if isinstance(every_s, (int, float)) and every_s < 1:
        raise InvalidCampaign(f"limits.checkpoint_every_s must be 1 or more, not {every_s!r:.80}")


def _check_weight(value: object) -> None:
    number = value if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
    if not 0 < number <= MAX_WEIGHT:
        raise InvalidCampaign(
            f"weight must be a number above 0, at most {MAX_WEIGHT}, not {value!r:.80}"
        )
