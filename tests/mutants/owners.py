"""Bugs in who owns campaigns, and what owners may use."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_OWNERS: Final = ("tests/integration/campaigns/test_owners.py",)
_OVER_HTTP: Final = ("tests/integration/gateway/test_owners.py",)
_MODEL: Final = ("tests/property/test_quota_model.py",)

OWNERS: Final = (
    Mutant(
        "owner-that-a-session-names",
        "sql/functions/rights/token_setting.sql",
        "                    'execute')\n",
        "                    'execute') or true\n",
        "A login makes campaigns in another's name, and uses that quota.",
        _OWNERS,
    ),
    Mutant(
        "quota-counted-without-a-lock",
        "sql/functions/claims/room_to_run.sql",
        "        perform pg_advisory_xact_lock(-1, hashtext(v_owner));\n",
        "",
        "Claims in several campaigns of an owner find the same room.",
        _OWNERS,
    ),
    Mutant(
        "quota-without-what-the-exchange-ends",
        "sql/functions/claims/room_to_run.sql",
        "from taskq.tasks_of_owner(v_owner) o) - p_freed))",
        "from taskq.tasks_of_owner(v_owner) o)))",
        "An agent of an owner with all tasks running claims none for those that it reports.",
        _OWNERS,
    ),
    Mutant(
        "waiting-without-those-delayed",
        "sql/functions/seeding/seed_end.sql",
        "select o.waiting + o.delayed into",
        "select o.waiting into",
        "Tasks that wait for their next attempt make room for others.",
        _OWNERS,
    ),
    Mutant(
        "new-campaign-without-the-quota",
        "sql/functions/campaigns/create_campaign.sql",
        "v_owner, taskq.running_quota(v_owner))",
        "v_owner, null)",
        "Who makes another campaign is no longer limited.",
        (*_OWNERS, *_MODEL),
    ),
    Mutant(
        "full-owner-for-ever",
        "sql/functions/owners/stop_full_owners.sql",
        "case when q.is_full then q.max_running else 0 end",
        "0",
        "Nothing is handed out again when there is room for more bytes.",
        (*_OWNERS, *_MODEL),
    ),
    Mutant(
        "woken-for-each-campaign-of-an-owner",
        "sql/functions/claims/claimable.sql",
        "least(taskq.total(c.room), min(c.owner_room), min(c.limit_room)) as room",
        "least(taskq.total(c.room), min(c.limit_room)) as room",
        "As many agents are woken in vain as the owner has campaigns.",
        _OWNERS,
    ),
    Mutant(
        "list-of-owners-without-those-delayed",
        "sql/functions/owners/owners.sql",
        "taskq.total(d.waiting + d.delayed) as waiting",
        "taskq.total(d.waiting) as waiting",
        "A list of owners shows other tasks than quotas count.",
        _OWNERS,
    ),
    Mutant(
        "room-of-owners-without-moves",
        "sql/functions/campaigns/unfinished_campaigns.sql",
        "select o.owner, o.running_quota, f.working",
        "select o.owner, o.running_quota, 0::bigint",
        "Agents are sent and woken in vain for seconds after an owner's quota is used up.",
        _OWNERS,
    ),
    Mutant(
        "metrics-of-all-owners",
        "sql/queries/owner_metrics.sql",
        " limit %(limit)s\n",
        " limit %(limit)s::integer + 1000000\n",
        "Who makes tokens without number fills a Prometheus.",
        _OVER_HTTP,
    ),
    Mutant(
        "share-by-what-waits-only",
        "sql/functions/claims/servable.sql",
        "min(l.owner_working) as working",
        "0::bigint as working",
        "An owner with more than a share of the running tasks gets as many more as others.",
        _OWNERS,
    ),
)
