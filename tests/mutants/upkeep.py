"""Bugs in what keeps the queue in order: beats, expiry, promotion, counts, steering."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_SESSIONS: Final = ("tests/integration/test_sessions.py",)
_EXPIRY: Final = ("tests/interleavings/test_expiry.py", *_SESSIONS)
_SWEEPS: Final = ("tests/interleavings/test_sweeps.py",)
_LIFE: Final = ("tests/integration/test_lifecycle.py",)
_COUNTS: Final = ("tests/integration/test_counts.py",)

UPKEEP: Final = (
    Mutant(
        "silence-while-the-server-was-down",
        "sql/functions/expire.sql",
        "greatest(s.heartbeat_at, v_serving_since)",
        "s.heartbeat_at",
        "Time in which the server was down counts as silence of the agents.",
        _SESSIONS,
    ),
    Mutant(
        "expiry-counts-released-as-lost",
        "sql/functions/expire.sql",
        "case when v_expired then 'lost' else 'released' end",
        "'lost'",
        "What a session that ended in good order has left counts as a loss.",
        _SESSIONS,
    ),
    Mutant(
        "expiry-without-lock",
        "sql/functions/give_back.sql",
        "         order by t.campaign_id, t.task_id\n           for no key update skip locked\n",
        "         order by t.campaign_id, t.task_id\n",
        "The keeper overwrites what was reported since it looked.",
        _EXPIRY,
    ),
    Mutant(
        "expiry-waits-for-locked-tasks",
        "sql/functions/give_back.sql",
        "           for no key update skip locked\n",
        "           for no key update\n",
        "One locked task keeps all others from being handed out again.",
        _SWEEPS,
    ),
    Mutant(
        "expiry-records-what-it-leaves",
        "sql/functions/give_back.sql",
        "          from moved m\n    ), counted as (\n",
        "          from held m\n    ), counted as (\n",
        "A task whose campaign is gone is recorded again and again, and stops the sweep.",
        _SWEEPS,
    ),
    Mutant(
        "loss-is-not-counted",
        "sql/functions/give_back.sql",
        "losses = t.losses + (p_outcome = 'lost')::integer",
        "losses = t.losses",
        "A task that kills its agents is handed out for ever.",
        _LIFE,
    ),
    Mutant(
        "promotion-before-its-time",
        "sql/functions/promote.sql",
        "           and t.due_at <= clock_timestamp()\n",
        "",
        "Delayed tasks are promoted before they are due.",
        _LIFE,
    ),
    Mutant(
        "promotion-waits-for-locked-tasks",
        "sql/functions/promote.sql",
        "for no key update skip locked",
        "for no key update",
        "One locked task keeps all others from being promoted.",
        _SWEEPS,
    ),
    Mutant(
        "two-keepers-act",
        "sql/functions/keep.sql",
        "     where k.holder = p_holder or k.until < clock_timestamp()\n",
        "",
        "Whoever asks is the keeper.",
        ("tests/integration/test_keeper.py",),
    ),
    Mutant(
        "beat-forgets-what-is-younger",
        "sql/functions/beat.sql",
        "then t.claimed_at < v_old else t.lease_id <= b.drawn end",
        "then t.claimed_at < v_old else true end",
        "A beat gives away tasks of a claim that has overtaken it.",
        _SESSIONS,
    ),
    Mutant(
        "beat-forgets-what-is-pending",
        "sql/functions/beat.sql",
        "from unnest(v_waiters, v_pending) as p (session_id, lease_id))",
        "from unnest(v_waiters, v_pending) as p (session_id, lease_id) where false)",
        "A beat gives away tasks of a claim whose answer may still come.",
        _SESSIONS,
    ),
    Mutant(
        "beat-revives-a-session",
        "sql/functions/beat.sql",
        "           and s.ended_at is null\n",
        "",
        "The beat of a session that has ended is taken for one of a living one.",
        _SESSIONS,
    ),
    Mutant(
        "order-to-stop-by-task",
        "sql/functions/beat.sql",
        "                       and t.lease_id = h.lease_id\n",
        "",
        "An agent is not told that its lease is void when it holds the next one too.",
        ("tests/interleavings/test_stop_orders.py", *_SESSIONS),
    ),
    Mutant(
        "fold-passes-late-commits-over",
        "sql/functions/fold.sql",
        "    v_horizon := pg_snapshot_xmin(pg_current_snapshot());\n",
        "    v_horizon := pg_snapshot_xmax(pg_current_snapshot());\n",
        "A move that commits after a later one was folded is never counted.",
        _COUNTS,
    ),
    Mutant(
        "fold-loses-what-is-not-rested",
        "sql/functions/fold.sql",
        "         where t.since > v_now - p_rest\n",
        "         where false\n",
        "Moves that are too young for the counters are lost.",
        _COUNTS,
    ),
    Mutant(
        "cancelled-attempt-leaves-no-record",
        "sql/functions/cancel.sql",
        "         where p.status = 'working'\n",
        "         where p.status = 'delayed'\n",
        "An attempt that was cancelled is recorded nowhere.",
        _LIFE,
    ),
    Mutant(
        "cancellation-of-what-is-final",
        "sql/functions/cancel.sql",
        "('waiting', 'delayed', 'working')",
        "('waiting', 'delayed', 'working', 'failed')",
        "Cancelling takes failed tasks too.",
        _LIFE,
    ),
    Mutant(
        "retry-in-a-cancelled-campaign",
        "sql/functions/retry.sql",
        "    if taskq.status_after(p_campaign, 'waiting') = 'cancelled' then\n",
        "    if false then\n",
        "Tasks of a cancelled campaign wait again.",
        ("tests/integration/test_campaigns.py",),
    ),
    Mutant(
        "retry-keeps-old-failures",
        "sql/functions/retry.sql",
        "               failures = 0,\n",
        "",
        "A retried task has fewer attempts than its campaign allows.",
        _LIFE,
    ),
    Mutant(
        "pool-expires-with-the-server-down",
        "sql/functions/expire_ahead.sql",
        "    if not found or taskq.serving_since() > v_due then\n",
        "    if not found then\n",
        "Time in which the server was down counts against what was leased ahead.",
        (
            "tests/integration/test_front_statements.py",
            "tests/integration/test_front_in_trouble.py",
        ),
    ),
)
