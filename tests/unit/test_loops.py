"""Loops that run unattended: none of them ends by a fault that passes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.helpers.paths import ROOT

ROOMS = ("dispatch", "front", "gateway", "pilots", "upkeep")
PAUSES = {"sleep", "wait", "wait_for"}
#: Loops that pause, and where each of their steps is guarded instead.
GUARDED_ELSEWHERE = {
    "taskq/dispatch/long_poll.py: LongPoll._poll_while_waiting",  # in `_listen` and `_turn`
    "taskq/front/fill.py: Filler.work",  # in `Refiller._work`, which calls it again
    "taskq/gateway/bindings.py: Bindings.keep",  # in `_turn`
}
#: Loops that pause, and end when what they wait for has come, or their time is up.
BOUNDED = {
    "taskq/dispatch/batching.py: Batcher.close",
    "taskq/dispatch/endings.py: cancel",
    "taskq/dispatch/group_commit.py: GroupCommit._serve",
    "taskq/dispatch/heartbeats.py: HeartbeatBatcher.close",
    "taskq/dispatch/long_poll.py: LongPoll._linger",
    "taskq/dispatch/long_poll.py: LongPoll._turn",
    "taskq/front/administration.py: _wait_for_entries",
    "taskq/gateway/pages_process.py: PagesProcess._while_it_runs",
    "taskq/gateway/exchanges.py: AgentExchanges._turns",
    "taskq/gateway/http/server.py: HttpServer._shut_down",
    "taskq/gateway/http/server.py: HttpServer._until_the_end",
    "taskq/upkeep/sender.py: Sender._end",
}


def test_no_unattended_loop_ends_by_a_passing_fault() -> None:
    """A round whose fault nobody notes would be the last one, and nobody would know."""
    unguarded = {
        f"{path.relative_to(ROOT)}: {name}"
        for room in ROOMS
        for path in sorted((ROOT / "taskq" / room).rglob("*.py"))
        for name, loop in _pausing_loops(path)
        if not any(_is_guard(node) for node in ast.walk(loop))
    }
    assert unguarded == BOUNDED | GUARDED_ELSEWHERE


def _pausing_loops(path: Path) -> Iterator[tuple[str, ast.While]]:
    """Yield the loops of a module that pause, with the names of their functions."""

    def of(node: ast.AST, name: str) -> Iterator[tuple[str, ast.While]]:
        for child in ast.iter_child_nodes(node):
            named = isinstance(child, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
            inner = f"{name}.{child.name}".lstrip(".") if named else name  # type: ignore[attr-defined]
            if isinstance(child, ast.While) and any(_is_pause(node) for node in ast.walk(child)):
                yield name, child
            yield from of(child, inner)

    return of(ast.parse(path.read_text(encoding="utf-8")), "")


def _is_pause(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    called = node.func
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return name in PAUSES


def _is_guard(node: ast.AST) -> bool:
    """Return whether a statement notes any exception, and lets the loop continue."""
    if isinstance(node, ast.With):
        return any(ast.unparse(item.context_expr).endswith(".noted()") for item in node.items)
    return isinstance(node, ast.ExceptHandler) and ast.unparse(node.type or node) == "Exception"
