"""What was found, as a table for people and as JSON for programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any, Final

from taskq.bench.cases import Finding
from taskq.bench.machine import Machine

HEADER: Final = ("case", "ours", "beside", "limit", "ratio", "range", "goal")


def lines(machine: Machine, findings: Iterable[Finding]) -> Iterator[str]:
    """Yield the lines of a Markdown table, and under it what the figures depend on."""
    yield "| " + " | ".join(HEADER) + " |"
    yield "|" + "---|" * len(HEADER)
    for found in findings:
        compared = found.compared
        cells = (
            found.case,
            f"{compared.ours:,.0f} {found.unit}",
            found.beside,
            f"{compared.limit:,.0f}",
            f"**{compared.ratio:.2f}**",
            f"{compared.least:.2f} to {compared.most:.2f}",
            f"{found.goal:.1f}",
        )
        yield "| " + " | ".join(cells) + " |"
    yield ""
    yield (
        f"{machine.cores} cores, {machine.memory_gb} GiB, fsync {machine.fsync_us:.0f} µs, "
        f"PostgreSQL {machine.postgresql}, Python {machine.python}, Linux {machine.kernel}; "
        "medians of runs in turn, range of the ratios"
    )


def as_json(machine: Machine, findings: Iterable[Finding]) -> dict[str, Any]:
    """Return everything as one JSON object."""
    return {"machine": asdict(machine), "findings": [asdict(found) for found in findings]}
