"""Bugs in limits that campaigns share."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_LIMITS: Final = ("tests/integration/claims/test_named_limits.py",)
_MEETINGS: Final = ("tests/interleavings/test_named_limits.py",)

NAMED_LIMITS: Final = (
    Mutant(
        "named-limit-of-usual-claims",
        "sql/migrations/0001_campaigns.sql",
        "case when named_limits <> '{}' then 1000000000 end",
        "null",
        "Claims of one task each take the way of campaigns without limits.",
        _LIMITS,
    ),
    Mutant(
        "claims-of-a-limit-at-once",
        "sql/functions/claims/limit_room.sql",
        "    perform pg_advisory_xact_lock(hashtext('taskq.limit'), l.key)",
        "    perform l.key",
        "Two claims of different campaigns take the last unit together.",
        _MEETINGS,
    ),
    Mutant(
        "batch-counts-as-many-starts",
        "sql/functions/claims/starts_in_limit.sql",
        "sum(least(h.slots, h.tasks))",
        "sum(h.tasks)",
        "An agent with one slot uses up a licence for each task that it holds.",
        _LIMITS,
    ),
    Mutant(
        "ended-elsewhere-is-never-found",
        "sql/functions/claims/limit_room.sql",
        "        if taskq.starts_in_limit(v_name) + cardinality(p_sessions) > v_most then",
        "        if false then",
        "What other agents gave back is not seen before the keeper comes.",
        _LIMITS,
    ),
    Mutant(
        "reached-limit-stays-in-the-order",
        "sql/functions/campaigns/unfinished_campaigns.sql",
        "c.owner_room, c.limit_room))",
        "c.owner_room))",
        "Agents are sent to campaigns whose limit is reached, and woken for them.",
        _LIMITS,
    ),
    Mutant(
        "anyone-names-any-limit",
        "sql/functions/limits/checked_limits.sql",
        "        if p_owner <> all (v_limit.owners) then",
        "        if false then",
        "A limit that is for some owners is used up by others.",
        _LIMITS,
    ),
    Mutant(
        "keeper-waits-for-claims",
        "sql/functions/limits/free_limits.sql",
        "not pg_try_advisory_xact_lock(hashtext('taskq.limit'), hashtext(v_name))",
        "pg_advisory_xact_lock(hashtext('taskq.limit'), hashtext(v_name)) is null",
        "A claim that takes long holds up all upkeep.",
        _MEETINGS,
    ),
)
