"""Bugs in what chooses many tasks and changes them."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_MATCHING: Final = ("tests/integration/steering/test_matching.py",)
_PRIORITIES: Final = (
    "tests/integration/steering/test_priorities.py",
    "tests/property/test_queue_model.py",
)
_SPANS: Final = ("tests/interleavings/test_spans.py",)
_UNSPAN: Final = "    perform taskq.unspan(p_campaign, p_tasks, p_after, p_limit);\n"
_UNPACK: Final = """\
    perform taskq.unpack(
        p_campaign,
        coalesce(
            p_tasks,
            array(select t.task_id
                    from taskq.bundle b
                   cross join lateral unnest(b.tasks) as t (task_id)
                   where b.campaign_id = p_campaign)));
"""

STEERING: Final = (
    Mutant(
        "filter-by-a-regular-expression",
        "sql/functions/filter_path.sql",
        ' flag "q"))',
        "))",
        "A piece of text is taken for a regular expression, which can take any time.",
        _MATCHING,
    ),
    Mutant(
        "negated-state-taken-for-exact",
        "taskq/campaign/filter_compiler.py",
        'isinstance(term.term, FieldComparison) and term.term.field == ("state",)',
        "True",
        "The opposite of a condition on more than the state leaves tasks of that state out.",
        ("tests/unit/test_filters.py",),
    ),
    Mutant(
        "cancel-by-a-filter-leaves-the-delayed",
        "taskq/model/seed.py",
        'UNFINISHED: Final = (*NOT_BEGUN, "working")',
        'UNFINISHED: Final = ("waiting", "working")',
        "Tasks that are tried again later escape a cancel.",
        ("tests/integration/steering/test_bulk.py",),
    ),
    Mutant(
        "retry-by-a-filter-of-all-pages-but-the-first",
        "taskq/campaign/bulk.py",
        "            if page.rows:\n",
        "            if page.rows and progress.looked > page.looked:\n",
        "The first thousand tasks are looked at, and stay as they are.",
        ("tests/integration/steering/test_bulk.py",),
    ),
    Mutant(
        "page-of-bundles-from-behind",
        "sql/functions/find_tasks.sql",
        "                where k.task_id > p_after\n                limit p_limit)",
        "                limit p_limit)",
        "Tasks of a bundle are looked at again, or hide those behind them.",
        _MATCHING,
    ),
    Mutant(
        "priority-of-a-task-that-runs",
        "sql/functions/prioritise.sql",
        "                  and t.status::text in ('waiting', 'delayed')\n",
        "",
        "Tasks that run or are final are changed, and not counted.",
        _PRIORITIES,
    ),
    Mutant(
        "tail-of-a-chunk-in-no-span",
        "sql/functions/pack.sql",
        "> v_packed then v_packed",
        "> v_packed then g.first + v_size - 1",
        "What a seeded chunk has left over behind its last whole span is never claimed.",
        ("tests/integration/seeding/test_packed.py",),
    ),
    Mutant(
        "mixed-priorities-packed-as-one",
        "sql/functions/pack.sql",
        "v_packed >= v_least and v_lowest = v_highest",
        "v_packed >= v_least",
        "All tasks of a seeded chunk get its lowest priority.",
        ("tests/integration/seeding/test_packed.py",),
    ),
    Mutant(
        "rows-keep-their-priority",
        "sql/functions/prioritise.sql",
        "         where h.other\n",
        "         where false\n",
        "Tasks that have left their span before keep the priority that they had then.",
        _PRIORITIES,
    ),
    Mutant(
        "neighbours-in-small-pieces",
        "sql/functions/unspan.sql",
        "v_tasks, 1, v_priorities)",
        "v_tasks, p_priorities => v_priorities)",
        "What is done to some of many parts their neighbours into spans of a few tasks.",
        ("tests/integration/steering/test_bulk.py",),
    ),
    Mutant(
        "two-split-a-span-at-once",
        "sql/functions/unspan.sql",
        "    perform pg_advisory_xact_lock(hashtext('taskq.unspan'), hashint8(p_campaign));\n",
        "",
        "Who comes second finds none of its tasks, and does nothing to them.",
        _SPANS,
    ),
    Mutant(
        "rest-of-a-span-is-lost",
        "sql/functions/unspan.sql",
        "            continue when v_tasks is null;",
        "",
        "Cancelling what a claim just takes loses all that waits beside it.",
        _SPANS,
    ),
    Mutant(
        "bundle-of-a-claim-under-way-is-not-cancelled",
        "sql/functions/cancel.sql",
        _UNSPAN + _UNPACK,
        _UNPACK + _UNSPAN,
        "Some tasks of a cancelled campaign go on.",
        _SPANS,
    ),
)
