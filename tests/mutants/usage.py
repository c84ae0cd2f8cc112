"""Bugs in the sums of what campaigns used, of how attempts ended, and in their judge."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_USAGE: Final = ("tests/integration/campaigns/test_usage.py",)
_JUDGING: Final = ("tests/unit/test_judging_classes.py",)
_ONSET: Final = ("tests/unit/test_onset.py",)
_ENDS: Final = ("tests/integration/hosts/test_end_sums.py",)

USAGE: Final = (
    Mutant(
        "sums-wait-for-nobody",
        "sql/functions/owners/sum_ends.sql",
        "    if v_horizon >= v_summed.next_xid then\n",
        "    if true then\n",
        "What a transaction adds that commits late is never in the usage.",
        _USAGE,
    ),
    Mutant(
        "sums-trust-the-snapshot-for-what-is-given-out",
        "sql/functions/owners/sum_ends.sql",
        "        v_summed.next_xid := v_xid;\n",
        "        v_summed.next_xid := pg_snapshot_xmin(pg_current_snapshot());\n",
        "A transaction that has a number, and has not ended, is not waited for.",
        _USAGE,
    ),
    Mutant(
        "what-is-removed-early-was-never-used",
        "sql/functions/steering/remove_tasks.sql",
        "     where g.ended_at >= v_summed;\n",
        "     where false;\n",
        "Attempts that are removed before they are summed are in no usage.",
        _USAGE,
    ),
    Mutant(
        "salvaged-loss-stays-used",
        "sql/functions/reports/salvage.sql",
        "    if v_ends <> '{}' then\n",
        "    if false then\n",
        "A late success counts twice in the usage: as lost, and as done.",
        _USAGE,
    ),
    Mutant(
        "sums-of-hosts-know-no-bound",
        "sql/functions/diagnosis/add_end_sums.sql",
        "p.is_there or p.number + p.place_in_time <= v_most as is_kept",
        "true as is_kept",
        "Agents that invent hosts fill the disk with sums.",
        _ENDS,
    ),
    Mutant(
        "attempt-that-is-taken-away-is-added",
        "sql/functions/owners/end_of_attempt.sql",
        "    v_ends.attempts := p_sign;\n",
        "    v_ends.attempts := 1;\n",
        "A late success counts as lost too.",
        _USAGE,
    ),
    Mutant(
        "all-failures-hide-a-class",
        "taskq/diagnosis/judging.py",
        "        return self._of_class(name, here, bad) or found\n",
        "        return found\n",
        "A host where each attempt of one campaign fails is hidden by what fails everywhere.",
        _JUDGING,
    ),
    Mutant(
        "each-comparison-errs-on-its-own",
        "taskq/diagnosis/evidence.py",
        "    return min(TAIL, ERRORS / max(comparisons, 1))\n",
        "    return TAIL\n",
        "Of a thousand honest hosts one is accused in each look.",
        _JUDGING,
    ),
    Mutant(
        "nothing-has-a-beginning",
        "taskq/diagnosis/onset.py",
        "    cut = _moved(some)\n",
        "    cut = None\n",
        "What failed once long ago began then, whatever broke since.",
        _ONSET,
    ),
    Mutant(
        "steady-growth-is-a-step",
        "taskq/diagnosis/onset.py",
        "    found = step([*_parted(known[:cut]), *_parted(known[cut:])])\n",
        "    found = Step(known[cut][0], 0.0, 1.0, len(known) - cut)\n",
        "Files that are sorted by size look like a new release of the program.",
        _ONSET,
    ),
    Mutant(
        "one-odd-host-is-its-site",
        "taskq/diagnosis/odd_results.py",
        "len(judged) > max(1, len(its) / 2) and len(ways) == 1",
        "len(ways) >= 1",
        "A site is banned for one of its hosts.",
        ("tests/unit/test_odd_results.py",),
    ),
)
