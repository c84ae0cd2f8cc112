"""Bugs in traces of tasks."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_TRACES: Final = ("tests/integration/upkeep/test_traces.py",)
_SPANS: Final = ("tests/unit/test_trace_spans.py",)

TRACING: Final = (
    Mutant(
        "traces-that-count-as-sent-too-early",
        "taskq/results/traces.py",
        "        while self._waiting:\n",
        "        self._save()\n        while self._waiting:\n",
        "What a receiver did not take is never sent.",
        _TRACES,
    ),
    Mutant(
        "traces-dropped-when-a-receiver-fails",
        "taskq/results/traces.py",
        "            if complaint := self._receiver.send(self._waiting[:count]):\n"
        "                self._on_complaint(complaint)\n"
        "            del self._waiting[:count]\n",
        "            batch = self._waiting[:count]\n"
        "            del self._waiting[:count]\n"
        "            if complaint := self._receiver.send(batch):\n"
        "                self._on_complaint(complaint)\n",
        "Who follows misses what ended while the receiver was away.",
        _TRACES,
    ),
    Mutant(
        "traces-of-two-campaigns-in-one",
        "taskq/results/traces.py",
        "json.dumps([path, created_at.astimezone(timezone.utc).isoformat(), task_id])",
        "json.dumps([path, task_id])",
        "Tasks of two queues get into one trace, where campaigns have the same path.",
        _SPANS,
    ),
    Mutant(
        "phases-longer-than-their-attempt",
        "taskq/results/traces.py",
        "until_ns = min(end_ns, at_ns + int(measured[name] * _NS))",
        "until_ns = at_ns + int(measured[name] * _NS)",
        "An agent that lies, or whose clock jumps, spoils a trace.",
        _SPANS,
    ),
)
