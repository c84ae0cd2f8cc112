"""Bugs in what gives the results that have come since, and in indexes of results."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_SINCE: Final = ("tests/integration/results/test_following.py",)
_INDEX: Final = ("tests/integration/results/test_result_indexes.py",)
_EXPORT: Final = ("tests/integration/cli/test_cli_following.py",)

FOLLOWING: Final = (
    Mutant(
        "results-behind-the-last-only",
        "taskq/results/id_set.py",
        "            if begin <= end:\n",
        "            if begin <= end == LAST_ID:\n",
        "What commits after a result with a higher id was given is never given.",
        _SINCE,
    ),
    Mutant(
        "accepted-attempt-behind-the-scan",
        "sql/functions/results/done_within.sql",
        "            tasks := tasks || last;\n",
        "            null;\n",
        "A result is missed whose task had failed before, if a scan ends between the two attempts.",
        _SINCE,
    ),
    Mutant(
        "given-before-it-is-taken",
        "taskq/results/following.py",
        '                    yield {"campaign": path, **row}\n'
        '                    given.add(row["task_id"])\n',
        '                    given.add(row["task_id"])\n'
        '                    yield {"campaign": path, **row}\n',
        "A result whose taker failed at it is not given again.",
        _SINCE,
    ),
    Mutant(
        "followed-without-a-last-look",
        "taskq/results/following.py",
        "        if ended or (done != looked and began >= rested_at):\n",
        "        if done != looked and began >= rested_at:\n",
        "Following ends without the results that came while it rested.",
        _SINCE,
    ),
    Mutant(
        "cursor-not-renewed-while-following",
        "cli/taskq_cli/commands/export.py",
        "            return\n        cursor.write(file)\n",
        "            return\n        pass\n",
        "A reader that is killed gets all results again.",
        _EXPORT,
    ),
    Mutant(
        "cursor-of-another-campaign",
        "taskq/results/cursor.py",
        "        if self._of != its:\n",
        "        if not its:\n",
        "A campaign that was made anew is followed by the ids of the old one.",
        _SINCE,
    ),
    Mutant(
        "cursor-of-one-time-zone",
        "taskq/results/cursor.py",
        'datetime.fromisoformat(value["created_at"])\n',
        'datetime.fromisoformat(value["created_at"][:26] + "+00:00")\n',
        "A cursor that was written in another time zone is refused.",
        _SINCE,
    ),
    Mutant(
        "best-of-an-index-that-lacks-some",
        "sql/functions/results/best_indexed.sql",
        " or v_index.seen <> taskq.done_count(p_campaign) then",
        " then",
        "The best are those that the keeper has taken in so far.",
        _INDEX,
    ),
    Mutant(
        "best-of-an-index-in-another-order",
        "sql/functions/results/best_indexed.sql",
        "                  order by r.index_id, r.rank, r.task_id\n"
        "                  limit p_top)\n",
        "                  order by r.index_id desc, r.rank desc, r.task_id desc\n"
        "                  limit p_top)\n",
        "Of equal results others are the best with an index than without.",
        _INDEX,
    ),
    Mutant(
        "index-hides-large-results",
        "sql/functions/results/best_indexed.sql",
        " or p_inline and v_index.large > 0",
        "",
        "Results that are stored as blobs are never among the best, once there is an index.",
        _INDEX,
    ),
    Mutant(
        "index-of-removed-tasks",
        "sql/functions/steering/remove_tasks.sql",
        "       set dropped = true\n",
        "       set dropped = false\n",
        "Results are among the best though a removal that was interrupted has deleted them.",
        _INDEX,
    ),
    Mutant(
        "indexes-without-bound",
        "sql/functions/results/index_results.sql",
        "from taskq.result_index) >= v_most",
        "from taskq.result_index) > 10 * v_most",
        "One user fills the disk with indexes.",
        _INDEX,
    ),
    Mutant(
        "page-without-its-last-result",
        "sql/functions/results/results_page_of.sql",
        "s.task_id <= (select e.last from ends e)",
        "s.task_id < (select e.last from ends e)",
        "The last result of each page is never read.",
        _SINCE,
    ),
    Mutant(
        "results-far-apart-are-lost",
        "sql/functions/results/results_page_of.sql",
        "where not (select e.dense from ends e)",
        "where false and not (select e.dense from ends e)",
        "Results of few among many tasks are not read.",
        _SINCE,
    ),
)
