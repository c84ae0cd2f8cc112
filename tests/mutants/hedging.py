"""Bugs in second attempts."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_HEDGING = ("tests/integration/attempts/test_hedging.py",)
_MEETINGS = ("tests/interleavings/test_hedging.py",)

HEDGING: Final[tuple[Mutant, ...]] = (
    Mutant(
        "hedged-again-and-again",
        "sql/functions/hedge_task.sql",
        "              and a.outcome::text = 'hedged')\n",
        "              and a.outcome::text = 'hedged' and false)\n",
        "A task that is slow everywhere gets one attempt after the other.",
        _MEETINGS,
    ),
    Mutant(
        "hedge-takes-the-last-failure",
        "sql/functions/hedge_task.sql",
        "t.failures + 1 < v_max_attempts",
        "t.failures < v_max_attempts",
        "The failure of a second attempt ends a task whose first one may succeed.",
        _MEETINGS,
    ),
    Mutant(
        "hedge-over-a-report",
        "sql/functions/hedge_task.sql",
        "       and t.failures + 1 < v_max_attempts\n       for no key update skip locked;\n",
        "       and t.failures + 1 < v_max_attempts;\n",
        "An attempt is hedged after it was reported.",
        _MEETINGS,
    ),
    Mutant(
        "hedge-without-salvage",
        "sql/functions/hedge_task.sql",
        "       and c.hedge is not null\n       for no key update skip locked;\n",
        "       and c.hedge is not null;\n",
        "A campaign stops to salvage while a task is hedged, whose first attempt then cannot win.",
        _MEETINGS,
    ),
    Mutant(
        "hedged-on-the-same-host",
        "sql/functions/hedge_task.sql",
        "avoids = case when v_host is null then t.avoids\n",
        "avoids = case when true then t.avoids\n",
        "The second attempt is made on the host on which the first is slow.",
        _HEDGING,
    ),
    Mutant(
        "hedged-while-tasks-wait",
        "sql/functions/ending_campaigns.sql",
        "         where n.waiting + coalesce(m.waiting, 0) = 0\n",
        "         where true\n",
        "Second attempts are made while tasks wait for their first.",
        _HEDGING,
    ),
    Mutant(
        "hedged-for-busy-agents",
        "sql/functions/idle_agents.sql",
        "         where not v_busy @> to_jsonb(k.number - 1);\n",
        "         where true;\n",
        "Second attempts take the place of another campaign's first.",
        _HEDGING,
    ),
    Mutant(
        "hedged-beyond-the-share",
        "sql/functions/slow_attempts.sql",
        "         limit p_most;\n",
        "         limit 64;\n",
        "A campaign pays for more second attempts than it allows.",
        _HEDGING,
    ),
    Mutant(
        "last-failures-starve-what-can-be-hedged",
        "sql/functions/slow_attempts.sql",
        "           and w.failures + 1 < v_max_attempts\n",
        "",
        "Nothing is hedged beside tasks that have one failure left.",
        ("tests/integration/attempts/test_hedging_choice.py",),
    ),
    Mutant(
        "hedged-ones-starve-what-can-be-hedged",
        "sql/functions/slow_attempts.sql",
        "(w.attempt = 1\n",
        "(true\n",
        "Nothing is hedged beside second attempts that are slow as well.",
        ("tests/integration/attempts/test_hedging_choice.py",),
    ),
    Mutant(
        "hedged-attempt-is-stopped",
        "sql/functions/salvageable.sql",
        "and a.outcome::text in ('lost', 'hedged')",
        "and a.outcome::text = 'lost'",
        "The first attempt is told to stop, and its success does not count.",
        _HEDGING,
    ),
    Mutant(
        "hedged-attempt-locks-out-of-order",
        "sql/functions/hold_late.sql",
        "and a.outcome::text in ('lost', 'hedged')",
        "and a.outcome::text = 'lost'",
        "Late results of hedged attempts wait in a circle.",
        _MEETINGS,
    ),
    Mutant(
        "hedged-files-are-dropped",
        "sql/functions/save_output.sql",
        "and a.outcome::text in ('lost', 'hedged')",
        "and a.outcome::text = 'lost'",
        "The output files of a first attempt that wins are not kept.",
        ("tests/integration/files/test_outputs.py",),
    ),
    Mutant(
        "second-attempts-of-campaigns-below",
        "sql/functions/hedges.sql",
        "       and (p_below or c.path = p_path);\n",
        ";\n",
        "A campaign is said to have hedged what those below it have.",
        _HEDGING,
    ),
    Mutant(
        "second-attempts-that-have-ended",
        "sql/functions/hedges.sql",
        "                      and t.status = 'working'\n",
        "",
        "A task that waits for its second attempt is said to be at work again.",
        _HEDGING,
    ),
)
