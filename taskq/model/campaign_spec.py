"""Campaign specification: handler, retries, resources and limits of its tasks. Plain values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, fields
from functools import partial
from typing import Any, Final, Literal

from taskq.model.campaign_checks import (
    checked_best,
    checked_description,
    checked_files,
    checked_keep,
    checked_limits,
    checked_path,
    checked_require,
)
from taskq.model.errors import InvalidCampaign
from taskq.model.handler import Handler
from taskq.model.requirements import (
    LEARN,
    MEMORY,
    check_requires,
    gpu_bytes,
    gpu_count,
    memory_sizes,
    named_amounts,
)
from taskq.model.retry_policy import RetryPolicy
from taskq.model.settings import (
    CHOICE,
    FLAG,
    NAMED,
    NUMBER,
    SIZE,
    TEXT,
    TEXTS,
    TIME,
    WHOLE,
    YEAR_S,
    described,
    keep_checked,
    setting,
    settings,
    size_text,
)
from taskq.model.table_checks import check_params, known_only, with_named

ON_DISCONNECT: Final = ("continue", "stop")
LATE_RESULTS: Final = ("reject", "salvage")

_ARCHIVE: Final = {"low": 1 << 14, "high": 1 << 26}
_TABLES: Final = ("handler", "retry", "limits", "resources", "results", "params")

_limit: Final = partial(setting, table="limits")
_resource: Final = partial(setting, table="resources", optional=True)


@dataclass(frozen=True, slots=True)
class CampaignSpec:
    """Settings of a campaign, checked on construction.

    The handler is None for a campaign that only holds others, or whose agents need no handler. The
    parameters `params` are shared by all tasks: any JSON object of 256 KiB at most.
    """

    path: str = setting(
        TEXT, "place in the tree of campaigns, such as `/wisdom/malaria`", check=checked_path
    )
    _: KW_ONLY
    description: str = setting(
        TEXT, "description of the campaign, for people", "", check=checked_description
    )
    handler: Handler | None = None
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    time_limit_s: float | None = _limit(
        TIME, "longest time of an attempt", None, optional=True, above=0, high=YEAR_S
    )
    max_running: int | None = _limit(
        WHOLE, "most tasks that work at a time", None, optional=True, low=1, high=1_000_000
    )
    max_running_per_site: int | None = _limit(
        WHOLE,
        "most tasks that agents of [one site](manager.md#limit-what-runs-at-a-site) work on at a "
        "time",
        None,
        optional=True,
        low=1,
        high=20_000,
    )
    named_limits: tuple[str, ...] = _limit(
        TEXTS,
        "[limits of the queue](manager.md#share-a-limit-between-campaigns) that count its tasks, "
        'such as `["oechem"]`; an operator makes them',
        (),
        check=checked_limits,
        metavar="NAME",
        option="--named-limit",
    )
    max_failure_share: float | None = _limit(
        NUMBER,
        "share of failures among recent attempts above which the campaign pauses itself",
        0.9,
        optional=True,
        above=0,
        below=1,
        metavar="SHARE",
    )
    checkpoint_bytes: int | None = _limit(
        SIZE,
        "keep the folder `$TASKQ_CHECKPOINT` of each task [for its next "
        "attempt](handlers.md#checkpoints), if its archive is no larger than this",
        None,
        optional=True,
        **_ARCHIVE,
    )
    checkpoint_every_s: float = _limit(
        TIME, "how often checkpoints are uploaded while attempts run", 600.0, low=1, high=YEAR_S
    )
    output_bytes: int | None = _limit(
        SIZE,
        "keep what each task leaves in the folder `$TASKQ_OUT` [with its "
        "result](handlers.md#output-files), if its archive is no larger than this",
        None,
        optional=True,
        **_ARCHIVE,
    )
    output_total_bytes: int = _limit(
        SIZE, "most output files of the campaign", 10_737_418_240, low=1 << 14, high=1 << 50
    )
    cores: int | None = _resource(
        WHOLE,
        "cores of its own that a task needs: it goes to agents whose slots have so many; also the "
        "value of `OMP_NUM_THREADS`",
        None,
        low=1,
        high=4_096,
    )
    memory: tuple[int, ...] | Literal["learn"] = _resource(
        MEMORY,
        "memory that an attempt may occupy, such as `4G`; or up to 8 growing sizes, the next one "
        "for a task that has run out of memory; or `learn`: what others "
        "[needed](handlers.md#cores-memory-gpus)",
        (),
        check=memory_sizes,
        kept=lambda sizes: list(map(size_text, sizes)),
    )
    gpus: float | None = _resource(
        NUMBER,
        "GPUs of its own that a task needs, or [the share of one](handlers.md#gpus), such as 0.25; "
        "listed in `CUDA_VISIBLE_DEVICES` or `ROCR_VISIBLE_DEVICES`",
        None,
        check=gpu_count,
    )
    gpu_memory: int | None = _resource(
        SIZE,
        "memory that a task needs of each of its GPUs, such as `8G`: its share of a device is so "
        "large; also [what it learns](handlers.md#the-memory-of-a-gpu) of its share",
        None,
        check=gpu_bytes,
    )
    named_resources: Mapping[str, int] = _resource(
        NAMED,
        "what a start needs of a [named resource of its node](handlers.md#named-resources), such "
        'as `scratch = "20GB"` or `licence = 1`',
        {},
        check=named_amounts,
        members="NAME",
        metavar="NAME=AMOUNT",
        option="--resource",
    )
    weight: float = setting(
        NUMBER,
        "share of the running tasks, in relation to the other campaigns of the agents that serve "
        "it",
        1.0,
        above=0,
        high=1_000,
        metavar="W",
    )
    requires: tuple[str, ...] = setting(
        TEXTS,
        "tags that an agent must offer: `NAME`, `NAME=VALUE` or `NAME>=NUMBER`, such as `mem>=16`",
        (),
        check=lambda _, tags: check_requires(tags),
        metavar="TAG",
        option="--require",
    )
    on_disconnect: str = setting(
        CHOICE,
        "what an agent that cannot reach the queue does with running tasks once others may have "
        "claimed them",
        "continue",
        choices=ON_DISCONNECT,
    )
    late_results: str = setting(
        CHOICE,
        "what becomes of a success of an attempt that was given up as lost: salvaged, it counts "
        "unless another result was accepted",
        "reject",
        choices=LATE_RESULTS,
    )
    hedge: float | None = setting(
        NUMBER,
        "share of the tasks that idle agents may attempt [a second "
        "time](task-life.md#when-some-take-far-longer) on another host at the campaign's end, if "
        'the first attempt takes far longer than others do; it needs `late_results = "salvage"` '
        "and no limit of running tasks",
        None,
        optional=True,
        above=0,
        high=1,
        metavar="SHARE",
    )
    front: bool = setting(
        FLAG,
        "whether tasks may be leased ahead, before an agent asks, into the [front](redis.md) "
        "(lists in Redis)",
        True,
    )
    keep_inputs: bool = setting(
        FLAG,
        "whether the content of [replaced inputs](provenance.md#inputs-as-they-were) stays stored, "
        "for as long as the campaign",
        False,
        table="results",
    )
    keep: float | None = setting(
        TIME,
        "how long after its end [the keeper removes it](archives.md#retention), such as `90d`",
        None,
        optional=True,
        check=checked_keep,
    )
    archive_first: bool = setting(
        FLAG, "whether it, and what is below, stays until it is archived, see `keep`", False
    )
    best: str | None = setting(
        TEXT,
        "which results are best, such as `lowest result.score`: commands rank by it unless options "
        "say otherwise, and pages show these results first",
        None,
        optional=True,
        table="results",
        check=checked_best,
        option="--best-result",
        metavar="'lowest|highest FIELD'",
    )
    require: tuple[str, ...] = setting(
        TEXTS,
        "what each result must have, such as `score` or `pose.energy number <= 0`; one that lacks "
        "it [fails](handlers.md#results-that-are-checked) as `result-incomplete`",
        (),
        table="results",
        check=checked_require,
        option="--require-result",
        metavar="'NAME [KIND] [>= LEAST] [<= MOST]'",
    )
    require_files: tuple[str, ...] = setting(
        TEXTS,
        "output files that each result must have, not empty; needs `limits.output_bytes`",
        (),
        table="results",
        check=checked_files,
        option="--require-file",
        metavar="NAME",
    )
    params: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        keep_checked(self)
        self._check_hedge()
        if self._has_batches and self.checkpoint_bytes is not None:
            raise InvalidCampaign(
                "limits.checkpoint_bytes and handler.batch exclude each other: a start of many "
                "tasks leaves no checkpoint of one of them"
            )
        if self.require_files and self.output_bytes is None:
            raise InvalidCampaign(
                "results.require_files needs limits.output_bytes: without it no output files are "
                "kept"
            )
        if self.gpu_memory is not None and self.gpus is None:
            raise InvalidCampaign(
                "resources.gpu_memory needs resources.gpus, such as 0.1: the share of a device"
            )
        if self.memory != LEARN and len(self.memory) > self.retry.max_attempts:
            raise InvalidCampaign(
                f"resources.memory has {len(self.memory)} sizes, but retry.max_attempts is "
                f"{self.retry.max_attempts}: the last could never be tried"
            )
        check_params(self.params)

    @property
    def _has_batches(self) -> bool:
        return self.handler is not None and self.handler.batch is not None

    def _check_hedge(self) -> None:
        if self.hedge is None:
            return
        if self.late_results != "salvage":
            raise InvalidCampaign(
                'hedge needs late_results = "salvage": whichever attempt succeeds first counts'
            )
        if self._has_batches:
            raise InvalidCampaign(
                "hedge and handler.batch exclude each other: tasks of a batch wait for each other"
            )
        for name in ("max_running", "max_running_per_site", "named_limits"):
            if getattr(self, name):
                raise InvalidCampaign(
                    f"hedge and limits.{name} exclude each other: of one task two attempts may run"
                )

    @property
    def ranking(self) -> tuple[str, bool] | None:
        """The field of `best`, and whether its lowest number is best; None without it."""
        order, _, name = (self.best or "").partition(" ")
        return (name, order == "lowest") if name else None

    def to_json(self) -> dict[str, Any]:
        """Return the campaign as a JSON object, in the shape of a campaign file."""
        table: dict[str, Any] = {}
        for part in (self, self.retry):
            for name, declared in settings(type(part)).items():
                within = table.setdefault(declared.table, {}) if declared.table else table
                value = declared.as_json(getattr(part, name))
                within.update(value if declared.members else {name: value})
        handler = None if self.handler is None else self.handler.to_json()
        return table | {"handler": handler, "params": dict(self.params)}

    def to_settings(self) -> dict[str, Any]:
        """Return all but the path as the database keeps it, by name: a JSON object of one level."""
        handler = None if self.handler is None else self.handler.to_json()
        flat: dict[str, Any] = {"handler": handler, "params": dict(self.params)}
        for part in (self, self.retry):
            flat |= {name: getattr(part, name) for name in settings(type(part)) if name != "path"}
        return flat

    @classmethod
    def from_settings(cls, path: str, kept: Mapping[str, Any]) -> CampaignSpec:
        """Return the campaign at a path whose settings the database keeps.

        Raise `InvalidCampaign` if its handler, which a login can store by SQL, is none.
        """
        of_retry = settings(RetryPolicy)
        own = {name: value for name, value in kept.items() if name not in of_retry}
        stored = own.pop("handler")
        try:
            handler = None if stored is None else Handler.from_json(stored)
        except InvalidCampaign as error:
            raise InvalidCampaign(
                f"the handler that is stored for {path} cannot be read: {error}; replace it by "
                f"`taskq campaign change {path} --campaign-file FILE` or `Campaign.change`"
            ) from None
        return cls(path, handler=handler, retry=RetryPolicy.from_settings(kept), **own)

    def differences(self, other: CampaignSpec) -> list[str]:
        """Return the names of the fields that differ in another spec."""
        names = [known.name for known in fields(self)]
        return [name for name in names if getattr(self, name) != getattr(other, name)]

    @classmethod
    def from_json(cls, value: object, *, elsewhere: Iterable[str] = ()) -> CampaignSpec:
        """Return the campaign of a JSON object; raise `InvalidCampaign`, which names the fault.

        elsewhere: keys that stand next to the campaign's own, in tables such as `seed`.
        """
        own = settings(cls)
        places = [*campaign_keys(), *elsewhere]
        keys = [name for name, declared in own.items() if not declared.table]
        table = known_only("", value, [*keys, *_TABLES], places)
        handler, retry = table.pop("handler", None), table.pop("retry", {})
        for part in ("limits", "resources", "results"):
            names = [name for name, declared in own.items() if declared.table == part]
            given = table.pop(part, {})
            if part == "resources":
                given = with_named(given, names, places)
            table |= known_only(part, given, names, places)
        table["retry"] = RetryPolicy(**known_only("retry", retry, settings(RetryPolicy), places))
        if handler is not None:
            table["handler"] = Handler.from_json(handler, elsewhere=places)
        if "path" not in table:
            raise InvalidCampaign("path is missing; a campaign needs one, such as /wisdom/malaria")
        return cls(**table)


def campaign_keys() -> list[str]:
    """Return the keys of campaigns as files name them, such as `path` and `limits.time_limit_s`."""
    keys = [
        f"{declared.table}.{name}" if declared.table else name
        for name, declared in settings(CampaignSpec).items()
        if not declared.members
    ]
    keys += [f"retry.{name}" for name in settings(RetryPolicy)]
    return keys + [f"handler.{part.name}" for part in fields(Handler)]


CampaignSpec.__doc__ = f"{CampaignSpec.__doc__}\n{described(CampaignSpec)}\n"
