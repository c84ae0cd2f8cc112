"""Bugs in limits of the tasks that run at a site."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_SITES: Final = ("tests/integration/claims/test_site_limits.py",)
_MODEL: Final = ("tests/property/test_site_limit_model.py",)

SITE_LIMITS: Final = (
    Mutant(
        "site-limit-of-usual-claims",
        "sql/migrations/0001_campaigns.sql",
        "case when max_running_per_site is not null then 1000000000 end",
        "null",
        "Claims of one task each take the way of campaigns without limits.",
        _SITES,
    ),
    Mutant(
        "bundles-at-a-site-forgotten",
        "sql/functions/claims/working_of_claim.sql",
        "coalesce(sum(cardinality(b.tasks)), 0)::bigint",
        "0",
        "What is claimed several at a time counts as ended.",
        _MODEL,
    ),
    Mutant(
        "tasks-at-a-site-never-recounted",
        "sql/functions/claims/freed_in_limit.sql",
        "           and s.tasks < s.before\n",
        "           and false\n",
        "A claim is noted as a whole until its last task has ended, and counted each time.",
        _SITES,
    ),
    Mutant(
        "site-looked-at-from-one-end",
        "sql/functions/claims/claims_in_limit.sql",
        "floor(random() * 4294967296) - 2147483648",
        "-2147483648",
        "What ended among thousands is never found.",
        _SITES,
    ),
    Mutant(
        "full-site-strikes-the-campaign-off",
        "sql/functions/claims/take.sql",
        '            avoided := v_roomy."full";\n',
        "",
        "Agents of other sites leave the campaign, too.",
        _SITES,
    ),
    Mutant(
        "one-site-for-all",
        "sql/functions/claims/limit_room.sql",
        "                or l.name = v_claim.site\n",
        "                or true\n",
        "In a batch, agents of one site take the room of those of another.",
        _SITES,
    ),
    Mutant(
        "idle-claims-count-all-at-their-site",
        "sql/functions/claims/limit_room.sql",
        "v_look constant integer := 100;",
        "v_look constant integer := 1000;",
        "Idle agents of a full site keep others from claiming.",
        _SITES,
    ),
    Mutant(
        "counted-where-nothing-waits",
        "sql/functions/claims/room_to_run.sql",
        "    if v_waiting <= 0 and p_freed = 0 then",
        "    if false then",
        "Idle agents count what runs at their site, for nothing.",
        _SITES,
    ),
    Mutant(
        "handed-back-waits-for-the-next-claim",
        "sql/functions/claims/room_to_run.sql",
        "v_waiting <= 0 and p_freed = 0",
        "v_waiting <= 0",
        "The last task is not given to who hands it back and claims.",
        _SITES,
    ),
)
