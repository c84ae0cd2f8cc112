"""Settings of a campaign as keywords of calls, for type checkers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from typing_extensions import TypedDict

from taskq.model.retry_policy import RetryPolicy


class CallSettings(TypedDict, total=False):
    """The fields of `CampaignSpec` that `Client.map` takes as keywords, for type checkers.

    A test compares names and types with the fields.
    """

    description: str
    retry: RetryPolicy
    time_limit_s: float | None
    max_running: int | None
    max_running_per_site: int | None
    named_limits: tuple[str, ...]
    max_failure_share: float | None
    checkpoint_bytes: int | None
    checkpoint_every_s: float
    output_bytes: int | None
    output_total_bytes: int
    cores: int | None
    memory: tuple[int, ...] | Literal["learn"]
    gpus: float | None
    gpu_memory: int | None
    named_resources: Mapping[str, int]
    weight: float
    requires: tuple[str, ...]
    on_disconnect: str
    late_results: str
    hedge: float | None
    front: bool
    keep_inputs: bool
    keep: float | None
    archive_first: bool
    best: str | None
    require: tuple[str, ...]
    require_files: tuple[str, ...]
