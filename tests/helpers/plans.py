"""Plans of statements as the server executed them, also inside functions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.rows import DictRow

_EXPLAIN = """
    load 'auto_explain';
    set auto_explain.log_min_duration = 0;
    set auto_explain.log_nested_statements = on;
    set auto_explain.log_analyze = on;
    set auto_explain.log_buffers = on;
    set auto_explain.log_timing = off;
    set auto_explain.log_format = json;
    set auto_explain.log_level = notice;
"""


@dataclass(frozen=True, slots=True)
class Access:
    """One access to a table: its index (None: a full scan), and rows returned and filtered out.

    pages: those that it touched, as often as it did.
    """

    table: str
    index: str | None
    rows: float
    query: str
    pages: int


@dataclass(slots=True)
class ExecutedPlans:
    """Executed plans: all accesses, the pages touched and the rows met, each as often as executed.

    rows_met: by all steps of the plans, joins and sorts included.
    """

    accesses: list[Access] = field(default_factory=list)
    buffers: int = 0
    rows_met: float = 0

    def to(self, *tables: str) -> ExecutedPlans:
        """Return the accesses to some tables."""
        return ExecutedPlans(
            [access for access in self.accesses if access.table in tables],
            self.buffers,
            self.rows_met,
        )

    @property
    def access_paths(self) -> set[str]:
        """The accesses as `table by index`."""
        return {f"{access.table} by {access.index}" for access in self.accesses}

    @property
    def widest(self) -> Access | None:
        """The access that met most rows."""
        return max(self.accesses, key=lambda access: access.rows, default=None)


@contextmanager
def watched(connection: psycopg.Connection[DictRow]) -> Iterator[ExecutedPlans]:
    """Collect the plans of what a connection executes in the block."""
    seen = ExecutedPlans()

    def note(message: psycopg.errors.Diagnostic) -> None:
        text = message.message_primary or ""
        duration, found, plan = text.partition("plan:\n")
        if found and duration.startswith("duration:"):
            _add(seen, json.loads(plan))

    connection.execute(_EXPLAIN, prepare=False)  # several at once
    connection.add_notice_handler(note)
    try:
        yield seen
    finally:
        # In a transaction a statement ends, and its plan comes, when the next one begins.
        connection.execute("set auto_explain.log_min_duration = -1")
        connection.remove_notice_handler(note)


def _add(seen: ExecutedPlans, explained: dict[str, Any]) -> None:
    top = explained["Plan"]
    query = explained["Query Text"]
    # A function's buffers are in those of the statement that calls it: count the outermost only.
    # It ends last, and so reports last.
    seen.buffers = _pages(top)
    for node in _nodes(top):
        discarded = sum(node.get(name, 0) for name in _DISCARDED)
        rows = (node["Actual Rows"] + discarded) * node["Actual Loops"]
        seen.rows_met += rows
        table = node.get("Relation Name")
        if table is None or node["Node Type"] in {"ModifyTable", "LockRows"}:
            continue
        index = node.get("Index Name")
        if node["Node Type"] == "Tid Scan":
            index = "ctid"
        if node["Node Type"] == "Bitmap Heap Scan":
            index = " and ".join(
                record["Index Name"] for record in _nodes(node) if "Index Name" in record
            )
        if node["Actual Loops"]:
            seen.accesses.append(Access(table, index, rows, query, _pages(node)))


_DISCARDED = (
    "Rows Removed by Filter",
    "Rows Removed by Index Recheck",
    "Rows Removed by Join Filter",
)


def _pages(node: dict[str, Any]) -> int:
    return int(node.get("Shared Hit Blocks", 0) + node.get("Shared Read Blocks", 0))


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from _nodes(child)
