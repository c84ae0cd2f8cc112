"""How the tasks of a campaign begin together, as its handler says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Optional

#: Most tasks of one start of a program.
MAX_BATCH = 10_000
#: Seconds that a division may take after its first start, unless the handler says otherwise.
DIVIDE_S = 86_400.0


@dataclass(frozen=True)
class BatchTerms:
    """How the tasks of a campaign run together, as its handler says.

    size: most tasks of a start. ordered: whether the program takes its tasks in their order.
    limit_s: longest time of a start; without it, the time limit of a task for each of its tasks.
    silence_s: longest time without an outcome. divide_s: longest time of all starts that follow the
    first one. Times in seconds; None means no limit. line: template of a line of `{list}`.
    """

    size: int
    ordered: bool
    limit_s: Optional[float]
    silence_s: Optional[float]
    divide_s: float
    line: str

    @classmethod
    def of(cls, handler: Mapping[str, Any]) -> Optional[BatchTerms]:
        """Return the terms of a handler; None if each task has a start of its own."""
        if handler.get("batch") is None:
            return None
        return cls(
            handler["batch"],
            handler.get("ordered") is True,
            handler.get("batch_limit_s"),
            handler.get("batch_silence_s"),
            handler.get("batch_divide_s") or DIVIDE_S,
            handler.get("line") or "",
        )
