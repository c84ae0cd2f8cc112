"""Bugs in where is read and how, and in the arithmetic of planning."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_STANDBY: Final = "taskq/db/standby.py"
_READS: Final = ("tests/integration/database/test_standby_reads.py",)
_PAGES: Final = "taskq/compute/frames.py"
_RESULT_PAGES: Final = ("tests/integration/compute/test_result_pages.py",)
_PLAN: Final = ("tests/unit/test_capacity.py",)

READING: Final[tuple[Mutant, ...]] = (
    Mutant(
        "standby-however-old",
        _STANDBY,
        "if behind_s is not None and behind_s <= self._most_behind_s:",
        "if behind_s is not None:",
        "A standby that is hours behind is read.",
        _READS,
    ),
    Mutant(
        "idle-primary-leaves-standby",
        _STANDBY,
        "if written is not None and self._standby",
        "if written is None and self._standby",
        "A standby of a primary that writes nothing is taken to be behind.",
        _READS,
    ),
    Mutant(
        "dead-standby-ends-export",
        _STANDBY,
        "                with self._turn:\n                    self._leave(str(error))",
        "                raise",
        "An export fails when the standby dies.",
        _READS,
    ),
    Mutant(
        "standby-left-again-and-again",
        _STANDBY,
        "        if not self._is_left:\n",
        "        if True:\n",
        "A standby that is away is reported for ever.",
        _READS,
    ),
    Mutant(
        "failures-unknown-to-a-standby",
        "sql/functions/diagnosis/failures.sql",
        "-- @standby yes",
        "-- @standby no\n-- @repeat safe",
        "A standby refuses to read the failures.",
        _READS,
    ),
    Mutant(
        "reader-writes",
        _STANDBY,
        "if not find(name).on_standby:",
        "if not name:",
        "What a verb looks up before it writes comes from a standby.",
        _READS,
    ),
    Mutant(
        "new-campaign-unknown",
        _STANDBY,
        'if found is None and name == "campaign" and',
        'if found is None and name == "" and',
        "A campaign that was just made is not found.",
        _READS,
    ),
    Mutant(
        "wait-at-standby",
        "taskq/campaign/campaign.py",
        "now = Campaign(exact(self._subtree.database), self.campaign_id, self.path)",
        "now = Campaign(self._subtree.database, self.campaign_id, self.path)",
        "A wait ends by what a standby showed before tasks were added.",
        _READS,
    ),
    Mutant(
        "plan-without-heartbeats",
        "taskq/planning/capacity.py",
        "share = (exchange_cores + heartbeat_cores) / need.cores",
        "share = exchange_cores / need.cores",
        "A server is planned without the heartbeats of its agents.",
        _PLAN,
    ),
    Mutant(
        "plan-batches-too-small",
        "taskq/planning/capacity.py",
        "return min(max(1.0, per_us * (self.statement_us + self.sync_us) / rest), MOST_IN_BATCH)",
        "return min(max(1.0, per_us * (self.statement_us + self.sync_us)), MOST_IN_BATCH)",
        "Exchanges that share statements are counted as if they were fewer.",
        _PLAN,
    ),
    Mutant(
        "page-of-inexact-numbers",
        _PAGES,
        "        if any(map(_is_inexact, columns.values())):\n            return None\n",
        "",
        "A whole number that no double has becomes another in a column of numbers.",
        _RESULT_PAGES,
    ),
    Mutant(
        "page-with-names-of-the-head",
        _PAGES,
        "            len(columns) == len(set(columns))",
        "            len(columns) >= len(set(columns))",
        "A field of argument and result is in one column here, and in two there.",
        _RESULT_PAGES,
    ),
    Mutant(
        "page-of-other-runs",
        _PAGES,
        "return table if all(kept) else table.filter(pa.array(kept, pa.bool_()))",
        "return table",
        "A run has results of tasks that are none of its calls.",
        _RESULT_PAGES,
    ),
)
