"""Bugs in limits that campaigns share."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_LIMITS: Final = ("tests/integration/claims/test_named_limits.py",)
_MODELS: Final = (
    "tests/property/test_named_limit_model.py",
    "tests/property/test_batch_model.py",
)
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
        "sql/functions/claims/note_in_limits.sql",
        "sum(least(n.slots, n.tasks) - n.before)",
        "sum(n.tasks - n.before)",
        "An agent with one slot uses up a licence for each task that it holds.",
        _LIMITS,
    ),
    Mutant(
        "ended-elsewhere-is-never-found",
        "sql/functions/claims/limit_room.sql",
        "taskq.recount_limit(v_limit.campaign_id, v_limit.name, v_look)",
        "taskq.recount_limit(v_limit.campaign_id, v_limit.name, 0)",
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
    Mutant(
        "claim-of-a-limit-counts-one-task",
        "sql/functions/claims/note_in_limits.sql",
        "select g.session_id, g.lease_id, count(*)::integer as tasks",
        "select g.session_id, g.lease_id, 1 as tasks",
        "An agent that claims for all its slots at once takes one unit for all of them.",
        _MODELS,
    ),
    Mutant(
        "limit-forgets-claims-that-run",
        "sql/functions/claims/kept_claims.sql",
        "least(u.tasks, w.working)::integer as working",
        "case when w.working = u.tasks then u.tasks else 0 end as working",
        "Once one task of a claim has ended, the others count no more.",
        _MODELS,
    ),
    Mutant(
        "held-starts-count-again",
        "sql/functions/claims/limit_room.sql",
        "if least(v_slots[i], v_held[i] + v_gets) - least(v_slots[i], v_held[i]) > v_left[i] then",
        "if least(v_slots[i], v_gets) > v_left[i] then",
        "An agent whose slots all count gets no task for the next start, or for those that it has.",
        _MODELS,
    ),
    Mutant(
        "limit-leaves-more-than-it-has",
        "sql/functions/claims/limit_room.sql",
        "                v_gets := greatest(0, v_left[i]);",
        "                v_gets := greatest(1, v_left[i]);",
        "Each claim gets a task, however many run.",
        _MODELS,
    ),
    Mutant(
        "each-claim-counts-up-to-the-slots",
        "sql/functions/claims/note_in_limits.sql",
        "coalesce(least(k.slots, k.tasks), 0) as before",
        "0 as before",
        "An agent that claims tasks ahead uses up a unit for each of them.",
        _LIMITS,
    ),
    Mutant(
        "claims-before-the-drawn-place-are-not-looked-at",
        "sql/functions/claims/claims_in_limit.sql",
        "            v_again := true;",
        "            exit;",
        "What has ended holds its unit as long as chance passes it by.",
        _LIMITS,
    ),
    Mutant(
        "limit-counts-what-has-ended",
        "sql/functions/limits/limits.sql",
        "where w.working > 0",
        "where w.working >= 0",
        "Views show holders that hold nothing.",
        _MODELS,
    ),
)
