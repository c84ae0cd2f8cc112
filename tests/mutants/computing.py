"""Bugs in calls of functions, in what they are known by, and in keys that are shown."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_TYPED: Final = "agents/taskq_agent/typed.py"

_TRUST: Final = ("tests/integration/compute/test_trust.py",)
_OUTBOX: Final = ("tests/integration/compute/test_outbox.py",)
_ENDS: Final = ("tests/integration/compute/test_tracker.py",)

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
        "stored-set-in-another-order",
        _TYPED,
        "            return {name: _in_order(inner)}\n",
        "            return {name: inner}\n",
        "Params with a set that an earlier release stored have changed.",
        ("tests/integration/compute/test_runs.py",),
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
        "\n                                and t.status::text in ('failed', 'cancelled')),",
        "),",
        "A call that is tried again counts as cancelled.",
        _ENDS,
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
        """derived_key(typed.with_sets_in_order(row["settings"]["params"]))
            == derived_key(self._params)""",
        """typed.with_sets_in_order(row["settings"]["params"])
            == self._params""",
        "Params of True are answered with the results of 1.",
        ("tests/integration/compute/test_runs.py",),
    ),
)
