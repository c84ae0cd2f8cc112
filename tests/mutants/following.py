"""Bugs in what gives the results that have come since."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_LOOKING: Final = "taskq/following/looking.py"
_SINCE: Final = ("tests/integration/test_following.py",)
_EXPORT: Final = ("tests/integration/test_cli_following.py",)

FOLLOWING: Final = (
    Mutant(
        "results-behind-the-last-only",
        "taskq/following/id_set.py",
        "            if begin <= end:\n",
        "            if begin <= end == LAST_ID:\n",
        "What commits after a result with a higher id was given is never given.",
        _SINCE,
    ),
    Mutant(
        "accepted-attempt-behind-the-scan",
        "sql/functions/done_within.sql",
        "            tasks := tasks || last;\n",
        "            null;\n",
        "A result is missed whose task had failed before, if a scan ends between the two attempts.",
        _SINCE,
    ),
    Mutant(
        "given-before-it-is-taken",
        _LOOKING,
        '                    yield {"campaign": path, **row}\n'
        '                    given.add(row["task_id"])\n',
        '                    given.add(row["task_id"])\n'
        '                    yield {"campaign": path, **row}\n',
        "A result whose taker failed at it is not given again.",
        _SINCE,
    ),
    Mutant(
        "followed-without-a-last-look",
        _LOOKING,
        "        if ended or (done != looked and began >= rested_at):\n",
        "        if done != looked and began >= rested_at:\n",
        "Following ends without the results that came while it rested.",
        _SINCE,
    ),
    Mutant(
        "cursor-before-the-output",
        "cli/taskq_cli/export_since.py",
        "        sys.stdout.flush()  # what a cursor has was written before\n",
        "",
        "A cursor has results that a killed export never wrote.",
        _EXPORT,
    ),
    Mutant(
        "cursor-of-another-campaign",
        "taskq/following/cursor.py",
        "        if self._of != its:\n",
        "        if not its:\n",
        "A campaign that was made anew is followed by the ids of the old one.",
        _SINCE,
    ),
)
