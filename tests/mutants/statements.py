"""Bugs in what agents ask of the database: reports, claims, rights."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_FENCING: Final = ("tests/integration/test_fencing.py", "tests/interleavings/test_late_words.py")
_CLAIMS: Final = (
    "tests/interleavings/test_claims_at_once.py",
    "tests/integration/test_claims.py",
)
_LATE: Final = (
    "tests/interleavings/test_salvage.py",
    "tests/integration/test_late_results.py",
)
_FRONT: Final = ("tests/integration/test_front_statements.py",)

STATEMENTS: Final = (
    Mutant(
        "report-of-one-without-lease",
        "sql/functions/settle_one.sql",
        "           and t.lease_id = (p_report ->> 'lease')::uuid\n",
        "",
        "A single success is taken from whoever knows the task.",
        _FENCING,
    ),
    Mutant(
        "report-of-one-without-status",
        "sql/functions/settle_one.sql",
        "           and t.status::text = 'working'\n",
        "",
        "A single success counts on an attempt that has ended.",
        _FENCING,
    ),
    Mutant(
        "reports-of-successes-without-lease",
        "sql/functions/settle_done.sql",
        "           and t.lease_id = v_leases[width_bucket(t.task_id, v_tasks)]\n",
        "",
        "Several successes are taken from whoever knows the tasks.",
        ("tests/interleavings/test_expiry.py", *_FENCING),
    ),
    Mutant(
        "reports-of-successes-without-status",
        "sql/functions/settle_done.sql",
        "           and t.status::text = 'working'\n",
        "",
        "Several successes count on attempts that have ended.",
        _FENCING,
    ),
    Mutant(
        "reports-without-lease",
        "sql/functions/settle.sql",
        "                       and t.lease_id = r.lease\n"
        "                       and t.status::text = 'working'\n",
        "                       and t.status::text = 'working'\n",
        "Failures and tasks handed back are taken from whoever knows the tasks.",
        _FENCING,
    ),
    Mutant(
        "reports-without-status",
        "sql/functions/settle.sql",
        "                       and t.status::text = 'working'\n",
        "",
        "Failures and tasks handed back count on attempts that have ended.",
        _FENCING,
    ),
    Mutant(
        "unstarted-attempt-keeps-its-number",
        "sql/functions/settle.sql",
        "attempt = t.attempt - (t.task_id = any (coalesce(v_unstarted, '{}')))::integer",
        "attempt = t.attempt",
        "A task that was handed back unbegun skips an attempt number.",
        ("tests/integration/test_lifecycle.py",),
    ),
    Mutant(
        "late-result-changes-an-outcome",
        "sql/functions/salvageable.sql",
        "t.status in ('waiting', 'delayed', 'working')",
        "t.status in ('waiting', 'delayed', 'working', 'done', 'cancelled')",
        "A late result is salvaged though the task has ended by another, or was cancelled.",
        _LATE,
    ),
    Mutant(
        "late-result-holds-nothing",
        "sql/functions/settle.sql",
        "    if v_salvages then\n        perform taskq.hold_late(p_campaign, p_reports);\n",
        "    if false then\n        perform taskq.hold_late(p_campaign, p_reports);\n",
        "A late result does not wait for what is being decided about its task.",
        _LATE,
    ),
    Mutant(
        "revoked-token-salvages",
        "sql/functions/salvage.sql",
        "(select k.revoked_at is not null\n",
        "(select false\n",
        "Late results of a site are taken though its token was revoked.",
        _LATE,
    ),
    Mutant(
        "class-that-is-never-retried-is",
        "sql/functions/settle.sql",
        "(not h.retry or h.error_class = any (v_never_retry))",
        "not h.retry",
        "A failure of a class that the campaign never retries is tried again.",
        ("tests/integration/test_poison.py",),
    ),
    Mutant(
        "poison-on-one-node",
        "sql/functions/losses_seen.sql",
        "nodes := cardinality(v_hosts);",
        "nodes := cardinality(v_attempts);",
        "A broken node makes poison of good tasks.",
        ("tests/integration/test_poison.py",),
    ),
    Mutant(
        "foreign-attempt-may-be-reported",
        "sql/functions/may_report.sql",
        "    return p_session is null\n",
        "    return true or p_session is null\n",
        "Any session may report on the attempts of every other site.",
        ("tests/integration/test_session_rights.py",),
    ),
    Mutant(
        "any-session-serves-any-campaign",
        "sql/functions/covers.sql",
        "select s.campaign_id = any (c.lineage)",
        "select true",
        "A session may speak of pooled tasks of campaigns that it does not serve.",
        _FRONT,
    ),
    Mutant(
        "repeated-claim-takes-more",
        "sql/functions/sort_claims.sql",
        "                    limit 1), false) as answered\n",
        "                    limit 0), false) as answered\n",
        "A claim whose answer was lost takes other tasks when it is asked again.",
        ("tests/integration/test_claims.py",),
    ),
    Mutant(
        "repeated-claim-of-one-takes-more",
        "sql/functions/take_one.sql",
        "              and w.lease_id = p_lease\n",
        "              and w.lease_id is null\n",
        "The same, for the usual claim of one task on a connection that has claimed before.",
        ("tests/integration/test_claims.py",),
    ),
    Mutant(
        "claim-does-not-await-its-first-asking",
        "sql/functions/exchange.sql",
        "           or not pg_try_advisory_xact_lock(uuid_hash_extended(p_leases[1], 0))\n",
        "",
        "A claim that is asked again while it is under way takes more tasks.",
        _CLAIMS,
    ),
    Mutant(
        "ended-session-claims",
        "sql/functions/take_one.sql",
        "              and e.ended_at is null)\n",
        ")\n",
        "An agent whose session has ended still claims single tasks.",
        ("tests/integration/test_sessions.py", "tests/integration/test_session_rights.py"),
    ),
    Mutant(
        "claim-without-lock",
        "sql/functions/pick.sql",
        "               limit p_most\n"
        "                 for no key update skip locked\n"
        "          ) p;\n"
        "        if not v_hinted then\n",
        "               limit p_most\n          ) p;\n        if not v_hinted then\n",
        "Two claims at once get the same task.",
        _CLAIMS,
    ),
    Mutant(
        "claim-gives-up-behind-its-hint",
        "sql/functions/pick.sql",
        "        exit when tasks is not null or not v_hinted;\n",
        "        exit;\n",
        "A task that came back before the position of a connection is overlooked.",
        ("tests/integration/test_claims.py",),
    ),
    Mutant(
        "limit-off-by-one",
        "sql/functions/room.sql",
        "p_limit - (v_working - p_freed)",
        "p_limit + 1 - (v_working - p_freed)",
        "One task more runs than the campaign allows.",
        ("tests/integration/test_limits.py",),
    ),
    Mutant(
        "limit-without-lock",
        "sql/functions/room.sql",
        "    perform pg_advisory_xact_lock(hashtextextended('taskq.room', p_campaign));\n",
        "",
        "Two claims at once both find the same room.",
        _CLAIMS,
    ),
    Mutant(
        "paused-campaign-hands-out",
        "sql/functions/take_one.sql",
        "              and a.status <> 'open')\n",
        "              and a.status = 'cancelled')\n",
        "A paused campaign still hands out single tasks.",
        ("tests/integration/test_claims.py",),
    ),
    Mutant(
        "lease-of-the-pool-is-given-back-by-task",
        "sql/functions/return_ahead.sql",
        "                and t.lease_id = r.lease_id\n",
        "",
        "An old entry of the front gives a task back that was leased ahead anew.",
        _FRONT,
    ),
    Mutant(
        "revoked-token-opens-sessions",
        "sql/functions/enrol.sql",
        "        and v_token.revoked_at is null\n",
        "",
        "A revoked token still opens sessions.",
        ("tests/integration/test_tokens.py",),
    ),
    Mutant(
        "revoked-token-keeps-its-sessions",
        "sql/functions/revoke_token.sql",
        "           set ended_at = clock_timestamp()\n",
        "           set ended_at = null\n",
        "The sessions of a revoked token work on.",
        ("tests/integration/test_tokens.py",),
    ),
    Mutant(
        "key-of-another-token-opens-its-session",
        "sql/functions/admit.sql",
        "(v_found.token_id, v_found.token_hash) is distinct from (p_token, p_token_hash)",
        "false",
        "Whoever knows the key of a session gets it, with whatever token.",
        ("tests/integration/test_tokens.py",),
    ),
    Mutant(
        "seeding-without-lock",
        "sql/functions/seed_begin.sql",
        "    perform pg_advisory_xact_lock(hashtextextended('taskq.seed', p_campaign));\n",
        "",
        "Two that seed a campaign at once meet each other's keys.",
        ("tests/interleavings/test_seeds.py", "tests/integration/test_seeding.py"),
    ),
)
