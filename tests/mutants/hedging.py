"""Bugs in second attempts, and in those after a loss."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_HEDGING = ("tests/integration/attempts/test_hedging.py",)
_MEETINGS = ("tests/interleavings/test_hedging.py",)

HEDGING: Final[tuple[Mutant, ...]] = (
    Mutant(
        "hedged-again-and-again",
        "sql/functions/hedging/hedge_task.sql",
        "              and (a.outcome::text = 'hedged'\n",
        "              and (false\n",
        "A task that is slow everywhere gets one attempt after the other.",
        _MEETINGS,
    ),
    Mutant(
        "hedge-takes-the-last-failure",
        "sql/functions/hedging/hedge_task.sql",
        "t.failures + 1 < v_max_attempts",
        "t.failures < v_max_attempts",
        "The failure of a second attempt ends a task whose first one may succeed.",
        _MEETINGS,
    ),
    Mutant(
        "hedge-over-a-report",
        "sql/functions/hedging/hedge_task.sql",
        "       and t.failures + 1 < v_max_attempts\n       for no key update skip locked;\n",
        "       and t.failures + 1 < v_max_attempts;\n",
        "An attempt is hedged after it was reported.",
        _MEETINGS,
    ),
    Mutant(
        "hedge-without-salvage",
        "sql/functions/hedging/hedge_task.sql",
        "       and c.hedge is not null\n       for no key update skip locked;\n",
        "       and c.hedge is not null;\n",
        "A campaign stops to salvage while a task is hedged, whose first attempt then cannot win.",
        _MEETINGS,
    ),
    Mutant(
        "hedged-on-the-same-host",
        "sql/functions/hedging/hedge_task.sql",
        "avoids = taskq.avoiding(t.avoids, v_task.session_id)\n",
        "avoids = t.avoids\n",
        "The second attempt is made on the host on which the first is slow.",
        _HEDGING,
    ),
    Mutant(
        "lost-again-on-the-same-host",
        "sql/functions/reports/give_back.sql",
        "then taskq.avoiding(t.avoids, p_session)\n",
        "then coalesce(t.avoids, '{}')\n",
        "A task that kills its agents is given up on one host, though there are others.",
        ("tests/integration/attempts/test_lost_together.py",),
    ),
    Mutant(
        "lost-task-waits-a-day-for-another-host",
        "sql/functions/claims/must_avoid.sql",
        "p_failures > 0 and p_failures + 1 >=",
        "p_failures + 1 >=",
        "A task with one attempt that was lost twice waits a day for a busy host.",
        ("tests/integration/attempts/test_lost_together.py",),
    ),
    Mutant(
        "hedged-while-tasks-wait",
        "sql/functions/hedging/ending_campaigns.sql",
        "         where n.waiting + coalesce(m.waiting, 0) = 0\n",
        "         where true\n",
        "Second attempts are made while tasks wait for their first.",
        _HEDGING,
    ),
    Mutant(
        "hedged-for-busy-agents",
        "sql/functions/hedging/idle_agents.sql",
        "         where not v_busy @> to_jsonb(k.number - 1);\n",
        "         where true;\n",
        "Second attempts take the place of another campaign's first.",
        _HEDGING,
    ),
    Mutant(
        "hedged-beyond-the-share",
        "sql/functions/hedging/slow_attempts.sql",
        "         limit p_most;\n",
        "         limit 64;\n",
        "A campaign pays for more second attempts than it allows.",
        _HEDGING,
    ),
    Mutant(
        "last-failures-starve-what-can-be-hedged",
        "sql/functions/hedging/slow_attempts.sql",
        "           and w.failures + 1 < v_max_attempts\n",
        "",
        "Nothing is hedged if there are tasks that have one failure left.",
        ("tests/integration/attempts/test_hedging_choice.py",),
    ),
    Mutant(
        "hedged-ones-starve-what-can-be-hedged",
        "sql/functions/hedging/slow_attempts.sql",
        "(w.attempt = 1\n",
        "(true\n",
        "Nothing is hedged if there are second attempts that are slow as well.",
        ("tests/integration/attempts/test_hedging_choice.py",),
    ),
    Mutant(
        "hedged-attempt-is-stopped",
        "sql/functions/reports/salvageable.sql",
        "and taskq.is_given_up(a.outcome, a.error_class)",
        "and a.outcome::text = 'lost'",
        "The first attempt gets an order to stop, and its success does not count.",
        _HEDGING,
    ),
    Mutant(
        "hedged-attempt-locks-out-of-order",
        "sql/functions/reports/lock_late.sql",
        "and taskq.is_given_up(a.outcome, a.error_class)",
        "and a.outcome::text = 'lost'",
        "Late results of hedged attempts wait in a circle.",
        _MEETINGS,
    ),
    Mutant(
        "hedged-files-are-dropped",
        "sql/functions/files/save_output.sql",
        "and taskq.is_given_up(a.outcome, a.error_class)",
        "and a.outcome::text = 'lost'",
        "The output files of a first attempt that wins are not kept.",
        ("tests/integration/files/test_outputs.py",),
    ),
    Mutant(
        "second-attempts-of-campaigns-below",
        "sql/functions/hedging/hedges.sql",
        "       and (p_below or c.path = p_path);\n",
        ";\n",
        "A campaign is reported to have hedged the tasks of those below it.",
        _HEDGING,
    ),
    Mutant(
        "second-attempts-that-have-ended",
        "sql/functions/hedging/hedges.sql",
        "                      and t.status = 'working'\n",
        "",
        "A task that waits for its second attempt is reported to be at work again.",
        _HEDGING,
    ),
)
