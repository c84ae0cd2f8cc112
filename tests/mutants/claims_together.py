"""Bugs in claims that share a statement."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

CLAIMS_TOGETHER: Final = (
    Mutant(
        "small-agents-claim-with-large-ones",
        "sql/functions/claims/take_each.sql",
        "               select bool_and(taskq.offered(c.requires, o.offers))\n",
        "               select bool_or(taskq.offered(c.requires, o.offers))\n",
        "An agent that lacks what is required gets tasks where its claim shares a statement.",
        ("tests/integration/claims/test_claims_together.py",),
    ),
    Mutant(
        "small-agents-claim-several-with-large-ones",
        "sql/functions/claims/take.sql",
        "               select bool_and(taskq.offered(c.requires, o.offers))\n",
        "               select bool_or(taskq.offered(c.requires, o.offers))\n",
        "An agent that lacks what is required gets several tasks together with one that does not.",
        ("tests/integration/claims/test_claims_together.py",),
    ),
    Mutant(
        "small-agent-claims-after-a-large-one",
        "sql/functions/claims/exchange_one.sql",
        "            select taskq.offered(v_requires, e.offers) into v_fits\n",
        "            select true into v_fits\n",
        "An agent that lacks what is required gets a task when it reports one.",
        ("tests/integration/claims/test_exchange_of_one.py",),
    ),
    Mutant(
        "claim-begins-anew-past-a-row",
        "sql/functions/claims/usual_position.sql",
        "greatest(p_next, p_hint[taskq.hint('span')])",
        "p_hint[taskq.hint('span')]",
        "A task that was handed back waits until the rest of its span is done.",
        ("tests/integration/claims/test_exchange_of_one.py",),
    ),
    Mutant(
        "repeated-claims-together-take-more",
        "sql/functions/claims/take_each.sql",
        "                                 and w.lease_id = n.lease_id\n",
        "                                 and w.lease_id is null\n",
        "Claims that share a statement take other tasks when they are asked again.",
        ("tests/integration/claims/test_claims_together.py",),
    ),
    Mutant(
        "ended-session-claims-with-others",
        "sql/functions/claims/take_each.sql",
        "                          and e.ended_at is null\n",
        "",
        "A session that has ended gets tasks where its claim shares a statement.",
        ("tests/integration/claims/test_claims_together.py",),
    ),
    Mutant(
        "paused-campaign-hands-out-to-several",
        "sql/functions/claims/take_each.sql",
        "                  and a.status <> 'open')\n",
        "                  and a.status = 'cancelled')\n",
        "A paused campaign still hands out tasks to claims that share a statement.",
        ("tests/integration/claims/test_claims_together.py",),
    ),
    Mutant(
        "claims-together-overrun-the-span",
        "sql/functions/claims/take_each.sql",
        "                  and s.task_id <= h.last_id\n",
        "",
        "Claims that share a statement take tasks that belong to the next span, or to nobody.",
        (
            "tests/integration/claims/test_claims_together.py",
            "tests/integration/sessions/test_batching.py",
        ),
    ),
    Mutant(
        "claims-together-pass-over-rows",
        "sql/functions/claims/take_each.sql",
        "                   and p.task_id < v_hint[taskq.hint('clear_to')]) is not null\n",
        "                ) is not null\n",
        "What was handed back waits behind all that was never claimed.",
        ("tests/integration/claims/test_claims_together.py",),
    ),
    Mutant(
        "claims-together-skip-behind-a-gap",
        "sql/functions/claims/take_each.sql",
        "                 where p.ord = v_many\n                   and ",
        "                 where p.ord = 1\n                   and ",
        "Where ids have a gap, the last claims go without a task that the counts say they have.",
        ("tests/integration/claims/test_claims_together.py",),
    ),
)
