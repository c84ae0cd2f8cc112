"""Bugs in what feeds the next stage of a funnel."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_LIVE: Final = ("tests/property/test_live_funnel.py", "tests/integration/results/test_funnel.py")

FUNNEL: Final = (
    Mutant(
        "fed-tasks-of-others-cancelled",
        "taskq/results/feeder.py",
        'if row["key"] in known]',
        "if known is not None]",
        "At its end a live stage cancels tasks that are not of the first one.",
        _LIVE,
    ),
    Mutant(
        "fed-tasks-stay-cancelled",
        "taskq/results/feeder.py",
        '        self._move("retry", tasks, status="cancelled", error_class=None, dry_run=False)\n',
        "",
        "What was cancelled and belongs to the best after all is not computed.",
        ("tests/integration/results/test_funnel.py",),
    ),
    Mutant(
        "fed-without-an-end",
        "taskq/results/feeder.py",
        "        if unfinished:\n            return fed\n",
        "        return fed\n",
        "What belongs no longer to the best is computed all the same.",
        _LIVE,
    ),
    Mutant(
        "fed-tasks-that-have-begun-cancelled",
        "sql/functions/steering/cancel.sql",
        "                      and (p_begun or t.status <> 'working')\n",
        "",
        "What an agent has is cancelled with what waits.",
        ("tests/integration/results/test_funnel.py",),
    ),
)
