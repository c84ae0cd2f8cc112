"""Findings: the results of a case, one line of the table each."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

SIGNS: Final = {"least": "≥", "most": "≤"}


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound to reach, at least or at most.

    timed: whether a busy machine can miss it; goals on counts of rows or differences are not timed.
    """

    bound: float
    at: Literal["least", "most"] = "least"
    timed: bool = True

    def reached_by(self, figure: float) -> bool:
        """Return whether a figure is good enough."""
        return figure >= self.bound if self.at == "least" else figure <= self.bound

    def __str__(self) -> str:
        return f"{SIGNS[self.at]} {self.bound:,g}"


@dataclass(frozen=True, slots=True)
class Ratio:
    """The median of the rounds' ratios, and their range."""

    median: float
    least: float
    most: float


@dataclass(frozen=True, slots=True)
class Finding:
    """A measured figure, the figure it is compared with, and the goal.

    ours: None if it could not be measured; then `note` says why.
    next to, limit: name of the reference, and its figure in the same unit.
    goal: for the ratio if there is one, otherwise for ours.
    case: the name of the case, filled in by `cases.run`. curve: the figure in successive times.
    """

    what: str
    ours: float | None
    unit: str
    compared: str = ""
    limit: float | None = None
    ratio: Ratio | None = None
    goal: Goal | None = None
    note: str = ""
    case: str = ""
    curve: tuple[float, ...] = ()

    @property
    def figure(self) -> float | None:
        """The figure that the goal applies to."""
        return self.ours if self.ratio is None else self.ratio.median

    @property
    def reached(self) -> bool | None:
        """Whether the goal was reached; None without a goal or a figure."""
        if self.goal is None or self.figure is None:
            return None
        return self.goal.reached_by(self.figure)

    def as_json(self) -> dict[str, Any]:
        """Return the finding as a JSON object."""
        return asdict(self) | {"reached": self.reached}


def not_measured(what: str, why: str) -> Finding:
    """Return the finding for a figure that could not be measured here."""
    return Finding(what, None, "", note=f"not measured: {why}")
