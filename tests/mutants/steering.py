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
_WHOLE_SPANS: Final = (
    "tests/integration/campaigns/test_whole_spans.py",
    "tests/integration/seeding/test_packed.py",
    *_SPANS,
)
_UNSPAN: Final = """\
    if p_tasks is null then
        perform pg_advisory_xact_lock(hashtext('taskq.seed'), hashint8(p_campaign));
        select m.moved, m.upto
          into v_in_spans, v_upto
          from taskq.move_spans(p_campaign, 'waiting', 'cancelled', p_after, p_limit) m;
    else
        perform taskq.unspan(p_campaign, p_tasks);
    end if;
"""
_UNPACK: Final = """\
    perform taskq.unpack(
        p_campaign,
        coalesce(
            p_tasks,
            array(select t.task_id
                    from taskq.bundle b
                   cross join lateral unnest(b.tasks) as t (task_id)
                   where b.campaign_id = p_campaign
                     and b.first_id > p_after)));
"""
_WITHDRAWALS: Final = ("tests/interleavings/test_withdrawals.py",)
_CLOCKS: Final = ("tests/interleavings/test_clocks.py",)

STEERING: Final = (
    Mutant(
        "retry-of-one-task-begins-a-window",
        "sql/functions/steering/retry.sql",
        "if p_tasks is null and p_after = 0 and p_status in",
        "if p_status in",
        "As long as somebody retries tasks by a filter, a campaign in which all fails goes on.",
        ("tests/integration/campaigns/test_pulse.py",),
    ),
    Mutant(
        "withdrawn-result-stays-in-the-index",
        "sql/functions/steering/withdraw.sql",
        "    perform taskq.forget_results(p_campaign, v_tasks);\n",
        "",
        "A ranking by an index has a result that was withdrawn, and never the next one.",
        ("tests/integration/results/test_result_indexes.py",),
    ),
    Mutant(
        "withdrawn-task-goes-back-to-its-host",
        "sql/functions/steering/withdraw.sql",
        "                  and a.attempt = u.attempt))\n",
        "                  and a.attempt = u.attempt + 1))\n",
        "The host whose results were wrong computes them again.",
        ("tests/integration/attempts/test_withdrawing.py",),
    ),
    Mutant(
        "withdrawn-result-is-given-for-good",
        "taskq/results/following.py",
        "                given.remove(task for task, _ in gone)\n",
        "",
        "A cursor never gives the result that follows a withdrawn one.",
        ("tests/integration/attempts/test_withdrawing.py",),
    ),
    Mutant(
        "withdrawn-result-was-never-given",
        "taskq/results/following.py",
        "                known.update(_withdrawn_before(database, campaign, rows))\n",
        "",
        "A cursor gives a result twice, and tells of a withdrawn one that its reader never had.",
        _WITHDRAWALS,
    ),
    Mutant(
        "withdrawn-before-it-ended",
        "sql/functions/steering/withdraw.sql",
        "    -- After the locks: a result is withdrawn after its attempt has ended.\n"
        "    v_now := clock_timestamp();\n",
        "    v_now := now();\n",
        "A withdrawal that waited is older than the result that it withdraws.",
        _WITHDRAWALS,
    ),
    Mutant(
        "withdrawn-and-hedged-again",
        "sql/functions/hedging/hedge_task.sql",
        "                   or a.outcome::text = 'withdrawn' and a.error_class = 'hedged'))\n",
        "                   ))\n",
        "A task whose hedged attempt had won is hedged twice after its result was withdrawn.",
        _WITHDRAWALS,
    ),
    Mutant(
        "due-before-it-failed",
        "sql/functions/steering/shorten_delays.sql",
        "    v_now := clock_timestamp();\n",
        "    v_now := now();\n",
        "A task that failed while its delay was shortened is due before that.",
        _CLOCKS,
    ),
    Mutant(
        "recovered-session-ended-before",
        "sql/functions/sessions/recover.sql",
        "           set ended_at = clock_timestamp()  -- read",
        "           set ended_at = v_now  -- read",
        "A recovery that waited ends sessions so long ago that upkeep does not look at them again.",
        _CLOCKS,
    ),
    Mutant(
        "session-ended-before-it-was-locked",
        "sql/functions/sessions/end_session.sql",
        "        and s.ended_at is null\n        for no key update;\n",
        "        and s.ended_at is null;\n",
        "A session that was locked ends so long ago that upkeep does not look at it again.",
        _CLOCKS,
    ),
    Mutant(
        "withdrawn-loss-is-forgotten",
        "sql/functions/diagnosis/is_loss.sql",
        "p_outcome in ('done', 'withdrawn')",
        "p_outcome = 'done'",
        "A loss that was salvaged and withdrawn counts no more.",
        ("tests/integration/attempts/test_withdrawing.py",),
    ),
    Mutant(
        "filter-by-a-regular-expression",
        "sql/functions/tasks/filter_path.sql",
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
        "field-that-no-task-has-changes-all",
        "taskq/campaign/filter_compiler.py",
        "frozenset([(term.values == (None,), negated)])",
        "frozenset([(term.values == (None,), term.values == (None,))])",
        "A misspelt field is not equal to anything, and every task is cancelled.",
        ("tests/unit/test_filters.py",),
    ),
    Mutant(
        "walk-over-what-a-host-must-leave-with-each-claim",
        "sql/functions/claims/pick_again.sql",
        "        offset v_spare))::integer;\n",
        "        offset v_walk))::integer;\n",
        "Retried tasks that its host must leave to others make each claim several times as dear.",
        ("tests/integration/claims/test_many_retried.py",),
    ),
    Mutant(
        "one-key-of-a-choice-stands-for-all",
        "taskq/campaign/filter_compiler.py",
        "if len(named) == len(inner) else None",
        "if named else None",
        "A filter by a key or by something else finds the key alone.",
        ("tests/integration/steering/test_named_tasks.py",),
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
        "sql/functions/tasks/find_tasks.sql",
        "                where k.task_id > p_after\n                limit p_limit)",
        "                where k.task_id > p_after + 1\n                limit p_limit)",
        "The first task of a bundle on a later page is left out.",
        _MATCHING,
    ),
    Mutant(
        "priority-of-a-task-that-runs",
        "sql/functions/steering/prioritise.sql",
        "                  and t.status::text in ('waiting', 'delayed')\n",
        "",
        "Tasks that run or are final are changed, and not counted.",
        _PRIORITIES,
    ),
    Mutant(
        "tail-of-a-chunk-in-no-span",
        "sql/functions/seeding/pack.sql",
        "> v_packed then v_packed",
        "> v_packed then g.first + v_size - 1",
        "What a seeded chunk has left over behind its last whole span is never claimed.",
        ("tests/integration/seeding/test_packed.py",),
    ),
    Mutant(
        "mixed-priorities-packed-as-one",
        "sql/functions/seeding/pack.sql",
        "v_packed >= v_least and v_lowest = v_highest",
        "v_packed >= v_least",
        "All tasks of a seeded chunk get its lowest priority.",
        ("tests/integration/seeding/test_packed.py",),
    ),
    Mutant(
        "rows-keep-their-priority",
        "sql/functions/steering/prioritise.sql",
        "         where h.other\n",
        "         where false\n",
        "Tasks that have left their span before keep the priority that they had then.",
        _PRIORITIES,
    ),
    Mutant(
        "neighbours-in-small-pieces",
        "sql/functions/tasks/unspan.sql",
        "v_tasks, 1, v_priorities, p_status)",
        "v_tasks, p_priorities => v_priorities, p_status => p_status)",
        "What is done to some of many parts their neighbours into spans of a few tasks.",
        ("tests/integration/steering/test_bulk.py",),
    ),
    Mutant(
        "two-split-a-span-at-once",
        "sql/functions/tasks/unspan.sql",
        "    perform pg_advisory_xact_lock(hashtext('taskq.unspan'), hashint8(p_campaign));\n",
        "",
        "Who comes second finds none of its tasks, and does nothing to them.",
        _SPANS,
    ),
    Mutant(
        "rest-of-a-span-is-lost",
        "sql/functions/tasks/unspan.sql",
        "        continue when v_tasks is null;",
        "",
        "Cancelling what a claim just takes loses the other tasks that wait.",
        _SPANS,
    ),
    Mutant(
        "bundle-of-a-claim-under-way-is-not-cancelled",
        "sql/functions/steering/cancel.sql",
        _UNSPAN + _UNPACK,
        _UNPACK + _UNSPAN,
        "Some tasks of a cancelled campaign go on.",
        _SPANS,
    ),
    Mutant(
        "cancelled-span-is-claimed",
        "sql/functions/claims/pick.sql",
        "           and s.status = 'waiting'\n",
        "",
        "A campaign that is cancelled and resumed runs all that was cancelled.",
        _WHOLE_SPANS,
    ),
    Mutant(
        "first-spans-are-all",
        "sql/functions/steering/move_spans.sql",
        "    if cardinality(v_rows) < p_limit then\n",
        "    if true then\n",
        "A large campaign is cancelled and retried in part.",
        _WHOLE_SPANS,
    ),
    Mutant(
        "cancelling-goes-on-behind-the-rows",
        "sql/functions/steering/cancel.sql",
        "v_in_spans + count(*), least(v_upto, ",
        "v_in_spans + count(*), greatest(v_upto, ",
        "Spans between the last one of a chunk and its last row go on.",
        ("tests/integration/campaigns/test_whole_spans.py",),
    ),
    Mutant(
        "retry-of-a-class-takes-what-nobody-tried",
        "sql/functions/steering/retry.sql",
        "p_status = 'cancelled' and p_error_class is null",
        "p_status = 'cancelled'",
        "Tasks without any attempt are taken for some that failed with the class.",
        _WHOLE_SPANS,
    ),
    Mutant(
        "rest-of-a-cancelled-span-waits",
        "sql/functions/tasks/unspan.sql",
        "v_tasks, 1, v_priorities, p_status)",
        "v_tasks, 1, v_priorities)",
        "The neighbours of a retried task run as well, and are counted as cancelled.",
        _WHOLE_SPANS,
    ),
    Mutant(
        "call-whose-task-is-cancelled-waits-for-ever",
        "sql/functions/tasks/end_without_result.sql",
        "                           where n.status::text = 'cancelled'))\n",
        "                           where false))\n",
        "The future of a call never learns that the task was cancelled with its span.",
        _WHOLE_SPANS,
    ),
    Mutant(
        "removal-gives-claimed-tasks-back",
        "sql/functions/steering/remove_tasks.sql",
        "       and s.next_id <= v_upto;\n",
        ";\n",
        "Where a chunk ends among claimed tasks, those wait and work at once.",
        _WHOLE_SPANS,
    ),
    Mutant(
        "removal-cuts-into-a-span",
        "sql/functions/steering/remove_tasks.sql",
        "least(p_after, n.next_id - 1)",
        "p_after",
        "A removal that begins within a span counts tasks as gone that stay.",
        _WHOLE_SPANS,
    ),
)
