"""Context of a handler: what it needs to run the tasks of one revision of one campaign."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping, Optional, Tuple

from taskq_agent.handlers.live import LiveAttempt
from taskq_agent.handlers.watch import ChildWatch
from taskq_agent.protocol import CampaignTerms


@dataclass(frozen=True)
class KindContext:
    """inputs: paths by name, which are links. input_files: their original targets.

    folder: lasts as long as the handler, in the folder of the slot. env: of its children. own_env:
    the part of it that is about the campaign and the slot. cores: the cores that tasks are bound
    to, if any. live: the running attempt, for those who watch it. grace_s, python_path,
    container_runtime: as for `RunnerSettings`.
    """

    campaign: CampaignTerms
    inputs: Mapping[str, str]
    folder: str
    watch: ChildWatch
    live: LiveAttempt
    env: Mapping[str, str]
    own_env: Mapping[str, str]
    cores: Tuple[int, ...]
    grace_s: float
    input_files: Tuple[str, ...] = ()
    python_path: Tuple[str, ...] = ()
    container_runtime: Optional[str] = None
