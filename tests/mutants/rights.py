"""Bugs in what sessions and tokens may do."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

RIGHTS: Final = (
    Mutant(
        "foreign-attempt-may-be-reported",
        "sql/functions/reports/may_report.sql",
        "    return p_session is null\n",
        "    return true or p_session is null\n",
        "Any session may report on the attempts of every other site.",
        ("tests/integration/attempts/test_session_rights.py",),
    ),
    Mutant(
        "any-session-serves-any-campaign",
        "sql/functions/sessions/session_serves.sql",
        "select s.campaign_id = any (c.lineage)",
        "select true",
        "A session may speak of pooled tasks of campaigns that it does not serve.",
        ("tests/integration/front/leasing_ahead/test_in_hand.py",),
    ),
    Mutant(
        "campaign-of-others-is-reported-on",
        "sql/functions/reports/settle_many.sql",
        "        having bool_or(r.known)\n",
        "",
        "Each campaign that a client makes up costs an exchange.",
        ("tests/integration/attempts/test_settle_many.py",),
    ),
    Mutant(
        "revoked-token-opens-sessions",
        "sql/functions/sessions/enrol.sql",
        "        and v_token.revoked_at is null\n",
        "",
        "A revoked token still opens sessions.",
        ("tests/integration/sessions/tokens/test_opening.py",),
    ),
    Mutant(
        "hellos-in-any-order",
        "sql/functions/sessions/enrol_many.sql",
        "         order by h.key\n",
        "",
        "Two gateways that hear the same hellos wait for each other.",
        ("tests/integration/sessions/tokens/test_together.py",),
    ),
    Mutant(
        "usual-hellos-in-any-order",
        "sql/functions/sessions/enrol_many.sql",
        "                 order by u.key\n",
        "                 order by u.place\n",
        "Two gateways that hear the same hellos wait for each other.",
        ("tests/integration/sessions/tokens/test_together.py",),
    ),
    Mutant(
        "revoked-token-keeps-its-sessions",
        "sql/functions/rights/revoke_token.sql",
        "           set ended_at = clock_timestamp()\n",
        "           set ended_at = null\n",
        "The sessions of a revoked token work on.",
        ("tests/integration/sessions/tokens/test_ending.py",),
    ),
    Mutant(
        "key-of-another-token-opens-its-session",
        "sql/functions/sessions/admit_agent.sql",
        "(v_found.token_id, v_found.token_hash) is distinct from (p_token, p_token_hash)",
        "false",
        "Anybody who knows the key of a session gets it, with whatever token.",
        ("tests/integration/sessions/tokens/test_opening.py",),
    ),
)
