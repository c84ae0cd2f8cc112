"""Bugs in calls of functions, in what they are known by, and in keys that are shown."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_TYPED: Final = "agents/taskq_agent/typed.py"

_TRUST: Final = ("tests/integration/compute/test_trust.py",)
_OUTBOX: Final = ("tests/integration/compute/test_outbox.py",)
_ENDS: Final = ("tests/integration/compute/test_tracker.py",)
_CHUNKS: Final = ("tests/integration/compute/test_chunks.py",)
_LOCAL: Final = ("tests/integration/compute/test_local_agents.py",)

COMPUTING: Final = (
    Mutant(
        "set-in-its-own-order",
        _TYPED,
        "_in_order(encode(one, pickle) for one in value)",
        "[encode(one, pickle) for one in value]",
        "Equal sets of text are other calls in each process.",
        ("tests/integration/compute/test_values.py",),
    ),
    Mutant(
        "nothing-around-a-set",
        "taskq/compute/fingerprint.py",
        "_Walk(self._home, self._helpers, around)",
        "_Walk(self._home, self._helpers)",
        "The fingerprint of a function in a set that it uses has no end.",
        ("tests/integration/compute/test_fingerprint.py",),
    ),
    Mutant(
        "trust-without-metaclasses",
        "taskq/compute/unpickling.py",
        "            if isinstance(one, type):\n",
        "            if type(one) is type:\n",
        "A result of an Enum is refused though its class is trusted.",
        ("tests/integration/compute/test_trust.py",),
    ),
    Mutant(
        "pickle-of-a-function-by-name",
        "taskq/compute/unpickling.py",
        "            if not self._by_value:\n",
        "            if False:\n",
        "Agents of a function by name send pickles, which they were never asked for.",
        _TRUST,
    ),
    Mutant(
        "trust-of-builtins",
        "taskq/compute/unpickling.py",
        '    if name.partition(".")[0] in _NEVER_WHOLE:\n',
        "    if False:\n",
        "Who trusts builtins runs eval.",
        _TRUST,
    ),
    Mutant(
        "archive-with-a-time",
        "taskq/compute/pickling.py",
        "zipfile.ZipInfo(path)",
        "path",
        "First calls at the same time store an archive each.",
        ("tests/integration/compute/test_fingerprint.py",),
    ),
    Mutant(
        "exceptions-slow-the-agent",
        "agents/taskq_agent/core/task_flow.py",
        "            if not ended.raised:\n",
        "            if True:\n",
        "Exceptions of functions slow the agent as a broken machine does.",
        ("tests/unit/test_agent_slowing.py",),
    ),
    Mutant(
        "refused-call-takes-others-along",
        "taskq/compute/outbox.py",
        "            if isinstance(error, UsageError) and len(calls) > 1:\n",
        "            if False:\n",
        "Calls that are stored with one that is refused get its error.",
        _OUTBOX,
    ),
    Mutant(
        "withdrawn-call-is-stored",
        "taskq/compute/outbox.py",
        "            if call.future.begin_sending():\n",
        "            if call.future.begin_sending() or True:\n",
        "A call that was cancelled before it was stored is computed.",
        _OUTBOX,
    ),
    Mutant(
        "executor-leaves-its-campaign",
        "taskq/compute/executor.py",
        "            self._end()  # nobody",
        "            # nobody",
        "An executor that cannot begin leaves a campaign.",
        ("tests/integration/compute/test_executor.py",),
    ),
    Mutant(
        "kept-as-python-compares",
        "taskq/ingest/key_conflicts.py",
        "    return json.loads(text, parse_int=_number, parse_float=_number)\n",
        "    return json.loads(text)\n",
        "A task that was kept beside another is told by the other's key.",
        ("tests/integration/seeding/test_key_conflicts.py",),
    ),
    Mutant(
        "retried-call-has-ended",
        "sql/functions/unsuccessful.sql",
        "and t.status::text in ('failed', 'cancelled'))",
        "and t.status::text in ('failed', 'cancelled', 'waiting'))",
        "A call that is tried again counts as cancelled.",
        # Another test of the file waits for the end of such a call.
        (f"{_ENDS[0]}::test_removed_and_retried_tasks_are_told_apart",),
    ),
    Mutant(
        "removed-call-is-waited-for",
        "sql/functions/unsuccessful.sql",
        "then 'removed'",
        "then null",
        "Whoever waits for a call whose task was removed waits for ever.",
        _ENDS,
    ),
    Mutant(
        "params-that-python-finds-equal",
        "taskq/compute/plan.py",
        'derived_key(row["settings"]["params"]) == derived_key(self._params)',
        'row["settings"]["params"] == self._params',
        "Params of True are answered with the results of 1.",
        ("tests/integration/compute/test_runs.py",),
    ),
    Mutant(
        "last-chunk-is-lost",
        "taskq/compute/chunks.py",
        "        yield from self._joined(chunk, self._number + 1)\n",
        "        yield from self._joined(chunk if len(chunk) == size else [], self._number + 1)\n",
        "The last calls of a run are not made if they do not fill a chunk.",
        _CHUNKS,
    ),
    Mutant(
        "large-argument-in-a-chunk",
        "taskq/compute/chunks.py",
        "                if not has_large(content[0]):\n",
        "                if True:\n",
        "A call with a large argument is in a chunk, whose blobs agents do not fetch.",
        _CHUNKS,
    ),
    Mutant(
        "chunk-counts-as-a-call",
        "taskq/compute/chunks.py",
        "    return int(found[1]) if found else 1\n",
        "    return 1\n",
        "A run has as many calls as tasks.",
        _CHUNKS,
    ),
    Mutant(
        "chunks-of-another-size",
        "taskq/compute/chunks.py",
        "    if known is not None:\n",
        "    if known is not None and False:\n",
        "The same calls, asked for again, are other chunks.",
        _CHUNKS,
    ),
    Mutant(
        "chunk-has-fewer-values",
        "taskq/compute/outcomes.py",
        "not isinstance(values, list) or len(values) != calls",
        "not isinstance(values, list)",
        "A chunk with fewer values than calls breaks off a run.",
        _CHUNKS,
    ),
    Mutant(
        "shared-argument-is-read-again",
        "agents/taskq_agent/handlers/calls.py",
        "@functools.lru_cache(maxsize=None)\ndef shared(",
        "def shared(",
        "Each call of joblib reads an argument of hundreds of megabytes.",
        ("tests/integration/compute/test_joblib.py",),
    ),
    Mutant(
        "calls-go-to-the-next-of-that-name",
        "sql/functions/submit_calls.sql",
        "    if taskq.campaign_id(p_path) <> p_campaign then\n",
        "    if false then\n",
        "Calls are stored in a campaign that another program has made at their path.",
        _OUTBOX,
    ),
    Mutant(
        "early-result-is-forgotten",
        "taskq/compute/futures.py",
        "        if new and self._early:\n",
        "        if False:\n",
        "A result that comes before its future is known waits for the next look.",
        _LOCAL,
    ),
    Mutant(
        "refused-result-is-given",
        "taskq/compute/agent_process.py",
        "        if report.outcome == DONE and fence(report) in accepted:\n",
        "        if report.outcome == DONE:\n",
        "A future gets a result that the queue has not accepted.",
        _LOCAL,
    ),
    Mutant(
        "closed-connection-is-lent",
        "taskq/db/connections.py",
        "        if not poll.poll(0):\n",
        "        if True:\n",
        "A statement fails, since the server has closed the connection meanwhile.",
        ("tests/integration/database/test_pooled_connections.py",),
    ),
    Mutant(
        "pause-before-a-long-poll",
        "agents/taskq_agent/core/claiming.py",
        "        pauses = self._pauses_idle or not held_tasks.is_empty()\n",
        "        pauses = True\n",
        "An agent of a gateway is not there when the next call comes.",
        ("tests/unit/test_agent_core_gateway.py",),
    ),
)
