"""Bugs in heartbeats, and in what wakes agents that wait."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_SESSIONS: Final = ("tests/integration/sessions/test_sessions.py",)
_WAKING: Final = ("tests/integration/sessions/test_announcements.py",)

SESSIONS: Final = (
    Mutant(
        "beat-forgets-what-is-younger",
        "sql/functions/sessions/beat.sql",
        "then t.claimed_at < v_old else t.lease_id <= b.drawn end",
        "then t.claimed_at < v_old else true end",
        "A beat gives away tasks of a claim that has overtaken it.",
        _SESSIONS,
    ),
    Mutant(
        "beat-forgets-what-is-pending",
        "sql/functions/sessions/beat.sql",
        "p (session_id, lease_id))\n                and (t.session_id",
        "p (session_id, lease_id) where false)\n                and (t.session_id",
        "A beat gives away tasks of a claim whose answer may still come.",
        _SESSIONS,
    ),
    Mutant(
        "beat-revives-a-session",
        "sql/functions/sessions/beat.sql",
        "           and s.ended_at is null\n",
        "",
        "The beat of a session that has ended is taken for one of a living one.",
        _SESSIONS,
    ),
    Mutant(
        "gateways-listen-in-vain",
        "sql/functions/sessions/listen_for_tasks.sql",
        "return pg_try_advisory_lock_shared(hashtext('taskq.listen_for_tasks'), 0);",
        "return true;",
        "Nobody knows that a gateway listens, and it gets no notification of tasks.",
        _WAKING,
    ),
    Mutant(
        "order-to-stop-by-task",
        "sql/functions/sessions/beat.sql",
        "                       and t.lease_id = h.lease_id\n",
        "",
        "An agent that also holds the next lease does not learn that its lease is void.",
        ("tests/interleavings/test_stop_orders.py", *_SESSIONS),
    ),
)
