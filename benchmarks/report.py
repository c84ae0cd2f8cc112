"""Report of the findings, as a table for people and as JSON for programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any, Final

from benchmarks.findings import Finding
from benchmarks.machine import Machine
from benchmarks.scale import Scale

HEADER: Final = ("case", "ours", "compared with", "its figure", "ratio", "range", "goal", "reached")
PRECISE_BELOW: Final = 100
REACHED: Final = {True: "yes", False: "**no**", None: ""}


def lines(machine: Machine, scale: Scale, findings: Iterable[Finding]) -> Iterator[str]:
    """Yield the lines of a Markdown table, and under it what the figures depend on."""
    yield "| " + " | ".join(HEADER) + " |"
    yield "|" + "---|" * len(HEADER)
    for found in findings:
        yield "| " + " | ".join(_cells(found)) + " |"
    yield ""
    yield (
        f"{machine.cores} cores, {machine.memory_gb} GiB, fsync {machine.fsync_us:.0f} µs, "
        f"PostgreSQL {machine.postgresql}, Python {machine.python}, Linux {machine.kernel}; "
        f"medians of {scale.rounds} runs of {scale.seconds:g} s in turn, range of the ratios"
    )


def line(found: Finding) -> str:
    """Return a finding as one line, to print while the benchmarks run."""
    what, ours, compared, limit, ratio, *_, goal, reached = _cells(found)
    parts = [
        f"{what}: {ours}",
        f"compared with {limit} ({compared})" if limit else "",
        ratio,
        f"goal {goal}: {reached or 'not judged'}" if goal else "",
    ]
    return ", ".join(part for part in parts if part).replace("*", "")


def as_json(machine: Machine, scale: Scale, findings: Iterable[Finding]) -> dict[str, Any]:
    """Return everything as one JSON object."""
    return {
        "machine": asdict(machine),
        "scale": asdict(scale),
        "findings": [found.as_json() for found in findings],
    }


def _cells(found: Finding) -> tuple[str, ...]:
    ours = found.note if found.ours is None else f"{number(found.ours)} {found.unit}".strip()
    ratio = found.ratio
    return (
        found.what if found.ours is None or not found.note else f"{found.what} ({found.note})",
        ours,
        found.compared,
        "" if found.limit is None else number(found.limit),
        "" if ratio is None else f"**{ratio.median:.2f}**",
        "" if ratio is None else f"{ratio.least:.2f} to {ratio.most:.2f}",
        "" if found.goal is None else str(found.goal),
        REACHED[found.reached],
    )


def number(value: float) -> str:
    """Return a figure with three digits or all before the point."""
    if value == int(value) or abs(value) >= PRECISE_BELOW:
        return f"{value:,.0f}"
    return f"{value:.3g}"
