"""Sites at which many sessions work, in campaigns that limit how many tasks run at each."""

from __future__ import annotations

from tests.helpers.postgres import Postgres


def crowd(
    postgres: Postgres, campaign: int, site: str, sessions: int, *, tasks: int = 1, at_work: bool
) -> None:
    """Note a claim of some tasks by each of many sessions; at_work: the first task of each runs."""
    if at_work:
        postgres.execute(
            "insert into taskq.task (campaign_id, task_id, session_id, lease_id, status)"
            " select %s, -n, -n, gen_random_uuid(), 'working' from generate_series(1, %s) n",
            [campaign, sessions],
        )
    postgres.execute(
        "insert into taskq.limit_claim"
        "       (campaign_id, name, place, session_id, number, campaigns, leases, counts, slots,"
        "        tasks)"
        " select %(campaign)s, %(site)s, hashint8(-n), -n, 1, array[%(campaign)s],"
        "        array[coalesce(t.lease_id, gen_random_uuid())], array[%(tasks)s], 2147483647,"
        "        %(tasks)s"
        " from generate_series(1, %(sessions)s) n"
        " left join taskq.task t on t.campaign_id = %(campaign)s and t.task_id = -n",
        {"campaign": campaign, "site": site, "tasks": tasks, "sessions": sessions},
    )
    postgres.execute("select taskq.add_in_limit(%s, %s, %s)", [campaign, site, sessions * tasks])
