"""What the kinds of handlers are given to run the tasks of one revision of one campaign."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping, Tuple

from taskq_agent.handlers.watch import ChildWatch
from taskq_agent.protocol import CampaignTerms


@dataclass(frozen=True)
class KindContext:
    """inputs: paths by name. folder: one that lasts as long as the handler. env: of its children.

    grace_s, python_path: as for `RunnerSettings`.
    """

    campaign: CampaignTerms
    inputs: Mapping[str, str]
    folder: str
    watch: ChildWatch
    env: Mapping[str, str]
    grace_s: float
    python_path: Tuple[str, ...] = ()
